/* artifact_library: what a vendor's library can do in place of a GPU's launch (abi/library.h), as an artifact says it. Sizes come from a file: each
 * matrix and tensor is checked to lie within its buffer before an address is made of it. */
#include "runtime/artifact/artifact_reader.h"

enum {
    MOST_SIZE = 1 << 30,
    F32_BYTES = 4
};

typedef struct library_reader {
    dt_artifact_reader *reader;
    const dt_artifact_function *function;
    const dt_artifact_kernel *kernel;
} library_reader;

/* `n` integers, in order; or, where `found` is given, at most n. */
static dt_status *read_list(const dt_json *object, const char *key, int64_t least, int64_t most, int64_t *values, int n, int *found) {
    dt_json array;
    int there;
    DT_TRY(dt_json_array(object, key, &array, &there));
    if (found != NULL ? there > n : there != n)
        return dt_json_wrong(&array, "expected %s%d numbers, found %d", found != NULL ? "up to " : "", n, there);
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item))
        DT_TRY(dt_json_as_integer(&item, least, most, &values[item.index]));
    if (found != NULL) *found = there;
    return NULL;
}

/* Whether `n_elements` of f32 from the first one on lie within the argument; whether it may be written, too. */
static dt_status *check_argument(const library_reader *in, const dt_json *at, int64_t argument, double n_elements, bool written) {
    const dt_artifact_buffer *buffer = &in->function->buffers[in->kernel->buffers[argument]];
    int64_t bytes = dt_artifact_tensor_bytes(in->reader->artifact, &buffer->tensor);
    bool is_ours = buffer->space != DT_MEMORY_VARIABLE && buffer->space != DT_MEMORY_INPUT && buffer->space != DT_MEMORY_CONSTANT;
    if (buffer->tensor.dtype != DT_F32 || buffer->tensor.has_all_rows || buffer->view != NULL)
        return dt_json_wrong(at, "argument %lld is nothing that a library may read", (long long)argument);
    if (written && !is_ours) return dt_json_wrong(at, "argument %lld may not be written", (long long)argument);
    if (n_elements * F32_BYTES > (double)bytes) return dt_json_wrong(at, "it reaches beyond argument %lld", (long long)argument);
    return NULL;
}

static dt_status *read_matrix(const library_reader *in, const dt_json *object, const char *key, const dt_library_product *p, int64_t rows,
                              int64_t columns, bool written, dt_library_matrix *matrix) {
    dt_json item;
    DT_TRY(dt_json_member(object, key, &item));
    DT_TRY(dt_json_integer(&item, "argument", 0, in->kernel->n_buffers - 1, &matrix->argument));
    DT_TRY(dt_json_integer(&item, "offset", 0, DT_MOST_BYTES, &matrix->offset));
    DT_TRY(read_list(&item, "strides", 1, MOST_SIZE, matrix->strides, 2, NULL));
    DT_TRY(read_list(&item, "batch_strides", 0, DT_MOST_BYTES, matrix->batch_strides, (int)p->n_batches, NULL));
    bool by_columns = matrix->strides[1] == 1 && matrix->strides[0] >= columns, by_rows = matrix->strides[0] == 1 && matrix->strides[1] >= rows;
    if (!by_columns && (written || !by_rows)) return dt_json_wrong(&item, "strides of no matrix of %lld x %lld", (long long)rows, (long long)columns);
    double last = (double)matrix->offset + 1 + (double)matrix->strides[0] * (double)(rows - 1) + (double)matrix->strides[1] * (double)(columns - 1);
    for (int64_t b = 0; b < p->n_batches; b++) last += (double)matrix->batch_strides[b] * (double)(p->batches[b] - 1);
    return check_argument(in, &item, matrix->argument, last, written);
}

