/* object_loader: see object_loader.h.
 *
 * Sections that take part go into one mapping: code first, read-only data on the pages after it, so that their distance fits the 32 bits of a
 * PC-relative relocation. It is filled and relocated while writable, then code becomes executable and all of it read-only. Left out are sections
 * that no kernel reads: notes and unwind tables. */
#include "runtime/artifact/object_loader.h"

#include "base/memory.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define MOST_IMAGE_BYTES ((size_t)1 << 30) /* far within the reach of 32 bits */
#define NOT_LOADED SIZE_MAX

typedef struct named_function {
    const char *name; /* in dt_object.names */
    size_t offset, n_bytes;
} named_function;

struct dt_object {
    char *image;
    size_t image_bytes;
    size_t n_functions;
    named_function *functions; /* sorted by name */
    char *names;
};

/* An object being loaded. */
typedef struct loader {
    const char *name;
    const char *bytes;
    size_t n_bytes;
    Elf64_Ehdr header;
    size_t n_sections;
    Elf64_Shdr *sections; /* a copy: those in the file need not be aligned */
    size_t *offsets;      /* in the image, or NOT_LOADED */
    size_t code_bytes;    /* whole pages */
    size_t n_symbols;
    Elf64_Sym *symbols;  /* a copy */
    const char *strings; /* the symbols' names, terminated */
    size_t strings_bytes;
    dt_object *object;
} loader;

static dt_status *damaged(const loader *in, const char *what) {
    return dt_error(DT_DATA_LOSS, "%s: the object is damaged (%s); compile the program again", in->name, what);
}

static dt_status *out_of_memory(const loader *in) { return dt_error(DT_RESOURCE_EXHAUSTED, "%s: not enough memory to load the object", in->name); }

static bool within(const loader *in, uint64_t offset, uint64_t n) { return offset <= in->n_bytes && n <= in->n_bytes - offset; }

/* ---- reading tables ---- */

static dt_status *read_header(loader *in) {
    const Elf64_Ehdr *header = &in->header;
    if (in->n_bytes < sizeof *header || memcmp(in->bytes, ELFMAG, SELFMAG) != 0) return damaged(in, "it is not ELF");
    memcpy(&in->header, in->bytes, sizeof in->header);
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_type != ET_REL ||
        header->e_machine != EM_X86_64)
        return dt_error(DT_FAILED_PRECONDITION, "%s: not a relocatable object for x86-64", in->name);
    if (header->e_shentsize != sizeof(Elf64_Shdr)) return damaged(in, "section headers of another size");
    return NULL;
}

static dt_status *read_sections(loader *in) {
    in->n_sections = in->header.e_shnum;
    if (in->n_sections == 0 || !within(in, in->header.e_shoff, in->n_sections * sizeof(Elf64_Shdr))) return damaged(in, "no section headers");
    in->sections = dt_allocate_zeroed(in->n_sections, sizeof(Elf64_Shdr));
    in->offsets = dt_allocate_zeroed(in->n_sections, sizeof *in->offsets);
    if (in->sections == NULL || in->offsets == NULL) return out_of_memory(in);
    memcpy(in->sections, in->bytes + in->header.e_shoff, in->n_sections * sizeof(Elf64_Shdr));
    for (size_t i = 0; i < in->n_sections; i++) {
        const Elf64_Shdr *section = &in->sections[i];
        in->offsets[i] = NOT_LOADED;
        if (section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL && !within(in, section->sh_offset, section->sh_size))
            return damaged(in, "a section outside of the file");
    }
    return NULL;
}

static dt_status *read_symbols(loader *in) {
    for (size_t i = 0; i < in->n_sections; i++) {
        const Elf64_Shdr *section = &in->sections[i];
        if (section->sh_type != SHT_SYMTAB) continue;
        if (in->symbols != NULL) return damaged(in, "two symbol tables");
        if (section->sh_entsize != sizeof(Elf64_Sym) || section->sh_link >= in->n_sections) return damaged(in, "a symbol table of another form");
        const Elf64_Shdr *strings = &in->sections[section->sh_link];
        if (strings->sh_type != SHT_STRTAB || strings->sh_size == 0) return damaged(in, "symbols without names");
        in->strings = in->bytes + strings->sh_offset;
        in->strings_bytes = strings->sh_size;
        if (in->strings[in->strings_bytes - 1] != '\0') return damaged(in, "symbols without names");
        in->n_symbols = section->sh_size / sizeof(Elf64_Sym);
        in->symbols = dt_allocate_zeroed(in->n_symbols, sizeof(Elf64_Sym));
        if (in->symbols == NULL) return out_of_memory(in);
        memcpy(in->symbols, in->bytes + section->sh_offset, in->n_symbols * sizeof(Elf64_Sym));
    }
    if (in->symbols == NULL) return damaged(in, "no symbol table");
    for (size_t i = 0; i < in->n_symbols; i++)
        if (in->symbols[i].st_name >= in->strings_bytes) return damaged(in, "a symbol without a name");
    return NULL;
}

/* ---- laying out ---- */

