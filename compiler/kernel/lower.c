/* lower: see the header. An element of a value is computed by lower_value; what of an operand lies outside its bounds by lower_access. */
#include "compiler/kernel/lower.h"
#include "abi/launch.h"
#include "compiler/kernel/formula.h"
#include "compiler/kernel/view.h"
#include "ir/evaluate.h"
#include "ir/ops.h"

#include <assert.h>
#include <string.h>

typedef struct dt_memo {
    const dt_value *value;
    const dt_affine *at;
    int guard, instruction;
} dt_memo;

/* One nest in the making. */
typedef struct dt_context {
    dt_lowering *lowering;
    dt_nest_builder nest;
    const dt_cluster *cluster; /* NULL: a nest that only lays something out */
    int *sums;                 /* [roots of the cluster] instructions that have their values */
    DT_LIST(dt_memo) memo;
    DT_LIST(dt_location) locations;
} dt_context;

/* A value whose body is being lowered at some point of its loops. */
typedef struct dt_element {
    dt_context *context;
    const dt_value *value;
    const dt_loops *loops;
    const dt_affine *at;     /* [loops->n_loops] */
    int guard;               /* outside of it nothing may be read */
    int *operands, *insides; /* [n_operands] instructions; -2: not asked yet */
    const dt_packing *packings;
} dt_element;

enum {
    unknown = -2
};

bool dt_value_is_alias(const dt_value *value) { return value->op->class == DT_CLASS_MOVE && value->op->loops == NULL; }

bool dt_loops_are_product(const dt_loops *loops) {
    int factors[2];
    dt_precision precision;
    return loops->combiner == DT_COMBINE_SUM && loops->result == NULL && dt_formula_is_product(loops->body, factors, &precision);
}

dt_lowering *dt_lowering_create(dt_compilation *compilation, const dt_function *function, dt_plan *plan, const dt_lowering *before) {
    dt_lowering *lowering = DT_NEW(compilation->arena, dt_lowering);
    int n = function->next_id;
    lowering->compilation = compilation;
    lowering->function = function;
    lowering->plan = plan;
    lowering->buffers = DT_NEW_ARRAY(compilation->arena, int, n);
    lowering->loops = before != NULL ? before->loops : DT_NEW_ARRAY(compilation->arena, dt_loops *, n);
    lowering->expansions = before != NULL ? before->expansions : DT_NEW_ARRAY(compilation->arena, dt_formula *, 2 * dt_n_scalar_functions);
    for (int i = 0; i < n; i++) lowering->buffers[i] = -1;
    return lowering;
}

dt_origin dt_lowering_origin(const dt_lowering *lowering, const dt_nest *nest) {
    return nest->origin > 0 ? lowering->origins.items[nest->origin - 1] : (dt_origin){0};
}

/* Whether some loop has no iterations, whatever the rows. */
static bool are_empty(const dt_loops *loops) {
    for (int l = 0; l < loops->n_loops; l++)
        if (loops->extents[l] == 0) return true;
    return false;
}

/* The loops of a value that none of its operands goes into: each of its elements, if it has any, is what the reduction starts from. */
static dt_loops *loops_over_nothing(dt_arena *arena, const dt_value *value, dt_combiner combiner) {
    dt_loops *loops = dt_loops_new(arena, value, value->shape, 0, NULL, DT_COMBINE_NONE, "0");
    dt_formula *body = dt_arena_copy(arena, loops->body, sizeof *body);
    dt_scalar identity = dt_combiner_identity(combiner, value->dtype);
    body->literal_is_integer = !dt_dtype_is_float(value->dtype);
    if (body->literal_is_integer)
        body->integer = identity.i;
    else
        body->literal = identity.f;
    loops->body = body;
    return loops;
}

const dt_loops *dt_lowering_loops(dt_lowering *lowering, const dt_value *value) {
    dt_arena *arena = lowering->compilation->arena;
    dt_loops **loops = &lowering->loops[value->id];
    if (*loops != NULL || value->op->loops == NULL) return *loops;
    *loops = dt_value_loops(arena, value);
    if (are_empty(*loops)) *loops = loops_over_nothing(arena, value, (*loops)->combiner);
    return *loops;
}

/* ---- shapes seen through other shapes ---- */

static dt_affine linear(dt_context *c, dt_shape shape, const dt_affine *at) {
    dt_arena *arena = c->nest.arena;
    int64_t *strides = DT_NEW_ARRAY(arena, int64_t, shape.rank);
    dt_shape_strides(shape, c->lowering->plan->microbatch_rows, strides);
    dt_affine sum = dt_affine_constant(arena, c->nest.n_loops, 0);
    for (int d = 0; d < shape.rank; d++) sum = dt_affine_add(arena, c->nest.n_loops, sum, at[d], strides[d]);
    return sum;
}

