/* fake_cudnn: convolutions and their gradients through the graph interface; see fake_library.h. Of the engines that its heuristics propose the first
 * adds in an order of chance, the second multiplies in less precision, the third cannot be finalised; running one of them is misuse. Tensors are read
 * by the strides that their descriptors say. */
#include "runtime/devices/cuda/cudnn.h"
#include "tests/support/fake_library.h"

enum {
    HANDLE = 1,
    DESCRIPTOR, /* + its type */
    MOST_ATTRIBUTES = 16,
    MOST_WORDS = 8,
    BAD = DT_CUDNN_STATUS_BAD_PARAM,
    UNSUPPORTED_SHAPE = DT_CUDNN_STATUS_NOT_SUPPORTED + 2,
    WORKSPACE = 512,
    N_ENGINES = 4
};

typedef struct attribute {
    int name, type;
    int64_t n;
    int64_t words[MOST_WORDS]; /* an element each */
} attribute;

typedef struct descriptor {
    fake_library_object object;
    bool is_final;
    int64_t engine; /* of engines, their configurations and plans */
    int n_attributes;
    attribute attributes[MOST_ATTRIBUTES];
    struct descriptor *graph;
} descriptor;

FAKE_EXPORT size_t cudnnGetVersion(void) { return 91300; }
FAKE_EXPORT const char *cudnnGetErrorString(int status) {
    static const char *const kinds[] = {"CUDNN_STATUS_OTHER",         "CUDNN_STATUS_NOT_INITIALIZED", "CUDNN_STATUS_BAD_PARAM",
                                        "CUDNN_STATUS_NOT_SUPPORTED", "CUDNN_STATUS_INTERNAL_ERROR",  "CUDNN_STATUS_EXECUTION_FAILED"};
    return kinds[status < 6000 ? status / 1000 : 0];
}
FAKE_EXPORT void cudnnGetLastErrorString(char *text, size_t bytes) { snprintf(text, bytes, "the fake was told to fail"); }

static void *stream_now;

FAKE_EXPORT int cudnnCreate(void **handle) {
    int error = fake_library_call(__func__);
    if (error == 0) *handle = fake_library_new(HANDLE, sizeof(descriptor));
    return error;
}

FAKE_EXPORT int cudnnDestroy(void *handle) {
    if (!fake_library_is(handle, HANDLE)) return fake_library_misuse(BAD, "no handle is destroyed");
    fake_library_delete(handle);
    return 0;
}

FAKE_EXPORT int cudnnSetStream(void *handle, void *stream) {
    int error = fake_library_call(__func__);
    if (error == 0 && !fake_library_is(handle, HANDLE)) return fake_library_misuse(BAD, "a stream for no handle");
    stream_now = stream;
    return error;
}

static bool is(const descriptor *d, int type) { return fake_library_is(d, DESCRIPTOR + type); }

FAKE_EXPORT int cudnnBackendCreateDescriptor(int type, void **made) {
    int error = fake_library_call(__func__);
    if (error == 0) *made = fake_library_new(DESCRIPTOR + type, sizeof(descriptor));
    return error;
}

FAKE_EXPORT int cudnnBackendDestroyDescriptor(void *d) {
    if (d == NULL || ((descriptor *)d)->object.kind < DESCRIPTOR) return fake_library_misuse(BAD, "no descriptor is destroyed");
    fake_library_delete(d);
    return 0;
}

static size_t element_bytes(int type) {
    return type == DT_CUDNN_TYPE_DATA_TYPE || type == DT_CUDNN_TYPE_CONVOLUTION_MODE || type == DT_CUDNN_TYPE_HEUR_MODE || type == DT_CUDNN_TYPE_FLOAT
               ? 4
               : 8;
}

FAKE_EXPORT int cudnnBackendSetAttribute(void *x, int name, int type, int64_t n, const void *values) {
    descriptor *d = x;
    int error = fake_library_call(__func__);
    if (error != 0) return error;
    if (d == NULL || d->is_final || n > MOST_WORDS || d->n_attributes == MOST_ATTRIBUTES)
        return fake_library_misuse(BAD, "an attribute for what is final, or one too many");
    attribute *a = &d->attributes[d->n_attributes++];
    *a = (attribute){.name = name, .type = type, .n = n};
    for (int64_t i = 0; i < n; i++) memcpy(&a->words[i], (const char *)values + (size_t)i * element_bytes(type), element_bytes(type));
    return 0;
}

static const attribute *find(const descriptor *d, int name) {
    for (int i = 0; d != NULL && i < d->n_attributes; i++)
        if (d->attributes[i].name == name) return &d->attributes[i];
    fake_library_misuse(BAD, "an attribute that is needed was not set");
    static const attribute none;
    return &none;
}

static descriptor *part(const descriptor *d, int name) { return (descriptor *)(uintptr_t)find(d, name)->words[0]; }

/* ---- a convolution, read from its descriptors ---- */

enum {
    MOST_DIRECTIONS = 3
};

