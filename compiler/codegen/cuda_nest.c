/* cuda_nest: the statements of a nest.
 *
 * An instruction stands in the innermost loop that it depends on; what only the stores after a reduction need comes after the reduced loops. One
 * that has a single user beside it, and is short, becomes a part of that user's expression: so the text reads like what it computes. Loads are not
 * moved past stores. */
#include "compiler/codegen/cuda.h"

#include <string.h>

enum {
    LONGEST_PART = 64 /* characters of an expression within another */
};

#define FORMAT(n, ...) DT_CUDA_FORMAT((n)->f, __VA_ARGS__)

/* ---- analysis ---- */

static void count_use(dt_cuda_nest *n, int i, int level, bool late, bool several_stores) {
    dt_cuda_use *use = &n->uses[i];
    *use = (dt_cuda_use){use->n + 1, level, late, use->several_stores || several_stores};
}

static void count_uses(dt_cuda_nest *n) {
    const dt_nest *nest = n->nest;
    for (int i = 0; i < nest->n_instructions; i++)
        for (int k = 0; n->needed[i] && k < dt_instruction_n_uses(&nest->instructions[i]); k++)
            count_use(n, dt_instruction_use(&nest->instructions[i], k), n->levels[i], n->late[i], false);
    for (int r = 0; r < nest->n_reductions; r++) {
        int operand = nest->reductions[r].operand;
        bool product = dt_reduction_is_product(nest, &nest->reductions[r]); /* whose factors are named where it is added */
        for (int k = 0; k < (product ? 2 : 1); k++)
            count_use(n, product ? nest->instructions[operand].operands[k] : operand, n->n_levels - 1, false, false);
    }
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        bool late = nest->n_reductions > 0, several = nest->n_stores > 1 || store->accumulate;
        count_use(n, store->operand, 1, late, several);
        if (store->guard >= 0) count_use(n, store->guard, 1, late, several);
        for (int t = 0; t < store->address.n_terms; t++) count_use(n, store->address.terms[t], 1, late, several);
    }
}

void dt_cuda_nest_prepare(dt_cuda_nest *n, dt_cuda_function *f, int number) {
    const dt_nest *nest = &f->kernel->nests[f->how->first + number];
    int n_instructions = nest->n_instructions;
    bool has_row = false;
    *n = (dt_cuda_nest){.f = f, .nest = nest, .how = &f->how->nests[number], .vectors = &f->how->nests[number].vectors};
    n->depends = DT_NEW_ARRAY(f->arena, uint64_t, n_instructions);
    n->needed = DT_NEW_ARRAY(f->arena, bool, n_instructions);
    n->late = DT_NEW_ARRAY(f->arena, bool, n_instructions);
    n->levels = DT_NEW_ARRAY(f->arena, int, n_instructions);
    n->values = DT_NEW_ARRAY(f->arena, const char *, n_instructions);
    n->loads = DT_NEW_ARRAY(f->arena, bool, n_instructions);
    n->loops = DT_NEW_ARRAY(f->arena, const char *, nest->n_loops);
    n->loop_used = DT_NEW_ARRAY(f->arena, bool, nest->n_loops);
    dt_nest_depends(nest, n->depends);
    dt_nest_mark_needed(nest, n->needed);
    n->n_levels = dt_gpu_nest_levels(f->arena, nest, n->how, n->depends, n->levels, n->late);
    n->uses = DT_NEW_ARRAY(f->arena, dt_cuda_use, n_instructions);
    count_uses(n);
    for (int l = 0; l < nest->n_loops; l++) {
        bool row = nest->loops[l].extent == DT_BATCH && !has_row;
        has_row |= row;
        n->loops[l] = row ? "row" : FORMAT(n, n->how->reduced >> l & 1 ? "r%d" : "i%d", l);
    }
}

/* ---- instructions ---- */

static bool reads_memory(const dt_cuda_nest *n, int i) {
    const dt_instruction *x = &n->nest->instructions[i];
    bool reads = x->kind == DT_INSTRUCTION_LOAD;
    for (int k = 0; k < dt_instruction_n_uses(x); k++) reads |= n->loads[dt_instruction_use(x, k)];
    return reads;
}

