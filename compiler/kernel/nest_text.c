/* nest_text: the lines of a kernel's nests, with what was chosen for a CPU.
 *
 *       row nest l0 < B, l1 < 26, l2 < 26, l3 < 64, over l4 < 3  vector l3 x 8  @0:14:9
 *         s0 = u8 load image[784 l0 + 28 l1 + l2 + l4]
 *         s1 = f32 from s0
 *         reduction 0 = f32 sum s1
 *         s2 = f32 reduction 0
 *         store %12[43264 l0 + l3] = s2
 *
 * What stands at @ is the program's file, line and column. */
#include "abi/launch.h"
#include "compiler/kernel/nest.h"
#include "compiler/kernel/words.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    MOST_LOOPS = 64 /* of a nest: sets of them are bits */
};
#define MOST_ITERATIONS ((double)(INT64_MAX / 256))

static const char *const algorithms[] = {
#define X(enumerator, name) name,
    DT_ALGORITHMS(X)
#undef X
};

const char *dt_algorithm_name(dt_algorithm algorithm) { return algorithms[algorithm]; }

/* ---- pieces ---- */

static void dtype_text(dt_words *w, dt_dtype *dtype) {
    if (w->out != NULL) return dt_text_append(w->out, dt_dtype_name(*dtype));
    if (w->wrong == NULL && dt_read_dtype(w->in, dtype)) return;
    dt_wrong(w, "expected a type as f32");
    *dtype = DT_F32;
}

void dt_combiner_text(dt_words *w, dt_combiner *combiner) {
    const char *names[DT_COMBINE_ARGMIN + 1];
    for (int c = 0; c <= DT_COMBINE_ARGMIN; c++) names[c] = dt_combiner_name((dt_combiner)c);
    *combiner = (dt_combiner)dt_one_of(w, " ", names, DT_COMBINE_ARGMIN + 1, (int)*combiner, "how elements are combined, as sum");
}

/* ---- addresses ---- */

static void print_term(dt_text *text, bool *first, int64_t coefficient, const char *letter, int index) {
    if (coefficient == 0) return;
    uint64_t size = coefficient < 0 ? 0 - (uint64_t)coefficient : (uint64_t)coefficient;
    dt_text_append(text, coefficient < 0 ? (*first ? "-" : " - ") : *first ? "" : " + ");
    if (*letter == '\0' || size != 1) dt_text_format(text, "%" PRIu64 "%s", size, *letter == '\0' ? "" : " ");
    if (*letter != '\0') dt_text_format(text, "%s%d", letter, index);
    *first = false;
}

/* "784 l0", "s3", "5" */
static void read_term(dt_words *w, int64_t sign, dt_address *address) {
    int64_t coefficient = 1;
    int index, i = address->n_terms;
    if (w->wrong != NULL) return;
    bool has_number = dt_read_int(w->in, &coefficient);
    if (coefficient < 0 || coefficient > DT_MOST_NUMBER) return dt_wrong(w, "a coefficient is at most %" PRId64, DT_MOST_NUMBER);
    if (dt_has(w, true, "l%i", &index)) {
        if (address->coefficients[index] != 0) dt_wrong(w, "l%d stands twice in an address", index);
        address->coefficients[index] = sign * coefficient;
    } else if (dt_has(w, true, "s%i", &index)) {
        *DT_ITEM(w, address->terms, address->n_terms, i) = index;
        *DT_ITEM(w, address->term_coefficients, address->n_terms, i) = sign * coefficient;
    } else if (has_number) {
        if (address->offset != 0) dt_wrong(w, "an address has two offsets");
        address->offset = sign * coefficient;
    } else {
        dt_wrong(w, "expected a number, a loop or an instruction");
    }
}