/* x = stride * quotient + rest with 0 <= rest < stride: affine where the parts show it, else by a division. */
static void split(dt_context *c, dt_affine x, int64_t stride, dt_affine *quotient, dt_affine *rest) {
    dt_arena *arena = c->nest.arena;
    int n = c->nest.n_loops;
    dt_affine q = dt_affine_constant(arena, n, x.offset / stride);
    for (int l = 0; l < n; l++)
        if (x.coefficients[l] % stride == 0) q.coefficients[l] = x.coefficients[l] / stride;
    for (int i = 0; i < x.n_terms; i++)
        if (x.term_coefficients[i] % stride == 0)
            q = dt_affine_add(arena, n, q, dt_affine_term(arena, n, x.terms[i]), x.term_coefficients[i] / stride);
    dt_affine r = dt_affine_add(arena, n, x, q, -stride);
    int64_t least, greatest;
    bool fits = dt_affine_least(n, c->nest.loops, &r, &least) && dt_affine_greatest(n, c->nest.loops, &r, &greatest);
    if (!fits || least < 0 || greatest >= stride) {
        int value = dt_nest_affine(&c->nest, &x);
        int divided = dt_nest_binary(&c->nest, DT_SCALAR_DIVIDE, DT_I64, value, dt_nest_integer(&c->nest, DT_I64, stride));
        q = dt_affine_term(arena, n, divided);
        r = dt_affine_add(arena, n, x, q, -stride);
    }
    *quotient = q;
    *rest = r;
}

/* The dimensions [first, last) of `shape` at the element that `position` counts within them. */
static void spread(dt_context *c, dt_affine position, dt_shape shape, int first, int last, dt_affine *at) {
    int64_t stride = 1;
    for (int d = first; d < last; d++) stride *= shape.dims[d];
    for (int d = first; d < last; d++) {
        stride /= shape.dims[d];
        if (shape.dims[d] == 1)
            at[d] = dt_affine_constant(c->nest.arena, c->nest.n_loops, 0);
        else if (stride == 1)
            at[d] = position;
        else
            split(c, position, stride, &at[d], &position);
    }
}

static bool take(dt_shape shape, int *d, int64_t *product) {
    if (*d >= shape.rank || dt_dim_is_symbol(shape.dims[*d])) return false;
    *product *= shape.dims[(*d)++];
    return true;
}

/* The same element under another shape: runs of dimensions with equal products are matched, so that what a reshape leaves alone stays affine. */
static dt_affine *reshaped(dt_context *c, dt_shape from, const dt_affine *at, dt_shape to) {
    dt_arena *arena = c->nest.arena;
    dt_affine *result = DT_NEW_ARRAY(arena, dt_affine, to.rank);
    int i = 0, j = 0;
    if (dt_shape_elements_per_row(from) == 0) { /* no element is asked for, so that any index will do */
        for (; j < to.rank; j++) result[j] = dt_affine_constant(arena, c->nest.n_loops, 0);
        return result;
    }
    while (i < from.rank || j < to.rank) {
        if (i < from.rank && j < to.rank && dt_dim_is_symbol(from.dims[i]) && dt_dim_is_symbol(to.dims[j])) {
            result[j++] = at[i++];
            continue;
        }
        int i0 = i, j0 = j;
        int64_t p = 1, q = 1;
        bool more = take(from, &i, &p);
        more = take(to, &j, &q) || more;
        while (more && p != q) more = p < q ? take(from, &i, &p) : take(to, &j, &q);
        assert(p == q && (i > i0 || j > j0));
        dt_affine position = linear(c, (dt_shape){i - i0, from.dims + i0}, at + i0);
        if (i - i0 == 1 && j - j0 == 1)
            result[j0] = at[i0];
        else
            spread(c, position, to, j0, j, result);
    }
    return result;
}

/* Where element `at` of what has `shape` lies in a buffer of as many elements. */
static dt_affine place(dt_context *c, int buffer, dt_shape shape, const dt_affine *at) {
    const dt_plan *plan = c->lowering->plan;
    dt_shape own = plan->buffers[buffer].shape;
    if (plan->buffers[buffer].view == NULL) return linear(c, shape, at);
    if (!dt_shape_equal(shape, own)) at = reshaped(c, shape, at, own);
    int64_t *strides = DT_NEW_ARRAY(c->nest.arena, int64_t, own.rank);
    dt_buffer_strides(plan, buffer, strides);
    dt_affine sum = dt_affine_constant(c->nest.arena, c->nest.n_loops, 0);
    for (int d = 0; d < own.rank; d++) sum = dt_affine_add(c->nest.arena, c->nest.n_loops, sum, at[d], strides[d]);
    return sum;
}

/* ---- elements ---- */

