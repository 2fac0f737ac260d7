/* llvm: one module a level, each in a thread and an LLVM context of its own, through a handful of LLVM's passes into an object. */
#include "compiler/codegen/llvm.h"

#include "base/memory.h"
#include "base/thread.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What is emitted is in its final form; this removes what was written twice and folds what turned out constant. LLVM's standard pipelines take
 * three to five times as long and make nothing faster (measured on the kernels of a convolutional network). */
static const char passes[] = "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg)";

/* One level at work. */
typedef struct unit {
    const dt_plan *const *plans;
    int n_plans;
    const dt_repeats *repeats;
    const dt_codegen_options *options;
    const char *level;
    const dt_choices *choices;
    LLVMCodeGenFileType file_type;
    bool stop_before_passes; /* text of the IR instead of a file */
    dt_llvm_target target;
    LLVMTargetMachineRef machine;
    char *triple;
    char *bytes; /* result */
    size_t n_bytes;
    double seconds;
    pthread_t thread;
    bool has_thread;
} unit;

/* ---- targets ---- */

static void initialise_targets(void) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

static bool has_feature(const char *features, const char *name) {
    size_t n = strlen(name);
    for (const char *at = features; (at = strstr(at, name)) != NULL; at += n)
        if ((at == features || at[-1] == ',') && (at[n] == ',' || at[n] == 0)) return true;
    return false;
}

/* *level: the best one that it reaches. */
static dt_status *native_target(dt_llvm_target *target, const char **level) {
    char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
    target->cpu = cpu != NULL ? strdup(cpu) : NULL;
    target->features = features != NULL ? strdup(features) : NULL;
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
    if (target->cpu == NULL || target->features == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for the name of this processor");
    static const char *const needed[] = {"+avx2", "+fma", "+f16c", "+bmi2"}, *const wide[] = {"+avx512f", "+avx512bw", "+avx512dq", "+avx512vl"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!has_feature(target->features, needed[i]))
            return dt_error(DT_INVALID_ARGUMENT, "this processor (%s) is below x86-64-v3, the least that code is generated for: it lacks %s",
                            target->cpu, needed[i] + 1);
    bool is_wide = true;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) is_wide &= has_feature(target->features, wide[i]);
    *level = is_wide ? DT_LEVEL_V4 : DT_LEVEL_V3;
    return NULL;
}