static void argument(dt_words *w, int *argument) {
    const dt_kernel_function *kernel = w->kernel;
    int buffer = w->out != NULL ? kernel->buffers[*argument] : 0;
    dt_expect(w, "%n", &buffer);
    if (w->wrong != NULL) return;
    for (*argument = 0; *argument < kernel->n_buffers; ++*argument)
        if (kernel->buffers[*argument] == buffer) return;
    dt_wrong(w, "%s is no argument of the kernel", w->plan->buffers[buffer].name);
}

static void address_text(dt_words *w, dt_address *address) {
    argument(w, &address->buffer);
    dt_expect(w, "[");
    if (w->out != NULL) {
        bool first = true;
        for (int l = 0; l < w->n_loops; l++) print_term(w->out, &first, address->coefficients[l], "l", l);
        for (int i = 0; i < address->n_terms; i++) print_term(w->out, &first, address->term_coefficients[i], "s", address->terms[i]);
        print_term(w->out, &first, address->offset, "", 0);
        return dt_text_append(w->out, first ? "0]" : "]");
    }
    address->coefficients = DT_NEW_ARRAY(w->arena, int64_t, w->n_loops);
    read_term(w, dt_has(w, true, "-") ? -1 : 1, address);
    while (w->wrong == NULL && !dt_has(w, true, "]")) {
        int64_t sign = dt_has(w, true, "-") ? -1 : 1;
        if (sign > 0) dt_expect(w, "+");
        read_term(w, sign, address);
    }
}

/* ---- instructions ---- */

static bool constant(dt_words *w, bool is_there, dt_instruction *x) {
    const bool is_float = dt_dtype_is_float(x->dtype);
    dt_attribute number = {.i = x->integer, .f = x->number};
    if (w->out != NULL && is_there) {
        dt_text_append(w->out, " ");
        dt_print_number(w->out, x->dtype, &number);
    }
    if (w->out != NULL || w->wrong != NULL) return w->out != NULL && is_there;
    if (is_float ? !dt_read_float(w->in, &number.f) : !dt_read_int(w->in, &number.i)) return false;
    if (!is_float && dt_scalar_round((dt_scalar){.i = number.i}, x->dtype).i != number.i) dt_wrong(w, "no number of that type");
    x->integer = number.i;
    x->number = !is_float ? (double)number.i : x->dtype == DT_F64 ? number.f : (double)(float)number.f; /* as dt_nest_constant has it */
    return true;
}

/* Of the operations that come next, the one whose text is longest. */
static void scalar_op(dt_words *w, dt_scalar_op *op) {
    if (w->out != NULL) return dt_text_format(w->out, " %s", dt_scalar_text(*op));
    const char *start = w->in->at, *end = start;
    size_t longest = 0;
    for (int i = 0; i < DT_N_SCALARS; i++, w->in->at = start) {
        const char *text = dt_scalar_text((dt_scalar_op)i);
        if (strlen(text) <= longest || !dt_has_word(w, true, "", text)) continue;
        longest = strlen(text);
        end = w->in->at;
        *op = (dt_scalar_op)i;
    }
    w->in->at = end;
    if (longest == 0) dt_wrong(w, "expected an operation");
}

/* A number, B, or B*V: the rows of a replica, those of all. */
static void extent_text(dt_words *w, int64_t most, int64_t *extent) {
    const int64_t is = *extent;
    if (!dt_has(w, is == DT_BATCH || is == DT_GATHERED, "B"))
        dt_int64(w, 0, most, extent);
    else
        *extent = dt_has(w, is == DT_GATHERED, "*V") ? DT_GATHERED : DT_BATCH;
}