static int lower_value(dt_context *c, const dt_value *value, const dt_affine *at, int guard);

static int element_operand(dt_element *e, int k);

static void add_condition(dt_context *c, int *inside, dt_scalar_op scalar, int x, int y) {
    *inside = dt_nest_and(&c->nest, *inside, dt_nest_binary(&c->nest, scalar, DT_BOOL, x, y));
}

/* Joins to *inside that 0 <= x < limit, as far as it is not known. */
static void add_bounds(dt_context *c, const dt_affine *x, int64_t extent, int64_t divisor, int *inside) {
    dt_nest_builder *nest = &c->nest;
    int64_t least, greatest;
    if (!dt_affine_least(nest->n_loops, nest->loops, x, &least) || least < 0)
        add_condition(c, inside, DT_SCALAR_LESS_EQUAL, dt_nest_integer(nest, DT_I64, 0), dt_nest_affine(nest, x));
    if (dt_dim_is_symbol(extent)) {
        const dt_affine *plain = x;
        int n_walking = 0;
        for (int l = 0; l < nest->n_loops; l++)
            if (plain->coefficients[l] != 0) n_walking += plain->coefficients[l] == 1 && nest->loops[l].extent == extent ? 1 : 2;
        if (n_walking <= 1 && x->n_terms == 0 && x->offset <= 0) return; /* the loop over these rows itself */
        int rows = dt_nest_add(nest, (dt_instruction){.kind = DT_INSTRUCTION_LAUNCH,
                                                      .dtype = DT_I64,
                                                      .guard = -1,
                                                      .otherwise = -1,
                                                      .index = extent == DT_BATCH ? DT_LAUNCH_rows : DT_LAUNCH_valid});
        add_condition(c, inside, DT_SCALAR_LESS, dt_nest_affine(nest, x), rows);
    } else if (!dt_affine_greatest(nest->n_loops, nest->loops, x, &greatest) || greatest >= extent * divisor) {
        add_condition(c, inside, DT_SCALAR_LESS, dt_nest_affine(nest, x), dt_nest_integer(nest, DT_I64, extent * divisor));
    }
}

/* numerator / divisor, joining to *inside that the division leaves nothing and that the quotient is within bounds. */
static dt_affine divided(dt_context *c, dt_affine numerator, const dt_index *index, bool guarded, int64_t extent, int *inside) {
    dt_nest_builder *nest = &c->nest;
    dt_affine quotient = numerator;
    int64_t divisor = index->divisor;
    if (divisor > 1 && dt_affine_divides(nest->arena, nest->n_loops, numerator, divisor, &quotient)) divisor = 1;
    if (guarded) add_bounds(c, &quotient, extent, divisor, inside);
    if (divisor == 1) return quotient;
    int value = dt_nest_affine(nest, &numerator), by = dt_nest_integer(nest, DT_I64, divisor), zero = dt_nest_integer(nest, DT_I64, 0);
    add_condition(c, inside, DT_SCALAR_EQUAL, dt_nest_binary(nest, DT_SCALAR_REMAINDER, DT_I64, value, by), zero);
    return dt_affine_term(nest->arena, nest->n_loops, dt_nest_binary(nest, DT_SCALAR_DIVIDE, DT_I64, value, by));
}

static int site_of(dt_compilation *compilation, const dt_value *value) {
    dt_location location = value->n_locations > 0 ? value->locations[0] : (dt_location){0, 0, 0};
    for (size_t i = 0; i < compilation->locations.n; i++)
        if (memcmp(&compilation->locations.items[i], &location, sizeof location) == 0) return (int)i;
    dt_list_push(compilation->arena, &compilation->locations, location);
    return (int)compilation->locations.n - 1;
}

/* Whether the number is 0 wherever the guard does not hold: loaded under it. */
static bool is_zero_outside(const dt_nest_builder *nest, const dt_affine *x, int guard) {
    for (int l = 0; l < nest->n_loops; l++)
        if (x->coefficients[l] != 0) return false;
    if (x->offset != 0 || x->n_terms != 1 || x->term_coefficients[0] != 1) return false;
    const dt_instruction *term = &nest->instructions.items[x->terms[0]];
    if (term->kind == DT_INSTRUCTION_CONVERT) term = &nest->instructions.items[term->operands[0]];
    return term->kind == DT_INSTRUCTION_LOAD && term->guard == guard;
}

