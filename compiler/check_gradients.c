/* check_gradients: each gradient of a step against slopes. Every x of a gradient(y, x) is moved a little in a random direction d, forwards and back;
 * how much y changes for it must be gradient times d.
 *
 * A direction tests many gradients of one y. Each element of d is 1 or -1 by the toss of a coin, so an error of length e changes the slope by e times
 * a normal deviate, whichever elements it is in. Of errors a hundred times the tolerance one in a hundred is missed by one direction, one in ten
 * thousand by two. Short gradients are moved farther, so that each counts as much as the longest, and the tolerance is a share of that one. Those for
 * which that would be too far form groups of their own. A group that disagrees is halved until the gradient that is wrong stands alone. */
#include "compiler/check.h"
#include "compiler/pipeline.h"
#include "ir/body.h"
#include "ir/loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Small steps cross few points where a slope jumps (a relu, the index of a maximum), large ones leave more digits of the difference: the first that
 * agrees is enough, for what is wrong agrees with none. */
static const double STEPS[] = {1e-8, 1e-7, 1e-9};
static const double TOLERANCE = 1e-4;     /* of the gradient's length */
static const double ROUNDING = 1e-14;     /* of y, relative */
static const double MOST_STRETCHED = 100; /* how much farther than others a short gradient is moved */

enum {
    N_ZERO_ROWS = 8 /* enough for rows with a zero and rows with several */
};

static int n_directions(int64_t rows) { return rows > 1 ? 2 : 1; }

/* One function of the step's inputs, after them of a move for each x, and where slopes are taken of what each stop_gradient gives. */
typedef struct moved {
    const dt_function *function;
    int n_moves, n_stills;
} moved;

typedef struct gradient {
    int y;            /* the first gradient in program order that has this y */
    int x;            /* its move */
    const char *name; /* of its x */
    dt_location location;
    double length, size_of_y;
    bool is_finite;         /* it and its y, at the base */
    const double *elements; /* at the base */
    size_t n_elements;
} gradient;

typedef struct work {
    dt_arena *arena;
    const dt_check *check;
    int64_t rows;
    int n_directions;
    moved values, gradients; /* results: the y of each gradient; those, then every gradient, then what each stop_gradient gives */
    dt_check_data data;
    int n;                 /* gradients */
    gradient *all;         /* [n] in program order; once they are known those that are finite by y, of each the longest first, then the others */
    int n_inputs;          /* of the step */
    dt_tensor *base;       /* [n_inputs + n_moves + n_stills] inputs, moves away from zeros and other special points, and what stands still */
    dt_tensor *inputs;     /* the same, with moves of their own */
    double done, expected; /* work, in runs of `values` */
} work;

/* ---- the functions ---- */

/* x becomes x + move for all who use it. Inputs stand before all sums. */
static dt_status *add_move(dt_arena *arena, dt_function *function, dt_value *x, int number) {
    dt_value *move = dt_build_input(function, dt_arena_format(arena, "move%d", number), x->dtype, x->shape,
                                    x->n_locations > 0 ? x->locations[0] : (dt_location){0, 1, 1});
    dt_value *before = dt_value_is(x, "input") ? move->next : x->next, *sum;
    dt_builder builder = {function, before, x->n_locations, x->locations, NULL};
    DT_TRY(dt_build_binary(&builder, &sum, "add", x, move));
    dt_value_replace(x, sum);
    sum->operands[0] = x;
    return NULL;
}

typedef DT_LIST(dt_value *) value_list;

/* What stop_gradient gives is the same wherever slopes are taken; in the body of a loop it has no one value to be held at. */
static void list_stopped(dt_arena *arena, const dt_function *function, value_list *stopped) {
    dt_value **bodies = DT_NEW_ARRAY(arena, dt_value *, function->next_id);
    if (dt_function_has_loops(function)) dt_function_find_bodies(function, bodies);
    for (dt_value *value = function->first; value != NULL; value = value->next)
        if (dt_value_is(value, "stop_gradient") && bodies[value->id] == NULL) dt_list_push(arena, stopped, value);
}

