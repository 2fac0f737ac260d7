/* check_gradients: each gradient of a step against slopes. Every x of a gradient(y, x) is moved a little in a random direction d, forwards and back;
 * how much y changes for it must be gradient times d. One direction tests all elements of a gradient; where the step is large, the gradients of one y
 * are moved together, and only when these disagree one by one. */
#include "compiler/check.h"
#include "compiler/flops.h"
#include "compiler/pipeline.h"

#include <math.h>

/* Small steps cross few places where a slope jumps (a relu, the place of a maximum), large ones leave more digits of the difference: the first that
 * agrees is enough, for what is wrong agrees with none. */
static const double STEPS[] = {1e-8, 1e-7, 1e-9};
static const double TOLERANCE = 1e-4;     /* of the gradient's length */
static const double MOST_WORK = 1e9;      /* scalar operations for all slopes together: about half a minute */
static const double ROUNDING = 1e-14;     /* of y, relative */
static const double MOST_STRETCHED = 100; /* how much farther than others a short gradient is moved */

/* One function of the step's inputs and, behind them, of a move for each x. */
typedef struct moved {
    const dt_function *function;
    int n_moves;
} moved;

typedef struct work {
    dt_arena *arena;
    const dt_module *module;
    int64_t rows;
    dt_memory memory;
    moved values, gradients;    /* results: every y; every y, then every gradient */
    int n;                      /* gradients */
    int *y, *x;                 /* [n] which y (the first gradient that has it) and which move */
    const char **names;         /* [n] */
    int n_inputs;               /* of the step */
    dt_tensor *base;            /* [n_inputs + n_moves] inputs, and moves away from zeros and other places that are special */
    double *length, *size_of_y; /* [n] of the gradient; of y, the sum of its absolute values */
    const dt_tensor *found;     /* [2 n] results of `gradients` at the base */
} work;

/* ---- the functions ---- */

/* x becomes x + move for all who use it. Inputs stand before all sums. */
static dt_status *add_move(dt_arena *arena, dt_function *function, dt_value *x, int number) {
    dt_value *move = dt_build_input(function, dt_arena_format(arena, "move%d", number), x->dtype, x->shape,
                                    x->n_locations > 0 ? x->locations[0] : (dt_location){0, 1, 1});
    dt_value *before = dt_value_is(x, "input") ? move->next : x->next, *sum;
    dt_builder builder = {function, before, x->n_locations, x->locations};
    DT_TRY(dt_build_binary(&builder, &sum, "add", x, move));
    dt_value_replace(x, sum);
    sum->operands[0] = x;
    return NULL;
}

static bool is_gradient(const dt_value *value) { return dt_value_is(value, "gradient") && dt_dtype_is_float(value->operands[1]->dtype); }

/* The number of the first gradient of `function` with that operand, and of how many different ones before it. */
static int first_with(dt_value *const *gradients, int k, int operand, int *n_different) {
    int first = k;
    *n_different = 0;
    for (int i = k; i-- > 0;)
        if (gradients[i]->operands[operand] == gradients[k]->operands[operand]) first = i;
    for (int i = 0; i < first; i++) {
        int again = 0;
        while (gradients[again]->operands[operand] != gradients[i]->operands[operand]) again++;
        *n_different += again == i;
    }
    return first;
}

static const char *name_of(const work *w, const dt_value *gradient) {
    const dt_value *x = gradient->operands[1];
    const char *line = dt_check_line(w->arena, w->module, gradient);
    const char *name = dt_value_is(x, "read") ? dt_value_string(x, "variable") : x->name != NULL ? x->name : x->op->name;
    return line != NULL ? dt_arena_format(w->arena, "%s, %s", name, line) : name;
}

/* Which gradients there are, while the graph is as written. */
static void list_gradients(work *w, dt_value *const *gradients) {
    w->y = DT_NEW_ARRAY(w->arena, int, w->n);
    w->x = DT_NEW_ARRAY(w->arena, int, w->n);
    w->names = DT_NEW_ARRAY(w->arena, const char *, w->n);
    for (int k = 0; k < w->n; k++) {
        int n_different;
        w->y[k] = first_with(gradients, k, 0, &n_different);
        first_with(gradients, k, 1, &w->x[k]);
        w->names[k] = name_of(w, gradients[k]);
    }
}

