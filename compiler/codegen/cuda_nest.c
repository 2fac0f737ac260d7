/* cuda_nest: the statements of a nest.
 *
 * An instruction stands in the innermost loop that it depends on; what only the stores after a reduction need comes after the reduced loops. One
 * that has a single user beside it, and is short, becomes a part of that user's expression: so the text reads like what it computes. Loads are not
 * moved past stores. */
#include "compiler/codegen/cuda.h"

#include <string.h>

enum {
    LONGEST_PART = 64, /* characters of an expression within another */
    IN_FLIGHT = 16,    /* loads that a thread which reduces in order waits for at a time: nothing else hides their latency */
    MOST_UNROLLED = 24 /* instructions of an iteration that is written out several times */
};

#define FORMAT(n, ...) dt_arena_format((n)->f->arena, __VA_ARGS__)

/* ---- analysis ---- */

static int first_reduced(const dt_nest *nest) {
    int l = 0;
    while (l < nest->n_loops && !dt_nest_reduces(nest, l)) l++;
    return l;
}

static void divide_loops(dt_cuda_nest *n) {
    const dt_nest *nest = n->nest;
    const dt_phase *phase = n->f->phase;
    uint64_t parallel = dt_nest_parallel_loops(n->f->plan, n->f->kernel, nest);
    for (int l = 0; l < nest->n_loops; l++) {
        uint64_t bit = (uint64_t)1 << l;
        if (dt_nest_reduces(nest, l))
            n->reduced |= bit;
        else if ((phase->kind == DT_PHASE_TEAMS && l < phase->n_shared) || (phase->kind == DT_PHASE_TILES && (phase->product.both & bit)))
            n->shared |= bit;
        else if (parallel & bit)
            n->dealt |= bit;
        else
            n->serial |= bit;
    }
    n->together = phase->kind == DT_PHASE_TEAMS && n->f->team > 1 && dt_nest_reduces_together(n->f->plan, nest, phase->n_shared);
}

static void name_loops(dt_cuda_nest *n) {
    bool has_row = false;
    for (int l = 0; l < n->nest->n_loops; l++) {
        bool row = n->nest->loops[l].extent == DT_BATCH && !has_row;
        has_row |= row;
        n->loops[l] = row ? "row" : FORMAT(n, n->reduced >> l & 1 ? "r%d" : "i%d", l);
    }
}

static void find_levels(dt_cuda_nest *n) {
    const dt_nest *nest = n->nest;
    int *of_loop = DT_NEW_ARRAY(n->f->arena, int, nest->n_loops), *least = DT_NEW_ARRAY(n->f->arena, int, nest->n_instructions);
    int first = first_reduced(nest);
    for (int l = 0; l < nest->n_loops; l++) of_loop[l] = l >= first ? 2 + (n->together ? 0 : l - first) : n->shared >> l & 1 ? 0 : 1;
    for (int i = 0; i < nest->n_instructions; i++) least[i] = nest->instructions[i].kind == DT_INSTRUCTION_CHECK ? 1 : 0;
    dt_nest_place(n->f->arena, nest, n->depends, &(dt_depths){of_loop, 1, least, 0}, n->levels, n->late);
}

void dt_cuda_nest_prepare(dt_cuda_nest *n, dt_cuda_function *f, const dt_nest *nest) {
    int n_instructions = nest->n_instructions;
    *n = (dt_cuda_nest){.f = f, .nest = nest, .width = 1};
    n->depends = DT_NEW_ARRAY(f->arena, uint64_t, n_instructions);
    n->needed = DT_NEW_ARRAY(f->arena, bool, n_instructions);
    n->late = DT_NEW_ARRAY(f->arena, bool, n_instructions);
    n->levels = DT_NEW_ARRAY(f->arena, int, n_instructions);
    n->ranges = DT_NEW_ARRAY(f->arena, dt_cuda_range, n_instructions);
    n->values = DT_NEW_ARRAY(f->arena, const char *, n_instructions);
    n->loads = DT_NEW_ARRAY(f->arena, bool, n_instructions);
    n->vectors = DT_NEW_ARRAY(f->arena, bool, n_instructions);
    n->ahead = DT_NEW_ARRAY(f->arena, bool, n_instructions);
    n->loops = DT_NEW_ARRAY(f->arena, const char *, nest->n_loops);
    n->loop_used = DT_NEW_ARRAY(f->arena, bool, nest->n_loops);
    dt_nest_depends(nest, n->depends);
    dt_nest_mark_needed(nest, n->needed);
    divide_loops(n);
    name_loops(n);
    find_levels(n);
    n->n_levels = 2 + (n->reduced == 0 ? 0 : n->together ? 1 : nest->n_loops - first_reduced(nest));
    dt_cuda_find_ranges(n);
}