/* Whether an index from data lies within `extent`: counted as bad where it does not. What is not asked for is not counted. */
static int lower_check(dt_element *e, const dt_value *indices, dt_affine numerator, int64_t extent) {
    dt_nest_builder *nest = &e->context->nest;
    dt_instruction check = {.kind = DT_INSTRUCTION_CHECK, .dtype = DT_BOOL, .integer = extent, .n_operands = 1, .guard = -1, .otherwise = -1};
    check.index = site_of(e->context->lowering->compilation, e->value);
    check.operands[0] = dt_nest_affine(nest, &numerator);
    if (e->guard >= 0 && !is_zero_outside(nest, &numerator, e->guard))
        check.operands[0] = dt_nest_scalar(nest, DT_SCALAR_SELECT, DT_I64, 3, (int[]){e->guard, check.operands[0], dt_nest_integer(nest, DT_I64, 0)});
    check.by_first_shard = e->context->lowering->compilation->module->n_shards > 1 && !indices->distribution.sharded;
    const dt_value *const *originals = e->context->lowering->originals;
    check.indices = (int)(originals != NULL && originals[indices->id] != NULL ? originals[indices->id] : indices)->id;
    for (int k = 0; k < e->loops->n_loops && check.n_operands == 1; k++) {
        if (e->loops->extents[k] != DT_BATCH) continue;
        dt_instruction offset = {.kind = DT_INSTRUCTION_LAUNCH, .dtype = DT_I64, .index = DT_LAUNCH_row_offset, .guard = -1, .otherwise = -1};
        check.operands[1] = dt_nest_binary(nest, DT_SCALAR_ADD, DT_I64, dt_nest_affine(nest, &e->at[k]), dt_nest_add(nest, offset));
        check.n_operands = 2;
    }
    return dt_nest_add(nest, check);
}

/* The sums before division of an access: numerators[d] over the loops of the nest, index tensors included. */
static dt_affine *numerators_of(dt_element *e, const dt_access *access, int rank) {
    dt_nest_builder *nest = &e->context->nest;
    dt_affine *numerators = DT_NEW_ARRAY(nest->arena, dt_affine, rank);
    for (int d = 0; d < rank; d++) {
        const dt_index *index = &access->dims[d];
        numerators[d] = dt_affine_constant(nest->arena, nest->n_loops, index->offset);
        for (int k = 0; k < e->loops->n_loops; k++)
            if (index->coefficients[k] != 0)
                numerators[d] = dt_affine_add(nest->arena, nest->n_loops, numerators[d], e->at[k], index->coefficients[k]);
        if (index->indirect < 0) continue;
        int data = dt_nest_convert(nest, element_operand(e, index->indirect), DT_I64);
        numerators[d] = dt_affine_add(nest->arena, nest->n_loops, numerators[d], dt_affine_term(nest->arena, nest->n_loops, data), 1);
    }
    return numerators;
}

/* The indices of an access to `shape`; *inside becomes the bool that they are within bounds, -1: always. */
static dt_affine *indices_of(dt_element *e, const dt_access *access, dt_shape shape, const dt_affine *numerators, int *inside) {
    dt_context *c = e->context;
    dt_affine *at = DT_NEW_ARRAY(c->nest.arena, dt_affine, shape.rank);
    *inside = -1;
    for (int d = 0; d < shape.rank; d++) {
        const dt_index *index = &access->dims[d];
        if (index->indirect >= 0) {
            *inside = dt_nest_and(&c->nest, *inside, lower_check(e, e->value->operands[index->indirect], numerators[d], shape.dims[d]));
            at[d] = numerators[d];
        } else {
            at[d] = divided(c, numerators[d], index, access->guarded, shape.dims[d], inside);
        }
    }
    return at;
}

/* Operand k where its index has these numerators. */
static int lower_access(dt_element *e, int k, const dt_affine *numerators) {
    dt_context *c = e->context;
    dt_nest_builder *nest = &c->nest;
    const dt_value *operand = e->value->operands[k];
    const dt_access *access = &e->loops->operands[k];
    int inside;
    dt_affine *at = indices_of(e, access, operand->shape, numerators, &inside);
    int guard = dt_nest_and(nest, e->guard, inside);
    int element = lower_value(c, operand, at, guard);
    e->insides[k] = inside;
    if (inside < 0) return element;
    int outside = dt_dtype_is_float(operand->dtype) ? dt_nest_constant(nest, operand->dtype, access->outside.f)
                                                    : dt_nest_integer(nest, operand->dtype, access->outside.i);
    dt_instruction load = nest->instructions.items[element];
    if (element == outside) return element;
    if (load.kind != DT_INSTRUCTION_LOAD || load.guard != guard)
        return dt_nest_scalar(nest, DT_SCALAR_SELECT, operand->dtype, 3, (int[]){inside, element, outside});
    load.otherwise = outside;
    return dt_nest_add(nest, load);
}

