/* artifact: the bytes of a .dtx, a plain zip without compression: manifest.json, the program's text, its graph, its plans, and the code.
 *
 * The manifest is the whole contract with the runtime; it is written from the compilation (compiler/manifest.c) and names every buffer, kernel and
 * collective of every function. */
#ifndef DT_COMPILER_ARTIFACT_H
#define DT_COMPILER_ARTIFACT_H

#include "compiler/codegen/codegen.h"
#include "compiler/kernel/compilation.h"

/* One object file: the code of all kernels for one instruction-set level. */
typedef struct dt_object_file {
    const char *level; /* "x86-64-v3" */
    const char *cpu;   /* for the level "native" the processor's name, else NULL */
    char *bytes;
    size_t n_bytes;
} dt_object_file;

/* What there is for GPUs: plans of their own, the text of all functions, and its code. */
typedef struct dt_cuda_files {
    const dt_compilation *compilation;
    const dt_cuda_program *program;
    const dt_cuda_code *code;
} dt_cuda_files;

typedef struct dt_artifact_contents {
    const dt_compilation *compilation;
    const char *source;         /* the program's text */
    const char *const *modules; /* texts of the modules that it uses, but the library's */
    size_t n_modules;
    const char *compiler; /* name and version */
    const char *llvm;     /* version */
    const char *const *flags;
    size_t n_flags;
    const dt_object_file *objects;
    size_t n_objects;
    const dt_cuda_files *cuda; /* NULL: nothing for GPUs */
} dt_artifact_contents;

/* Appends the file's bytes to `bytes`, a text on the heap. `name`: of the artifact, for messages. */
dt_status *dt_artifact_write(dt_text *bytes, const char *name, const dt_artifact_contents *contents);

/* What people read in it, and the runtime does not. */
typedef enum dt_artifact_text {
    DT_TEXT_SOURCE, /* "program.dt" */
    DT_TEXT_GRAPH,  /* "program.ir", whose hash identifies the program */
    DT_TEXT_PLANS,  /* "plan.txt" */
    DT_TEXT_CUDA,   /* "cuda.cu" */
    DT_TEXT_CUDA_PLANS,
    DT_N_ARTIFACT_TEXTS
} dt_artifact_text;

extern const char *const dt_artifact_text_names[DT_N_ARTIFACT_TEXTS];

/* The manifest as JSON; `manifest` is appended to. Texts for GPUs are empty where there is nothing for them. */
dt_status *dt_manifest_write(dt_text *manifest, const dt_artifact_contents *contents, const dt_text texts[DT_N_ARTIFACT_TEXTS]);

/* Where the code of a level is kept within the artifact: "cpu-x86-64-v3.o". buffer: 64 bytes. */
const char *dt_object_file_name(const dt_object_file *object, char buffer[64]);
/* Of a module: "cuda-sm_90-0.cubin", "cuda-compute_90-0.ptx". */
const char *dt_cuda_module_file_name(const dt_cuda_module *module, char buffer[64]);

#endif
