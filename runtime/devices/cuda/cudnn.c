/* cudnn: see the header.
 *
 * A convolution is a graph of one operation between three tensors. The library proposes engines for it; the first that always adds in one order, is
 * as precise as the program asks and can be finalised is the one. Images are [N, C, H, W] to it, stored with their channels innermost. */
#include "runtime/devices/cuda/cudnn.h"
#include "base/shared_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum {
    ALIGNMENT = 64, /* bytes, of buffers */
    MOST_ENGINES =
        128, /* configurations of them: asked, without a GPU, about an H100, cuDNN 9.19 proposes up to 37, those without tensor cores last */
    MOST_NOTES = 32,
    MOST_WORKSPACE = 256 << 20 /* bytes */
};

/* What a program's tensors are known by in a graph. */
enum {
    ID_X = 1,
    ID_KERNEL,
    ID_Y
};

static dt_status *error_of(const dt_cudnn *dnn, const char *call, int error) {
    char text[400] = "";
    if (error == 0) return NULL;
    dnn->cudnnGetLastErrorString(text, sizeof text);
    return dt_error(DT_INTERNAL, "cuDNN, %s: %s, %d%s%s", call, dnn->cudnnGetErrorString(error), error, text[0] != 0 ? ": " : "", text);
}

#define CALL(dnn, symbol, ...) DT_TRY(error_of((dnn), #symbol, (dnn)->symbol(__VA_ARGS__)))