static int lower_packed(dt_element *e, const dt_packing *packing, const dt_affine *numerators) {
    dt_nest_builder *nest = &e->context->nest;
    dt_affine index = dt_affine_constant(nest->arena, nest->n_loops, 0);
    for (int d = 0; d < packing->rank; d++) {
        if (packing->strides[d] == 0) continue;
        dt_affine position = numerators[d];
        if (packing->n_blocks > 0 && d == packing->blocked) /* counted from the block's first */
            position = dt_affine_add(nest->arena, nest->n_loops, position, dt_affine_loop(nest->arena, nest->n_loops, 1), -packing->extents[d]);
        position.offset -= packing->lows[d];
        bool divides = dt_affine_divides(nest->arena, nest->n_loops, position, packing->steps[d], &position);
        assert(divides);
        (void)divides;
        index = dt_affine_add(nest->arena, nest->n_loops, index, position, packing->strides[d]);
    }
    return dt_nest_load(nest, packing->buffer, &index, -1, -1);
}

static int element_operand(dt_element *e, int k) {
    if (e->operands[k] == unknown) {
        dt_affine *numerators = numerators_of(e, &e->loops->operands[k], e->value->operands[k]->shape.rank);
        bool packed = e->packings != NULL && e->packings[k].buffer >= 0;
        e->operands[k] = packed ? lower_packed(e, &e->packings[k], numerators) : lower_access(e, k, numerators);
    }
    return e->operands[k];
}

static int scope_operand(dt_scope *scope, int index) { return element_operand(scope->context, index); }

static int scope_inside(dt_scope *scope, int index) {
    dt_element *e = scope->context;
    element_operand(e, index);
    return e->insides[index];
}

static int scope_loop(dt_scope *scope, int index) { return dt_nest_affine(scope->nest, &((dt_element *)scope->context)->at[index]); }

static void add_locations(dt_context *c, const dt_value *value) {
    for (int i = 0; i < value->n_locations; i++) {
        bool known = false;
        for (size_t k = 0; k < c->locations.n && !known; k++) known = memcmp(&c->locations.items[k], &value->locations[i], sizeof(dt_location)) == 0;
        if (!known) dt_list_push(c->nest.arena, &c->locations, value->locations[i]);
    }
}

static dt_element element_at(dt_context *c, const dt_value *value, const dt_affine *at, int guard, const dt_packing *packings) {
    dt_element e = {.context = c, .value = value, .loops = dt_lowering_loops(c->lowering, value), .at = at, .guard = guard, .packings = packings};
    e.operands = DT_NEW_ARRAY(c->nest.arena, int, value->n_operands);
    e.insides = DT_NEW_ARRAY(c->nest.arena, int, value->n_operands);
    for (int k = 0; k < value->n_operands; k++) e.operands[k] = unknown, e.insides[k] = -1;
    add_locations(c, value);
    return e;
}

static int lower_body(dt_element *e, dt_dtype wanted) {
    dt_scope scope = {.nest = &e->context->nest, .operand = scope_operand, .inside = scope_inside, .loop = scope_loop, .context = e};
    int result = dt_lower_formula(&scope, e->loops->body, wanted);
    e->context->lowering->status = dt_status_first(e->context->lowering->status, scope.status);
    return result;
}

static int root_index(const dt_cluster *cluster, const dt_value *value) {
    for (size_t r = 0; cluster != NULL && r < cluster->roots.n; r++)
        if (cluster->roots.items[r] == value) return (int)r;
    return -1;
}

static bool is_member(const dt_cluster *cluster, const dt_value *value) {
    for (size_t m = 0; cluster != NULL && m < cluster->members.n; m++)
        if (cluster->members.items[m] == value) return true;
    return false;
}

/* Whether the cluster computes `value`, or what it is an alias of: then it is not loaded. */
static bool is_computed_here(const dt_cluster *cluster, const dt_value *value) {
    while (dt_value_is_alias(value)) value = value->operands[0];
    return root_index(cluster, value) >= 0 || is_member(cluster, value);
}

static int compute_value(dt_context *c, const dt_value *value, const dt_affine *at, int guard) {
    dt_nest_builder *nest = &c->nest;
    int root = root_index(c->cluster, value), buffer = c->lowering->buffers[value->id];
    if (root >= 0) return dt_nest_convert(nest, c->sums[root], value->dtype);
    if (buffer >= 0 && !is_computed_here(c->cluster, value)) {
        if (dt_shape_elements_per_row(value->shape) == 0) return dt_nest_constant(nest, value->dtype, 0); /* no element is asked for */
        dt_affine index = place(c, buffer, value->shape, at);
        int otherwise = guard < 0 ? -1 : dt_nest_constant(nest, nest->plan->buffers[buffer].dtype, 0);
        return dt_nest_convert(nest, dt_nest_load(nest, buffer, &index, guard, otherwise), value->dtype);
    }
    if (dt_value_is_alias(value)) return lower_value(c, value->operands[0], reshaped(c, value->shape, at, value->operands[0]->shape), guard);
    dt_element e = element_at(c, value, at, guard, NULL);
    assert(e.loops != NULL && e.loops->n_outer == e.loops->n_loops && e.loops->result == NULL);
    return dt_nest_convert(nest, lower_body(&e, dt_dtype_of_sums(value->dtype)), value->dtype);
}