/* The name of a section for messages. */
static const char *section_name(const loader *in, const Elf64_Shdr *section) {
    if (in->header.e_shstrndx >= in->n_sections) return "?";
    const Elf64_Shdr *names = &in->sections[in->header.e_shstrndx];
    if (names->sh_type != SHT_STRTAB || section->sh_name >= names->sh_size) return "?";
    const char *name = in->bytes + names->sh_offset + section->sh_name;
    return memchr(name, '\0', names->sh_size - section->sh_name) != NULL ? name : "?";
}

static bool takes_part(const loader *in, const Elf64_Shdr *section) {
    if (!(section->sh_flags & SHF_ALLOC) || section->sh_size == 0) return false;
    return section->sh_type != SHT_NOTE && section->sh_type != SHT_X86_64_UNWIND && strcmp(section_name(in, section), ".eh_frame") != 0;
}

/* Gives a place to each section that is (or is not) code, from *end on. */
static dt_status *place_sections(loader *in, bool code, size_t *end) {
    for (size_t i = 0; i < in->n_sections; i++) {
        const Elf64_Shdr *section = &in->sections[i];
        if (!takes_part(in, section) || ((section->sh_flags & SHF_EXECINSTR) != 0) != code) continue;
        size_t alignment = section->sh_addralign > 1 ? section->sh_addralign : 1;
        if (section->sh_flags & (SHF_WRITE | SHF_TLS) || section->sh_type != SHT_PROGBITS)
            return dt_error(DT_FAILED_PRECONDITION, "%s: section %.60s holds variables; compiled kernels have none", in->name,
                            section_name(in, section));
        if ((alignment & (alignment - 1)) != 0 || alignment > PAGE) return damaged(in, "the alignment of a section");
        *end = (*end + alignment - 1) & ~(alignment - 1);
        in->offsets[i] = *end;
        *end += section->sh_size;
        if (*end > MOST_IMAGE_BYTES) return damaged(in, "more than a GiB of code");
    }
    *end = (*end + PAGE - 1) & ~(PAGE - 1);
    return NULL;
}

static dt_status *make_image(loader *in) {
    size_t end = 0;
    DT_TRY(place_sections(in, true, &end));
    in->code_bytes = end;
    DT_TRY(place_sections(in, false, &end));
    if (in->code_bytes == 0) return damaged(in, "it holds no code");
    char *image = mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (image == MAP_FAILED) return out_of_memory(in);
    in->object->image = image;
    in->object->image_bytes = end;
    for (size_t i = 0; i < in->n_sections; i++)
        if (in->offsets[i] != NOT_LOADED) memcpy(image + in->offsets[i], in->bytes + in->sections[i].sh_offset, in->sections[i].sh_size);
    return NULL;
}

/* ---- relocating ---- */

/* Where a symbol of this object lies in the image. */
static dt_status *find_symbol(const loader *in, uint64_t index, int64_t *offset) {
    if (index >= in->n_symbols) return damaged(in, "a relocation to no symbol");
    const Elf64_Sym *symbol = &in->symbols[index];
    const char *name = in->strings + symbol->st_name;
    if (symbol->st_shndx == SHN_UNDEF)
        return dt_error(DT_FAILED_PRECONDITION, "%s: the object imports %.80s; compiled kernels import nothing", in->name,
                        *name != '\0' ? name : "a symbol");
    if (symbol->st_shndx >= in->n_sections || in->offsets[symbol->st_shndx] == NOT_LOADED) return damaged(in, "a relocation to what is not loaded");
    if (symbol->st_value > in->sections[symbol->st_shndx].sh_size) return damaged(in, "a symbol outside of its section");
    *offset = (int64_t)(in->offsets[symbol->st_shndx] + symbol->st_value);
    return NULL;
}

/* One relocation of section `target`: only distances, which hold wherever the image is. */
static dt_status *relocate(const loader *in, size_t target, const Elf64_Rela *relocation) {
    uint64_t type = ELF64_R_TYPE(relocation->r_info);
    size_t width = type == R_X86_64_PC64 ? 8 : 4;
    int64_t symbol = 0, distance;
    if (type == R_X86_64_NONE) return NULL;
    if (type != R_X86_64_PC32 && type != R_X86_64_PLT32 && type != R_X86_64_PC64)
        return dt_error(DT_FAILED_PRECONDITION, "%s: relocation type %" PRIu64 " in %.60s; only PC-relative ones to the object itself are loaded",
                        in->name, type, section_name(in, &in->sections[target]));
    if (relocation->r_offset > in->sections[target].sh_size || in->sections[target].sh_size - relocation->r_offset < width)
        return damaged(in, "a relocation outside of its section");
    DT_TRY(find_symbol(in, ELF64_R_SYM(relocation->r_info), &symbol));
    size_t place = in->offsets[target] + relocation->r_offset;
    if (__builtin_add_overflow(symbol - (int64_t)place, relocation->r_addend, &distance) || (width == 4 && distance != (int32_t)distance))
        return damaged(in, "a relocation that reaches too far");
    memcpy(in->object->image + place, &distance, width); /* little endian: the low bytes come first */
    return NULL;
}

