/* cuda_compile: a program's text to code, by NVRTC: in parts that threads compile side by side, for each architecture, with a cache.
 *
 * NVRTC takes a tenth of a second a function, so a program is cut into units of a few functions, each of which is compiled by itself after the head.
 * A unit's code is kept in the cache under the SHA-256 of all that it depends on: NVRTC's version, the options, the architecture and the text. A file
 * there holds what NVRTC remarked too, so that a warning is given again and spills are known, and a sum of all of it: what a disk or a copy has
 * damaged is compiled again. */
#include "base/file.h"
#include "base/memory.h"
#include "base/thread.h"
#include "compiler/codegen/cuda.h"
#include "compiler/codegen/cuda_nvrtc.h"

#include <nettle/sha2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FUNCTIONS_OF_A_UNIT = 8,
    MOST_THREADS = 64
};
static const char cache_mark[] = "dtc cuda 2 ";
enum {
    SUM_BYTES = 2 * SHA256_DIGEST_SIZE + 1, /* a SHA-256 as text, with the terminating 0 */
    HEAD_BYTES = sizeof cache_mark - 1 + SUM_BYTES
};

/* A unit for an architecture. */
typedef struct job {
    const char *architecture;
    const dt_cuda_source *functions;
    int n_functions;
    char *source;
    dt_cuda_module *module;
    dt_text log;
    dt_status *status;
} job;

typedef struct work {
    const dt_nvrtc *nvrtc;
    const char *cache;
    job *jobs;
    int n_jobs;
    atomic_int next;
} work;

/* ---- which architectures ---- */

dt_status *dt_cuda_default_architectures(const char *architectures[DT_CUDA_MOST_DEFAULT], int *n_architectures) {
    static const struct { const char *cubin, *ptx; } rows[] = {{"sm_80", "compute_80"}, {"sm_90", "compute_90"}, {"sm_100", "compute_100"}};
    const char *ptx = NULL;
    dt_nvrtc nvrtc;
    dt_status *refusal = NULL;
    *n_architectures = 0;
    DT_TRY(dt_nvrtc_open(&nvrtc));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dt_status *status = dt_nvrtc_check_architecture(&nvrtc, rows[i].cubin);
        bool known = status == NULL;
        refusal = dt_status_first(refusal, status);
        if (!known) continue;
        architectures[(*n_architectures)++] = rows[i].cubin;
        ptx = rows[i].ptx;
    }
    dt_nvrtc_close(&nvrtc);
    if (ptx == NULL) return refusal;
    dt_status_free(refusal);
    architectures[(*n_architectures)++] = ptx;
    return NULL;
}

/* ---- cache ---- */

static void sum_of(const char *bytes, size_t n_bytes, char sum[SUM_BYTES]) {
    struct sha256_ctx context;
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_init(&context);
    if (n_bytes > 0) sha256_update(&context, n_bytes, (const uint8_t *)bytes);
    sha256_digest(&context, sizeof digest, digest);
    for (size_t i = 0; i < sizeof digest; i++) snprintf(sum + 2 * i, 3, "%02x", digest[i]);
}

static char *cache_path(const work *w, const job *j) {
    char sum[SUM_BYTES];
    dt_text path = {0}, key = {0};
    dt_text_format(&key, "%d.%d %s %s\n%s", w->nvrtc->major, w->nvrtc->minor, dt_nvrtc_options, j->architecture, j->source);
    sum_of(key.data, key.n, sum);
    dt_text_format(&path, "%s/%s", w->cache, sum);
    bool failed = key.failed;
    dt_text_free(&key);
    if (failed) dt_text_free(&path);
    return dt_text_take(&path);
}

static void print_head(char head[HEAD_BYTES + 1], const char *body, size_t n_bytes) {
    char sum[SUM_BYTES];
    sum_of(body, n_bytes, sum);
    snprintf(head, HEAD_BYTES + 1, "%s%s\n", cache_mark, sum);
}

/* The head, "dtc cuda 2 SUM\n"; what it is the sum of: "LOG-BYTES CODE-BYTES\n", the log, the code. Anything else is as good as no file. */
static bool read_cached(const char *path, job *j) {
    char *data, head[HEAD_BYTES + 1] = "";
    size_t n_bytes, n_log = 0, n_code = 0;
    int n_counts = 0;
    dt_status *status = dt_file_read(path, &data, &n_bytes);
    if (status != NULL) {
        dt_status_free(status);
        return false;
    }
    bool good = n_bytes > HEAD_BYTES;
    if (good) print_head(head, data + HEAD_BYTES, n_bytes - HEAD_BYTES);
    good = good && memcmp(data, head, HEAD_BYTES) == 0 && sscanf(data + HEAD_BYTES, "%zu %zu%n", &n_log, &n_code, &n_counts) == 2;
    size_t start = HEAD_BYTES + (size_t)n_counts + 1;
    good = good && n_log <= n_bytes && n_code <= n_bytes && start + n_log + n_code == n_bytes;
    if (good) j->module->bytes = dt_allocate(n_code);
    good = good && j->module->bytes != NULL;
    if (good) {
        dt_text_append_bytes(&j->log, data + start, n_log);
        memcpy(j->module->bytes, data + start + n_log, n_code);
        j->module->n_bytes = n_code;
    }
    free(data);
    return good;
}