/* The step's function in a module of its own, without effects, giving every y and, where `with_gradients`, every gradient. */
static dt_status *make_function(work *w, size_t step, bool with_gradients, moved *made) {
    dt_module *copy;
    DT_TRY(dt_check_copy(w->arena, w->module, &copy));
    dt_function *function = copy->steps.items[step].function;
    DT_LIST(dt_value *) gradients = {0};
    for (dt_value *value = function->first, *next; value != NULL; value = next) {
        next = value->next;
        if (is_gradient(value)) dt_list_push(w->arena, &gradients, value);
        if (dt_value_has_effect(value)) dt_value_remove(value);
    }
    w->n = (int)gradients.n;
    list_gradients(w, gradients.items);
    dt_value **xs = DT_NEW_ARRAY(w->arena, dt_value *, w->n);
    function->results.n = 0;
    for (int k = 0; k < w->n; k++) {
        dt_list_push(w->arena, &function->results, ((dt_result){"y", gradients.items[k]->operands[0]}));
        xs[w->x[k]] = gradients.items[k]->operands[1];
        if (w->x[k] >= made->n_moves) made->n_moves = w->x[k] + 1;
    }
    for (int k = 0; k < w->n && with_gradients; k++) dt_list_push(w->arena, &function->results, ((dt_result){"gradient", gradients.items[k]}));
    for (int m = 0; m < made->n_moves; m++) DT_TRY(add_move(w->arena, function, xs[m], m));
    dt_function_sweep(function);
    dt_function_renumber(function);
    copy->steps.n = copy->pipelines.n = 0;
    copy->functions.items[0] = function;
    copy->functions.n = 1;
    dt_compilation compilation = {.arena = w->arena, .module = copy};
    DT_TRY(dt_pipeline_run_pass(&compilation, "autodiff"));
    made->function = copy->functions.items[0];
    return NULL;
}

/* ---- slopes ---- */

static dt_status *evaluate(const work *w, dt_arena *arena, const moved *what, const dt_tensor *inputs, dt_tensor *results) {
    dt_bad_index bad_index = {0};
    dt_launch launch = {.rows = w->rows,
                        .valid = w->rows,
                        .global_batch = w->rows,
                        .replicas = 1,
                        .epochs = 1,
                        .steps_per_epoch = 1,
                        .seed = 1,
                        .bad_index = &bad_index};
    dt_memory memory = w->memory;
    return dt_interpret(arena, what->function, &launch, inputs, &memory, results);
}

static double sign_of(int move, size_t element) {
    uint64_t place[] = {(uint64_t)move, element};
    return dt_hash_bytes(place, sizeof place, DT_HASH_SEED) >> 40 & 1 ? 1 : -1;
}

static double stretch_of(const work *w, int k, double longest) {
    return w->length[k] > 0 ? fmin(fmax(longest / w->length[k], 1), MOST_STRETCHED) : 1;
}

static double sum_of(const dt_tensor *tensor) {
    double sum = 0;
    for (size_t i = 0; i < dt_tensor_elements(tensor); i++) sum += dt_tensor_get(tensor, i);
    return sum;
}