static dt_status *find_target(const char *level, dt_llvm_target *target, const dt_cpu_target **description) {
    *target = (dt_llvm_target){0};
    bool native = strcmp(level, DT_LEVEL_NATIVE) == 0;
    if (native) DT_TRY(native_target(target, &level));
    *description = dt_cpu_target_find(level);
    if (*description == NULL)
        return dt_error(DT_INVALID_ARGUMENT, "no instruction set level \"%s\"; there are " DT_LEVEL_V3 ", " DT_LEVEL_V4 " and " DT_LEVEL_NATIVE,
                        level);
    target->vector_bytes = (*description)->vector_bytes;
    if (native) return NULL;
    target->cpu = strdup(level);
    target->features = strdup("");
    if (target->cpu == NULL || target->features == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for a target");
    return NULL;
}

static void free_target(dt_llvm_target *target) {
    free(target->cpu);
    free(target->features);
}

static dt_status *make_machine(unit *u) {
    const dt_cpu_target *description;
    DT_TRY(find_target(u->level, &u->target, &description));
    char *error = NULL;
    LLVMTargetRef target;
    u->triple = strdup("x86_64-unknown-linux-gnu");
    if (u->triple == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for a target");
    if (LLVMGetTargetFromTriple(u->triple, &target, &error)) {
        dt_status *status = dt_error(DT_INTERNAL, "LLVM has no target %s: %s", u->triple, error);
        LLVMDisposeMessage(error);
        return status;
    }
    u->machine =
        LLVMCreateTargetMachine(target, u->triple, u->target.cpu, u->target.features, LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
    return u->machine != NULL ? NULL : dt_error(DT_INTERNAL, "LLVM makes no code for %s", u->target.cpu);
}

/* ---- one level ---- */

static dt_status *verify(dt_llvm_emitter *e) {
    char *message = NULL;
    dt_status *status = NULL;
    if (LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message)) status = dt_error(DT_INTERNAL, "generated code is not valid: %s", message);
    LLVMDisposeMessage(message);
    return status;
}

static dt_status *optimise(unit *u, dt_llvm_emitter *e) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(e->module, passes, u->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error == NULL) return NULL;
    char *message = LLVMGetErrorMessage(error);
    dt_status *status = dt_error(DT_INTERNAL, "LLVM's passes: %s", message);
    LLVMDisposeErrorMessage(message);
    return status;
}

static dt_status *keep(unit *u, const char *bytes, size_t n_bytes) {
    u->bytes = dt_allocate(n_bytes + 1);
    if (u->bytes == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %zu bytes of code", n_bytes);
    memcpy(u->bytes, bytes, n_bytes);
    u->bytes[n_bytes] = 0;
    u->n_bytes = n_bytes;
    return NULL;
}

static dt_status *write_file(unit *u, dt_llvm_emitter *e) {
    char *message = NULL;
    LLVMMemoryBufferRef buffer = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(u->machine, e->module, u->file_type, &message, &buffer)) {
        dt_status *status = dt_error(DT_INTERNAL, "LLVM's code generator: %s", message);
        LLVMDisposeMessage(message);
        return status;
    }
    dt_status *status = keep(u, LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
    LLVMDisposeMemoryBuffer(buffer);
    return status;
}

static dt_status *compile_module(unit *u, dt_llvm_emitter *e) {
    for (int p = 0; p < u->n_plans; p++)
        for (int k = 0; k < u->plans[p]->n_kernels; k++) dt_llvm_kernel(e, u->plans[p], &u->plans[p]->kernels[k], &u->repeats->kernels[p][k]);
    if (u->options != NULL && u->options->check) DT_TRY(verify(e));
    if (u->stop_before_passes) {
        char *text = LLVMPrintModuleToString(e->module);
        dt_status *status = keep(u, text, strlen(text));
        LLVMDisposeMessage(text);
        return status;
    }
    DT_TRY(optimise(u, e));
    return write_file(u, e);
}

/* Emission takes its memory from an arena, which leaves by the guard when there is none. */
static dt_status *compile_in_arena(unit *u, dt_arena *arena) {
    dt_llvm_emitter *e = dt_allocate_zeroed(1, sizeof *e);
    if (e == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory to generate code");
    dt_status *status;
    jmp_buf guard;
    if (setjmp(guard) == 0) {
        dt_arena_guard(arena, &guard);
        LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(u->machine);
        dt_llvm_emitter_begin(e, arena, &u->target, u->triple, layout);
        LLVMDisposeTargetData(layout);
        e->repeats = u->repeats;
        e->choices = u->choices;
        e->routines = DT_NEW_ARRAY(arena, LLVMValueRef, u->repeats->n_routines);
        status = compile_module(u, e);
    } else {
        status = dt_error(DT_RESOURCE_EXHAUSTED, "no memory to generate code for %s", u->level);
    }
    dt_llvm_emitter_end(e);
    dt_release(e);
    return status;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static dt_status *compile_unit(unit *u) {
    static pthread_once_t once = PTHREAD_ONCE_INIT; /* LLVM's registry of targets is the process's */
    pthread_once(&once, initialise_targets);
    double start = seconds_now();
    dt_arena *arena = dt_arena_create();
    dt_status *status = arena != NULL ? make_machine(u) : dt_error(DT_RESOURCE_EXHAUSTED, "no memory to generate code");
    if (status == NULL) status = compile_in_arena(u, arena);
    dt_arena_destroy(arena);
    if (u->machine != NULL) LLVMDisposeTargetMachine(u->machine);
    free_target(&u->target);
    free(u->triple);
    u->seconds = seconds_now() - start;
    return status;
}

enum {
    STACK_BYTES = 64 << 20 /* LLVM recurses along what it is given */
};

static void *compile_thread(void *argument) { return compile_unit(argument); }

/* ---- entry points ---- */

dt_status *dt_codegen_target(const char *level, const dt_cpu_target **target) {
    dt_llvm_target found;
    dt_status *status = find_target(level, &found, target);
    free_target(&found);
    return status;
}

/* Level 0 is compiled by the caller's thread, as is any that gets no thread of its own. */
static dt_status *compile_levels(unit *units, int n_units) {
    dt_status *status = NULL;
    for (int i = 1; i < n_units; i++) units[i].has_thread = dt_thread_start(&units[i].thread, STACK_BYTES, compile_thread, &units[i]);
    for (int i = 0; i < n_units; i++) {
        void *result = NULL;
        if (units[i].has_thread)
            pthread_join(units[i].thread, &result);
        else
            result = compile_unit(&units[i]);
        status = dt_status_first(status, result);
    }
    return status;
}

/* What is the same code is the same on all levels: so are routines. */
static dt_status *compile_all(unit *units, int n_units) {
    dt_arena *arena = dt_arena_create();
    jmp_buf guard;
    if (arena == NULL || setjmp(guard) != 0) {
        dt_arena_destroy(arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "no memory to generate code");
    }
    dt_arena_guard(arena, &guard);
    const dt_choices **choices = DT_NEW_ARRAY(arena, const dt_choices *, n_units);
    for (int i = 0; i < n_units; i++) choices[i] = units[i].choices;
    const dt_repeats *repeats = dt_repeats_find(arena, units[0].plans, units[0].n_plans, choices, n_units);
    for (int i = 0; i < n_units; i++) units[i].repeats = repeats;
    dt_status *status = compile_levels(units, n_units);
    dt_arena_destroy(arena);
    return status;
}

dt_status *dt_codegen_llvm(const dt_plan *const *plans, int n_plans, const dt_codegen_options *options, dt_codegen_object *objects, int n_objects) {
    for (int i = 0; i < n_objects; i++) objects[i] = (dt_codegen_object){.level = objects[i].level, .choices = objects[i].choices};
    unit *units = dt_allocate_zeroed((size_t)n_objects, sizeof *units);
    if (units == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory to generate code");
    for (int i = 0; i < n_objects; i++)
        units[i] = (unit){.plans = plans,
                          .n_plans = n_plans,
                          .options = options,
                          .level = objects[i].level,
                          .choices = objects[i].choices,
                          .file_type = LLVMObjectFile};
    dt_status *status = compile_all(units, n_objects);
    for (int i = 0; i < n_objects; i++) {
        if (status != NULL) {
            dt_release(units[i].bytes);
            continue;
        }
        objects[i].bytes = units[i].bytes;
        objects[i].n_bytes = units[i].n_bytes;
        objects[i].seconds = units[i].seconds;
    }
    dt_release(units);
    return status;
}

dt_status *dt_codegen_llvm_text(const dt_plan *const *plans, int n_plans, const char *level, const dt_choices *choices, dt_codegen_text kind,
                                dt_text *text) {
    unit u = {.plans = plans,
              .n_plans = n_plans,
              .level = level,
              .choices = choices,
              .file_type = LLVMAssemblyFile,
              .stop_before_passes = kind == DT_CODEGEN_TEXT_LLVM};
    dt_status *status = compile_all(&u, 1);
    if (status == NULL) dt_text_append_bytes(text, u.bytes, u.n_bytes);
    dt_release(u.bytes);
    return status;
}

const char *dt_codegen_llvm_version(char buffer[32]) {
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    snprintf(buffer, 32, "%u.%u.%u", major, minor, patch);
    return buffer;
}