/* ---- instructions ---- */

/* What uses an instruction, and where. */
typedef struct user {
    int n_uses, level;
    bool late, several_stores;
} user;

static void count_use(user *u, int level, bool late) {
    u->n_uses++;
    u->level = level;
    u->late = late;
}

static void count_stores(const dt_cuda_nest *n, int i, user *u) {
    for (int s = 0; s < n->nest->n_stores; s++) {
        const dt_store *store = &n->nest->stores[s];
        int uses = (store->operand == i) + (store->guard == i);
        for (int t = 0; t < store->address.n_terms; t++) uses += store->address.terms[t] == i;
        for (; uses > 0; uses--) {
            count_use(u, 1, n->nest->n_reductions > 0);
            u->several_stores |= n->nest->n_stores > 1 || store->accumulate;
        }
    }
}

static user user_of(const dt_cuda_nest *n, int i) {
    const dt_nest *nest = n->nest;
    user u = {0};
    for (int j = i + 1; j < nest->n_instructions; j++)
        for (int k = 0; n->needed[j] && k < dt_instruction_n_uses(&nest->instructions[j]); k++)
            if (dt_instruction_use(&nest->instructions[j], k) == i) count_use(&u, n->levels[j], n->late[j]);
    for (int r = 0; r < nest->n_reductions; r++) {
        const dt_instruction *operand = &nest->instructions[nest->reductions[r].operand];
        bool product = dt_reduction_is_product(nest, &nest->reductions[r]);
        for (int k = 0; product && k < 2; k++)
            if (operand->operands[k] == i) count_use(&u, n->n_levels - 1, false);
        if (!product && nest->reductions[r].operand == i) count_use(&u, n->n_levels - 1, false);
    }
    count_stores(n, i, &u);
    return u;
}

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
    user u = user_of(n, i);
    if (n->at_use && n->levels[i] > 0) return u.n_uses == 1 && !(u.several_stores && n->loads[i]);
    return u.n_uses == 1 && u.level == n->levels[i] && u.late == n->late[i] && !(u.several_stores && n->loads[i]);
}

/* An expression without the parentheses around all of it. */
static const char *bare(dt_cuda_nest *n, const char *text) {
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

static void emit(dt_cuda_nest *n, int i) {
    const char *text = dt_cuda_expression(n, i);
    n->loads[i] = reads_memory(n, i);
    n->values[i] = text;
    if (is_part(n, i, text)) return;
    const char *type = dt_cuda_is_narrow(n, i) ? "int" : dt_cuda_type(n->nest->instructions[i].dtype);
    bool to_head = n->f->hoists && n->levels[i] == 0;
    n->loads[i] = false;
    n->values[i] = to_head ? constant_name(n, type, bare(n, text)) : FORMAT(n, "v%d", i);
    if (!to_head) dt_cuda_line(n->f, "const %s v%d = %s;", type, i, bare(n, text));
}

static void emit_level(dt_cuda_nest *n, int level, bool late) {
    for (int i = 0; i < n->nest->n_instructions; i++) {
        if (n->in_vector && n->ahead[i]) continue;
        if (n->needed[i] && n->levels[i] == level && n->late[i] == late && n->nest->instructions[i].kind != DT_INSTRUCTION_REDUCED) emit(n, i);
    }
}

void dt_cuda_nest_once(dt_cuda_nest *n) { emit_level(n, 0, false); }

/* ---- reductions ---- */

static const char *accumulator_name(dt_cuda_nest *n, int r) {
    static const char *const names[] = {[DT_COMBINE_SUM] = "total",  [DT_COMBINE_PRODUCT] = "total", [DT_COMBINE_MAX] = "highest",
                                        [DT_COMBINE_MIN] = "lowest", [DT_COMBINE_ARGMAX] = "best",   [DT_COMBINE_ARGMIN] = "best"};
    const char *name = names[n->nest->reductions[r].combiner];
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
    if (n->together) return "d";
    for (int l = first_reduced(n->nest); l < n->nest->n_loops; l++) {
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
            dt_cuda_line(n->f, "consider<%s, %s>(%s, %s, %s);", reduction->combiner == DT_COMBINE_ARGMAX ? "greatest" : "least",
                         reduced_type(n, reduction), name, value, position(n));
        } else if (dt_reduction_is_product(n->nest, reduction)) {
            dt_cuda_line(n->f, "%s = fma%s(%s, %s, %s);", name, reduction->dtype == DT_F64 ? "" : "f", bare(n, n->values[operand->operands[0]]),
                         bare(n, n->values[operand->operands[1]]), name);
        } else {
            value = dt_cuda_convert(n, value, operand->dtype, reduction->dtype);
            dt_cuda_line(n->f, "%s = %s;", name, bare(n, dt_cuda_combine(n, reduction->combiner, reduction->dtype, name, value)));
        }
    }
}