/* y at the base moved by `by` along the direction of the gradients first .. first + n - 1, which are all of that y. */
static dt_status *value_at(const work *w, int first, int n, double longest, double by, double *y) {
    dt_arena *scratch = dt_arena_create();
    if (scratch == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    int n_inputs = w->n_inputs + w->values.n_moves;
    dt_tensor *inputs = dt_arena_copy(scratch, w->base, sizeof *inputs * (size_t)n_inputs), *results = DT_NEW_ARRAY(scratch, dt_tensor, w->n);
    for (int k = first; k < first + n; k++) {
        dt_tensor *move = &inputs[w->n_inputs + w->x[k]];
        move->data = dt_arena_copy(scratch, move->data, dt_tensor_bytes(move));
        for (size_t i = 0; i < dt_tensor_elements(move); i++)
            dt_tensor_set(move, i, dt_tensor_get(move, i) + by * stretch_of(w, k, longest) * sign_of(w->x[k], i));
    }
    dt_status *status = evaluate(w, scratch, &w->values, inputs, results);
    if (status == NULL) *y = sum_of(&results[first]);
    dt_arena_destroy(scratch);
    return status;
}

/* Compares gradients first .. first + n - 1, all of one y. *difference: as a share of their length. */
static dt_status *compare(const work *w, int first, int n, double *difference) {
    double longest = 0, expected = 0, squares = 0;
    for (int k = first; k < first + n; k++) longest = fmax(longest, w->length[k]);
    for (int k = first; k < first + n; k++) {
        double stretch = stretch_of(w, k, longest);
        const dt_tensor *gradient = &w->found[w->n + k];
        for (size_t i = 0; i < dt_tensor_elements(gradient); i++) expected += dt_tensor_get(gradient, i) * stretch * sign_of(w->x[k], i);
        squares += pow(stretch * w->length[k], 2);
    }
    *difference = INFINITY;
    for (size_t i = 0; i<sizeof STEPS / sizeof *STEPS && * difference> TOLERANCE; i++) {
        double forwards, back, rounding = ROUNDING * w->size_of_y[first] / STEPS[i];
        DT_TRY(value_at(w, first, n, longest, STEPS[i], &forwards));
        DT_TRY(value_at(w, first, n, longest, -STEPS[i], &back));
        double apart = fabs((forwards - back) / (2 * STEPS[i]) - expected);
        *difference = fmin(*difference, apart > 0 ? apart / (sqrt(squares) + rounding / TOLERANCE) : 0);
    }
    return NULL;
}

static void keep(dt_finding *finding, double difference, const char *where) {
    if (finding->where != NULL && !(difference > finding->worst)) return;
    finding->worst = difference;
    finding->where = where;
    finding->wrong = !(difference <= TOLERANCE);
}

/* The gradients first .. first + n - 1 together, and if they disagree, each. */
static dt_status *compare_group(const work *w, int first, int n, dt_finding *finding) {
    double difference;
    DT_TRY(compare(w, first, n, &difference));
    if (n == 1 || difference <= TOLERANCE) {
        keep(finding, difference, w->names[first]);
        return NULL;
    }
    for (int k = first; k < first + n; k++) {
        DT_TRY(compare(w, k, 1, &difference));
        keep(finding, difference, w->names[k]);
    }
    return NULL;
}

/* ---- the check ---- */

/* Inputs, and moves of about a hundredth, so that nothing stands where a function has no slope: biases are 0 at first. */
static void make_base(work *w) {
    const dt_function *function = w->values.function;
    w->n_inputs = (int)function->inputs.n - w->values.n_moves;
    w->base = DT_NEW_ARRAY(w->arena, dt_tensor, function->inputs.n);
    for (int i = 0; i < (int)function->inputs.n; i++) {
        w->base[i] = dt_check_input(w->arena, function->inputs.items[i], i, 0, w->rows);
        for (size_t e = 0; i >= w->n_inputs && e < dt_tensor_elements(&w->base[i]); e++)
            dt_tensor_set(&w->base[i], e, 0.02 * (dt_tensor_get(&w->base[i], e) - 0.5));
    }
}

static dt_status *find_gradients(work *w) {
    dt_tensor *found = DT_NEW_ARRAY(w->arena, dt_tensor, 2 * w->n);
    DT_TRY(evaluate(w, w->arena, &w->gradients, w->base, found));
    w->found = found;
    w->length = DT_NEW_ARRAY(w->arena, double, w->n);
    w->size_of_y = DT_NEW_ARRAY(w->arena, double, w->n);
    for (int k = 0; k < w->n; k++) {
        double squares = 0;
        for (size_t i = 0; i < dt_tensor_elements(&found[w->n + k]); i++) squares += pow(dt_tensor_get(&found[w->n + k], i), 2);
        w->length[k] = sqrt(squares);
        for (size_t i = 0; i < dt_tensor_elements(&found[k]); i++) w->size_of_y[k] += fabs(dt_tensor_get(&found[k], i));
    }
    return NULL;
}

dt_status *dt_check_gradients(dt_arena *arena, const dt_module *module, size_t step, int64_t rows, dt_finding *finding) {
    work w = {.arena = arena, .module = module, .rows = rows};
    *finding = (dt_finding){0};
    DT_TRY(make_function(&w, step, false, &w.values));
    if (w.n == 0) return NULL;
    DT_TRY(make_function(&w, step, true, &w.gradients));
    DT_TRY(dt_check_initialize(arena, module, &w.memory));
    make_base(&w);
    DT_TRY(find_gradients(&w));
    dt_flops flops = dt_flops_of_function(arena, w.values.function);
    double slopes = MOST_WORK / (2 * (flops.fixed + (double)rows * flops.per_row));
    int most = slopes >= w.n ? 1 : slopes < 1 ? w.n : (w.n + (int)slopes - 1) / (int)slopes; /* gradients of a group */
    for (int first = 0, n; first < w.n; first += n) {
        n = 1;
        while (n < most && first + n < w.n && w.y[first + n] == w.y[first]) n++;
        DT_TRY(compare_group(&w, first, n, finding));
    }
    finding->n = w.n;
    for (const dt_value *value = w.values.function->first; value != NULL; value = value->next)
        finding->is_stopped |= dt_value_is(value, "stop_gradient");
    return NULL;
}
