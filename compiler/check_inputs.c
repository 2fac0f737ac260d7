/* check_inputs: made-up data that fits what a step does with it.
 *
 * Labels are below the number of classes, indices in range of the table, masks 0 or 1, bytes that count as brightness anything: how an input of whole
 * numbers is used says the graph. Each is followed from the input through what only moves or converts it to who asks something of it. */
#include "compiler/check.h"
#include "ir/loops.h"

#include <string.h>

enum {
    N_BYTES = 256
};

typedef struct use {
    dt_arena *arena;
    bool *seen;        /* [next_id] */
    int64_t limit;     /* what it indexes or is compared with has so many; INT64_MAX: nothing */
    int64_t named;     /* the greatest constant that it is compared with */
    bool is_mask;      /* it is asked whether it is 0, or weighs something */
    bool is_magnitude; /* a constant scales it, or it is calculated with */
} use;

static bool is_one_of(const dt_value *value, const char *const *names) {
    for (; *names != NULL; names++)
        if (dt_value_is(value, *names)) return true;
    return false;
}

/* What a value is before it was moved and converted. */
static const dt_value *origin_of(const dt_value *value) {
    while (value->n_operands == 1 && (value->op->class == DT_CLASS_MOVE || dt_value_is(value, "convert"))) value = value->operands[0];
    return value;
}

static void allow(use *use, int64_t dim) {
    if (!dt_dim_is_symbol(dim) && dim < use->limit) use->limit = dim;
}

/* `by`, operand k of it, says which element of a dimension another operand gives, or the result takes. */
static void note_index(use *use, const dt_value *by, int k) {
    const dt_loops *loops = dt_value_loops(use->arena, by);
    if (loops == NULL) return;
    for (int o = 0; o <= by->n_operands; o++) {
        const dt_access *access = o < by->n_operands ? &loops->operands[o] : loops->result;
        dt_shape shape = o < by->n_operands ? by->operands[o]->shape : by->shape;
        for (int d = 0; access != NULL && d < shape.rank; d++)
            if (access->dims[d].indirect == k) allow(use, shape.dims[d]);
    }
}

static void note_comparison(use *use, const dt_value *other) {
    other = origin_of(other);
    if (dt_value_is(other, "iota")) allow(use, other->shape.dims[dt_value_int(other, "axis")]);
    if (dt_value_is(other, "constant")) {
        double value = dt_value_number(other, "value");
        if (value > (double)use->named && value < 1 << 20) use->named = (int64_t)value;
        use->is_mask |= value == 0;
    }
    if (!is_one_of(other, (const char *const[]){"argmax", "argmin", NULL})) return;
    int n_axes;
    const int64_t *axes = dt_value_ints(other, "axes", &n_axes);
    int64_t n = 1;
    for (int i = 0; i < n_axes; i++) n *= dt_dim_is_symbol(other->operands[0]->shape.dims[axes[i]]) ? 1 : other->operands[0]->shape.dims[axes[i]];
    allow(use, n);
}

static void follow(use *use, const dt_value *value);

static void note_use(use *use, const dt_value *by, int k) {
    static const char *const compares[] = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", NULL};
    const dt_value *value = by->operands[k], *other = by->n_operands == 2 ? by->operands[1 - k] : NULL;
    bool is_float = dt_dtype_is_float(value->dtype);
    if (!is_float) note_index(use, by, k);
    if (by->op->class == DT_CLASS_MOVE || by->op->class == DT_CLASS_LOOP) follow(use, by);
    if (dt_value_is(by, "convert")) {
        use->is_mask |= by->dtype == DT_BOOL;
        follow(use, by);
    } else if (is_one_of(by, compares) && other != NULL) {
        note_comparison(use, other);
    } else if (by->op->class == DT_CLASS_MAP) {
        bool weighs = is_float && dt_value_is(by, "multiply") && !dt_value_is(origin_of(other), "constant");
        use->is_mask |= weighs;
        use->is_magnitude |= !weighs;
        if (!is_float) follow(use, by);
    }
}

static void follow(use *use, const dt_value *value) {
    if (use->seen[value->id]) return;
    use->seen[value->id] = true;
    for (const dt_value *by = value->next; by != NULL; by = by->next)
        for (int k = 0; k < by->n_operands; k++)
            if (by->operands[k] == value) note_use(use, by, k);
}

/* How many values an input takes, from 0 on. */
static int64_t n_values_of(dt_arena *arena, const dt_function *function, const dt_value *input) {
    use use = {.arena = arena, .limit = INT64_MAX, .named = 1, .seen = DT_NEW_ARRAY(arena, bool, function->next_id)};
    if (dt_dtype_is_float(input->dtype) || input->dtype == DT_BOOL) return 2;
    follow(&use, input);
    if (use.limit < INT64_MAX) return use.limit > 1 ? use.limit : 1;
    if (use.is_mask) return use.named + 1;
    return use.is_magnitude || (input->dtype == DT_U8 && input->shape.rank > 2) ? N_BYTES : use.named + 1;
}

dt_check_data dt_check_data_of(dt_arena *arena, const dt_function *step, dt_check_data_kind kind) {
    dt_check_data data = {.kind = kind, .n_values = DT_NEW_ARRAY(arena, int64_t, step->inputs.n)};
    for (size_t i = 0; i < step->inputs.n; i++) data.n_values[i] = n_values_of(arena, step, step->inputs.items[i]);
    return data;
}

/* Of labels and indices half are 0, so that many meet. */
static double element_of(const dt_check_data *data, const dt_value *input, int number, uint64_t element) {
    uint64_t place[] = {(uint64_t)number, element}, bits = dt_hash_bytes(place, sizeof place, DT_HASH_SEED), fraction = bits >> 20 & 0xfff;
    bool is_float = dt_dtype_is_float(input->dtype), coin = bits >> 60 & 1;
    if (is_float && data->kind == DT_CHECK_LARGE) return 160 + (double)fraction / 64;
    if (is_float) return data->kind == DT_CHECK_ZEROS && (bits >> 60) % 4 == 0 ? 0 : (double)fraction / 4096;
    int64_t n = data->n_values[number];
    return n > 2 && n != N_BYTES && coin ? 0 : (double)((int64_t)(bits >> 20 & 0xffffff) % n);
}

dt_tensor dt_check_input(dt_arena *arena, const dt_check_data *data, const dt_value *input, int number, int64_t first, int64_t rows) {
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, input->shape.rank), row_elements = 1;
    for (int d = 0; d < input->shape.rank; d++) dims[d] = dt_dim_is_symbol(input->shape.dims[d]) ? rows : input->shape.dims[d];
    for (int d = 1; d < input->shape.rank; d++) row_elements *= dims[d];
    dt_tensor tensor = dt_tensor_make(arena, input->dtype, (dt_shape){input->shape.rank, dims});
    for (size_t i = 0; i < dt_tensor_elements(&tensor); i++)
        dt_tensor_set(&tensor, i, element_of(data, input, number, (uint64_t)(first * row_elements) + i));
    return tensor;
}