/* The kept matrix lies as the result does, in another argument; libraries take it row by row at steps of their own. */
static dt_status *read_bias(const library_reader *in, const dt_json *object, dt_library_product *p) {
    int64_t bias[2];
    p->bias = -1;
    if (!dt_json_has(object, "bias")) return NULL;
    DT_TRY(read_list(object, "bias", 0, DT_MOST_BYTES, bias, 2, NULL));
    p->bias_offset = bias[1];
    if (bias[0] >= in->kernel->n_buffers)
        return dt_json_wrong(object, "a bias in argument %lld, and there are %d", (long long)bias[0], in->kernel->n_buffers);
    p->bias = bias[0];
    return check_argument(in, object, p->bias, (double)p->bias_offset + (double)p->columns, false);
}

static dt_status *read_activation(const library_reader *in, const dt_json *object, dt_library_product *p) {
    int activation;
    DT_TRY(dt_json_word(object, "activation", dt_library_activation_names(), DT_N_LIBRARY_ACTIVATIONS, &activation));
    p->activation = (dt_library_activation)activation;
    p->kept = -1;
    bool gradient = dt_library_is_gradient(p->activation), has = dt_json_has(object, "kept");
    if (gradient && !has) return dt_json_wrong(object, "nothing is kept for its gradient");
    if (has) DT_TRY(dt_json_integer(object, "kept", 0, in->kernel->n_buffers - 1, &p->kept));
    if (!dt_library_can_keep(p)) return dt_json_wrong(object, "no library keeps anything for such a product");
    if (!has) return NULL;
    double last =
        (double)p->result.offset + (double)p->result.strides[0] * (double)(p->rows - 1) + (double)p->columns; /* its columns lie side by side */
    return check_argument(in, object, p->kept, last, !gradient);
}

static dt_status *read_bias_gradient(const library_reader *in, const dt_json *object, dt_library_product *p) {
    dt_json item;
    p->bias_gradient.argument = -1;
    if (!dt_json_has(object, "bias_gradient")) return NULL;
    DT_TRY(dt_json_member(object, "bias_gradient", &item));
    DT_TRY(dt_json_integer(&item, "argument", 0, in->kernel->n_buffers - 1, &p->bias_gradient.argument));
    DT_TRY(dt_json_integer(&item, "offset", 0, DT_MOST_BYTES, &p->bias_gradient.offset));
    DT_TRY(dt_json_bool(&item, "of_first", &p->bias_gradient.of_first));
    DT_TRY(dt_json_integer(&item, "launches", 1, INT32_MAX, &p->bias_gradient.n_launches));
    if (p->scale != 1 || p->activation != DT_LIBRARY_ACTIVATION_NONE || p->bias >= 0 || p->n_batches > 0)
        return dt_json_wrong(&item, "no library gives one beside such a product");
    double n = (double)(p->bias_gradient.of_first ? p->rows : p->columns);
    return check_argument(in, &item, p->bias_gradient.argument, (double)p->bias_gradient.offset + n, true);
}

static dt_status *read_product(const library_reader *in, const dt_json *object, dt_library_product *p) {
    int64_t sizes[3];
    int n_batches;
    double calls = 1;
    DT_TRY(read_list(object, "sizes", 1, MOST_SIZE, sizes, 3, NULL));
    DT_TRY(read_list(object, "batches", 1, MOST_SIZE, p->batches, DT_LIBRARY_MOST_BATCHES, &n_batches));
    p->rows = sizes[0], p->columns = sizes[1], p->terms = sizes[2];
    p->n_batches = n_batches;
    for (int b = 0; b < n_batches - 1; b++) calls *= (double)p->batches[b];
    if (calls > DT_LIBRARY_MOST_CALLS) return dt_json_wrong(object, "a product of more than %d calls", (int)DT_LIBRARY_MOST_CALLS);
    DT_TRY(read_matrix(in, object, "first", p, p->rows, p->terms, false, &p->first));
    DT_TRY(read_matrix(in, object, "second", p, p->terms, p->columns, false, &p->second));
    DT_TRY(read_matrix(in, object, "result", p, p->rows, p->columns, true, &p->result));
    DT_TRY(dt_json_number(object, "scale", &p->scale));
    DT_TRY(read_bias(in, object, p));
    DT_TRY(read_activation(in, object, p));
    return read_bias_gradient(in, object, p);
}