dt_status *dt_cudnn_open(dt_cudnn *dnn) {
    static const char *const names[] = {"libcudnn.so.9", NULL};
    *dnn = (dt_cudnn){0};
    DT_TRY(dt_shared_library_open("DT_CUDNN", names, &dnn->library));
    if (dnn->library == NULL)
        return dt_error(DT_NOT_FOUND, "cuDNN is not installed: %s is in no place where such libraries lie; DT_CUDNN names one elsewhere", names[0]);
#define X(result, symbol, arguments)                                                                                                                 \
    dnn->symbol = (result(*) arguments)(uintptr_t)dlsym(dnn->library, #symbol);                                                                      \
    if (dnn->symbol == NULL) return dt_error(DT_FAILED_PRECONDITION, "cuDNN has no %s: it is too old", #symbol);
    DT_CUDNN_SYMBOLS(X)
#undef X
    CALL(dnn, cudnnCreate, &dnn->handle);
    return NULL;
}

void dt_cudnn_close(dt_cudnn *dnn) {
    if (dnn->handle != NULL) dnn->cudnnDestroy(dnn->handle);
    if (dnn->library != NULL) dlclose(dnn->library);
    *dnn = (dt_cudnn){0};
}

/* ---- descriptors ---- */

static dt_status *create(const dt_cudnn *dnn, dt_cudnn_convolution *x, int kind, void **descriptor) {
    if (x->n_descriptors == DT_CUDNN_MOST_DESCRIPTORS) return dt_error(DT_INTERNAL, "a convolution of more descriptors than there is room for");
    CALL(dnn, cudnnBackendCreateDescriptor, kind, descriptor);
    x->descriptors[x->n_descriptors++] = *descriptor;
    return NULL;
}

static dt_status *set(const dt_cudnn *dnn, void *descriptor, int attribute, int type, int64_t n, const void *values) {
    CALL(dnn, cudnnBackendSetAttribute, descriptor, attribute, type, n, values);
    return NULL;
}

/* The order of dimensions is the library's, channels lie side by side. */
static dt_status *make_tensor(const dt_cudnn *dnn, dt_cudnn_convolution *x, int64_t id, int64_t n, int64_t channels, const int64_t size[2],
                              void **tensor) {
    const int64_t dims[] = {n, channels, size[0], size[1]}, steps[] = {size[0] * size[1] * channels, 1, size[1] * channels, channels};
    const int64_t alignment = ALIGNMENT;
    const int type = DT_CUDNN_DATA_FLOAT;
    DT_TRY(create(dnn, x, DT_CUDNN_BACKEND_TENSOR_DESCRIPTOR, tensor));
    DT_TRY(set(dnn, *tensor, DT_CUDNN_ATTR_TENSOR_DATA_TYPE, DT_CUDNN_TYPE_DATA_TYPE, 1, &type));
    DT_TRY(set(dnn, *tensor, DT_CUDNN_ATTR_TENSOR_DIMENSIONS, DT_CUDNN_TYPE_INT64, 4, dims));
    DT_TRY(set(dnn, *tensor, DT_CUDNN_ATTR_TENSOR_STRIDES, DT_CUDNN_TYPE_INT64, 4, steps));
    DT_TRY(set(dnn, *tensor, DT_CUDNN_ATTR_TENSOR_UNIQUE_ID, DT_CUDNN_TYPE_INT64, 1, &id));
    DT_TRY(set(dnn, *tensor, DT_CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, DT_CUDNN_TYPE_INT64, 1, &alignment));
    CALL(dnn, cudnnBackendFinalize, *tensor);
    return NULL;
}

static dt_status *make_geometry(const dt_cudnn *dnn, dt_cudnn_convolution *x, const dt_library_convolution *c, void **geometry) {
    const int type = DT_CUDNN_DATA_FLOAT, mode = DT_CUDNN_CROSS_CORRELATION;
    const int64_t n = 2;
    DT_TRY(create(dnn, x, DT_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, geometry));
    DT_TRY(set(dnn, *geometry, DT_CUDNN_ATTR_CONVOLUTION_COMP_TYPE, DT_CUDNN_TYPE_DATA_TYPE, 1, &type));
    DT_TRY(set(dnn, *geometry, DT_CUDNN_ATTR_CONVOLUTION_CONV_MODE, DT_CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    DT_TRY(set(dnn, *geometry, DT_CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, DT_CUDNN_TYPE_INT64, 1, &n));
    DT_TRY(set(dnn, *geometry, DT_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, DT_CUDNN_TYPE_INT64, n, c->padding));
    DT_TRY(set(dnn, *geometry, DT_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, DT_CUDNN_TYPE_INT64, n, c->padding_behind));
    DT_TRY(set(dnn, *geometry, DT_CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, DT_CUDNN_TYPE_INT64, n, c->stride));
    DT_TRY(set(dnn, *geometry, DT_CUDNN_ATTR_CONVOLUTION_DILATIONS, DT_CUDNN_TYPE_INT64, n, c->dilation));
    CALL(dnn, cudnnBackendFinalize, *geometry);
    return NULL;
}

/* The three operations differ in names alone. */
static const struct {
    int descriptor, alpha, beta, geometry, x, kernel, y;
} operations[DT_N_LIBRARY_CLASSES] = {
    [DT_LIBRARY_CONVOLUTION] = {DT_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                DT_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                DT_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                DT_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    [DT_LIBRARY_INPUT_GRADIENT] = {DT_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                   DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                                   DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                   DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    [DT_LIBRARY_KERNEL_GRADIENT] = {DT_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                    DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                                    DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                    DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}};

static dt_status *make_operation(const dt_cudnn *dnn, dt_cudnn_convolution *convolution, const dt_library_call *call, void **operation) {
    const dt_library_convolution *c = &call->convolution;
    const float one = 1, zero = 0;
    void *x, *kernel, *y, *geometry;
    DT_TRY(make_tensor(dnn, convolution, ID_X, c->images, c->channels, c->input, &x));
    DT_TRY(make_tensor(dnn, convolution, ID_KERNEL, c->filters, c->channels, c->taps, &kernel));
    DT_TRY(make_tensor(dnn, convolution, ID_Y, c->images, c->filters, c->output, &y));
    DT_TRY(make_geometry(dnn, convolution, c, &geometry));
    DT_TRY(create(dnn, convolution, operations[call->class].descriptor, operation));
    DT_TRY(set(dnn, *operation, operations[call->class].x, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x));
    DT_TRY(set(dnn, *operation, operations[call->class].kernel, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &kernel));
    DT_TRY(set(dnn, *operation, operations[call->class].y, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y));
    DT_TRY(set(dnn, *operation, operations[call->class].geometry, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &geometry));
    DT_TRY(set(dnn, *operation, operations[call->class].alpha, DT_CUDNN_TYPE_FLOAT, 1, &one));
    DT_TRY(set(dnn, *operation, operations[call->class].beta, DT_CUDNN_TYPE_FLOAT, 1, &zero));
    CALL(dnn, cudnnBackendFinalize, *operation);
    return NULL;
}

/* ---- the choice ---- */

/* What an engine may not do: add in an order of chance; take factors for less than the program says; or transform them, which costs digits. */
static bool is_excluded(int note, dt_precision precision) {
    switch (note) {
    case DT_CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case DT_CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case DT_CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case DT_CUDNN_NUMERICAL_NOTE_FFT:
    case DT_CUDNN_NUMERICAL_NOTE_WINOGRAD: return true;
    case DT_CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return precision == DT_PRECISION_F32;
    default: return false;
    }
}

/* The engine of a configuration: its number, and whether it is one that we take. One that cannot be asked is none. */
static bool is_good(const dt_cudnn *dnn, void *configuration, dt_precision precision, int64_t *number) {
    void *engine = NULL;
    int notes[MOST_NOTES];
    int64_t n = 0, n_numbers = 0, n_engines = 0;
    *number = -1;
    if (dnn->cudnnBackendCreateDescriptor(DT_CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != 0) return false;
    bool good =
        dnn->cudnnBackendGetAttribute(configuration, DT_CUDNN_ATTR_ENGINECFG_ENGINE, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n_engines, &engine) == 0;
    good =
        good && dnn->cudnnBackendGetAttribute(engine, DT_CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, DT_CUDNN_TYPE_NUMERICAL_NOTE, MOST_NOTES, &n, notes) == 0;
    if (good) dnn->cudnnBackendGetAttribute(engine, DT_CUDNN_ATTR_ENGINE_GLOBAL_INDEX, DT_CUDNN_TYPE_INT64, 1, &n_numbers, number);
    for (int64_t i = 0; good && i < n && i < MOST_NOTES; i++) good = !is_excluded(notes[i], precision);
    dnn->cudnnBackendDestroyDescriptor(engine);
    return good && n <= MOST_NOTES;
}

/* Makes the plan of a configuration; false: the library, or we, cannot take it. Then the plan is one more descriptor, and destroyed with the others.
 */
static bool make_plan(const dt_cudnn *dnn, dt_cudnn_convolution *x, void *configuration) {
    void *plan = NULL;
    int64_t bytes = 0, n = 0;
    if (dnn->cudnnBackendCreateDescriptor(DT_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) != 0) return false;
    bool made =
        dnn->cudnnBackendSetAttribute(plan, DT_CUDNN_ATTR_EXECUTION_PLAN_HANDLE, DT_CUDNN_TYPE_HANDLE, 1, &dnn->handle) == 0 &&
        dnn->cudnnBackendSetAttribute(plan, DT_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration) == 0 &&
        dnn->cudnnBackendFinalize(plan) == 0 &&
        dnn->cudnnBackendGetAttribute(plan, DT_CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, DT_CUDNN_TYPE_INT64, 1, &n, &bytes) == 0;
    if (!made || bytes > MOST_WORKSPACE || x->n_descriptors == DT_CUDNN_MOST_DESCRIPTORS) {
        dnn->cudnnBackendDestroyDescriptor(plan);
        return false;
    }
    x->plan = x->descriptors[x->n_descriptors++] = plan;
    x->workspace_bytes = (size_t)bytes;
    return true;
}

static void take_first(const dt_cudnn *dnn, dt_cudnn_convolution *x, void *const *configurations, int64_t n, dt_precision precision) {
    int64_t number;
    for (int64_t i = 0; i < n && x->plan == NULL; i++)
        if (is_good(dnn, configurations[i], precision, &number) && make_plan(dnn, x, configurations[i]))
            snprintf(x->text, sizeof x->text, "engine %lld, %zu bytes", (long long)number, x->workspace_bytes);
}

/* Asks the heuristics of one mode; x->plan stays NULL where nothing of what they propose is taken. */
static dt_status *choose(const dt_cudnn *dnn, dt_cudnn_convolution *x, void *graph, int mode, dt_precision precision) {
    void *heuristics, *configurations[MOST_ENGINES] = {0};
    int64_t n = 0;
    dt_status *status = NULL;
    DT_TRY(create(dnn, x, DT_CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics));
    DT_TRY(set(dnn, heuristics, DT_CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph));
    DT_TRY(set(dnn, heuristics, DT_CUDNN_ATTR_ENGINEHEUR_MODE, DT_CUDNN_TYPE_HEUR_MODE, 1, &mode));
    if (dnn->cudnnBackendFinalize(heuristics) != 0) return NULL; /* it knows nothing of such a graph */
    for (int i = 0; i < MOST_ENGINES && status == NULL; i++)
        status = error_of(dnn, "cudnnBackendCreateDescriptor",
                          dnn->cudnnBackendCreateDescriptor(DT_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configurations[i]));
    if (status == NULL && dnn->cudnnBackendGetAttribute(heuristics, DT_CUDNN_ATTR_ENGINEHEUR_RESULTS, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_ENGINES,
                                                        &n, configurations) == 0)
        take_first(dnn, x, configurations, n < MOST_ENGINES ? n : MOST_ENGINES, precision);
    for (int i = 0; i < MOST_ENGINES; i++)
        if (configurations[i] != NULL) dnn->cudnnBackendDestroyDescriptor(configurations[i]);
    return status;
}

dt_status *dt_cudnn_prepare(const dt_cudnn *dnn, const dt_library_call *call, dt_cudnn_convolution *x, bool *can) {
    static const int modes[] = {DT_CUDNN_HEUR_MODE_A, DT_CUDNN_HEUR_MODE_FALLBACK};
    void *operation, *graph;
    *x = (dt_cudnn_convolution){0};
    *can = false;
    if (call->precision == DT_PRECISION_BF16) {
        snprintf(x->text, sizeof x->text, "it has no bf16 factors in f32 tensors");
        return NULL;
    }
    DT_TRY(make_operation(dnn, x, call, &operation));
    DT_TRY(create(dnn, x, DT_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &graph));
    DT_TRY(set(dnn, graph, DT_CUDNN_ATTR_OPERATIONGRAPH_HANDLE, DT_CUDNN_TYPE_HANDLE, 1, &dnn->handle));
    DT_TRY(set(dnn, graph, DT_CUDNN_ATTR_OPERATIONGRAPH_OPS, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation));
    CALL(dnn, cudnnBackendFinalize, graph);
    for (size_t m = 0; m < sizeof modes / sizeof *modes && x->plan == NULL; m++) DT_TRY(choose(dnn, x, graph, modes[m], call->precision));
    *can = x->plan != NULL;
    if (!*can) snprintf(x->text, sizeof x->text, "it has no deterministic engine of that precision");
    return NULL;
}

void dt_cudnn_convolution_free(const dt_cudnn *dnn, dt_cudnn_convolution *x) {
    while (x->n_descriptors > 0) dnn->cudnnBackendDestroyDescriptor(x->descriptors[--x->n_descriptors]);
    *x = (dt_cudnn_convolution){0};
}

/* ---- the call ---- */

static dt_status *set_places(const dt_cudnn *dnn, void *pack, uint64_t x, uint64_t kernel, uint64_t y, uint64_t workspace) {
    const int64_t ids[] = {ID_X, ID_KERNEL, ID_Y};
    void *places[] = {(void *)(uintptr_t)x, (void *)(uintptr_t)kernel, (void *)(uintptr_t)y}, *spare = (void *)(uintptr_t)workspace;
    DT_TRY(set(dnn, pack, DT_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, DT_CUDNN_TYPE_INT64, 3, ids));
    DT_TRY(set(dnn, pack, DT_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, DT_CUDNN_TYPE_VOID_PTR, 3, places));
    DT_TRY(set(dnn, pack, DT_CUDNN_ATTR_VARIANT_PACK_WORKSPACE, DT_CUDNN_TYPE_VOID_PTR, 1, &spare));
    CALL(dnn, cudnnBackendFinalize, pack);
    return NULL;
}

dt_status *dt_cudnn_run(const dt_cudnn *dnn, const dt_cudnn_convolution *convolution, uint64_t x, uint64_t kernel, uint64_t y, uint64_t workspace,
                        void *stream) {
    void *pack = NULL;
    CALL(dnn, cudnnSetStream, dnn->handle, stream);
    CALL(dnn, cudnnBackendCreateDescriptor, DT_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    dt_status *status = set_places(dnn, pack, x, kernel, y, workspace);
    if (status == NULL) status = error_of(dnn, "cudnnBackendExecute", dnn->cudnnBackendExecute(dnn->handle, convolution->plan, pack));
    dnn->cudnnBackendDestroyDescriptor(pack);
    return status;
}