typedef struct tensor {
    int64_t id, rank, dims[2 + MOST_DIRECTIONS], steps[2 + MOST_DIRECTIONS];
} tensor;

typedef struct convolution {
    int result; /* 0 x, 1 the kernel, 2 y */
    int n;      /* directions */
    tensor tensors[3];
    int64_t groups, padding[MOST_DIRECTIONS], behind[MOST_DIRECTIONS], stride[MOST_DIRECTIONS], dilation[MOST_DIRECTIONS];
    float *values[3];
} convolution;

static void read_tensor(const descriptor *d, tensor *t) {
    const attribute *dims = find(d, DT_CUDNN_ATTR_TENSOR_DIMENSIONS), *steps = find(d, DT_CUDNN_ATTR_TENSOR_STRIDES);
    t->id = find(d, DT_CUDNN_ATTR_TENSOR_UNIQUE_ID)->words[0];
    t->rank = dims->n == steps->n ? dims->n : 0;
    memcpy(t->dims, dims->words, sizeof t->dims);
    memcpy(t->steps, steps->words, sizeof t->steps);
}

static bool read_convolution(const descriptor *operation, convolution *c) {
    static const int kinds[3][5] = {{DT_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                     DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                     DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC},
                                    {DT_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                     DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                     DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC},
                                    {DT_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                     DT_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, DT_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                     DT_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC}};
    *c = (convolution){.result = 0};
    while (c->result < 3 && !is(operation, kinds[c->result][0])) c->result++;
    if (c->result == 3) return false;
    for (int t = 0; t < 3; t++) read_tensor(part(operation, kinds[c->result][1 + t]), &c->tensors[t]);
    const descriptor *geometry = part(operation, kinds[c->result][4]);
    memcpy(c->padding, find(geometry, DT_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)->words, sizeof c->padding);
    memcpy(c->behind, find(geometry, DT_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)->words, sizeof c->behind);
    memcpy(c->stride, find(geometry, DT_CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)->words, sizeof c->stride);
    memcpy(c->dilation, find(geometry, DT_CUDNN_ATTR_CONVOLUTION_DILATIONS)->words, sizeof c->dilation);
    const int64_t *x = c->tensors[0].dims, *kernel = c->tensors[1].dims, *y = c->tensors[2].dims;
    int64_t n = find(geometry, DT_CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)->words[0];
    bool fits = n >= 2 && n <= MOST_DIRECTIONS && x[0] == y[0] && kernel[1] > 0 && x[1] % kernel[1] == 0 && y[1] == kernel[0];
    if (!fits) return false;
    c->n = (int)n;
    c->groups = x[1] / kernel[1];
    fits = kernel[0] % c->groups == 0;
    for (int t = 0; t < 3; t++) fits &= c->tensors[t].rank == 2 + n;
    for (int i = 0; i < n; i++)
        fits &=
            c->stride[i] > 0 && (x[2 + i] + c->padding[i] + c->behind[i] - c->dilation[i] * (kernel[2 + i] - 1) - 1) / c->stride[i] + 1 == y[2 + i];
    return fits;
}

/* Of element (a, b, position): the position's numbers by direction. */
static int64_t place(const tensor *t, int64_t a, int64_t b, const int64_t *position) {
    int64_t place = a * t->steps[0] + b * t->steps[1];
    for (int i = 2; i < t->rank; i++) place += position[i - 2] * t->steps[i];
    return place;
}

static int64_t positions(const tensor *t) {
    int64_t n = 1;
    for (int i = 2; i < t->rank; i++) n *= t->dims[i];
    return n;
}

static int64_t elements(const tensor *t) { return t->dims[0] * t->dims[1] * positions(t); }

/* The numbers by direction of position `number`. */
static void split(const tensor *t, int64_t number, int64_t *position) {
    for (int i = (int)t->rank - 1; i >= 2; number /= t->dims[i--]) position[i - 2] = number % t->dims[i];
}

/* Where x is read for a position of y and a tap; false: outside of it. */
static bool find_read(const convolution *c, const int64_t *of_y, const int64_t *tap, int64_t *of_x) {
    for (int i = 0; i < c->n; i++) {
        of_x[i] = of_y[i] * c->stride[i] + tap[i] * c->dilation[i] - c->padding[i];
        if (of_x[i] < 0 || of_x[i] >= c->tensors[0].dims[2 + i]) return false;
    }
    return true;
}