/* Results of the team's threads become one, which all of them have. */
static void reduce_team(dt_cuda_nest *n) {
    static const char *const combiners[] = {
        [DT_COMBINE_SUM] = "by_sum", [DT_COMBINE_PRODUCT] = "by_product", [DT_COMBINE_MAX] = "by_higher", [DT_COMBINE_MIN] = "by_lower"};
    bool warp = n->f->team == DT_WARP;
    const char *partials = warp ? "" : ", partials", *warps = warp ? "" : FORMAT(n, ", %d", DT_CUDA_BLOCK / DT_WARP);
    for (int r = 0; r < n->nest->n_reductions; r++) {
        dt_combiner combiner = n->nest->reductions[r].combiner;
        const char *name = accumulator_name(n, r);
        if (dt_combiner_is_position(combiner))
            dt_cuda_line(n->f, "%s = best_of_%s<%s%s>(%s%s);", name, warp ? "warp" : "block", combiner == DT_COMBINE_ARGMAX ? "greatest" : "least",
                         warps, name, partials);
        else
            dt_cuda_line(n->f, "%s = reduce_%s<%s%s>(%s%s);", name, warp ? "warp" : "block", combiners[combiner], warps, name, partials);
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
    const char *type = dt_cuda_index_type(n->f), *name = n->loops[l];
    dt_cuda_line(n->f, "for (%s %s = 0; %s < %s; %s++) {", type, name, name, dt_cuda_extent(n->f, n->nest->loops[l].extent), name);
}

/* Iterations of the innermost loops that are best written out, so that their loads are on their way together. Their order stays. */
static int unroll_factor(const dt_cuda_nest *n) {
    int n_loads = 0, n_all = 0;
    for (int i = 0; i < n->nest->n_instructions; i++) {
        if (!n->needed[i] || n->late[i] || n->levels[i] != n->n_levels - 1) continue;
        n_loads += n->nest->instructions[i].kind == DT_INSTRUCTION_LOAD;
        n_all++;
    }
    return n_loads == 0 || n_all > MOST_UNROLLED ? 1 : IN_FLIGHT / n_loads;
}

/* Iterations of loop l that are written out: what short loops within it leave of those that are best. */
static int unroll_factor_of_loop(const dt_cuda_nest *n, int l) {
    int64_t iterations = unroll_factor(n);
    for (int inner = l + 1; inner < n->nest->n_loops; inner++)
        iterations = n->nest->loops[inner].extent > 0 ? iterations / n->nest->loops[inner].extent : 0;
    return (int)iterations;
}

static void reduce_in_order(dt_cuda_nest *n) {
    int first = first_reduced(n->nest), n_open = 0;
    for (int l = first; l < n->nest->n_loops; l++) {
        bool several = n->nest->loops[l].extent != 1;
        int at_once = unroll_factor_of_loop(n, l);
        if (several && at_once > 1) dt_cuda_line(n->f, "#pragma unroll %d", at_once);
        if (several) open_loop(n, l), n_open++;
        emit_level(n, 2 + l - first, false);
    }
    accumulate(n);
    for (; n_open > 0; n_open--) dt_cuda_line(n->f, "}");
}

/* Positions lane, lane + team, … of the reduced loops, which are one loop here. */
static void reduce_together(dt_cuda_nest *n) {
    dt_cuda_function *f = n->f;
    dt_text body = {.arena = f->arena}, *out = f->out;
    const char *count = dt_cuda_count(f, n->nest, n->reduced);
    dt_cuda_line(f, "for (%s d = lane; d < %s; d += %d) {", dt_cuda_index_type(f), count, f->team);
    for (int l = 0; l < n->nest->n_loops; l++)
        if (n->reduced >> l & 1) n->loop_used[l] = false;
    f->out = &body;
    emit_level(n, 2, false);
    accumulate(n);
    f->out = out;
    dt_cuda_declare_loops(f, n->nest, n->loops, n->reduced, n->loop_used, "d");
    dt_text_append(out, body.data != NULL ? body.data : "");
    dt_cuda_line(f, "}");
}

static void store(dt_cuda_nest *n, const dt_store *s) {
    dt_dtype dtype = n->f->plan->buffers[n->f->kernel->buffers[s->address.buffer]].dtype;
    const char *element = n->in_vector ? FORMAT(n, "y%d.at[k]", (int)(s - n->nest->stores)) : dt_cuda_access(n, &s->address);
    const char *value = n->values[s->operand];
    if (s->accumulate) {
        const char *old = dt_cuda_from_memory(n, element, dtype);
        value = dtype == DT_BOOL ? FORMAT(n, "(%s || %s)", old, value) : dt_cuda_combine(n, DT_COMBINE_SUM, dtype, old, value);
    }
    if (s->guard >= 0)
        dt_cuda_line(n->f, "if (%s) %s = %s;", bare(n, n->values[s->guard]), element, dt_cuda_to_memory(n, bare(n, value), dtype));
    else
        dt_cuda_line(n->f, "%s = %s;", element, dt_cuda_to_memory(n, bare(n, value), dtype));
}

static void add_uses(const dt_nest *nest, bool *set, int i) {
    if (i < 0 || set[i]) return;
    set[i] = true;
    for (int k = 0; k < dt_instruction_n_uses(&nest->instructions[i]); k++) add_uses(nest, set, dt_instruction_use(&nest->instructions[i], k));
}

static void emit_set(dt_cuda_nest *n, const bool *set) {
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (set[i] && n->levels[i] > 0 && n->nest->instructions[i].kind != DT_INSTRUCTION_REDUCED) emit(n, i);
}

const char *dt_cuda_nest_value(dt_cuda_nest *n, int instruction) {
    bool *set = DT_NEW_ARRAY(n->f->arena, bool, n->nest->n_instructions);
    add_uses(n->nest, set, instruction);
    emit_set(n, set);
    return bare(n, n->values[instruction]);
}

void dt_cuda_nest_checks(dt_cuda_nest *n) {
    bool *set = DT_NEW_ARRAY(n->f->arena, bool, n->nest->n_instructions);
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (n->nest->instructions[i].kind == DT_INSTRUCTION_CHECK) add_uses(n->nest, set, i);
    emit_set(n, set);
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (n->nest->instructions[i].kind == DT_INSTRUCTION_CHECK) dt_cuda_line(n->f, "(void)%s;", n->values[i]);
}

/* A load of `width` values that lie side by side. */
static void emit_vector(dt_cuda_nest *n, int i) {
    const dt_instruction *x = &n->nest->instructions[i];
    dt_dtype dtype = n->f->plan->buffers[n->f->kernel->buffers[x->address.buffer]].dtype;
    const char *type = dt_cuda_memory_type(dtype), *value = FORMAT(n, "load<%d>(&%s)", n->width, dt_cuda_access(n, &x->address));
    if (x->guard >= 0)
        value = FORMAT(n, "%s ? %s : filled<%d, %s>(%s)", n->values[x->guard], value, n->width, type,
                       dt_cuda_to_memory(n, n->values[x->otherwise], dtype));
    dt_cuda_line(n->f, "const values<%s, %d> x%d = %s;", type, n->width, i, value);
}

void dt_cuda_nest_ahead(dt_cuda_nest *n) {
    for (int i = 0; i < n->nest->n_instructions; i++) {
        if (n->ahead[i] && n->needed[i] && n->levels[i] > 0) emit(n, i);
        if (n->vectors[i]) emit_vector(n, i);
    }
}

void dt_cuda_nest_values(dt_cuda_nest *n, int instruction, const char *target) {
    bool *set = DT_NEW_ARRAY(n->f->arena, bool, n->nest->n_instructions);
    const char *name = n->loops[n->along];
    add_uses(n->nest, set, instruction);
    for (int i = 0; i < n->nest->n_instructions; i++) {
        bool differs = n->depends[i] >> n->along & 1;
        if (!set[i] || n->levels[i] == 0) continue;
        if (n->vectors[i])
            emit_vector(n, i);
        else if (!differs)
            emit(n, i);
    }
    dt_cuda_line(n->f, "#pragma unroll");
    dt_cuda_line(n->f, "for (int k = 0; k < %d; k++) {", n->width);
    n->in_vector = true;
    n->loops[n->along] = FORMAT(n, "(%s + k)", name);
    for (int i = 0; i < n->nest->n_instructions; i++)
        if (set[i] && n->levels[i] > 0 && (n->depends[i] >> n->along & 1)) emit(n, i);
    dt_cuda_line(n->f, "%s.at[k] = %s;", target, bare(n, n->values[instruction]));
    n->loops[n->along] = name;
    n->in_vector = false;
    dt_cuda_line(n->f, "}");
}

/* What becomes of `width` sums side by side: vectors are read, then computed with and written as vectors. */
static void finish_vector(dt_cuda_nest *n, const bool *set) {
    const dt_nest *nest = n->nest;
    const char *name = n->loops[n->along];
    for (int i = 0; i < nest->n_instructions; i++) {
        if (!set[i] || n->levels[i] == 0) continue;
        if (n->vectors[i])
            emit_vector(n, i);
        else if (!(n->depends[i] >> n->along & 1))
            emit(n, i);
    }
    for (int s = 0; s < nest->n_stores; s++)
        dt_cuda_line(n->f, "values<%s, %d> y%d;",
                     dt_cuda_memory_type(n->f->plan->buffers[n->f->kernel->buffers[nest->stores[s].address.buffer]].dtype), n->width, s);
    dt_cuda_line(n->f, "#pragma unroll");
    dt_cuda_line(n->f, "for (int k = 0; k < %d; k++) {", n->width);
    n->in_vector = true;
    n->loops[n->along] = FORMAT(n, "(%s + k)", name);
    for (int i = 0; i < nest->n_instructions; i++)
        if (set[i] && n->levels[i] > 0 && (n->depends[i] >> n->along & 1) && nest->instructions[i].kind != DT_INSTRUCTION_REDUCED) emit(n, i);
    for (int s = 0; s < nest->n_stores; s++) store(n, &nest->stores[s]);
    n->loops[n->along] = name;
    n->in_vector = false;
    dt_cuda_line(n->f, "}");
    for (int s = 0; s < nest->n_stores; s++) dt_cuda_line(n->f, "store<%d>(&%s, y%d);", n->width, dt_cuda_access(n, &nest->stores[s].address), s);
}

void dt_cuda_nest_finish(dt_cuda_nest *n, const char *sum) {
    const dt_nest *nest = n->nest;
    bool *set = DT_NEW_ARRAY(n->f->arena, bool, nest->n_instructions);
    for (int s = 0; s < nest->n_stores; s++) {
        add_uses(nest, set, nest->stores[s].operand);
        add_uses(nest, set, nest->stores[s].guard);
        for (int t = 0; t < nest->stores[s].address.n_terms; t++) add_uses(nest, set, nest->stores[s].address.terms[t]);
    }
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_REDUCED) n->values[i] = sum;
    if (n->width > 1) {
        finish_vector(n, set);
        return;
    }
    emit_set(n, set);
    for (int s = 0; s < nest->n_stores; s++) store(n, &nest->stores[s]);
}

