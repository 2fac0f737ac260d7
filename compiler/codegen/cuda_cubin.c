/* cuda_cubin: what each function of a cubin takes, read from the file itself: it is an ELF file whose sections .nv.info hold attributes of the
 * functions, and .nv.shared.NAME their static shared memory. */
#include "compiler/codegen/codegen.h"

#include <elf.h>
#include <string.h>

enum {
    /* An attribute of .nv.info: format (1 byte), which (1 byte), bytes that follow (2 bytes); of these two the first four bytes are a symbol, the
     * next four a number. */
    FORMAT_SIZED = 4,
    ATTRIBUTE_REGISTERS = 0x2f,
    ATTRIBUTE_FRAME = 0x11
};

typedef struct cubin {
    const char *bytes;
    size_t n_bytes;
    const char *sections; /* tables may begin at any byte */
    int n_sections;
    const char *symbols;
    size_t n_symbols;
    const char *section_names, *names;
    size_t n_section_name_bytes, n_name_bytes;
} cubin;

static bool is_within(const cubin *c, uint64_t offset, uint64_t bytes) { return offset <= c->n_bytes && bytes <= c->n_bytes - offset; }

static const char *text_at(const char *table, size_t n_bytes, uint32_t at) {
    return at < n_bytes && memchr(table + at, 0, n_bytes - at) != NULL ? table + at : "";
}

static Elf64_Shdr section_at(const cubin *c, int i) {
    Elf64_Shdr section;
    memcpy(&section, c->sections + (size_t)i * sizeof section, sizeof section);
    return section;
}

static const char *symbol_name(const cubin *c, uint32_t i) {
    Elf64_Sym symbol;
    if (i >= c->n_symbols) return "";
    memcpy(&symbol, c->symbols + i * sizeof symbol, sizeof symbol);
    return text_at(c->names, c->n_name_bytes, symbol.st_name);
}

/* Finds the tables; false: the file is not what is expected. */
static bool open_cubin(cubin *c) {
    Elf64_Ehdr head;
    if (c->n_bytes < sizeof head) return false;
    memcpy(&head, c->bytes, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_shentsize != sizeof(Elf64_Shdr)) return false;
    if (!is_within(c, head.e_shoff, (uint64_t)head.e_shnum * sizeof(Elf64_Shdr)) || head.e_shstrndx >= head.e_shnum) return false;
    c->sections = c->bytes + head.e_shoff;
    c->n_sections = head.e_shnum;
    for (int i = 0; i < c->n_sections; i++) {
        Elf64_Shdr s = section_at(c, i);
        if (s.sh_type != SHT_NOBITS && !is_within(c, s.sh_offset, s.sh_size)) return false;
    }
    Elf64_Shdr names = section_at(c, head.e_shstrndx);
    c->section_names = c->bytes + names.sh_offset;
    c->n_section_name_bytes = names.sh_size;
    for (int i = 0; i < c->n_sections; i++) {
        Elf64_Shdr s = section_at(c, i);
        if (s.sh_type != SHT_SYMTAB || s.sh_link >= (uint32_t)c->n_sections) continue;
        names = section_at(c, (int)s.sh_link);
        c->symbols = c->bytes + s.sh_offset;
        c->n_symbols = s.sh_size / sizeof(Elf64_Sym);
        c->names = c->bytes + names.sh_offset;
        c->n_name_bytes = names.sh_size;
    }
    return c->symbols != NULL;
}

static dt_cuda_usage *usage_of(dt_cuda_usage *usages, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(usages[i].name, name) == 0) return &usages[i];
    return NULL;
}

static void read_attributes(const cubin *c, const Elf64_Shdr *section, dt_cuda_usage *usages, int n) {
    const char *at = c->bytes + section->sh_offset, *end = at + section->sh_size;
    while (end - at >= 4) {
        uint16_t n_bytes;
        uint32_t symbol, value;
        unsigned char format = (unsigned char)at[0], attribute = (unsigned char)at[1];
        memcpy(&n_bytes, at + 2, sizeof n_bytes);
        at += 4;
        if (format != FORMAT_SIZED) continue; /* its value is in those two bytes */
        if (end - at < n_bytes) return;
        if (n_bytes >= 8) {
            memcpy(&symbol, at, sizeof symbol);
            memcpy(&value, at + 4, sizeof value);
            dt_cuda_usage *usage = usage_of(usages, n, symbol_name(c, symbol));
            if (usage != NULL && attribute == ATTRIBUTE_REGISTERS) usage->registers = (int)value;
            if (usage != NULL && attribute == ATTRIBUTE_FRAME) usage->stack_bytes = (int)value;
        }
        at += n_bytes;
    }
}

bool dt_cuda_read_usage(const char *bytes, size_t n_bytes, dt_cuda_usage *usages, int n) {
    static const char shared[] = ".nv.shared.";
    cubin c = {.bytes = bytes, .n_bytes = n_bytes};
    if (!open_cubin(&c)) return false;
    for (int i = 0; i < c.n_sections; i++) {
        Elf64_Shdr section = section_at(&c, i);
        const char *name = text_at(c.section_names, c.n_section_name_bytes, section.sh_name);
        if (strcmp(name, ".nv.info") == 0) read_attributes(&c, &section, usages, n);
        if (strncmp(name, shared, strlen(shared)) != 0) continue;
        dt_cuda_usage *usage = usage_of(usages, n, name + strlen(shared));
        if (usage != NULL) usage->shared_bytes = (int)section.sh_size;
    }
    return true;
}
