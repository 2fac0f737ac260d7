/* codegen: kernels in, object code or text out. Nothing in this folder knows an op: it renders the loop nests of kernel/kernel.h. */
#ifndef DT_CODEGEN_CODEGEN_H
#define DT_CODEGEN_CODEGEN_H

#include "abi/library.h"
#include "compiler/kernel/choices.h"
#include "compiler/kernel/gpu_choices.h"

/* What choices for a level depend on; of "native" it is that of the best level that this machine has.
 * DT_INVALID_ARGUMENT: a level that is not known, or a "native" machine below x86-64-v3. */
dt_status *dt_codegen_target(const char *level, const dt_cpu_target **target);

typedef struct dt_codegen_options {
    bool check; /* let LLVM verify what was generated: for tests, it costs a tenth of the time */
} dt_codegen_options;

/* Relocatable code of one level. */
typedef struct dt_codegen_object {
    const char *level;         /* set by the caller, */
    const dt_choices *choices; /* with the choices for its target */
    char *bytes;               /* an ELF relocatable object: one global function a kernel, named as the kernel; it imports nothing. free() it */
    size_t n_bytes;
    double seconds; /* what it took */
} dt_codegen_object;

/* Compiles the kernels of all plans, once for each of the objects' levels, each level in a thread of its own. On error no object holds bytes.
 * The plans and choices must be of good form (dt_plan_verify); the kernels' names must differ. `options` may be NULL.
 * Errors as dt_codegen_target has them. */
dt_status *dt_codegen_llvm(const dt_plan *const *plans, int n_plans, const dt_codegen_options *options, dt_codegen_object *objects, int n_objects);

/* The same code for people: what goes into LLVM's own passes, or the assembly that comes out. */
typedef enum dt_codegen_text {
    DT_CODEGEN_TEXT_LLVM,
    DT_CODEGEN_TEXT_ASSEMBLY
} dt_codegen_text;
dt_status *dt_codegen_llvm_text(const dt_plan *const *plans, int n_plans, const char *level, const dt_choices *choices, dt_codegen_text kind,
                                dt_text *text);

/* ---- C ---- */

/* Appends one C file with the same kernels: as dt_codegen_llvm has them, they leave the same bits. For people, and for tests of either renderer. */
void dt_codegen_c(dt_arena *arena, const dt_plan *const *plans, int n_plans, const dt_choices *choices, dt_text *text);

/* ---- CUDA ---- */

/* A function of the CUDA program, and how it is called: with the buffers of `arguments`, in order, then a dt_launch in device memory, then, as an
 * i64, the iteration of the innermost loop that its kernel is in, which it need not take. Any grid computes the same bits; at capacity n_items
 * threads, or teams of `team` threads, have something to do. */
typedef struct dt_cuda_call {
    int plan, kernel; /* plans[plan]->kernels[kernel]: its calls stand one after another, in order */
    const char *kernel_name;
    int source;       /* of the program */
    const char *name; /* of the __global__ function: what differs in names alone is written once */
    int n_arguments;
    const int *arguments; /* indices of the kernel's buffers */
    int threads;          /* of a block */
    int team;             /* 1, a warp, or all threads of a block */
    int64_t n_items;
    const dt_library_call *library; /* what computes the same as this and perhaps the next calls (n_launches); NULL: nothing does */
} dt_cuda_call;

/* One function; after the program's head it compiles by itself. */
typedef struct dt_cuda_source {
    const char *name, *remarks, *body; /* comment lines; `(arguments) { … }` */
    const char *lines;                 /* comment lines above the remarks: what of the program it is for; NULL: none */
    int threads;
    const char *helpers; /* types and functions that it alone uses; NULL: none */
} dt_cuda_source;

typedef struct dt_cuda_program {
    const char *head;    /* types and the prelude */
    int resident_blocks; /* of a multiprocessor, at least */
    int n_sources, n_calls;
    int reduction;             /* the source that reduces over replicas (abi/reduction.h); no call names it */
    int clear_rows, transpose; /* sources that calls of libraries need (abi/library.h); -1: there are no such calls */
    const dt_cuda_source *sources;
    const dt_cuda_call *calls;
} dt_cuda_program;

/* Renders the kernels of batched plans as CUDA C++, in `arena`, as it has been chosen. */
void dt_codegen_cuda(dt_arena *arena, const dt_gpu_choices *choices, dt_cuda_program *program);
/* The text of sources first to first + n - 1, after the head. */
void dt_cuda_print(dt_text *text, const dt_cuda_program *program, int first, int n);

/* Code for one architecture: of the functions of one unit of the program. */
typedef struct dt_cuda_module {
    const char *architecture; /* "sm_90": a cubin; "compute_90": PTX, which a driver compiles for whatever GPU it finds */
    int unit;                 /* counted from 0 */
    char *bytes;
    size_t n_bytes;
    char *remarks; /* what the compiler said; NULL: nothing */
} dt_cuda_module;

typedef struct dt_cuda_code {
    int n_modules;
    dt_cuda_module *modules; /* unit by unit, the architectures of each in the order asked for */
    char compiler[32];       /* "NVRTC 13.0" */
} dt_cuda_code;

enum {
    DT_CUDA_MOST_DEFAULT = 8
};
/* What code is made for when nobody says for which GPUs: of sm_80, sm_90 and sm_100 those that NVRTC knows, and PTX of the newest of these. Errors as
 * dt_cuda_compile has them. */
dt_status *dt_cuda_default_architectures(const char *architectures[DT_CUDA_MOST_DEFAULT], int *n_architectures);

/* Compiles a program for each architecture, in as many threads as there are cores.
 *
 * cache     a folder to keep code in and to take it from; NULL: none
 * warnings  what the compiler warns of is appended, a line each, with the name of the function, or of those that it may be about
 * code      released by dt_cuda_code_free; empty after an error
 * Returns   DT_NOT_FOUND: there is no NVRTC. DT_INVALID_ARGUMENT: it knows no such architecture. */
dt_status *dt_cuda_compile(const dt_cuda_program *program, const char *const *architectures, int n_architectures, const char *cache,
                           dt_text *warnings, dt_cuda_code *code);
void dt_cuda_code_free(dt_cuda_code *code);
int dt_cuda_unit_of(int source); /* the unit that a source of the program is compiled in */

/* What a function takes, as its cubin says. */
typedef struct dt_cuda_usage {
    const char *name;                  /* set by the caller */
    int registers;                     /* of a thread */
    int stack_bytes;                   /* of a thread: arrays, and spilled registers */
    int shared_bytes;                  /* of a block, static; with the 1,024 that newer GPUs keep for themselves */
    int spilled_bytes, reloaded_bytes; /* of a thread: what all instructions that store spilled registers, and that load them again, move */
} dt_cuda_usage;

/* Fills in what the cubin says of the functions that are named; false: it is no cubin. */
bool dt_cuda_read_usage(const char *bytes, size_t n_bytes, dt_cuda_usage *usages, int n);
/* Fills in what a module's remarks, which may be NULL, say that the function spills; false: they say nothing of it. */
bool dt_cuda_read_spills(const char *remarks, dt_cuda_usage *usage);

/* A line for each function of the program, with what it takes as far as `code` has a cubin of it for `architecture`, which may be NULL. */
void dt_cuda_print_account(dt_text *text, const dt_cuda_program *program, const dt_cuda_code *code, const char *architecture);

/* "19.1.7": the version of LLVM in use. buffer: 32 bytes. */
const char *dt_codegen_llvm_version(char buffer[32]);

#endif