/* Whether the instruction's text may stand in its user's: it has one, in the same place. Positions are reduced by name. */
static bool is_part(const dt_cuda_nest *n, int i, const char *text) {
    dt_instruction_kind kind = n->nest->instructions[i].kind;
    if (kind == DT_INSTRUCTION_CONSTANT || kind == DT_INSTRUCTION_LOOP) return true;
    if (kind == DT_INSTRUCTION_CHECK || strlen(text) > LONGEST_PART) return false;
    const dt_cuda_use *use = &n->uses[i];
    if (use->n != 1 || (use->several_stores && n->loads[i])) return false;
    return (n->at_use && n->levels[i] > 0) || (use->level == n->levels[i] && use->late == n->late[i]);
}

const char *dt_cuda_bare(dt_cuda_nest *n, const char *text) {
    size_t length = strlen(text);
    int depth = 0;
    if (text[0] != '(') return text;
    for (size_t i = 0; i + 1 < length; i++) {
        depth += (text[i] == '(') - (text[i] == ')');
        if (depth == 0) return text;
    }
    return FORMAT(n, "%.*s", (int)length - 2, text + 1);
}

/* The name of a value at the function's head. Texts are made of such names, so equal values have equal texts. */
static const char *constant_name(dt_cuda_nest *n, const char *type, const char *text) {
    dt_cuda_function *f = n->f;
    for (size_t i = 0; i < f->constants.n; i++)
        if (strcmp(f->constants.items[i].text, text) == 0 && strcmp(f->constants.items[i].type, type) == 0) return f->constants.items[i].name;
    dt_cuda_constant constant = {FORMAT(n, "c%zu", f->constants.n), type, text};
    dt_list_push(f->arena, &f->constants, constant);
    return constant.name;
}

void dt_cuda_emit(dt_cuda_nest *n, int i) {
    const char *text = dt_cuda_expression(n, i);
    n->loads[i] = reads_memory(n, i);
    n->values[i] = text;
    if (is_part(n, i, text)) return;
    const char *type = n->how->narrow[i] ? "int" : dt_cuda_type(n->nest->instructions[i].dtype);
    bool to_head = n->f->hoists && n->levels[i] == 0;
    n->loads[i] = false;
    n->values[i] = to_head ? constant_name(n, type, dt_cuda_bare(n, text)) : FORMAT(n, "v%d", i);
    if (!to_head) dt_cuda_line(n->f, "const %s v%d = %s;", type, i, dt_cuda_bare(n, text));
}

static void emit_level(dt_cuda_nest *n, int level, bool late) {
    for (int i = 0; i < n->nest->n_instructions; i++) {
        if (n->in_vector && n->vectors->ahead[i]) continue;
        if (n->needed[i] && n->levels[i] == level && n->late[i] == late && n->nest->instructions[i].kind != DT_INSTRUCTION_REDUCED)
            dt_cuda_emit(n, i);
    }
}

void dt_cuda_nest_once(dt_cuda_nest *n) { emit_level(n, 0, false); }

/* ---- reductions ---- */

/* What a combiner's results are called, and what the prelude calls the combiner, or of positions the order. */
static const struct {
    const char *result, *by;
} combiners[] = {
    [DT_COMBINE_SUM] = {"total", "by_sum"},    [DT_COMBINE_PRODUCT] = {"total", "by_product"}, [DT_COMBINE_MAX] = {"highest", "by_higher"},
    [DT_COMBINE_MIN] = {"lowest", "by_lower"}, [DT_COMBINE_ARGMAX] = {"best", "greatest"},     [DT_COMBINE_ARGMIN] = {"best", "least"}};

static const char *accumulator_name(dt_cuda_nest *n, int r) {
    const char *name = combiners[n->nest->reductions[r].combiner].result;
    return n->nest->n_reductions > 1 ? FORMAT(n, "%s%d", name, r) : name;
}

static const char *reduced_type(const dt_cuda_nest *n, const dt_reduction *reduction) {
    return dt_cuda_type(n->nest->instructions[reduction->operand].dtype);
}

static void begin_reductions(dt_cuda_nest *n) {
    for (int r = 0; r < n->nest->n_reductions; r++) {
        const dt_reduction *reduction = &n->nest->reductions[r];
        const char *name = accumulator_name(n, r);
        if (dt_combiner_is_position(reduction->combiner))
            dt_cuda_line(n->f, "candidate<%s> %s = {0, -1};", reduced_type(n, reduction), name);
        else
            dt_cuda_line(n->f, "%s %s = %s;", dt_cuda_type(reduction->dtype), name, dt_cuda_identity(n, reduction->combiner, reduction->dtype));
    }
}

