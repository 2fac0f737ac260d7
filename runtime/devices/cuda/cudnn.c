/* cudnn: see the header.
 *
 * A convolution is a graph of one operation between three tensors. The library proposes engines for it; the first that always adds in one order, is
 * as precise as the program asks and can be finalised is the one. Images are [N, C, H, W] to it, volumes [N, C, D, H, W], stored with their channels
 * innermost. How many groups there are it sees by the channels, of which the kernel has those of a group alone.
 *
 * Its statuses are of kinds, a thousand each. NOT_SUPPORTED says of what was asked for that the library does not have it. BAD_PARAM says that the
 * caller contradicts itself: of a convolution that we describe that is a mistake of ours, and an error; of an engine that the library proposed, whose
 * parameters are its own, that it is none after all. All else, memory above all, may go well another time: it is an error even of one engine among
 * many, for which one is taken, and with it bits, must not depend on that. */
#include "runtime/devices/cuda/cudnn.h"
#include "base/shared_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum {
    ALIGNMENT = 64,     /* bytes, of buffers */
    MOST_ENGINES = 128, /* configurations of them: cuDNN 9.19 proposes up to 40, those without tensor cores last (tests/unit/cudnn_choices.c) */
    MOST_NOTES = 32,
    MOST_WORKSPACE = 256 << 20 /* bytes */
};

/* What a program's tensors are known by in a graph. */
enum {
    ID_X = 1,
    ID_KERNEL,
    ID_Y
};

static bool is_of_kind(int status, int kind) { return status / 1000 * 1000 == kind; }

static dt_status *error_of(const dt_cudnn *dnn, const char *call, int error) {
    char text[400] = "";
    if (error == 0) return NULL;
    dnn->cudnnGetLastErrorString(text, sizeof text);
    return dt_error(is_of_kind(error, DT_CUDNN_STATUS_NOT_SUPPORTED) ? DT_UNIMPLEMENTED : DT_INTERNAL, "cuDNN, %s: %s, %d%s%s", call,
                    dnn->cudnnGetErrorString(error), error, text[0] != 0 ? ": " : "", text);
}

#define CALL(dnn, symbol, ...) DT_TRY(error_of((dnn), #symbol, (dnn)->symbol(__VA_ARGS__)))

/* The same for a proposal of the library's: *can is false where it is none after all. */
static dt_status *try_proposal(const dt_cudnn *dnn, const char *call, int error, bool *can) {
    *can = error == 0;
    bool is_none = is_of_kind(error, DT_CUDNN_STATUS_NOT_SUPPORTED) || is_of_kind(error, DT_CUDNN_STATUS_BAD_PARAM) ||
                   error == DT_CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
    return is_none ? NULL : error_of(dnn, call, error);
}

#define PROPOSAL(dnn, can, symbol, ...) DT_TRY(try_proposal((dnn), #symbol, (dnn)->symbol(__VA_ARGS__), (can)))

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

static dt_status *no_room(void) { return dt_error(DT_INTERNAL, "a convolution of more descriptors than there is room for"); }

static dt_status *create(const dt_cudnn *dnn, dt_cudnn_convolution *x, int kind, void **descriptor) {
    if (x->n_descriptors == DT_CUDNN_MOST_DESCRIPTORS) return no_room();
    CALL(dnn, cudnnBackendCreateDescriptor, kind, descriptor);
    x->descriptors[x->n_descriptors++] = *descriptor;
    return NULL;
}

static dt_status *set(const dt_cudnn *dnn, void *descriptor, int attribute, int type, int64_t n, const void *values) {
    CALL(dnn, cudnnBackendSetAttribute, descriptor, attribute, type, n, values);
    return NULL;
}

/* The order of dimensions is the library's, channels lie side by side. */
static dt_status *make_tensor(const dt_cudnn *dnn, dt_cudnn_convolution *x, int64_t id, int64_t n, int64_t channels, const int64_t *size,
                              int64_t n_directions, void **tensor) {
    int64_t dims[2 + DT_LIBRARY_MOST_DIRECTIONS] = {n, channels}, steps[2 + DT_LIBRARY_MOST_DIRECTIONS] = {0, 1}, step = channels;
    const int64_t alignment = ALIGNMENT, rank = 2 + n_directions;
    for (int64_t i = n_directions; i-- > 0; step *= size[i]) dims[2 + i] = size[i], steps[2 + i] = step;
    steps[0] = step;
    const int type = DT_CUDNN_DATA_FLOAT;
    DT_TRY(create(dnn, x, DT_CUDNN_BACKEND_TENSOR_DESCRIPTOR, tensor));
    DT_TRY(set(dnn, *tensor, DT_CUDNN_ATTR_TENSOR_DATA_TYPE, DT_CUDNN_TYPE_DATA_TYPE, 1, &type));
    DT_TRY(set(dnn, *tensor, DT_CUDNN_ATTR_TENSOR_DIMENSIONS, DT_CUDNN_TYPE_INT64, rank, dims));
    DT_TRY(set(dnn, *tensor, DT_CUDNN_ATTR_TENSOR_STRIDES, DT_CUDNN_TYPE_INT64, rank, steps));
    DT_TRY(set(dnn, *tensor, DT_CUDNN_ATTR_TENSOR_UNIQUE_ID, DT_CUDNN_TYPE_INT64, 1, &id));
    DT_TRY(set(dnn, *tensor, DT_CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, DT_CUDNN_TYPE_INT64, 1, &alignment));
    CALL(dnn, cudnnBackendFinalize, *tensor);
    return NULL;
}