static dt_status *check_places(const dt_json *object, const dt_library_convolution *c) {
    if (c->channels % c->groups != 0 || c->filters % c->groups != 0) return dt_json_wrong(object, "groups of other sizes");
    for (int64_t i = 0; i < c->n_directions; i++) {
        int64_t room = c->input[i] + c->padding[i] + c->padding_after[i] - c->dilation[i] * (c->taps[i] - 1) - 1;
        if (room < 0 || room / c->stride[i] + 1 != c->output[i]) return dt_json_wrong(object, "sizes of no convolution");
    }
    return NULL;
}

static double product_of(const int64_t *sizes, int64_t n) {
    double product = 1;
    for (int64_t i = 0; i < n; i++) product *= (double)sizes[i];
    return product;
}

static dt_status *read_convolution(const library_reader *in, const dt_json *object, dt_library_class class, dt_library_convolution *c) {
    int64_t sizes[3], arguments[3];
    int n;
    DT_TRY(read_list(object, "sizes", 1, MOST_SIZE, sizes, 3, NULL));
    c->groups = 1;
    if (dt_json_has(object, "groups")) DT_TRY(dt_json_integer(object, "groups", 1, MOST_SIZE, &c->groups));
    DT_TRY(read_list(object, "input", 1, MOST_SIZE, c->input, DT_LIBRARY_MOST_DIRECTIONS, &n));
    if (n < DT_LIBRARY_LEAST_DIRECTIONS) return dt_json_wrong(object, "a convolution in %d directions", n);
    c->n_directions = n;
    DT_TRY(read_list(object, "taps", 1, MOST_SIZE, c->taps, n, NULL));
    DT_TRY(read_list(object, "output", 1, MOST_SIZE, c->output, n, NULL));
    DT_TRY(read_list(object, "stride", 1, MOST_SIZE, c->stride, n, NULL));
    DT_TRY(read_list(object, "dilation", 1, MOST_SIZE, c->dilation, n, NULL));
    DT_TRY(read_list(object, "padding", 0, MOST_SIZE, c->padding, n, NULL));
    DT_TRY(read_list(object, "padding_after", 0, MOST_SIZE, c->padding_after, n, NULL));
    DT_TRY(read_list(object, "arguments", 0, in->kernel->n_buffers - 1, arguments, 3, NULL));
    c->images = sizes[0], c->channels = sizes[1], c->filters = sizes[2];
    c->x = arguments[0], c->kernel = arguments[1], c->y = arguments[2];
    DT_TRY(check_places(object, c));
    double of_x = (double)c->images * product_of(c->input, n) * (double)c->channels;
    double of_y = (double)c->images * product_of(c->output, n) * (double)c->filters;
    int64_t of_group = c->channels / c->groups;
    double of_kernel = product_of(c->taps, n) * (double)of_group * (double)c->filters;
    DT_TRY(check_argument(in, object, c->x, of_x, class == DT_LIBRARY_INPUT_GRADIENT));
    DT_TRY(check_argument(in, object, c->y, of_y, class == DT_LIBRARY_CONVOLUTION));
    return check_argument(in, object, c->kernel, of_kernel, class == DT_LIBRARY_KERNEL_GRADIENT);
}

