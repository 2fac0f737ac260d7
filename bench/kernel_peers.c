/* kernel_peers: see kernel_peers.h.
 *
 * Both libraries read the number of threads and the instruction set from the environment when they are loaded, so it is set before. oneDNN's
 * descriptions are large structures that differ between versions: without its header of version 2 at build time it counts as not installed. */
#include "bench/kernel_peers.h"

#include "bench/kernel_formula.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#if __has_include(<dnnl.h>)
#include <dnnl.h>
#include <dnnl_version.h>
#if DNNL_VERSION_MAJOR == 2
#define HAVE_ONEDNN 1
#endif
#endif

static float *filled(const kernel_case *test, size_t n) {
    float *floats = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    if (floats == NULL) abort();
    for (size_t i = 0; i < n; i++) floats[i] = (float)kernel_case_element(test, i);
    return floats;
}

/* ---- OpenBLAS ---- */

enum {
    CBLAS_ROW_MAJOR = 101,
    CBLAS_NO_TRANS = 111,
    CBLAS_TRANS = 112
};

typedef void cblas_sgemm_function(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                                  const float *b, int ldb, float beta, float *c, int ldc);

static struct {
    cblas_sgemm_function *sgemm;
    char version[64];
} openblas;

static void load_openblas(void) {
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return;
    openblas.sgemm = (cblas_sgemm_function *)dlsym(library, "cblas_sgemm");
    char *(*config)(void) = (char *(*)(void))dlsym(library, "openblas_get_config");
    char *(*core)(void) = (char *(*)(void))dlsym(library, "openblas_get_corename");
    char number[32] = "?";
    if (config != NULL) sscanf(config(), "OpenBLAS %31s", number);
    snprintf(openblas.version, sizeof openblas.version, "%s (%s)", number, core != NULL ? core() : "?");
}

const char *kernel_peers_openblas_version(void) { return openblas.sgemm != NULL ? openblas.version : NULL; }

typedef struct product {
    const kernel_case *test;
    float *a, *b, *c;
} product;

static void run_sgemm(void *context) {
    const product *p = context;
    const kernel_case *t = p->test;
    int m = t->matmul.m, k = t->matmul.k, n = t->matmul.n;
    bool ta = t->matmul.transpose_a, tb = t->matmul.transpose_b;
    for (int i = 0; i < t->matmul.batch; i++)
        openblas.sgemm(CBLAS_ROW_MAJOR, ta ? CBLAS_TRANS : CBLAS_NO_TRANS, tb ? CBLAS_TRANS : CBLAS_NO_TRANS, m, n, k, 1, p->a + (size_t)i * m * k,
                       ta ? m : k, p->b + (size_t)i * k * n, tb ? k : n, 0, p->c + (size_t)i * m * n, n);
}

double kernel_peers_openblas(const kernel_case *test) {
    if (openblas.sgemm == NULL || test->kind != CASE_MATMUL) return 0;
    size_t batch = test->matmul.batch, m = test->matmul.m, k = test->matmul.k, n = test->matmul.n;
    product p = {test, filled(test, batch * m * k), filled(test, batch * k * n), filled(test, batch * m * n)};
    double seconds = kernel_case_time(run_sgemm, &p);
    free(p.a);
    free(p.b);
    free(p.c);
    return seconds;
}

/* ---- oneDNN ---- */

#ifdef HAVE_ONEDNN

/* The functions used, each under its own name, by its declaration in dnnl.h. */
// clang-format off
#define ONEDNN_FUNCTIONS(X) \
    X(version) X(engine_create) X(stream_create) X(stream_wait) X(memory_desc_init_by_tag) X(memory_desc_init_by_strides) \
    X(memory_desc_get_size) X(memory_create) X(memory_destroy) X(matmul_desc_init) X(convolution_forward_desc_init) \
    X(convolution_backward_data_desc_init) X(convolution_backward_weights_desc_init) X(primitive_desc_create) X(primitive_desc_destroy) \
    X(primitive_desc_query_md) X(eltwise_forward_desc_init) X(primitive_create) X(primitive_destroy) X(primitive_execute)
// clang-format on

#define DECLARE(name) __typeof__(dnnl_##name) *name;
static struct {
    ONEDNN_FUNCTIONS(DECLARE)
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    char version_text[32];
} onednn;

static void check(dnnl_status_t status, const char *what) {
    if (status == dnnl_success) return;
    fprintf(stderr, "oneDNN: %s: status %d\n", what, (int)status);
    exit(1);
}

#define CALL(name, ...) check(onednn.name(__VA_ARGS__), #name)