/* What is behind "s3 = f32", up to the operands. */
static dt_instruction_kind operation(dt_words *w, dt_instruction *x) {
#define X(name, type, dtype, meaning) "launch." #name,
    static const char *const fields[] = {DT_LAUNCH_FIELDS(X)};
#undef X
    const dt_instruction_kind kind = x->kind;
    if (dt_has(w, kind == DT_INSTRUCTION_LOAD, " load ")) {
        address_text(w, &x->address);
        dt_has(w, x->guard >= 0, " if s%i else s%i", &x->guard, &x->otherwise);
        return DT_INSTRUCTION_LOAD;
    }
    if (dt_has(w, kind == DT_INSTRUCTION_CHECK, " check")) {
        x->before = dt_has(w, x->before, " again");
        x->by_first_shard = dt_has(w, x->by_first_shard, " by shard 0");
        dt_expect(w, " location %d of %%%d below ", &x->index, &x->indices);
        extent_text(w, INT64_MAX, &x->integer);
        return DT_INSTRUCTION_CHECK;
    }
    if (dt_has(w, kind == DT_INSTRUCTION_LOOP, " l%i", &x->index)) return DT_INSTRUCTION_LOOP;
    if (dt_has(w, kind == DT_INSTRUCTION_REDUCED, " reduction %d", &x->index)) return DT_INSTRUCTION_REDUCED;
    if (dt_has(w, kind == DT_INSTRUCTION_CONVERT, " from")) return DT_INSTRUCTION_CONVERT;
    if (dt_has(w, kind == DT_INSTRUCTION_BITS, " bits")) return DT_INSTRUCTION_BITS;
    int field = dt_one_of(w, " ", fields, DT_N_LAUNCH_FIELDS, kind == DT_INSTRUCTION_LAUNCH ? x->index : -1, NULL);
    if (field >= 0) return x->index = field, DT_INSTRUCTION_LAUNCH;
    if (constant(w, kind == DT_INSTRUCTION_CONSTANT, x)) return DT_INSTRUCTION_CONSTANT;
    scalar_op(w, &x->scalar);
    return DT_INSTRUCTION_SCALAR;
}

static int n_operands_of(const dt_instruction *x) {
    if (x->kind == DT_INSTRUCTION_SCALAR) return dt_scalar_n_operands(x->scalar);
    return x->kind == DT_INSTRUCTION_CONVERT || x->kind == DT_INSTRUCTION_BITS || x->kind == DT_INSTRUCTION_CHECK;
}

/* What is behind "s3". */
static void instruction(dt_words *w, dt_instruction *x) {
    dt_expect(w, " = ");
    dtype_text(w, &x->dtype);
    x->kind = operation(w, x);
    const int n_operands = n_operands_of(x);
    for (int k = 0; k < n_operands; k++) dt_expect(w, k > 0 ? ", s%i" : " s%i", &x->operands[k]);
    bool has_row = x->kind == DT_INSTRUCTION_CHECK && dt_has(w, x->n_operands > 1, ", s%i", &x->operands[1]);
    x->n_operands = n_operands + has_row;
    dt_expect(w, "\n");
}

static void store(dt_words *w, dt_store *s, dt_store_way *way) {
    static const char *const ways[] = {"streaming", "prefetched"};
    address_text(w, &s->address);
    s->accumulate = dt_has(w, s->accumulate, " +=");
    if (!s->accumulate) dt_expect(w, " =");
    dt_expect(w, " s%i", &s->operand);
    dt_has(w, s->guard >= 0, " if s%i", &s->guard);
    *way = (dt_store_way)(1 + dt_one_of(w, "  ", ways, 2, (int)*way - 1, NULL)); /* none: DT_STORE_ORDINARY */
    if (*way != DT_STORE_ORDINARY && w->target == NULL) dt_wrong(w, "a plan for no target has ordinary stores");
    dt_expect(w, "\n");
}

/* ---- a nest's line ---- */

/* "l0 < B, l1 < 26, over l2 < 3" */
static void loops(dt_words *w, dt_nest *nest) {
    const int n_loops = nest->n_loops;
    bool reduced = false;
    w->n_loops = MOST_LOOPS;
    for (int l = 0; l == 0 || dt_has(w, l < n_loops, ","); l++) {
        reduced |= dt_has(w, !reduced && l < n_loops && nest->loops[l].reduced, " over");
        int number = l;
        if (!dt_has(w, l < n_loops, " l%i", &number)) {
            if (l > 0 || reduced) dt_wrong(w, "expected a loop as l0 < 3");
            break; /* it has none */
        }
        if (number != l) return dt_wrong(w, "expected l%d: loops are numbered in their order", l);
        dt_expect(w, " < ");
        dt_loop *loop = DT_ITEM(w, nest->loops, nest->n_loops, l);
        loop->reduced = reduced;
        extent_text(w, DT_MOST_NUMBER, &loop->extent);
    }
    w->n_loops = nest->n_loops;
}