/* A cache that cannot be written is none. */
static void write_cached(const work *w, const char *path, const job *j) {
    char head[HEAD_BYTES + 1];
    dt_text body = {0}, file = {0};
    dt_text_format(&body, "%zu %zu\n", j->log.n, j->module->n_bytes);
    if (j->log.n > 0) dt_text_append_bytes(&body, j->log.data, j->log.n);
    dt_text_append_bytes(&body, j->module->bytes, j->module->n_bytes);
    if (!body.failed) {
        print_head(head, body.data, body.n);
        dt_text_append(&file, head);
        dt_text_append_bytes(&file, body.data, body.n);
    }
    dt_status *status = dt_file_make_folders(w->cache);
    if (status == NULL && !body.failed && !file.failed) status = dt_file_write_atomic(path, file.data, file.n);
    dt_status_free(status);
    dt_text_free(&body);
    dt_text_free(&file);
}

/* ---- compiling ---- */

static void run_job(const work *w, job *j) {
    char *path = w->cache != NULL ? cache_path(w, j) : NULL;
    if (path == NULL || !read_cached(path, j)) {
        j->status = dt_nvrtc_compile(w->nvrtc, j->source, j->architecture, &j->module->bytes, &j->module->n_bytes, &j->log);
        if (j->status == NULL && path != NULL) write_cached(w, path, j);
    }
    free(path);
}

enum {
    STACK_BYTES = 64 << 20 /* NVRTC recurses along what it is given */
};

static void *run_jobs(void *context) {
    work *w = context;
    for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->n_jobs;) run_job(w, &w->jobs[i]);
    return NULL;
}

/* As many threads as the machine has, or as there are jobs; what gets no thread is done by the others. */
static void run_all(work *w) {
    pthread_t threads[MOST_THREADS];
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n_threads = 0, wanted = n_cores < w->n_jobs ? (int)n_cores : w->n_jobs;
    while (n_threads + 1 < wanted && n_threads < MOST_THREADS && dt_thread_start(&threads[n_threads], STACK_BYTES, run_jobs, w)) n_threads++;
    run_jobs(w);
    for (int i = 0; i < n_threads; i++) pthread_join(threads[i], NULL);
}

/* The architectures' modules and jobs, unit by unit; false: memory is out. */
static bool make_jobs(const dt_cuda_program *program, const char *const *architectures, int n_architectures, work *w, dt_cuda_module *modules) {
    for (int i = 0; i < w->n_jobs; i++) {
        dt_text text = {0};
        int unit = i / n_architectures, first = unit * FUNCTIONS_OF_A_UNIT, left = program->n_sources - first;
        int n = left < FUNCTIONS_OF_A_UNIT ? left : FUNCTIONS_OF_A_UNIT;
        dt_cuda_print(&text, program, first, n);
        modules[i] = (dt_cuda_module){.architecture = architectures[i % n_architectures], .unit = unit};
        w->jobs[i] = (job){.architecture = modules[i].architecture,
                           .functions = program->sources + first,
                           .n_functions = n,
                           .source = dt_text_take(&text),
                           .module = &modules[i]};
        if (w->jobs[i].source == NULL) return false;
    }
    return true;
}

static dt_status *compile_units(const dt_nvrtc *nvrtc, const dt_cuda_program *program, const char *const *architectures, int n_architectures,
                                const char *cache, dt_text *warnings, dt_cuda_code *code) {
    int n_units = (program->n_sources + FUNCTIONS_OF_A_UNIT - 1) / FUNCTIONS_OF_A_UNIT;
    work w = {.nvrtc = nvrtc, .cache = cache, .n_jobs = n_units * n_architectures};
    for (int a = 0; a < n_architectures; a++) DT_TRY(dt_nvrtc_check_architecture(nvrtc, architectures[a]));
    code->modules = dt_allocate_zeroed((size_t)w.n_jobs + 1, sizeof *code->modules);
    w.jobs = dt_allocate_zeroed((size_t)w.n_jobs + 1, sizeof *w.jobs);
    dt_status *status = NULL;
    if (code->modules == NULL || w.jobs == NULL || !make_jobs(program, architectures, n_architectures, &w, code->modules))
        status = dt_error(DT_RESOURCE_EXHAUSTED, "no memory to compile CUDA");
    else
        run_all(&w);
    code->n_modules = code->modules != NULL ? w.n_jobs : 0;
    for (int i = 0; w.jobs != NULL && i < w.n_jobs; i++) {
        job *j = &w.jobs[i];
        if (j->status == NULL) dt_cuda_add_warnings(warnings, j->log.data, j->architecture, j->functions, j->n_functions);
        status = dt_status_first(status, j->status);
        if (j->log.failed) status = dt_status_first(status, dt_error(DT_RESOURCE_EXHAUSTED, "no memory for what NVRTC says"));
        if (j->log.data != NULL) j->module->remarks = dt_text_take(&j->log);
        free(j->source);
    }
    dt_release(w.jobs);
    return status;
}

dt_status *dt_cuda_compile(const dt_cuda_program *program, const char *const *architectures, int n_architectures, const char *cache,
                           dt_text *warnings, dt_cuda_code *code) {
    dt_nvrtc nvrtc;
    *code = (dt_cuda_code){0};
    DT_TRY(dt_nvrtc_open(&nvrtc));
    snprintf(code->compiler, sizeof code->compiler, "NVRTC %d.%d", nvrtc.major, nvrtc.minor);
    dt_status *status = compile_units(&nvrtc, program, architectures, n_architectures, cache, warnings, code);
    dt_nvrtc_close(&nvrtc);
    if (status != NULL) dt_cuda_code_free(code);
    return status;
}

void dt_cuda_code_free(dt_cuda_code *code) {
    for (int i = 0; i < code->n_modules; i++) {
        dt_release(code->modules[i].bytes);
        free(code->modules[i].remarks);
    }
    dt_release(code->modules);
    *code = (dt_cuda_code){0};
}

int dt_cuda_unit_of(int source) { return source / FUNCTIONS_OF_A_UNIT; }