static void hold_still(dt_arena *arena, dt_function *function, dt_value *stopped, int number) {
    const dt_location at = stopped->n_locations > 0 ? stopped->locations[0] : (dt_location){0, 1, 1};
    dt_value_replace(stopped, dt_build_input(function, dt_arena_format(arena, "still%d", number), stopped->dtype, stopped->shape, at));
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

static const char *name_of(const dt_value *x) {
    return dt_value_is(x, "read") ? dt_value_string(x, "variable") : x->name != NULL ? x->name : x->op->name;
}

/* Which gradients there are, while the graph is as written. */
static void list_gradients(work *w, dt_value *const *gradients) {
    w->all = DT_NEW_ARRAY(w->arena, gradient, w->n);
    for (int k = 0; k < w->n; k++) {
        gradient *g = &w->all[k];
        int n_different;
        g->y = first_with(gradients, k, 0, &n_different);
        first_with(gradients, k, 1, &g->x);
        g->name = name_of(gradients[k]->operands[1]);
        g->location = gradients[k]->n_locations > 0 ? gradients[k]->locations[0] : (dt_location){.file = -1};
    }
}

/* The step's function in a module of its own, without effects, giving every y and, where `with_gradients`, every gradient. */
static dt_status *make_function(work *w, size_t step, bool with_gradients, moved *made) {
    dt_module *copy;
    DT_TRY(dt_check_copy(w->arena, w->check->module, &copy));
    dt_function *function = copy->steps.items[step].function;
    value_list gradients = {0}, stopped = {0};
    list_stopped(w->arena, function, &stopped);
    made->n_stills = (int)stopped.n;
    for (dt_value *value = function->first, *next; value != NULL; value = next) {
        next = value->next;
        if (is_gradient(value)) dt_list_push(w->arena, &gradients, value);
        if (dt_value_writes(value)) dt_value_remove(value);
    }
    w->n = (int)gradients.n;
    list_gradients(w, gradients.items);
    dt_value **xs = DT_NEW_ARRAY(w->arena, dt_value *, w->n);
    function->results.n = 0;
    for (size_t k = 0; k < gradients.n; k++) {
        int x = w->all[k].x;
        dt_list_push(w->arena, &function->results, ((dt_result){"y", gradients.items[k]->operands[0]}));
        xs[x] = gradients.items[k]->operands[1];
        if (x >= made->n_moves) made->n_moves = x + 1;
    }
    for (size_t k = 0; k < gradients.n && with_gradients; k++)
        dt_list_push(w->arena, &function->results, ((dt_result){"gradient", gradients.items[k]}));
    for (int m = 0; m < made->n_moves; m++) DT_TRY(add_move(w->arena, function, xs[m], m));
    for (size_t s = 0; s < stopped.n; s++) {
        if (with_gradients)
            dt_list_push(w->arena, &function->results, ((dt_result){"still", stopped.items[s]}));
        else
            hold_still(w->arena, function, stopped.items[s], (int)s);
    }
    dt_function_sweep(function);
    dt_function_renumber(function);
    copy->steps.n = copy->pipelines.n = 0;
    copy->functions.items[0] = function;
    copy->functions.n = 1;
    dt_compilation compilation = {.arena = w->arena, .module = copy};
    DT_TRY(dt_pass_run(&compilation, "autodiff"));
    made->function = copy->functions.items[0];
    return NULL;
}

/* ---- the gradients ---- */

static dt_status *evaluate(work *w, const moved *what, double cost, const dt_tensor *inputs, dt_tensor *results) {
    dt_bad_index bad_index = {0};
    dt_launch launch = {.rows = w->rows,
                        .valid = w->rows,
                        .global_batch = w->rows,
                        .replicas = 1,
                        .epochs = 1,
                        .steps_per_epoch = 1,
                        .seed = 1,
                        .bad_index = &bad_index};
    dt_memory memory = w->check->initial; /* which no value of the function writes */
    DT_TRY(dt_interpret(w->arena, what->function, &launch, inputs, &memory, results));
    w->done += cost;
    return dt_check_tell(w->check, w->done / w->expected);
}

/* Inputs, and moves of about a hundredth, so that nothing stands where a function has no slope: biases are 0 at first. */
static void make_base(work *w) {
    const dt_function *function = w->values.function;
    int n = (int)function->inputs.n;
    int n_moved = n - w->values.n_stills;
    double by = w->data.kind == DT_CHECK_PLAIN ? 0.02 : 0;
    w->n_inputs = n_moved - w->values.n_moves;
    w->base = DT_NEW_ARRAY(w->arena, dt_tensor, n);
    for (int i = 0; i < n_moved; i++) {
        w->base[i] = dt_check_input(w->arena, &w->data, function->inputs.items[i], i, 0, w->rows);
        for (size_t e = 0; i >= w->n_inputs && e < dt_tensor_elements(&w->base[i]); e++)
            dt_tensor_set(&w->base[i], e, by * (dt_tensor_get(&w->base[i], e) - 0.5));
    }
    w->inputs = dt_arena_copy(w->arena, w->base, sizeof *w->base * (size_t)n);
    for (int i = w->n_inputs; i < n_moved; i++) w->inputs[i].data = dt_arena_new(w->arena, dt_tensor_bytes(&w->base[i]));
}

static int by_y_and_length(const void *a, const void *b) {
    const gradient *first = a, *second = b;
    if (first->is_finite != second->is_finite) return first->is_finite ? -1 : 1;
    if (first->y != second->y) return (first->y > second->y) - (first->y < second->y);
    return (second->length > first->length) - (second->length < first->length);
}

static dt_status *find_gradients(work *w) {
    int n_stills = w->gradients.n_stills, n_moved = w->n_inputs + w->values.n_moves;
    dt_tensor *found = DT_NEW_ARRAY(w->arena, dt_tensor, 2 * w->n + n_stills);
    DT_TRY(evaluate(w, &w->gradients, 3, w->base, found));
    for (int s = 0; s < n_stills; s++) w->inputs[n_moved + s] = found[2 * w->n + s];
    for (int k = 0; k < w->n; k++) {
        gradient *g = &w->all[k];
        g->size_of_y = fabs(dt_tensor_get(&found[k], 0));
        g->elements = found[w->n + k].data;
        g->n_elements = dt_tensor_elements(&found[w->n + k]);
        double squares = 0;
        for (size_t i = 0; i < g->n_elements; i++) squares += g->elements[i] * g->elements[i];
        g->length = sqrt(squares);
        g->is_finite = isfinite(g->size_of_y) && isfinite(g->length);
    }
    qsort(w->all, (size_t)w->n, sizeof *w->all, by_y_and_length);
    return NULL;
}

/* ---- slopes of a group: gradients of one y, the longest first ---- */

/* 64 tosses of a coin. */
static uint64_t toss(int direction, int move, size_t number) {
    uint64_t place[] = {(uint64_t)direction, (uint64_t)move, number}, bits = dt_hash_bytes(place, sizeof place, DT_HASH_SEED);
    bits = (bits ^ bits >> 33) * 0xff51afd7ed558ccd;
    bits = (bits ^ bits >> 33) * 0xc4ceb9fe1a85ec53;
    return bits ^ bits >> 33;
}

/* The sum of gradient times direction; `move`, where there is one, goes `distance` along it. */
static double along(const gradient *g, int direction, double distance, double *move) {
    uint64_t tosses = 0;
    double sum = 0;
    for (size_t i = 0; i < g->n_elements; i++, tosses >>= 1) {
        if (i % 64 == 0) tosses = toss(direction, g->x, i / 64);
        double sign = tosses & 1 ? 1 : -1;
        sum += sign * g->elements[i];
        if (move != NULL) move[i] += sign * distance;
    }
    return sum;
}

static double stretch_of(const gradient *group, const gradient *g) { return g->length > 0 ? fmin(group->length / g->length, MOST_STRETCHED) : 1; }

/* How many of the n gradients from `first` on one direction can test. */
static int group_of(const gradient *first, int n) {
    int together = 1;
    while (together < n && first[together].y == first->y && first[together].length * MOST_STRETCHED >= first->length) together++;
    return together;
}

/* y at the base moved by `by` along a direction of the group. */
static dt_status *value_at(work *w, const gradient *group, int n, int direction, double by, double *y) {
    dt_tensor *results = DT_NEW_ARRAY(w->arena, dt_tensor, w->n);
    for (int m = w->n_inputs; m < w->n_inputs + w->values.n_moves; m++) memcpy(w->inputs[m].data, w->base[m].data, dt_tensor_bytes(&w->base[m]));
    for (const gradient *g = group; g < group + n; g++) {
        double *move = w->inputs[w->n_inputs + g->x].data;
        along(g, direction, by * stretch_of(group, g), move);
    }
    DT_TRY(evaluate(w, &w->values, 1, w->inputs, results));
    *y = dt_tensor_get(&results[group->y], 0);
    return NULL;
}

/* *difference: of the slope from the gradients, as a share of the longest; NaN where there is no slope. */
static dt_status *compare(work *w, const gradient *group, int n, int direction, double *difference) {
    double expected = 0;
    for (const gradient *g = group; g < group + n; g++) expected += stretch_of(group, g) * along(g, direction, 0, NULL);
    *difference = NAN;
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS && !(*difference <= TOLERANCE); i++) {
        double forwards, back, rounding = ROUNDING * group->size_of_y / STEPS[i];
        DT_TRY(value_at(w, group, n, direction, STEPS[i], &forwards));
        DT_TRY(value_at(w, group, n, direction, -STEPS[i], &back));
        double apart = fabs((forwards - back) / (2 * STEPS[i]) - expected);
        *difference = fmin(*difference, apart == 0 ? 0 : apart / (group->length + rounding / TOLERANCE));
    }
    return NULL;
}