/* The form of a nest, which is the same for all targets: "tiled l0 x l1 of s3, s4  parts of 16 l0  units of 64 l0, from 0 of 1152, turn 0". */
static void form(dt_words *w, dt_nest *nest) {
    dt_tiling *tiling = &nest->tiling;
    dt_nest_share *share = &nest->share;
    nest->algorithm = (dt_algorithm)(1 + dt_one_of(w, "  ", algorithms + 1, DT_N_ALGORITHMS - 1, (int)nest->algorithm - 1, NULL));
    if (nest->algorithm != DT_ALGORITHM_LOOPS) {
        int first = tiling->row_loop >= 0 ? tiling->row_loop : tiling->vector_loop;
        dt_expect(w, " l%i", &first);
        const bool has_rows = dt_has(w, tiling->row_loop >= 0, " x l%i", &tiling->vector_loop);
        *(has_rows ? &tiling->row_loop : &tiling->vector_loop) = first;
        w->n_instructions = INT_MAX; /* these are still to come */
        dt_expect(w, " of s%i, s%i", &tiling->a, &tiling->b);
        nest->vector_loop = tiling->vector_loop;
    }
    nest->meets = dt_has(w, nest->meets, "  meets");
    if (dt_has(w, nest->part_iterations > 0, "  parts of %1ld", &nest->part_iterations) && !dt_has(w, true, nest->in_rows ? " l1" : " l0"))
        dt_wrong(w, "parts are of l0, or inside of a loop over rows of l1");
    dt_has(w, nest->timer > 0, "  timer %1d", &nest->timer);
    if (!dt_has(w, share->n_units > 0, "  units of %1ld", &share->unit_iterations)) return;
    if (!dt_has(w, true, " l0")) dt_wrong(w, "units are of l0");
    dt_expect(w, ", from %ld of %1ld, turn %ld", &share->first_unit, &share->n_units, &share->turn);
}

/* "6 x 2 in 2 chains by 4 in memory", with the iterations that are one; "in 2 chains": partial sums of each element. */
static void tile_text(dt_words *w, dt_tile *tile) {
    const bool only_memory = tile->in_memory && tile->chains <= 1 && tile->unroll <= 1;
    dt_expect(w, " %1d x %1d", &tile->rows, &tile->vectors);
    if (dt_has(w, only_memory || tile->chains > 1, " in")) {
        const bool in_memory = dt_has(w, only_memory, " memory");
        tile->in_memory |= in_memory;
        if (in_memory) return;
        dt_expect(w, " %1d chains", &tile->chains);
    }
    dt_has(w, tile->unroll > 1, " by %1d", &tile->unroll);
    tile->in_memory = dt_has(w, tile->in_memory, " in memory");
}

/* "tiles of 6 x 2: 6 x 2 by 4, 5 x 2" */
static void tiles(dt_words *w, dt_nest_choices *c) {
    c->tiled = dt_has(w, c->tiled, "  tiles of %d x %d", &c->tile_rows, &c->tile_vectors);
    for (int i = 0; c->tiled && dt_has(w, i < c->n_tiles, i == 0 ? ":" : ","); i++) {
        if (i == DT_MOST_TILES) return dt_wrong(w, "there are %d kinds of tiles at most", DT_MOST_TILES);
        if (w->in != NULL) c->tiles[c->n_tiles++] = (dt_tile){.chains = 1, .unroll = 1};
        tile_text(w, &c->tiles[i]);
    }
    c->skips_zeros = dt_has(w, c->skips_zeros, "  skipping zeros");
}