static int lower_value(dt_context *c, const dt_value *value, const dt_affine *at, int guard) {
    for (size_t i = c->memo.n; i-- > 0;) {
        const dt_memo *memo = &c->memo.items[i];
        if (memo->value != value || memo->guard != guard) continue;
        bool same = true;
        for (int d = 0; d < value->shape.rank && same; d++) same = dt_affine_equal(c->nest.n_loops, &memo->at[d], &at[d]);
        if (same) return memo->instruction;
    }
    dt_memo memo = {value, at, guard, compute_value(c, value, at, guard)};
    dt_list_push(c->nest.arena, &c->memo, memo);
    return memo.instruction;
}

/* ---- nests ---- */

static dt_context context_create(dt_lowering *lowering, dt_kernel_function *kernel, const dt_cluster *cluster, int n_loops) {
    dt_arena *arena = lowering->compilation->arena;
    dt_context c = {.lowering = lowering, .cluster = cluster};
    c.nest = (dt_nest_builder){.arena = arena, .plan = lowering->plan, .lowering = lowering, .kernel = kernel, .n_loops = n_loops};
    c.nest.loops = DT_NEW_ARRAY(arena, dt_loop, n_loops);
    return c;
}

static dt_nest finish(dt_context *c) {
    dt_nest nest = dt_nest_finish(&c->nest);
    nest.n_locations = (int)c->locations.n;
    nest.locations = c->locations.items;
    return nest;
}

static dt_dtype accumulator_of(const dt_value *root, const dt_loops *loops) {
    if (dt_combiner_is_position(loops->combiner)) return DT_I64;
    return root->dtype == DT_BOOL ? DT_U8 : dt_dtype_of_sums(root->dtype);
}

/* Whether sums are not complete after the reduced loops, and added to in memory. */
static bool keeps_sums(const dt_layout *layout) { return layout->row_loop >= 0 || (layout->n_spreads > 0 && !layout->apart); }

/* Folds or scatters one root. */
static void lower_root(dt_context *c, int r, const dt_affine *at, const dt_layout *layout) {
    const dt_value *root = c->cluster->roots.items[r];
    dt_nest_builder *nest = &c->nest;
    dt_element e = element_at(c, root, at, -1, layout->packings);
    if (dt_layout_is_empty(layout)) {
        c->sums[r] = dt_nest_constant(nest, accumulator_of(root, e.loops), 0);
        return;
    }
    int body = lower_body(&e, dt_dtype_of_sums(root->dtype));
    if (e.loops->result != NULL) {
        int inside;
        dt_affine *numerators = numerators_of(&e, e.loops->result, root->shape.rank);
        int buffer = c->cluster->outputs.items[0].buffer;
        dt_affine index = place(c, buffer, root->shape, indices_of(&e, e.loops->result, root->shape, numerators, &inside));
        dt_nest_store(nest, buffer, &index, dt_nest_convert(nest, body, root->dtype), true, inside);
        return;
    }
    dt_dtype accumulator = accumulator_of(root, e.loops);
    bool position = dt_combiner_is_position(e.loops->combiner);
    c->sums[r] = position ? body : dt_nest_convert(nest, body, accumulator);
    bool is_spread = layout->row_loop >= 0 || layout->n_spreads > 0; /* maybe over all reduced loops */
    if (!is_spread || (nest->n_loops > 0 && nest->loops[nest->n_loops - 1].reduced)) {
        int index = dt_nest_reduce(nest, e.loops->combiner, c->sums[r], accumulator);
        c->sums[r] =
            dt_nest_add(nest, (dt_instruction){.kind = DT_INSTRUCTION_REDUCED, .dtype = accumulator, .index = index, .guard = -1, .otherwise = -1});
    }
    if (!keeps_sums(layout)) return;
    dt_affine index = place(c, layout->accumulators[r], root->shape, at);
    dt_nest_store(nest, layout->accumulators[r], &index, c->sums[r], true, -1);
}

static const dt_spread *spread_over(const dt_layout *layout, int reduced) {
    for (int i = 0; i < layout->n_spreads; i++)
        if (layout->spreads[i].reduced == reduced) return &layout->spreads[i];
    return NULL;
}

/* The row loop first, or what walks the rows of all replicas, which are outermost in memory; then reduced loops whose sums are kept in memory, then
 * the result's, then the other reduced ones. Apart, reduced loops stand right after those of the result that they go with. */