/* The row-major position of the reduced loops. */
static const char *position(dt_cuda_nest *n) {
    const char *text = NULL;
    if (n->how->together) return "d";
    for (int l = dt_nest_n_outer(n->nest); l < n->nest->n_loops; l++) {
        if (n->nest->loops[l].extent == 1) continue;
        text = text == NULL ? n->loops[l] : FORMAT(n, "((i64)%s * %s + %s)", text, dt_cuda_extent(n->f, n->nest->loops[l].extent), n->loops[l]);
    }
    return text != NULL ? text : "0";
}

static void accumulate(dt_cuda_nest *n) {
    for (int r = 0; r < n->nest->n_reductions; r++) {
        const dt_reduction *reduction = &n->nest->reductions[r];
        const dt_instruction *operand = &n->nest->instructions[reduction->operand];
        const char *name = accumulator_name(n, r), *value = n->values[reduction->operand];
        if (dt_combiner_is_position(reduction->combiner)) {
            dt_cuda_line(n->f, "consider<%s, %s>(%s, %s, %s);", combiners[reduction->combiner].by, reduced_type(n, reduction), name, value,
                         position(n));
        } else if (dt_reduction_is_product(n->nest, reduction)) {
            dt_cuda_line(n->f, "%s = fma%s(%s, %s, %s);", name, reduction->dtype == DT_F64 ? "" : "f",
                         dt_cuda_bare(n, n->values[operand->operands[0]]), dt_cuda_bare(n, n->values[operand->operands[1]]), name);
        } else {
            value = dt_cuda_convert(n, value, operand->dtype, reduction->dtype);
            dt_cuda_line(n->f, "%s = %s;", name, dt_cuda_bare(n, dt_cuda_combine(n, reduction->combiner, reduction->dtype, name, value)));
        }
    }
}

/* Results of the team's threads become one, which all of them have. */
static void reduce_team(dt_cuda_nest *n) {
    bool warp = n->f->how->team == n->f->target->warp;
    const char *partials = warp ? "" : ", partials", *warps = warp ? "" : FORMAT(n, ", %d", n->f->target->block / n->f->target->warp);
    for (int r = 0; r < n->nest->n_reductions; r++) {
        dt_combiner combiner = n->nest->reductions[r].combiner;
        const char *name = accumulator_name(n, r);
        dt_cuda_line(n->f, "%s = %s_%s<%s%s>(%s%s);", name, dt_combiner_is_position(combiner) ? "best_of" : "reduce", warp ? "warp" : "block",
                     combiners[combiner].by, warps, name, partials);
    }
}

static void take_results(dt_cuda_nest *n) {
    for (int i = 0; i < n->nest->n_instructions; i++) {
        if (n->nest->instructions[i].kind != DT_INSTRUCTION_REDUCED) continue;
        int r = n->nest->instructions[i].index;
        const char *name = accumulator_name(n, r);
        n->values[i] = dt_combiner_is_position(n->nest->reductions[r].combiner) ? FORMAT(n, "(%s.position < 0 ? 0 : %s.position)", name, name) : name;
    }
}

/* ---- loops ---- */

static void open_loop(dt_cuda_nest *n, int l) {
    const char *name = n->loops[l];
    dt_cuda_line(n->f, "for (%s %s = 0; %s < %s; %s++) {", n->f->index, name, name, dt_cuda_extent(n->f, n->nest->loops[l].extent), name);
}

static void reduce_in_order(dt_cuda_nest *n) {
    int first = dt_nest_n_outer(n->nest), n_open = 0;
    for (int l = first; l < n->nest->n_loops; l++) {
        if (n->how->unrolled[l] > 1) dt_cuda_line(n->f, "#pragma unroll %d", n->how->unrolled[l]);
        if (n->nest->loops[l].extent != 1) open_loop(n, l), n_open++;
        emit_level(n, 2 + l - first, false);
    }
    accumulate(n);
    dt_cuda_close_blocks(n->f, n_open);
}