/* "packed l4, l5 by 32, 24 rows, gap 16 prefetched" */
static void packing(dt_words *w, dt_nest_choices *c) {
    if (!dt_has(w, c->packed_loop >= 0, "  packed")) return;
    int first = c->packed_around >= 0 ? c->packed_around : c->packed_loop;
    dt_expect(w, " l%i", &first);
    const bool is_around = dt_has(w, c->packed_around >= 0, ", l%i", &c->packed_loop);
    *(is_around ? &c->packed_around : &c->packed_loop) = first;
    dt_expect(w, " by %1ld", &c->depth);
    dt_has(w, c->packed_rows > 0, ", %1ld rows, gap %ld", &c->packed_rows, &c->packed_gap);
    c->prefetches_rows = dt_has(w, c->prefetches_rows, " prefetched");
}

/* The order of the loops where it is not that of the line, then each choice that was made. */
static void choices_text(dt_words *w, dt_nest *nest, dt_nest_choices *c) {
    const int n_loops = nest->n_loops;
    bool in_order = true, unrolls = false;
    for (int l = 0; l < n_loops; l++) {
        in_order &= c->order[l] == l;
        unrolls |= c->unrolled[l];
    }
    bool ordered = dt_has(w, !in_order, "  order");
    for (int l = 0; l < n_loops && ordered; l++) dt_expect(w, " l%i", &c->order[l]);
    bool vectors = dt_has(w, c->vector_loop >= 0, "  vector l%i x %1d", &c->vector_loop, &c->width);
    if (vectors && nest->algorithm == DT_ALGORITHM_LOOPS) nest->vector_loop = c->vector_loop;
    for (int i = 0; i < n_loops; i++) {
        int l = i;
        if (dt_has(w, c->jammed[l] > 0, "  jammed l%i by", &l)) dt_expect(w, " %1d", &c->jammed[l]);
    }
    unrolls = dt_has(w, unrolls, "  unrolled");
    for (int i = 0; i < n_loops && unrolls; i++) {
        int l = i;
        if (dt_has(w, c->unrolled[l], " l%i", &l)) c->unrolled[l] = true;
    }
    tiles(w, c);
    packing(w, c);
}

static void read_defaults(dt_words *w, dt_nest_choices *c) {
    *c = (dt_nest_choices){.vector_loop = -1, .width = 1, .packed_loop = -1, .packed_around = -1};
    c->order = DT_NEW_ARRAY(w->arena, int, w->n_loops);
    c->jammed = DT_NEW_ARRAY(w->arena, int, w->n_loops);
    c->unrolled = DT_NEW_ARRAY(w->arena, bool, w->n_loops);
    for (int l = 0; l < w->n_loops; l++) c->order[l] = l;
}

/* All of the line behind the word nest. */
static void nest_line(dt_words *w, dt_nest *nest, dt_nest_choices *c) {
    if (w->in != NULL && w->wrong == NULL) dt_read_string(w->in, &nest->note);
    if (w->out != NULL && nest->note != NULL) {
        dt_text_append(w->out, " ");
        dt_print_string(w->out, nest->note);
    }
    loops(w, nest);
    form(w, nest);
    if (c != NULL && w->in != NULL) read_defaults(w, c);
    if (c != NULL)
        choices_text(w, nest, c);
    else
        dt_has(w, nest->algorithm == DT_ALGORITHM_LOOPS && nest->vector_loop >= 0, "  vector l%i", &nest->vector_loop);
    for (int i = 0; dt_has(w, i < nest->n_locations, i == 0 ? "  @" : " @"); i++) {
        dt_location *at = DT_ITEM(w, nest->locations, nest->n_locations, i);
        dt_expect(w, "%d:%d:%d", &at->file, &at->line, &at->column);
    }
    dt_expect(w, "\n");
}

/* ---- nests ---- */