static dt_status *read_clears(const library_reader *in, const dt_json *object, dt_library_call *call) {
    dt_json array;
    int n;
    DT_TRY(dt_json_array(object, "clears", &array, &n));
    if (n > 2) return dt_json_wrong(&array, "%d arguments to be cleared", n);
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        dt_library_clear *clear = &call->clears[item.index];
        dt_json number = dt_json_first(&item);
        DT_TRY(dt_json_as_integer(&number, 0, in->kernel->n_buffers - 1, &clear->argument));
        dt_json_next(&number);
        const dt_artifact_tensor *tensor = &in->function->buffers[in->kernel->buffers[clear->argument]].tensor;
        DT_TRY(dt_json_as_integer(&number, 0, tensor->row_bytes, &clear->row_bytes));
        if (!tensor->has_rows || clear->row_bytes != tensor->row_bytes)
            return dt_json_wrong(&item, "its rows are of %lld bytes", (long long)tensor->row_bytes);
        DT_TRY(check_argument(in, &item, clear->argument, 0, false));
    }
    call->n_clears = n;
    return NULL;
}

dt_status *dt_artifact_read_library(dt_artifact_reader *reader, const dt_json *call, const dt_artifact_function *function,
                                    const dt_artifact_kernel *kernel, const dt_library_call **library) {
    dt_json object;
    int class, precision;
    *library = NULL;
    if (!dt_json_has(call, "library")) return NULL;
    dt_library_call *read = DT_NEW(reader->arena, dt_library_call);
    library_reader in = {reader, function, kernel};
    DT_TRY(dt_json_member(call, "library", &object));
    DT_TRY(dt_json_word(&object, "class", dt_library_class_names(), DT_N_LIBRARY_CLASSES, &class));
    DT_TRY(dt_json_integer(&object, "launches", 1, INT32_MAX, &read->n_launches));
    DT_TRY(dt_json_word(&object, "precision", dt_precision_names(), DT_N_PRECISIONS, &precision));
    read->class = (dt_library_class) class;
    read->precision = (dt_precision)precision;
    if (read->class == DT_LIBRARY_PRODUCT)
        DT_TRY(read_product(&in, &object, &read->product));
    else
        DT_TRY(read_convolution(&in, &object, read->class, &read->convolution));
    DT_TRY(read_clears(&in, &object, read));
    *library = read;
    return NULL;
}

/* ---- what a call stands for ---- */

static int64_t result_of(const dt_library_call *call) {
    const dt_library_convolution *c = &call->convolution;
    switch (call->class) {
    case DT_LIBRARY_PRODUCT: return call->product.result.argument;
    case DT_LIBRARY_CONVOLUTION: return c->y;
    case DT_LIBRARY_INPUT_GRADIENT: return c->x;
    default: return c->kernel;
    }
}

static bool takes(const dt_artifact_launch *launch, int64_t argument) {
    for (int a = 0; a < launch->n_arguments; a++)
        if (launch->arguments[a] == argument) return true;
    return false;
}

dt_status *dt_artifact_check_libraries(const dt_json *calls, const dt_artifact_kernel *kernel) {
    int64_t done = 0; /* launches that the calls so far stand for */
    for (dt_json item = dt_json_first(calls); item.value != NULL; dt_json_next(&item)) {
        const dt_library_call *call = kernel->launches[item.index].library;
        if (call == NULL) continue;
        int64_t left = kernel->n_launches - item.index, result = result_of(call);
        if (item.index < done) return dt_json_wrong(&item, "a library's call stands for it already");
        const dt_library_bias_gradient *gradient = call->class == DT_LIBRARY_PRODUCT ? &call->product.bias_gradient : NULL;
        if (gradient != NULL && gradient->argument >= 0 &&
            (gradient->n_launches > item.index - done || !takes(&kernel->launches[item.index - 1], gradient->argument)))
            return dt_json_wrong(&item, "no launches before it give its gradient of a bias");
        if (call->n_launches > left)
            return dt_json_wrong(&item, "its library's call stands for %lld launches, and there are %lld", (long long)call->n_launches,
                                 (long long)left);
        done = item.index + call->n_launches;
        if (!takes(&kernel->launches[done - 1], result))
            return dt_json_wrong(&item, "its library's call stores argument %lld, which the launches do not", (long long)result);
    }
    return NULL;
}
