/* fake_cuda_module: code for GPUs in the fake driver. What a cubin or PTX is for, which functions it has and what they take is read from the image
 * itself; what they do comes from the library of emulated kernels, by the same names. */
#include "tests/support/fake_cuda.h"

#include "compiler/codegen/codegen.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

typedef struct fake_module {
    fake_object object;
    char *image; /* a copy, as the driver keeps one */
    size_t n_bytes;
    bool is_ptx;
} module;

enum {
    CUBIN_OF_13 = 8,        /* the ABI's version in a cubin since CUDA 13: the architecture has moved in its flags */
    REGISTERS_UNKNOWN = 32, /* of a function in PTX, which has none yet */
    MOST_THREADS = 1024,
    STATIC_SHARED_BYTES = 49152,
    REGISTERS = 65536
};

/* ---- images ---- */

static size_t cubin_bytes(const char *image) {
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + head->e_shoff);
    size_t end = head->e_shoff + (size_t)head->e_shnum * sizeof *sections;
    for (int i = 0; i < head->e_shnum; i++) {
        size_t last = sections[i].sh_offset + (sections[i].sh_type == SHT_NOBITS ? 0 : sections[i].sh_size);
        if (last > end) end = last;
    }
    size_t last = head->e_phoff + (size_t)head->e_phnum * sizeof(Elf64_Phdr);
    return last > end ? last : end;
}

/* A cubin runs on GPUs of its major version that are not older than it. */
static int check_cubin(const char *image) {
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
    bool new_form = head->e_ident[EI_ABIVERSION] >= CUBIN_OF_13;
    int architecture = (int)(new_form ? head->e_flags >> 8 & 0xff : head->e_flags & 0xff);
    if (new_form && fake.driver_version < 13000) return FAKE_ERROR_INVALID_IMAGE;
    if (architecture / 10 != fake.major || architecture % 10 > fake.minor) return FAKE_ERROR_NO_BINARY_FOR_GPU;
    return 0;
}

/* The newest PTX that a driver takes, times ten: one row a CUDA version since which it is so. */
static int newest_ptx(int driver_version) {
    static const struct {
        int driver, ptx;
    } all[] = {{12090, 88}, {12080, 87}, {12070, 86}, {12050, 85}, {12040, 84}, {12030, 83},
               {12020, 82}, {12010, 81}, {12000, 80}, {11080, 78}, {11070, 77}, {11000, 70}};
    if (driver_version >= 13000) return 90 + driver_version % 1000 / 10;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (driver_version >= all[i].driver) return all[i].ptx;
    return 60;
}

static int check_ptx(const char *image) {
    int major, minor, architecture;
    const char *version = strstr(image, ".version "), *target = strstr(image, ".target sm_");
    for (const char *c = image; *c != 0; c++)
        if ((unsigned char)*c >= 0x80 || (*c < ' ' && strchr("\t\n\r", *c) == NULL))
            return fake_misuse(FAKE_ERROR_INVALID_PTX, "the text of PTX goes on with other bytes: it must end with a zero");
    if (version == NULL || target == NULL || sscanf(version, ".version %d.%d", &major, &minor) != 2 ||
        sscanf(target, ".target sm_%d", &architecture) != 1)
        return FAKE_ERROR_INVALID_PTX;
    if (10 * major + minor > newest_ptx(fake.driver_version)) return FAKE_ERROR_UNSUPPORTED_PTX_VERSION;
    return architecture <= 10 * fake.major + fake.minor ? 0 : FAKE_ERROR_NO_BINARY_FOR_GPU;
}

int cuModuleLoadDataEx(void **handle, const void *image, unsigned n_options, int *options, void **values) {
    (void)options, (void)values;
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    bool is_ptx = false;
    size_t n_bytes = 0;
    module *m = NULL;
    if (error == 0 && fake_capture_forbids()) error = FAKE_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (error == 0) {
        is_ptx = memcmp(image, ELFMAG, SELFMAG) != 0;
        error = is_ptx ? check_ptx(image) : check_cubin(image);
    }
    if (error == 0) {
        n_bytes = is_ptx ? strlen(image) + 1 : cubin_bytes(image);
        m = fake_new(FAKE_MODULE, sizeof *m);
        m->is_ptx = is_ptx;
        m->n_bytes = n_bytes;
        m->image = fake_zeroed(1, n_bytes);
        memcpy(m->image, image, n_bytes);
        *handle = m;
    }
    return fake_end(error, "module %d, %s of %zu bytes, %u options", fake_number(m), is_ptx ? "PTX" : "a cubin", n_bytes, n_options);
}

int cuModuleUnload(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    module *m = fake_object_here(FAKE_MODULE, handle);
    if (m != NULL) {
        fake_await((fake_goal){.context = m->object.context});
        m->object.is_live = false;
        free(m->image);
        m->image = NULL;
    }
    return fake_end(error != 0 ? error : m != NULL ? 0 : FAKE_ERROR_INVALID_HANDLE, "module %d", fake_number(handle));
}

/* ---- functions ---- */