static void keep(dt_finding *finding, double difference, const gradient *of) {
    bool is_undefined = isnan(difference);
    if (is_undefined ? finding->is_undefined || finding->wrong : difference <= finding->worst) return;
    if (is_undefined) {
        finding->is_undefined = true;
    } else {
        finding->worst = difference;
        finding->wrong = difference > TOLERANCE;
    }
    if (!is_undefined && !finding->wrong) return;
    finding->where = of->name;
    finding->location = of->location;
}

/* The group, and where it disagrees its halves, until one gradient alone does. */
static dt_status *compare_group(work *w, const gradient *group, int n, dt_finding *finding) {
    double difference = 0;
    for (int direction = 0; direction < w->n_directions && difference <= TOLERANCE; direction++) {
        DT_TRY(compare(w, group, n, direction, &difference));
        if (n == 1 || difference <= TOLERANCE) keep(finding, difference, group);
    }
    if (n == 1 || difference <= TOLERANCE) return NULL;
    w->expected += 8 * w->n_directions; /* both halves, if not more */
    DT_TRY(compare_group(w, group, n / 2, finding));
    return finding->wrong ? NULL : compare_group(w, group + n / 2, n - n / 2, finding);
}

/* ---- where there are zeros ---- */

static bool has_branch(const dt_formula *node) {
    static const bool branches[DT_N_SCALARS] = {
        [DT_SCALAR_REMAINDER] = true, [DT_SCALAR_MINIMUM] = true,    [DT_SCALAR_MAXIMUM] = true, [DT_SCALAR_ABSOLUTE] = true,
        [DT_SCALAR_FLOOR] = true,     [DT_SCALAR_ROUND] = true,      [DT_SCALAR_EQUAL] = true,   [DT_SCALAR_NOT_EQUAL] = true,
        [DT_SCALAR_LESS] = true,      [DT_SCALAR_LESS_EQUAL] = true, [DT_SCALAR_SELECT] = true};
    bool found = node->kind == DT_FORMULA_SCALAR && branches[node->scalar];
    for (int i = 0; i < node->n_arguments && !found; i++) found = has_branch(node->arguments[i]);
    return found;
}