static void load_onednn(void) {
    void *library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return;
    bool complete = true;
#define FIND(name) onednn.name = (__typeof__(dnnl_##name) *)dlsym(library, "dnnl_" #name), complete = complete && onednn.name != NULL;
    ONEDNN_FUNCTIONS(FIND)
    if (!complete) return;
    CALL(engine_create, &onednn.engine, dnnl_cpu, 0);
    CALL(stream_create, &onednn.stream, onednn.engine, dnnl_stream_default_flags);
    const dnnl_version_t *version = onednn.version();
    snprintf(onednn.version_text, sizeof onednn.version_text, "%d.%d.%d", version->major, version->minor, version->patch);
}

const char *kernel_peers_onednn_version(void) { return onednn.stream != NULL ? onednn.version_text : NULL; }

/* One operand: which argument of the primitive it is, and how the primitive's description is asked for its layout. */
typedef struct operand {
    int argument;
    dnnl_query_t query;
} operand;

typedef struct primitive {
    dnnl_primitive_t primitive;
    int n; /* operands */
    dnnl_exec_arg_t arguments[3];
    float *data[3];
} primitive;

static void run_primitive(void *context) {
    const primitive *p = context;
    CALL(primitive_execute, p->primitive, onednn.stream, p->n, p->arguments);
    CALL(stream_wait, onednn.stream);
}

/* Makes memory for the operands in the layouts of the description, and times the primitive. Takes the description. */
static double time_primitive(const kernel_case *test, dnnl_primitive_desc_t description, const operand *operands, int n) {
    primitive p = {.n = n};
    for (int i = 0; i < n; i++) {
        const dnnl_memory_desc_t *layout = onednn.primitive_desc_query_md(description, operands[i].query, 0);
        p.data[i] = filled(test, onednn.memory_desc_get_size(layout) / sizeof(float));
        p.arguments[i].arg = operands[i].argument;
        CALL(memory_create, &p.arguments[i].memory, layout, onednn.engine, p.data[i]);
    }
    CALL(primitive_create, &p.primitive, description);
    double seconds = kernel_case_time(run_primitive, &p);
    CALL(primitive_destroy, p.primitive);
    CALL(primitive_desc_destroy, description);
    for (int i = 0; i < n; i++) {
        CALL(memory_destroy, p.arguments[i].memory);
        free(p.data[i]);
    }
    return seconds;
}

/* [batch, rows, columns] in memory by rows, or by columns where `transposed`. */
static dnnl_memory_desc_t matrix(int batch, int rows, int columns, bool transposed) {
    dnnl_memory_desc_t layout;
    int n = 0;
    dnnl_dims_t dims = {0}, strides = {0};
    if (batch > 1) dims[n] = batch, strides[n++] = (dnnl_dim_t)rows * columns;
    dims[n] = rows, strides[n++] = transposed ? 1 : columns;
    dims[n] = columns, strides[n++] = transposed ? rows : 1;
    CALL(memory_desc_init_by_strides, &layout, n, dims, dnnl_f32, strides);
    return layout;
}

static double time_matmul(const kernel_case *t) {
    static const operand operands[] = {
        {DNNL_ARG_SRC, dnnl_query_src_md}, {DNNL_ARG_WEIGHTS, dnnl_query_weights_md}, {DNNL_ARG_DST, dnnl_query_dst_md}};
    int batch = t->matmul.batch, m = t->matmul.m, k = t->matmul.k, n = t->matmul.n;
    dnnl_memory_desc_t a = matrix(batch, m, k, t->matmul.transpose_a), b = matrix(batch, k, n, t->matmul.transpose_b), c = matrix(batch, m, n, false);
    dnnl_matmul_desc_t op;
    CALL(matmul_desc_init, &op, &a, &b, NULL, &c);
    dnnl_primitive_desc_t description;
    CALL(primitive_desc_create, &description, &op, NULL, onednn.engine, NULL);
    return time_primitive(t, description, operands, 3);
}

static dnnl_memory_desc_t any_layout(int n_dims, const dnnl_dims_t dims) {
    dnnl_memory_desc_t layout;
    CALL(memory_desc_init_by_tag, &layout, n_dims, dims, dnnl_f32, dnnl_format_tag_any);
    return layout;
}

/* [filters, channels, height, width], with the groups before these where there are any. */
static dnnl_memory_desc_t conv_kernel(const kernel_case *t) {
    int groups = kernel_case_groups(t), n = 0;
    dnnl_dims_t dims = {0};
    if (groups > 1) dims[n++] = groups;
    dims[n++] = t->conv.filters / groups;
    dims[n++] = t->conv.channels / groups;
    dims[n++] = t->conv.kernel[0];
    dims[n++] = t->conv.kernel[1];
    return any_layout(n, dims);
}