/* The number of iterations that a loop has at most. */
static double most_iterations(const dt_words *w, const dt_nest *nest, int l) {
    int64_t extent = nest->loops[l].extent;
    return (double)(dt_dim_is_symbol(extent) ? w->plan->microbatch_rows : extent);
}

/* About what an address comes to at most. */
static double reach(const dt_words *w, const dt_nest *nest, const dt_address *address) {
    double sum = 0;
    for (int l = 0; l < nest->n_loops; l++) sum += fabs((double)address->coefficients[l]) * most_iterations(w, nest, l);
    return sum;
}

/* Of a nest that has been read: what is computed with it stays far from the ends of an int64_t. */
static void check_sizes(dt_words *w, const dt_nest *nest) {
    double iterations = 1, most = 0;
    for (int l = 0; l < nest->n_loops; l++) iterations *= fmax(1, most_iterations(w, nest, l));
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD) most = fmax(most, reach(w, nest, &nest->instructions[i].address));
    for (int s = 0; s < nest->n_stores; s++) most = fmax(most, reach(w, nest, &nest->stores[s].address));
    if (iterations > MOST_ITERATIONS) dt_wrong(w, "the nest has too many iterations");
    if (most > MOST_ITERATIONS) dt_wrong(w, "an address is too large");
}

/* The line of a nest and those below it. */
static void nest_text(dt_words *w, dt_nest *nest, dt_nest_choices *c) {
    nest_line(w, nest, c);
    for (int i = 0, number = 0;; number = ++i) {
        w->n_instructions = INT_MAX;
        if (!dt_has(w, i < nest->n_instructions, "      s%i", &number)) break;
        if (number != i) return dt_wrong(w, "expected s%d: instructions are numbered in their order", i);
        dt_instruction *x = DT_ITEM(w, nest->instructions, nest->n_instructions, i);
        if (w->in != NULL) x->guard = x->otherwise = -1;
        w->n_instructions = i;
        instruction(w, x);
    }
    w->n_instructions = nest->n_instructions;
    for (int r = 0; dt_has(w, r < nest->n_reductions, "      reduction "); r++) {
        dt_reduction *reduction = DT_ITEM(w, nest->reductions, nest->n_reductions, r);
        dt_nth(w, r);
        dt_expect(w, " = ");
        dtype_text(w, &reduction->dtype);
        dt_combiner_text(w, &reduction->combiner);
        dt_expect(w, " s%i\n", &reduction->operand);
    }
    for (int s = 0, n_ways = 0; dt_has(w, s < nest->n_stores, "      store "); s++) {
        dt_store *item = DT_ITEM(w, nest->stores, nest->n_stores, s);
        dt_store_way ordinary = DT_STORE_ORDINARY;
        if (w->in != NULL) item->guard = -1;
        store(w, item, c != NULL ? DT_ITEM(w, c->stores, n_ways, s) : &ordinary);
    }
    if (w->in != NULL && w->wrong == NULL) check_sizes(w, nest);
}

static bool begins_nest(dt_words *w, bool is_there, dt_nest *nest) {
    nest->in_blocks = dt_has(w, is_there && nest->in_blocks, "    block nest");
    nest->in_rows = nest->in_blocks || dt_has(w, is_there && nest->in_rows, "    row nest");
    return nest->in_rows || dt_has(w, is_there, "    nest");
}

void dt_nests_text(dt_words *w, dt_nest_choices **choices) {
    dt_kernel_function *kernel = w->kernel;
    int n_choices = 0;
    for (int n = 0;; n++) {
        dt_nest nest = {.vector_loop = -1, .tiling = {.row_loop = -1, .vector_loop = -1, .a = -1, .b = -1}};
        if (n < kernel->n_nests) nest = kernel->nests[n];
        if (!begins_nest(w, n < kernel->n_nests, &nest)) return;
        nest_text(w, &nest, w->target != NULL ? DT_ITEM(w, *choices, n_choices, n) : NULL);
        if (w->in != NULL) *DT_ITEM(w, kernel->nests, kernel->n_nests, n) = nest;
    }
}