static int rank_of(const dt_layout *layout, const dt_loops *loops, int loop) {
    enum {
        all_rows,
        first,
        kept,
        outer
    };
    const dt_spread *spread = spread_over(layout, loop);
    if (loop < loops->n_outer && loops->extents[loop] == DT_GATHERED) return all_rows;
    if (loop == (layout->row_loop >= 0 ? layout->row_loop : 0)) return first;
    if (spread != NULL) return layout->apart ? outer + spread->outer : kept;
    return outer + (loop < loops->n_outer ? loop : loops->n_outer);
}

int dt_layout_loop(const dt_layout *layout, const dt_loops *loops, int loop) {
    bool is_row = loop == (layout->row_loop >= 0 ? layout->row_loop : 0);
    int rank = rank_of(layout, loops, loop), position = layout->n_blocks > 0 && !is_row; /* the loop over blocks comes right after that over rows */
    for (int k = 0; k < loops->n_loops; k++) {
        int other = rank_of(layout, loops, k);
        position += other < rank || (other == rank && k < loop);
    }
    return position;
}

bool dt_layout_is_empty(const dt_layout *layout) {
    for (int i = 0; i < layout->n_polyphases; i++)
        if (layout->polyphases[i].reduced_extent == 0) return true;
    return false;
}

/* Replaces a loop by its values first, first + step, …, `extent` of them. */
static void thin_out(dt_context *c, dt_affine *at, int position, int64_t first, int64_t step, int64_t extent) {
    dt_nest_builder *nest = &c->nest;
    nest->loops[position].extent = extent;
    *at = dt_affine_scale(nest->arena, nest->n_loops, *at, step);
    at->offset += first;
}

/* Puts a loop over blocks of the layout's blocked loop into the nest. */
static void cut_into_blocks(dt_context *c, const dt_loops *loops, const dt_layout *layout, dt_affine *at) {
    dt_nest_builder *nest = &c->nest;
    dt_loop *loop = &nest->loops[dt_layout_loop(layout, loops, layout->blocked)];
    loop->extent /= layout->n_blocks;
    nest->loops[1] = (dt_loop){layout->n_blocks, false};
    at[layout->blocked] = dt_affine_add(nest->arena, nest->n_loops, at[layout->blocked], dt_affine_loop(nest->arena, nest->n_loops, 1), loop->extent);
}

/* The loops of the nest from those of the roots; at[k] becomes where loop k of the roots stands. */
static void lay_out_loops(dt_context *c, const dt_loops *loops, const dt_layout *layout, dt_affine *at) {
    dt_nest_builder *nest = &c->nest;
    for (int k = 0; k < loops->n_loops; k++) {
        int position = dt_layout_loop(layout, loops, k);
        nest->loops[position] = (dt_loop){loops->extents[k], k >= loops->n_outer && k != layout->row_loop && spread_over(layout, k) == NULL};
        at[k] = dt_affine_loop(nest->arena, nest->n_loops, position);
    }
    for (int i = 0; i < layout->n_spreads; i++) {
        const dt_spread *spread = &layout->spreads[i];
        nest->loops[dt_layout_loop(layout, loops, spread->outer)].extent = spread->extent;
        dt_affine o = dt_affine_scale(nest->arena, nest->n_loops, at[spread->outer], spread->divisor);
        o.offset -= spread->shift;
        at[spread->outer] = dt_affine_add(nest->arena, nest->n_loops, o, at[spread->reduced], spread->factor);
    }
    for (int i = 0; i < layout->n_polyphases; i++) {
        const dt_polyphase *phase = &layout->polyphases[i];
        int outer = dt_layout_loop(layout, loops, phase->outer), reduced = phase->reduced;
        thin_out(c, &at[phase->outer], outer, phase->outer_first, phase->divisor, phase->outer_extent);
        if (reduced < 0) continue;
        thin_out(c, &at[reduced], dt_layout_loop(layout, loops, reduced), phase->reduced_first, phase->reduced_step, phase->reduced_extent);
    }
    if (layout->n_blocks > 0) cut_into_blocks(c, loops, layout, at);
    for (int k = 0; k < loops->n_loops && dt_layout_is_empty(layout); k++)
        if (k >= loops->n_outer) nest->loops[dt_layout_loop(layout, loops, k)] = (dt_loop){1, false};
}

/* A loop for each dimension, in the order in which they lie in memory; at[d] becomes where the loop of dimension d stands. */
static void walk_dimensions(dt_context *c, dt_shape shape, dt_affine *at) {
    dt_nest_builder *nest = &c->nest;
    int place = 0;
    for (int all_rows = 1; all_rows >= 0; all_rows--)
        for (int d = 0; d < shape.rank; d++) {
            if ((shape.dims[d] == DT_GATHERED) != all_rows) continue;
            nest->loops[place].extent = shape.dims[d];
            at[d] = dt_affine_loop(nest->arena, nest->n_loops, place++);
        }
}