static bool section_exists(const module *m, const char *wanted) {
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)m->image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(m->image + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++)
        if (strcmp(m->image + sections[head->e_shstrndx].sh_offset + sections[i].sh_name, wanted) == 0) return true;
    return false;
}

/* Is the function in the image? Fills in what it takes. */
static bool read_function(const module *m, fake_function *function) {
    char text[240];
    if (m->is_ptx) {
        snprintf(text, sizeof text, ".entry %s(", function->name);
        function->registers = REGISTERS_UNKNOWN;
        return strstr(m->image, text) != NULL;
    }
    dt_cuda_usage usage = {.name = function->name};
    snprintf(text, sizeof text, ".text.%s", function->name);
    if (!section_exists(m, text) || !dt_cuda_read_usage(m->image, m->n_bytes, &usage, 1)) return false;
    function->registers = usage.registers;
    function->shared_bytes = usage.shared_bytes;
    function->stack_bytes = usage.stack_bytes;
    return true;
}

typedef const char *launcher(const char *name, void *const *arguments, int blocks, int threads, int how, unsigned seed);
typedef const char *signer(const char *name);

static launcher *launch;
static signer *signature;

/* Loads the library of emulated kernels, once. */
static bool load_kernels(void) {
    if (launch != NULL) return true;
    void *library = fake.kernels != NULL ? dlopen(fake.kernels, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL) return fake_misuse(0, "FAKE_CUDA_KERNELS: %s", fake.kernels != NULL ? dlerror() : "is not set");
    signature = (signer *)(uintptr_t)dlsym(library, "signature");
    launch = (launcher *)(uintptr_t)dlsym(library, "launch");
    return launch != NULL && signature != NULL;
}

int cuModuleGetFunction(void **handle, void *of, const char *name) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    module *m = error == 0 ? fake_object_here(FAKE_MODULE, of) : NULL;
    fake_function found = {.module = m};
    snprintf(found.name, sizeof found.name, "%s", name);
    if (error == 0 && m == NULL) error = FAKE_ERROR_INVALID_HANDLE;
    if (error == 0 && !read_function(m, &found)) error = FAKE_ERROR_NOT_FOUND;
    if (error == 0 && !load_kernels()) error = FAKE_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
    if (error == 0 && (found.signature = signature(name)) == NULL)
        error = fake_misuse(FAKE_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "%s is not among the emulated kernels", name);
    if (error == 0) {
        fake_function *function = fake_new(FAKE_FUNCTION, sizeof *function);
        found.object = function->object;
        *function = found;
        *handle = function;
    }
    return fake_end(error, "%s of module %d", name, fake_number(of));
}

bool fake_function_is_live(const fake_function *function) { return function->module->object.is_live; }

const char *fake_call_kernel(const fake_function *function, void *const *arguments, int blocks, int threads, int how, unsigned seed) {
    return launch(function->name, arguments, blocks, threads, how, seed);
}

int cuFuncGetAttribute(int *value, int which, void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_function *f = error == 0 ? fake_object_here(FAKE_FUNCTION, handle) : NULL;
    if (error == 0 && f == NULL) error = FAKE_ERROR_INVALID_HANDLE;
    if (error == 0) switch (which) {
        case 0: *value = f->registers > 0 && REGISTERS / f->registers < MOST_THREADS ? REGISTERS / f->registers / 32 * 32 : MOST_THREADS; break;
        case 1: *value = f->shared_bytes; break;
        case 3: *value = f->stack_bytes; break;
        case 4: *value = f->registers; break;
        case 6: *value = 10 * fake.major + fake.minor; break;
        default: error = fake_misuse(FAKE_ERROR_INVALID_VALUE, "attribute %d of a function is not known to the fake", which);
        }
    return fake_end(error, "%d of %s", which, f != NULL ? f->name : "nothing");
}

int fake_most_blocks(const fake_function *f, int threads, size_t dynamic_bytes) {
    int most = 2048 / threads, warps = (threads + 31) / 32;
    size_t shared = (size_t)f->shared_bytes + dynamic_bytes;
    if (threads > MOST_THREADS || shared > STATIC_SHARED_BYTES) return 0;
    if (most > 32) most = 32;
    if (f->registers > 0) { /* given out to warps, 256 at a time */
        int by_registers = REGISTERS / (warps * ((f->registers * 32 + 255) / 256 * 256));
        if (by_registers < most) most = by_registers;
    }
    if (shared > 0 && 233472 / (int)(shared + 1024) < most) most = 233472 / (int)(shared + 1024);
    return most;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n_blocks, void *handle, int threads, size_t dynamic_bytes) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_function *f = error == 0 ? fake_object_here(FAKE_FUNCTION, handle) : NULL;
    if (error == 0 && (f == NULL || threads < 1)) error = f == NULL ? FAKE_ERROR_INVALID_HANDLE : FAKE_ERROR_INVALID_VALUE;
    if (error == 0) *n_blocks = fake_most_blocks(f, threads, dynamic_bytes);
    return fake_end(error, "%s of %d threads", f != NULL ? f->name : "nothing", threads);
}
