/* check: see the header. What both checks stand on. */
#include "compiler/check.h"

#include "ir/text_form.h"
#include "ir/verify.h"

#include <string.h>

/* ---- all floats in f64 ---- */

static bool widened(dt_dtype *dtype) {
    if (!dt_dtype_is_float(*dtype)) return false;
    *dtype = DT_F64;
    return true;
}

/* Random numbers are f32 by their row: who uses them gets them converted. */
static dt_status *convert_random(dt_value *value) {
    dt_builder builder = {value->function, value->next, value->n_locations, value->locations};
    dt_value *wide;
    DT_TRY(dt_build_convert(&builder, &wide, value, DT_F64));
    dt_value_replace(value, wide);
    wide->operands[0] = value;
    return NULL;
}

static dt_status *widen_function(dt_function *function) {
    for (dt_value *value = function->first; value != NULL; value = value->next) {
        if (value->op->class == DT_CLASS_RANDOM) {
            DT_TRY(convert_random(value));
            continue;
        }
        widened(&value->dtype);
        for (int a = 0; a < value->op->n_attributes; a++) {
            dt_dtype dtype = (dt_dtype)value->attributes[a].i;
            if (value->op->attributes[a].kind == DT_ATTR_DTYPE && widened(&dtype)) value->attributes[a].i = dtype;
            if (strcmp(value->op->attributes[a].name, "precision") == 0) value->attributes[a] = value->op->attributes[a].standard;
        }
    }
    dt_function_renumber(function);
    return NULL;
}

dt_status *dt_check_copy(dt_arena *arena, const dt_module *module, dt_module **copy) {
    DT_TRY(dt_module_copy(arena, module, copy));
    for (size_t v = 0; v < (*copy)->variables.n; v++) widened(&(*copy)->variables.items[v].dtype);
    for (size_t f = 0; f < (*copy)->functions.n; f++) DT_TRY(widen_function((*copy)->functions.items[f]));
    return dt_verify(*copy);
}

/* ---- data ---- */

dt_status *dt_check_prepare(dt_arena *arena, const dt_module *program, dt_check *check) {
    dt_module *module;
    DT_TRY(dt_check_copy(arena, program, &module));
    dt_bad_index bad_index = {0};
    dt_launch launch = {.replicas = 1, .seed = 1, .bad_index = &bad_index};
    check->module = program;
    check->initial = dt_memory_create(arena, module);
    for (size_t f = 0; f < module->functions.n; f++)
        if (module->functions.items[f]->role == DT_ROLE_INIT)
            DT_TRY(dt_interpret(arena, module->functions.items[f], &launch, NULL, &check->initial, NULL));
    return NULL;
}

static double element_of(const dt_value *input, uint64_t number, uint64_t element) {
    uint64_t place[] = {number, element}, bits = dt_hash_bytes(place, sizeof place, DT_HASH_SEED) >> 20;
    if (dt_dtype_is_float(input->dtype)) return (double)(bits % 4096) / 4096;
    return (double)(bits % (input->dtype == DT_U8 && input->shape.rank > 2 ? 256 : 2));
}

dt_tensor dt_check_input(dt_arena *arena, const dt_value *input, int number, int64_t first, int64_t rows) {
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, input->shape.rank), row_elements = 1;
    for (int d = 0; d < input->shape.rank; d++) dims[d] = dt_dim_is_symbol(input->shape.dims[d]) ? rows : input->shape.dims[d];
    for (int d = 1; d < input->shape.rank; d++) row_elements *= dims[d];
    dt_tensor tensor = dt_tensor_make(arena, input->dtype, (dt_shape){input->shape.rank, dims});
    for (size_t i = 0; i < dt_tensor_elements(&tensor); i++)
        dt_tensor_set(&tensor, i, element_of(input, (uint64_t)number, (uint64_t)(first * row_elements) + i));
    return tensor;
}

dt_status *dt_check_tell(const dt_check *check, double done) {
    return check->progress != NULL ? check->progress(check->context, done < 1 ? done : 1) : NULL;
}