/* Of whom the nest is. */
static void sign(dt_nest *nest, const dt_value *value) {
    nest->layer = value->layer;
    nest->backward = value->call == DT_BACKWARD;
}

dt_nest dt_lower_cluster(dt_lowering *lowering, dt_kernel_function *kernel, const dt_cluster *cluster, const dt_layout *layout) {
    dt_arena *arena = lowering->compilation->arena;
    const dt_loops *loops = cluster->roots.n > 0 ? dt_lowering_loops(lowering, cluster->roots.items[0]) : NULL;
    int n_loops = loops ? loops->n_loops + (layout->n_blocks > 0) : cluster->space.rank;
    dt_context c = context_create(lowering, kernel, cluster, n_loops);
    dt_affine *at = DT_NEW_ARRAY(arena, dt_affine, loops ? loops->n_loops : n_loops);
    if (loops != NULL)
        lay_out_loops(&c, loops, layout, at);
    else
        walk_dimensions(&c, cluster->space, at);
    c.sums = DT_NEW_ARRAY(arena, int, cluster->roots.n);
    for (size_t r = 0; r < cluster->roots.n; r++) lower_root(&c, (int)r, at, layout);
    bool done = keeps_sums(layout) || (loops && loops->result != NULL);
    for (size_t o = 0; o < cluster->outputs.n && !done; o++) {
        const dt_value *value = cluster->outputs.items[o].value;
        int buffer = cluster->outputs.items[o].buffer;
        dt_affine *position = reshaped(&c, cluster->space, at, value->shape), index = place(&c, buffer, value->shape, position);
        int element = dt_nest_convert(&c.nest, lower_value(&c, value, position, -1), lowering->plan->buffers[buffer].dtype);
        dt_nest_store(&c.nest, buffer, &index, element, false, -1);
    }
    dt_nest nest = finish(&c);
    sign(&nest, cluster->roots.n > 0 ? cluster->roots.items[0] : cluster->outputs.items[0].value);
    dt_list_push(arena, &lowering->origins, ((dt_origin){cluster, layout}));
    nest.origin = (int)lowering->origins.n;
    return nest;
}

dt_nest dt_lower_zero(dt_lowering *lowering, dt_kernel_function *kernel, int buffer) {
    const dt_buffer *target = &lowering->plan->buffers[buffer];
    dt_context c = context_create(lowering, kernel, NULL, target->shape.rank);
    dt_affine *at = DT_NEW_ARRAY(c.nest.arena, dt_affine, target->shape.rank);
    walk_dimensions(&c, target->shape, at);
    dt_affine index = place(&c, buffer, target->shape, at);
    dt_nest_store(&c.nest, buffer, &index, dt_nest_constant(&c.nest, target->dtype, 0), false, -1);
    dt_nest nest = finish(&c);
    nest.note = "zero";
    return nest;
}

dt_nest dt_lower_packing(dt_lowering *lowering, dt_kernel_function *kernel, const dt_value *root, int operand, const dt_packing *packing) {
    bool in_blocks = packing->n_blocks > 0;
    int n_loops = packing->rank + in_blocks;
    dt_context c = context_create(lowering, kernel, NULL, n_loops);
    dt_arena *arena = c.nest.arena;
    dt_affine *numerators = DT_NEW_ARRAY(arena, dt_affine, packing->rank), target = dt_affine_constant(arena, n_loops, 0);
    if (in_blocks) c.nest.loops[1].extent = packing->n_blocks;
    for (int i = 0; i < packing->rank; i++) {
        int d = packing->order[i], position = in_blocks && i > 0 ? i + 1 : i;
        dt_affine loop = dt_affine_loop(arena, n_loops, position);
        c.nest.loops[position].extent = packing->extents[d];
        target = dt_affine_add(arena, n_loops, target, loop, packing->strides[d]);
        if (in_blocks && d == packing->blocked) loop = dt_affine_add(arena, n_loops, loop, dt_affine_loop(arena, n_loops, 1), packing->extents[d]);
        numerators[d] = dt_affine_scale(arena, n_loops, loop, packing->steps[d]);
        numerators[d].offset = packing->lows[d];
    }
    dt_element e = element_at(&c, root, NULL, -1, NULL);
    const dt_buffer *buffer = &lowering->plan->buffers[packing->buffer];
    int element = dt_nest_convert(&c.nest, lower_access(&e, operand, numerators), buffer->dtype);
    if (buffer->precision != DT_PRECISION_F32)
        element = dt_nest_scalar(&c.nest, dt_scalar_of_precision(buffer->precision), buffer->dtype, 1, &element);
    dt_nest_store(&c.nest, packing->buffer, &target, element, false, -1);
    dt_nest nest = finish(&c);
    sign(&nest, root);
    nest.note = "pack";
    return nest;
}