static void convolve(const void *data) {
    const convolution *c = data;
    const tensor *x = &c->tensors[0], *kernel = &c->tensors[1], *y = &c->tensors[2];
    const int a = c->result == 0 ? 1 : 0, b = c->result == 2 ? 1 : 2;
    double *sums = calloc((size_t)elements(&c->tensors[c->result]), sizeof *sums);
    if (sums == NULL) abort();
    int64_t of_group = kernel->dims[0] / c->groups, of_x[MOST_DIRECTIONS], of_y[MOST_DIRECTIONS], tap[MOST_DIRECTIONS];
    for (int64_t i = 0; i < positions(y) * positions(kernel); i++) {
        split(y, i / positions(kernel), of_y);
        split(kernel, i % positions(kernel), tap);
        if (!find_read(c, of_y, tap, of_x)) continue;
        for (int64_t n = 0; n < y->dims[0]; n++)
            for (int64_t k = 0; k < kernel->dims[0] * kernel->dims[1]; k++) {
                int64_t filter = k / kernel->dims[1], channel = k % kernel->dims[1], of_all = filter / of_group * kernel->dims[1] + channel;
                const int64_t at[] = {place(x, n, of_all, of_x), place(kernel, filter, channel, tap), place(y, n, filter, of_y)};
                sums[at[c->result]] += (double)c->values[a][at[a]] * c->values[b][at[b]];
            }
    }
    for (int64_t i = 0; i < elements(&c->tensors[c->result]); i++) c->values[c->result][i] = (float)sums[i];
    free(sums);
}

/* ---- graphs, engines, plans ---- */

FAKE_EXPORT int cudnnBackendFinalize(void *x) {
    descriptor *d = x;
    convolution c;
    int error = fake_library_call(__func__);
    if (error != 0) return error;
    if (is(d, DT_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)) {
        if (!read_convolution(part(d, DT_CUDNN_ATTR_OPERATIONGRAPH_OPS), &c)) return fake_library_misuse(BAD, "sizes of a convolution do not fit");
    } else if (is(d, DT_CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)) {
        d->graph = part(d, DT_CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
        if (getenv("FAKE_LIBRARY_REFUSE") != NULL) return DT_CUDNN_STATUS_NOT_SUPPORTED;
    } else if (is(d, DT_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)) {
        const descriptor *configuration = part(d, DT_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        if (configuration->engine == 2) return UNSUPPORTED_SHAPE; /* proposed, and not possible after all */
        d->engine = configuration->engine;
        d->graph = configuration->graph;
    }
    d->is_final = true;
    return 0;
}

static int get_configurations(const descriptor *heuristics, int64_t wanted, int64_t *n, void **into) {
    *n = N_ENGINES;
    for (int64_t i = 0; i < N_ENGINES && i < wanted; i++) {
        descriptor *configuration = into[i];
        if (!is(configuration, DT_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) return fake_library_misuse(BAD, "no room for a configuration");
        configuration->engine = i;
        configuration->graph = heuristics->graph;
        configuration->is_final = true;
    }
    return 0;
}

static int get_notes(const descriptor *engine, int64_t *n, int *into) {
    *n = engine->engine < 2;
    if (*n > 0) into[0] = engine->engine == 0 ? DT_CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC : DT_CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    return 0;
}

FAKE_EXPORT int cudnnBackendGetAttribute(void *x, int name, int type, int64_t wanted, int64_t *n, void *into) {
    const descriptor *d = x;
    (void)type;
    int error = fake_library_call(__func__);
    if (error != 0) return error;
    *n = 1;
    switch (name) {
    case DT_CUDNN_ATTR_ENGINEHEUR_RESULTS: return get_configurations(d, wanted, n, into);
    case DT_CUDNN_ATTR_ENGINECFG_ENGINE: (*(descriptor **)into)->engine = d->engine; return 0;
    case DT_CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: return get_notes(d, n, into);
    case DT_CUDNN_ATTR_ENGINE_GLOBAL_INDEX: *(int64_t *)into = d->engine; return 0;
    case DT_CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: *(int64_t *)into = WORKSPACE; return 0;
    default: return fake_library_misuse(BAD, "an attribute that nobody has");
    }
}

FAKE_EXPORT int cudnnBackendExecute(void *handle, void *plan, void *pack) {
    const descriptor *p = plan, *places = pack;
    convolution c;
    fake_cuda_range ranges[4];
    int error = fake_library_call(__func__);
    if (error != 0) return error;
    if (!fake_library_is(handle, HANDLE) || !is(p, DT_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) || !p->is_final || !places->is_final || p->engine < 1)
        return fake_library_misuse(BAD, "a plan that is not final, or adds in an order of chance");
    if (!read_convolution(part(p->graph, DT_CUDNN_ATTR_OPERATIONGRAPH_OPS), &c)) return BAD;
    const attribute *ids = find(places, DT_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS), *all = find(places, DT_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (int t = 0; t < 3; t++) {
        for (int64_t i = 0; i < ids->n; i++)
            if (ids->words[i] == c.tensors[t].id) c.values[t] = (float *)(uintptr_t)all->words[i];
        ranges[t] = (fake_cuda_range){(uint64_t)(uintptr_t)c.values[t], (size_t)elements(&c.tensors[t]) * sizeof(float)};
    }
    ranges[3] = (fake_cuda_range){(uint64_t)find(places, DT_CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->words[0], WORKSPACE};
    return fake_library_submit(stream_now, __func__, ranges, 4, convolve, &c, sizeof c) == 0 ? 0 : 5000;
}