/* Positions lane, lane + team, … of the reduced loops, which are one loop here. */
static void reduce_together(dt_cuda_nest *n) {
    dt_cuda_function *f = n->f;
    dt_cuda_line(f, "for (%s d = lane; d < %s; d += %d) {", f->index, dt_cuda_count(f, n->nest, n->how->reduced), f->how->team);
    dt_text *out = dt_cuda_begin(n, n->how->reduced);
    emit_level(n, 2, false);
    accumulate(n);
    dt_cuda_end(n, out, n->how->reduced, "d");
    dt_cuda_line(f, "}");
    reduce_team(n);
}

void dt_cuda_store(dt_cuda_nest *n, const dt_store *s) {
    dt_dtype dtype = n->f->plan->buffers[n->f->kernel->buffers[s->address.buffer]].dtype;
    const char *element = n->in_vector ? FORMAT(n, "y%d.at[k]", (int)(s - n->nest->stores)) : dt_cuda_access(n, &s->address);
    const char *value = n->values[s->operand];
    if (s->accumulate) {
        const char *old = dt_cuda_from_memory(n, element, dtype);
        value = dtype == DT_BOOL ? FORMAT(n, "(%s || %s)", old, value) : dt_cuda_combine(n, DT_COMBINE_SUM, dtype, old, value);
    }
    const char *guard = s->guard >= 0 ? FORMAT(n, "if (%s) ", dt_cuda_bare(n, n->values[s->guard])) : "";
    dt_cuda_line(n->f, "%s%s = %s;", guard, element, dt_cuda_to_memory(n, dt_cuda_bare(n, value), dtype));
}

static void store_all(dt_cuda_nest *n) {
    for (int s = 0; s < n->nest->n_stores; s++) dt_cuda_store(n, &n->nest->stores[s]);
}

bool *dt_cuda_uses(dt_cuda_nest *n, int instruction) {
    bool *set = DT_NEW_ARRAY(n->f->arena, bool, n->nest->n_instructions);
    dt_nest_mark(n->nest, set, instruction);
    for (int s = 0; s < n->nest->n_stores && instruction < 0; s++) dt_nest_mark_store(n->nest, set, &n->nest->stores[s]);
    return set;
}

static void emit_set(dt_cuda_nest *n, const bool *set) {
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (set[i] && n->levels[i] > 0 && n->nest->instructions[i].kind != DT_INSTRUCTION_REDUCED) dt_cuda_emit(n, i);
}

const char *dt_cuda_nest_value(dt_cuda_nest *n, int instruction) {
    emit_set(n, dt_cuda_uses(n, instruction));
    return dt_cuda_bare(n, n->values[instruction]);
}

void dt_cuda_nest_checks(dt_cuda_nest *n) {
    bool *set = DT_NEW_ARRAY(n->f->arena, bool, n->nest->n_instructions);
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (n->nest->instructions[i].kind == DT_INSTRUCTION_CHECK) dt_nest_mark(n->nest, set, i);
    emit_set(n, set);
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (n->nest->instructions[i].kind == DT_INSTRUCTION_CHECK) dt_cuda_line(n->f, "(void)%s;", n->values[i]);
}

void dt_cuda_nest_finish(dt_cuda_nest *n, const char *sum) {
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (n->nest->instructions[i].kind == DT_INSTRUCTION_REDUCED) n->values[i] = sum;
    emit_set(n, dt_cuda_uses(n, -1));
    store_all(n);
}

void dt_cuda_nest_statements(dt_cuda_nest *n) {
    int n_open = 0;
    for (int l = 0; l < n->nest->n_loops; l++)
        if ((n->how->serial >> l & 1) && n->nest->loops[l].extent != 1) open_loop(n, l), n_open++;
    emit_level(n, 1, false);
    begin_reductions(n);
    if (n->how->together)
        reduce_together(n);
    else if (n->nest->n_reductions > 0)
        reduce_in_order(n);
    take_results(n);
    if (n->how->together) dt_cuda_line(n->f, "if (lane == 0) {");
    emit_level(n, 1, true);
    store_all(n);
    dt_cuda_close_blocks(n->f, n_open + n->how->together);
}

void dt_cuda_nest_element(dt_cuda_nest *n, const char *element) {
    n->element = element;
    dt_text *out = dt_cuda_begin(n, element != NULL ? n->how->dealt : 0);
    dt_cuda_nest_statements(n);
    dt_cuda_end(n, out, element != NULL ? n->how->dealt : 0, element);
}