/* A step of which no float decides anything has slopes everywhere: at zeros too, where gradients have branches of their own. */
static bool is_smooth(dt_arena *arena, const dt_function *function) {
    for (const dt_value *value = function->first; value != NULL; value = value->next) {
        const dt_loops *loops = dt_value_loops(arena, value);
        bool of_floats = false;
        for (int k = 0; k < value->n_operands; k++) of_floats |= dt_dtype_is_float(value->operands[k]->dtype);
        if (!of_floats || loops == NULL) continue;
        bool adds = loops->combiner == DT_COMBINE_NONE || loops->combiner == DT_COMBINE_SUM || loops->combiner == DT_COMBINE_PRODUCT;
        if (!adds || has_branch(loops->body)) return false;
    }
    return true;
}

static dt_status *check_with(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_check_data data, dt_finding *finding) {
    work w = {.arena = arena, .check = check, .rows = rows, .n_directions = n_directions(rows), .data = data};
    w.expected = 3 + 2 * w.n_directions;
    *finding = (dt_finding){.location.file = -1};
    DT_TRY(make_function(&w, step, false, &w.values));
    if (w.n == 0) return NULL;
    DT_TRY(make_function(&w, step, true, &w.gradients));
    make_base(&w);
    DT_TRY(find_gradients(&w));
    int n_finite = 0;
    while (n_finite < w.n && w.all[n_finite].is_finite) n_finite++;
    if (n_finite < w.n) keep(finding, NAN, &w.all[n_finite]);
    w.expected = 3;
    for (int first = 0; first < n_finite; first += group_of(&w.all[first], n_finite - first)) w.expected += 2 * w.n_directions;
    for (int first = 0, n; first < n_finite && !finding->wrong; first += n) {
        n = group_of(&w.all[first], n_finite - first);
        DT_TRY(compare_group(&w, &w.all[first], n, finding));
    }
    finding->n = w.n;
    for (const dt_value *value = w.values.function->first; value != NULL; value = value->next)
        finding->is_stopped |= dt_value_is(value, "stop_gradient");
    return NULL;
}

dt_status *dt_check_gradients(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding) {
    const dt_function *function = check->module->steps.items[step].function;
    dt_check_data data = dt_check_data_of(arena, function, DT_CHECK_PLAIN);
    DT_TRY(check_with(arena, check, step, rows, data, finding));
    if (finding->n == 0 || finding->wrong || !is_smooth(arena, function)) return NULL;
    dt_finding zeros;
    data.kind = DT_CHECK_ZEROS;
    DT_TRY(check_with(arena, check, step, N_ZERO_ROWS, data, &zeros));
    if (zeros.wrong) *finding = zeros;
    return NULL;
}
