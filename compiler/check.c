/* check: see the header. What both checks stand on. */
#include "compiler/check.h"

#include "ir/text_form.h"
#include "ir/verify.h"

#include <math.h>
#include <string.h>

static const double LEAST = 1e-6; /* what is smaller than this counts as this large: gradients that are nothing but rounding, and their squares */

/* ---- all floats in f64 ---- */

static bool widened(dt_dtype *dtype) {
    if (!dt_dtype_is_float(*dtype)) return false;
    *dtype = DT_F64;
    return true;
}

/* Random numbers are f32 by their row: who uses them gets them converted. */
static dt_status *convert_random(dt_value *value) {
    dt_builder builder = {value->function, value->next, value->n_locations, value->locations, NULL};
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

dt_memory dt_check_memory(dt_arena *arena, const dt_check *check, const dt_module *module) {
    dt_memory memory = dt_memory_create(arena, module);
    for (size_t v = 0; v < module->variables.n; v++) {
        const dt_tensor *initial = &check->initial.variables[v];
        dt_tensor *own = &memory.variables[v];
        if (own->dtype == initial->dtype) memcpy(own->data, initial->data, dt_tensor_bytes(own));
        for (size_t i = 0; own->dtype != initial->dtype && i < dt_tensor_elements(own); i++) dt_tensor_set(own, i, dt_tensor_get(initial, i));
    }
    return memory;
}

/* ---- differences ---- */

void dt_check_nudge(dt_tensor *tensor, int number, double by) {
    for (size_t i = 0; i < dt_tensor_elements(tensor) && number > 0 && dt_dtype_is_float(tensor->dtype); i++) {
        uint64_t place[] = {(uint64_t)number, i};
        bool up = dt_hash_bytes(place, sizeof place, DT_HASH_SEED) >> 40 & 1;
        dt_tensor_set(tensor, i, dt_tensor_get(tensor, i) * (1 + (up ? by : -by)));
    }
}

/* The root mean square of what is finite. */
static double size_of(const dt_tensor *tensor) {
    double squares = 0, n = 0;
    for (size_t i = 0; i < dt_tensor_elements(tensor); i++) {
        double x = dt_tensor_get(tensor, i);
        if (!isfinite(x)) continue;
        squares += x * x;
        n++;
    }
    return sqrt(squares / fmax(n, 1));
}

/* How far y is from x, as a share of x or of what is as large as the others; infinitely far where only one of them is a number. */
static double difference_of(double x, double y, double size) {
    if (x == y || (isnan(x) && isnan(y))) return 0;
    return isfinite(x) && isfinite(y) ? fabs(x - y) / (fabs(x) + size + LEAST) : INFINITY;
}

double dt_check_largest_difference(const dt_tensor *a, const dt_tensor *b) {
    double largest = 0;
    for (size_t i = 0; i < dt_tensor_elements(a); i++) largest = fmax(largest, fabs(dt_tensor_get(a, i) - dt_tensor_get(b, i)));
    return largest;
}

void dt_check_compare(dt_finding *finding, double tolerance, const char *what, const dt_tensor *whole, size_t at, const dt_tensor *part,
                      double slack) {
    if (memcmp((const char *)whole->data + at * dt_dtype_bytes(whole->dtype), part->data, dt_tensor_bytes(part)) == 0) return;
    double size = size_of(whole);
    for (size_t i = 0; i < dt_tensor_elements(part); i++) {
        double x = dt_tensor_get(whole, at + i), y = dt_tensor_get(part, i), difference = difference_of(x, y, size);
        if (difference <= finding->worst || fabs(x - y) <= slack) continue;
        finding->worst = difference;
        finding->where = what;
        finding->wrong = difference > tolerance;
    }
}

dt_status *dt_check_tell(const dt_check *check, double done) {
    return check->progress != NULL ? check->progress(check->context, done < 1 ? done : 1) : NULL;
}