static dt_status *relocate_all(const loader *in) {
    for (size_t i = 0; i < in->n_sections; i++) {
        const Elf64_Shdr *section = &in->sections[i];
        if (section->sh_type != SHT_RELA && section->sh_type != SHT_REL) continue;
        if (section->sh_info >= in->n_sections) return damaged(in, "relocations of no section");
        if (in->offsets[section->sh_info] == NOT_LOADED) continue; /* debug information and the like */
        if (section->sh_type == SHT_REL || section->sh_entsize != sizeof(Elf64_Rela)) return damaged(in, "relocations of another form");
        for (size_t at = 0; at + sizeof(Elf64_Rela) <= section->sh_size; at += sizeof(Elf64_Rela)) {
            Elf64_Rela relocation;
            memcpy(&relocation, in->bytes + section->sh_offset + at, sizeof relocation);
            DT_TRY(relocate(in, section->sh_info, &relocation));
        }
    }
    return NULL;
}

static dt_status *protect(const loader *in) {
    dt_object *object = in->object;
    if (mprotect(object->image, in->code_bytes, PROT_READ | PROT_EXEC) != 0 ||
        (object->image_bytes > in->code_bytes && mprotect(object->image + in->code_bytes, object->image_bytes - in->code_bytes, PROT_READ) != 0))
        return dt_error(DT_IO, "%s: cannot make the code executable: %s", in->name, strerror(errno));
    return NULL;
}

/* ---- functions by name ---- */

static bool is_function(const loader *in, const Elf64_Sym *symbol) {
    if (ELF64_ST_BIND(symbol->st_info) != STB_GLOBAL || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC) return false;
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= in->n_sections || in->offsets[symbol->st_shndx] == NOT_LOADED) return false;
    const Elf64_Shdr *section = &in->sections[symbol->st_shndx];
    return section->sh_flags & SHF_EXECINSTR && symbol->st_value < section->sh_size;
}

static int compare_functions(const void *a, const void *b) { return strcmp(((const named_function *)a)->name, ((const named_function *)b)->name); }

static dt_status *collect_functions(loader *in) {
    dt_object *object = in->object;
    object->names = dt_allocate(in->strings_bytes);
    object->functions = dt_allocate_zeroed(in->n_symbols, sizeof *object->functions);
    if (object->names == NULL || object->functions == NULL) return out_of_memory(in);
    memcpy(object->names, in->strings, in->strings_bytes);
    for (size_t i = 0; i < in->n_symbols; i++) {
        const Elf64_Sym *symbol = &in->symbols[i];
        if (!is_function(in, symbol)) continue;
        object->functions[object->n_functions++] =
            (named_function){object->names + symbol->st_name, in->offsets[symbol->st_shndx] + symbol->st_value, symbol->st_size};
    }
    if (object->n_functions != 0) qsort(object->functions, object->n_functions, sizeof *object->functions, compare_functions);
    return NULL;
}

/* ---- the whole ---- */

static dt_status *load(loader *in) {
    DT_TRY(read_header(in));
    DT_TRY(read_sections(in));
    DT_TRY(read_symbols(in));
    in->object = dt_allocate_zeroed(1, sizeof *in->object);
    if (in->object == NULL) return out_of_memory(in);
    DT_TRY(make_image(in));
    DT_TRY(relocate_all(in));
    DT_TRY(collect_functions(in));
    return protect(in);
}

dt_status *dt_object_load(const char *name, const void *bytes, size_t n_bytes, dt_object **object) {
    loader in = {.name = name, .bytes = bytes, .n_bytes = n_bytes};
    dt_status *status = load(&in);
    dt_release(in.sections);
    dt_release(in.offsets);
    dt_release(in.symbols);
    if (status != NULL) {
        dt_object_free(in.object);
        in.object = NULL;
    }
    *object = in.object;
    return status;
}

void dt_object_free(dt_object *object) {
    if (object == NULL) return;
    if (object->image != NULL) munmap(object->image, object->image_bytes);
    dt_release(object->functions);
    dt_release(object->names);
    dt_release(object);
}

dt_object_function dt_object_find(const dt_object *object, const char *function) {
    named_function key = {.name = function};
    if (object->n_functions == 0) return NULL;
    const named_function *found = bsearch(&key, object->functions, object->n_functions, sizeof key, compare_functions);
    return found != NULL ? (dt_object_function)(uintptr_t)(object->image + found->offset) : NULL;
}

dt_status *dt_object_write_perf_map(const dt_object *object) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    FILE *map = fopen(path, "a");
    if (map == NULL) return dt_error_in(DT_IO, path, 0, "cannot open: %s", strerror(errno));
    for (size_t i = 0; i < object->n_functions; i++)
        fprintf(map, "%" PRIxPTR " %zx %s\n", (uintptr_t)(object->image + object->functions[i].offset), object->functions[i].n_bytes,
                object->functions[i].name);
    return fclose(map) == 0 ? NULL : dt_error_in(DT_IO, path, 0, "cannot write: %s", strerror(errno));
}