static void finish(dt_cuda_nest *n) {
    emit_level(n, 1, true);
    for (int s = 0; s < n->nest->n_stores; s++) store(n, &n->nest->stores[s]);
}

void dt_cuda_nest_statements(dt_cuda_nest *n) {
    int n_open = 0;
    for (int l = 0; l < n->nest->n_loops; l++)
        if ((n->serial >> l & 1) && n->nest->loops[l].extent != 1) open_loop(n, l), n_open++;
    emit_level(n, 1, false);
    if (n->nest->n_reductions == 0) {
        finish(n);
    } else {
        begin_reductions(n);
        if (n->together)
            reduce_together(n);
        else
            reduce_in_order(n);
        if (n->together) reduce_team(n);
        take_results(n);
        if (n->together) dt_cuda_line(n->f, "if (lane == 0) {");
        finish(n);
        if (n->together) dt_cuda_line(n->f, "}");
    }
    for (; n_open > 0; n_open--) dt_cuda_line(n->f, "}");
}

void dt_cuda_nest_element(dt_cuda_nest *n, const char *element) {
    dt_cuda_function *f = n->f;
    dt_text body = {.arena = f->arena}, *out = f->out;
    n->element = element;
    f->out = &body;
    dt_cuda_nest_statements(n);
    f->out = out;
    if (element != NULL) dt_cuda_declare_loops(f, n->nest, n->loops, n->dealt, n->loop_used, element);
    dt_text_append(out, body.data != NULL ? body.data : "");
}