/* 0 where it has no such algorithm for this shape. */
static double time_conv(const kernel_case *t, dnnl_alg_kind_t algorithm) {
    static const operand forward[] = {
        {DNNL_ARG_SRC, dnnl_query_src_md}, {DNNL_ARG_WEIGHTS, dnnl_query_weights_md}, {DNNL_ARG_DST, dnnl_query_dst_md}};
    static const operand input[] = {
        {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md}, {DNNL_ARG_WEIGHTS, dnnl_query_weights_md}, {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md}};
    static const operand kernel[] = {
        {DNNL_ARG_SRC, dnnl_query_src_md}, {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md}, {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md}};
    dnnl_dims_t x_dims = {t->conv.images, t->conv.channels, t->conv.size[0], t->conv.size[1]},
                y_dims = {t->conv.images, t->conv.filters, kernel_case_out(t, 0), kernel_case_out(t, 1)},
                strides = {t->conv.stride[0], t->conv.stride[1]}, before = {t->conv.before[0], t->conv.before[1]},
                after = {t->conv.after[0], t->conv.after[1]};
    dnnl_memory_desc_t x = any_layout(4, x_dims), y = any_layout(4, y_dims), w = conv_kernel(t);
    dnnl_convolution_desc_t op;
    dnnl_primitive_desc_t forward_description, description;
    CALL(convolution_forward_desc_init, &op, dnnl_forward_training, algorithm, &x, &w, NULL, &y, strides, before, after);
    if (onednn.primitive_desc_create(&forward_description, &op, NULL, onednn.engine, NULL) != dnnl_success) return 0;
    if (t->kind == CASE_CONV) return time_primitive(t, forward_description, forward, 3);
    if (t->kind == CASE_CONV_INPUT)
        CALL(convolution_backward_data_desc_init, &op, algorithm, &x, &w, &y, strides, before, after);
    else
        CALL(convolution_backward_weights_desc_init, &op, algorithm, &x, &w, NULL, &y, strides, before, after);
    dnnl_status_t status = onednn.primitive_desc_create(&description, &op, NULL, onednn.engine, forward_description);
    CALL(primitive_desc_destroy, forward_description);
    if (status != dnnl_success) return 0;
    return time_primitive(t, description, t->kind == CASE_CONV_INPUT ? input : kernel, 3);
}

/* 0 where the formula is none of its functions. */
static double time_elementwise(const kernel_case *t) {
    static const operand operands[] = {{DNNL_ARG_SRC, dnnl_query_src_md}, {DNNL_ARG_DST, dnnl_query_dst_md}};
    static const struct {
        const char *name;
        dnnl_alg_kind_t algorithm;
    } functions[] = {{"exp", dnnl_eltwise_exp},   {"log", dnnl_eltwise_log},          {"tanh", dnnl_eltwise_tanh},
                     {"relu", dnnl_eltwise_relu}, {"sigmoid", dnnl_eltwise_logistic}, {"gelu", dnnl_eltwise_gelu_erf}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (!kernel_formula_is(t, functions[i].name)) continue;
        dnnl_dims_t dims = {0};
        for (int d = 0; d < t->elementwise.shape.rank; d++) dims[d] = t->elementwise.shape.dims[d];
        static const dnnl_format_tag_t tags[] = {dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd};
        dnnl_memory_desc_t layout;
        CALL(memory_desc_init_by_tag, &layout, t->elementwise.shape.rank, dims, dnnl_f32, tags[t->elementwise.shape.rank - 1]);
        dnnl_eltwise_desc_t op;
        CALL(eltwise_forward_desc_init, &op, dnnl_forward_inference, functions[i].algorithm, &layout, 0, 0);
        dnnl_primitive_desc_t description;
        CALL(primitive_desc_create, &description, &op, NULL, onednn.engine, NULL);
        return time_primitive(t, description, operands, 2);
    }
    return 0;
}

double kernel_peers_onednn(const kernel_case *test) {
    if (onednn.stream == NULL || test->kind == CASE_OTHER) return 0;
    if (test->kind == CASE_ELEMENTWISE) return time_elementwise(test);
    return test->kind == CASE_MATMUL ? time_matmul(test) : time_conv(test, dnnl_convolution_direct);
}

double kernel_peers_winograd(const kernel_case *test) {
    bool convolution = test->kind == CASE_CONV || test->kind == CASE_CONV_INPUT || test->kind == CASE_CONV_KERNEL;
    if (onednn.stream == NULL || !convolution) return 0;
    return time_conv(test, dnnl_convolution_winograd);
}

#else

static void load_onednn(void) {}
const char *kernel_peers_onednn_version(void) { return NULL; }
double kernel_peers_onednn(const kernel_case *test) { return (void)test, 0; }
double kernel_peers_winograd(const kernel_case *test) { return (void)test, 0; }

#endif

/* An old OpenBLAS takes a processor that it does not know for an older one: it is told which kernels to use. */
void kernel_peers_load(bool avx2) {
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("OPENBLAS_CORETYPE", avx2 ? "Haswell" : "SkylakeX", 1);
    if (avx2) setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
    load_openblas();
    load_onednn();
}