static dt_status *make_geometry(const dt_cudnn *dnn, dt_cudnn_convolution *x, const dt_library_convolution *c, void **geometry) {
    const int type = DT_CUDNN_DATA_FLOAT, mode = DT_CUDNN_CROSS_CORRELATION;
    const int64_t n = c->n_directions;
    DT_TRY(create(dnn, x, DT_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, geometry));
    DT_TRY(set(dnn, *geometry, DT_CUDNN_ATTR_CONVOLUTION_COMP_TYPE, DT_CUDNN_TYPE_DATA_TYPE, 1, &type));
    DT_TRY(set(dnn, *geometry, DT_CUDNN_ATTR_CONVOLUTION_CONV_MODE, DT_CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    DT_TRY(set(dnn, *geometry, DT_CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, DT_CUDNN_TYPE_INT64, 1, &n));
    DT_TRY(set(dnn, *geometry, DT_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, DT_CUDNN_TYPE_INT64, n, c->padding));
    DT_TRY(set(dnn, *geometry, DT_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, DT_CUDNN_TYPE_INT64, n, c->padding_after));
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
    const int64_t n = c->n_directions;
    void *x, *kernel, *y, *geometry;
    DT_TRY(make_tensor(dnn, convolution, ID_X, c->images, c->channels, c->input, n, &x));
    DT_TRY(make_tensor(dnn, convolution, ID_KERNEL, c->filters, c->channels / c->groups, c->taps, n, &kernel));
    DT_TRY(make_tensor(dnn, convolution, ID_Y, c->images, c->filters, c->output, n, &y));
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

/* Whether we take the engine of a configuration, and its number. `engine` is an empty descriptor of one. */
static dt_status *look_at_engine(const dt_cudnn *dnn, void *configuration, void *engine, dt_precision precision, int64_t *number, bool *good) {
    int notes[MOST_NOTES];
    int64_t n = 0, n_numbers = 0, n_engines = 0;
    PROPOSAL(dnn, good, cudnnBackendGetAttribute, configuration, DT_CUDNN_ATTR_ENGINECFG_ENGINE, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n_engines,
             &engine);
    if (*good)
        PROPOSAL(dnn, good, cudnnBackendGetAttribute, engine, DT_CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, DT_CUDNN_TYPE_NUMERICAL_NOTE, MOST_NOTES, &n,
                 notes);
    if (*good) PROPOSAL(dnn, good, cudnnBackendGetAttribute, engine, DT_CUDNN_ATTR_ENGINE_GLOBAL_INDEX, DT_CUDNN_TYPE_INT64, 1, &n_numbers, number);
    *good = *good && n <= MOST_NOTES;
    for (int64_t i = 0; *good && i < n; i++) *good = !is_excluded(notes[i], precision);
    return NULL;
}

static dt_status *is_good(const dt_cudnn *dnn, void *configuration, dt_precision precision, int64_t *number, bool *good) {
    void *engine = NULL;
    CALL(dnn, cudnnBackendCreateDescriptor, DT_CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    dt_status *status = look_at_engine(dnn, configuration, engine, precision, number, good);
    dnn->cudnnBackendDestroyDescriptor(engine);
    return status;
}

static dt_status *finalise_plan(const dt_cudnn *dnn, void *plan, void *configuration, int64_t *bytes, bool *can) {
    int64_t n = 0;
    PROPOSAL(dnn, can, cudnnBackendSetAttribute, plan, DT_CUDNN_ATTR_EXECUTION_PLAN_HANDLE, DT_CUDNN_TYPE_HANDLE, 1, &dnn->handle);
    if (*can)
        PROPOSAL(dnn, can, cudnnBackendSetAttribute, plan, DT_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                 &configuration);
    if (*can) PROPOSAL(dnn, can, cudnnBackendFinalize, plan);
    if (*can) PROPOSAL(dnn, can, cudnnBackendGetAttribute, plan, DT_CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, DT_CUDNN_TYPE_INT64, 1, &n, bytes);
    *can = *can && *bytes <= MOST_WORKSPACE;
    return NULL;
}

/* Makes the plan of a configuration, which then is one more descriptor; x->plan stays NULL where the library, or we, cannot take it. */
static dt_status *make_plan(const dt_cudnn *dnn, dt_cudnn_convolution *x, void *configuration) {
    void *plan = NULL;
    int64_t bytes = 0;
    bool can = false;
    if (x->n_descriptors == DT_CUDNN_MOST_DESCRIPTORS) return no_room();
    CALL(dnn, cudnnBackendCreateDescriptor, DT_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
    dt_status *status = finalise_plan(dnn, plan, configuration, &bytes, &can);
    if (status != NULL || !can) {
        dnn->cudnnBackendDestroyDescriptor(plan);
        return status;
    }
    x->plan = x->descriptors[x->n_descriptors++] = plan;
    x->workspace_bytes = (size_t)bytes;
    return NULL;
}

static dt_status *take_first(const dt_cudnn *dnn, dt_cudnn_convolution *x, void *const *configurations, int64_t n, dt_precision precision) {
    for (int64_t i = 0; i < n && x->plan == NULL; i++) {
        int64_t number = -1;
        bool good;
        DT_TRY(is_good(dnn, configurations[i], precision, &number, &good));
        if (good) DT_TRY(make_plan(dnn, x, configurations[i]));
        if (x->plan != NULL) snprintf(x->text, sizeof x->text, "engine %lld, %zu bytes", (long long)number, x->workspace_bytes);
    }
    return NULL;
}

static dt_status *take_proposed(const dt_cudnn *dnn, dt_cudnn_convolution *x, void *heuristics, void **configurations, dt_precision precision) {
    int64_t n = 0;
    for (int i = 0; i < MOST_ENGINES; i++) CALL(dnn, cudnnBackendCreateDescriptor, DT_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configurations[i]);
    CALL(dnn, cudnnBackendGetAttribute, heuristics, DT_CUDNN_ATTR_ENGINEHEUR_RESULTS, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_ENGINES, &n,
         configurations);
    return take_first(dnn, x, configurations, n < MOST_ENGINES ? n : MOST_ENGINES, precision);
}

/* Asks the heuristics of one mode; x->plan stays NULL where nothing of what they propose is taken. DT_UNIMPLEMENTED: they know nothing of such a
 * graph. */
static dt_status *choose(const dt_cudnn *dnn, dt_cudnn_convolution *x, void *graph, int mode, dt_precision precision) {
    void *heuristics, *configurations[MOST_ENGINES] = {0};
    DT_TRY(create(dnn, x, DT_CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics));
    DT_TRY(set(dnn, heuristics, DT_CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph));
    DT_TRY(set(dnn, heuristics, DT_CUDNN_ATTR_ENGINEHEUR_MODE, DT_CUDNN_TYPE_HEUR_MODE, 1, &mode));
    CALL(dnn, cudnnBackendFinalize, heuristics);
    dt_status *status = take_proposed(dnn, x, heuristics, configurations, precision);
    for (int i = 0; i < MOST_ENGINES; i++)
        if (configurations[i] != NULL) dnn->cudnnBackendDestroyDescriptor(configurations[i]);
    return status;
}

dt_status *dt_cudnn_prepare(const dt_cudnn *dnn, const dt_library_call *call, dt_cudnn_convolution *x) {
    static const int modes[] = {DT_CUDNN_HEUR_MODE_A, DT_CUDNN_HEUR_MODE_FALLBACK};
    void *operation, *graph;
    *x = (dt_cudnn_convolution){0};
    if (call->precision == DT_PRECISION_BF16) return dt_error(DT_UNIMPLEMENTED, "cuDNN has no bf16 factors in f32 tensors");
    DT_TRY(make_operation(dnn, x, call, &operation));
    DT_TRY(create(dnn, x, DT_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &graph));
    DT_TRY(set(dnn, graph, DT_CUDNN_ATTR_OPERATIONGRAPH_HANDLE, DT_CUDNN_TYPE_HANDLE, 1, &dnn->handle));
    DT_TRY(set(dnn, graph, DT_CUDNN_ATTR_OPERATIONGRAPH_OPS, DT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation));
    CALL(dnn, cudnnBackendFinalize, graph);
    dt_status *unsupported = NULL; /* of the mode that was asked last */
    for (size_t m = 0; m < sizeof modes / sizeof *modes && x->plan == NULL; m++) {
        dt_status_free(unsupported);
        unsupported = choose(dnn, x, graph, modes[m], call->precision);
        if (unsupported != NULL && dt_status_code(unsupported) != DT_UNIMPLEMENTED) return unsupported;
    }
    if (x->plan != NULL || unsupported != NULL) return unsupported;
    return dt_error(DT_UNIMPLEMENTED, "cuDNN has no deterministic engine of that precision");
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
