/* parse: see the header. A line is read by the function of its first word, which follows the one of kernel/print.c that has written it. What can be
 * wrong with a plan that has been read is left to the verifiers; here numbers are bounded, and names have to be known. */
#include "compiler/kernel/parse.h"
#include "base/names.h"
#include "compiler/kernel/nest.h"
#include "compiler/kernel/view.h"
#include "ir/reader.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_LOOPS = 64,         /* of a nest: sets of them are bits */
    MOST_ARGUMENTS = 1 << 20 /* inputs, and variables */
};
#define MOST_NUMBER ((int64_t)1 << 40) /* of extents, steps, offsets; what products of them come to is looked at by check_sizes */

typedef struct parser {
    dt_reader r;
    dt_arena *arena;
    dt_plan *plan;
    dt_names buffers; /* of the plan */
    const dt_cpu_target *target;
    DT_LIST(dt_nest_choices *) choices; /* of each kernel of the plan */
    const dt_gpu_target *gpu;           /* NULL: nothing was chosen for one, */
    dt_gpu_kernel *gpu_kernels;         /* or for each kernel of the plan */
    DT_LIST(dt_plan_loop *) loops;
    DT_LIST(const char *) files;
    dt_kernel_function *kernel; /* at work, */
    dt_nest nest;               /* and its nest, of which lists grow here */
    dt_nest_choices *chosen;    /* of that nest */
    DT_LIST(dt_instruction) instructions;
    DT_LIST(dt_reduction) reductions;
    DT_LIST(dt_store) stores;
} parser;

#define FAIL(p, ...) return dt_reader_error(&(p)->r, __VA_ARGS__)

/* ---- pieces ---- */

static dt_status *expect(parser *p, const char *symbol) {
    return dt_read_symbol(&p->r, symbol) ? NULL : dt_reader_error(&p->r, "expected %s", symbol);
}

static dt_status *expect_word(parser *p, const char *word) {
    return dt_read_keyword(&p->r, word) ? NULL : dt_reader_error(&p->r, "expected %s", word);
}

static dt_status *expect_number(parser *p, int64_t least, int64_t most, int64_t *number) {
    if (!dt_read_int(&p->r, number) || *number < least || *number > most)
        FAIL(p, "expected a number of %lld to %lld", (long long)least, (long long)most);
    return NULL;
}

static dt_status *expect_int(parser *p, int least, int most, int *number) {
    int64_t wide;
    *number = least;
    DT_TRY(expect_number(p, least, most, &wide));
    *number = (int)wide;
    return NULL;
}

/* What a pattern says, its pieces between blanks: words, symbols, and numbers that go to int64_t *: # from 0 on, + from 1 on. */
static dt_status *expect_text(parser *p, const char *pattern, ...) {
    dt_status *status = NULL;
    va_list numbers;
    va_start(numbers, pattern);
    for (size_t n; *pattern != '\0' && status == NULL; pattern += n + (pattern[n] == ' ')) {
        n = strcspn(pattern, " ");
        const char *piece = dt_arena_substring(p->arena, pattern, n);
        if (*piece == '#' || *piece == '+')
            status = expect_number(p, *piece == '+', MOST_NUMBER, va_arg(numbers, int64_t *));
        else
            status = *piece >= 'a' && *piece <= 'z' ? expect_word(p, piece) : expect(p, piece);
    }
    va_end(numbers);
    return status;
}

/* "426,240" */
static dt_status *expect_size(parser *p, int64_t *size) {
    DT_TRY(expect_number(p, 0, MOST_NUMBER, size));
    while (p->r.at[0] == ',' && strspn(p->r.at + 1, "0123456789") == 3) {
        p->r.at++;
        int64_t thousands;
        DT_TRY(expect_number(p, 0, 999, &thousands));
        *size = 1000 * *size + thousands;
        if (*size > MOST_NUMBER) FAIL(p, "a size of more than %lld bytes", (long long)MOST_NUMBER);
    }
    return NULL;
}

/* A letter and a number below `n`: "l3", "s12". */
static bool read_numbered(parser *p, char letter, int n, int *number) {
    dt_reader before = p->r;
    const char *word;
    char *end;
    if (dt_read_word(&p->r, &word) && word[0] == letter && word[1] >= '0' && word[1] <= '9') {
        long value = strtol(word + 1, &end, 10);
        *number = (int)value;
        if (*end == '\0' && value < n) return true;
    }
    p->r = before;
    return false;
}

static dt_status *expect_loop(parser *p, int *loop) {
    return read_numbered(p, 'l', p->nest.n_loops, loop) ? NULL : dt_reader_error(&p->r, "expected a loop of the nest, as l0");
}

static dt_status *expect_scalar(parser *p, int *scalar) {
    return read_numbered(p, 's', p->nest.n_instructions, scalar) ? NULL : dt_reader_error(&p->r, "expected an instruction before this one, as s0");
}

/* One of a table's names. */
static dt_status *expect_name_of(parser *p, const char *what, const char *const *names, int n, int *number) {
    for (*number = 0; *number < n; ++*number)
        if (dt_read_keyword(&p->r, names[*number])) return NULL;
    FAIL(p, "expected %s", what);
}

/* What stands for a buffer: its name, and behind that a number where others have had the name before. */
static bool read_buffer_name(parser *p, const char **name, const char **token) {
    dt_reader before = p->r;
    bool is_value = dt_read_symbol(&p->r, "%");
    const char *word;
    if (!dt_read_name(&p->r, &word)) return p->r = before, false;
    *name = *token = is_value ? dt_arena_format(p->arena, "%%%s", word) : word;
    if (*p->r.at == '~' && dt_read_symbol(&p->r, "~")) {
        int64_t copy;
        if (!dt_read_int(&p->r, &copy)) return p->r = before, false;
        *token = dt_arena_format(p->arena, "%s\n%lld", *name, (long long)copy); /* as no name is */
    }
    return true;
}

static dt_status *expect_buffer(parser *p, int *buffer) {
    const char *name, *token;
    if (!read_buffer_name(p, &name, &token)) FAIL(p, "expected the name of a buffer");
    *buffer = dt_names_find(&p->buffers, token);
    if (*buffer < 0) FAIL(p, "there is no buffer %s", token);
    return NULL;
}

static dt_status *expect_argument(parser *p, int *argument) {
    int buffer;
    DT_TRY(expect_buffer(p, &buffer));
    for (*argument = 0; *argument < p->kernel->n_buffers; ++*argument)
        if (p->kernel->buffers[*argument] == buffer) return NULL;
    FAIL(p, "%s is no argument of the kernel", p->plan->buffers[buffer].name);
}

static dt_status *expect_dtype(parser *p, dt_dtype *dtype) {
    return dt_read_dtype(&p->r, dtype) ? NULL : dt_reader_error(&p->r, "expected a type as f32");
}

static dt_status *expect_type(parser *p, dt_dtype *dtype, dt_shape *shape) {
    if (!dt_read_type(&p->r, dtype, shape)) FAIL(p, "expected a type as f32[B, 3]");
    int64_t elements = 1;
    for (int d = 0; d < shape->rank; d++) {
        int64_t extent = dt_dim_is_symbol(shape->dims[d]) ? p->plan->microbatch_rows : shape->dims[d];
        if (__builtin_mul_overflow(elements, extent > 0 ? extent : 1, &elements) || elements > MOST_NUMBER)
            FAIL(p, "a shape of more than %lld elements", (long long)MOST_NUMBER);
    }
    return NULL;
}

/* ---- addresses ---- */

/* A term of an address: "784 l0", "s3", "5". */
static dt_status *parse_term(parser *p, int64_t sign, dt_address *address) {
    int64_t coefficient = 1;
    bool has_number = dt_read_int(&p->r, &coefficient);
    if (coefficient < 0 || coefficient > MOST_NUMBER) FAIL(p, "a coefficient is at most %lld", (long long)MOST_NUMBER);
    int index;
    if (read_numbered(p, 'l', p->nest.n_loops, &index)) {
        if (address->coefficients[index] != 0) FAIL(p, "l%d stands twice in an address", index);
        address->coefficients[index] = sign * coefficient;
    } else if (read_numbered(p, 's', p->nest.n_instructions, &index)) {
        int *terms = DT_NEW_ARRAY(p->arena, int, address->n_terms + 1);
        int64_t *coefficients = DT_NEW_ARRAY(p->arena, int64_t, address->n_terms + 1);
        for (int t = 0; t < address->n_terms; t++) terms[t] = address->terms[t], coefficients[t] = address->term_coefficients[t];
        terms[address->n_terms] = index;
        coefficients[address->n_terms++] = sign * coefficient;
        address->terms = terms;
        address->term_coefficients = coefficients;
    } else if (has_number) {
        if (address->offset != 0) FAIL(p, "an address has two offsets");
        address->offset = sign * coefficient;
    } else {
        FAIL(p, "expected a number, a loop or an instruction");
    }
    return NULL;
}

static dt_status *parse_address(parser *p, dt_address *address) {
    *address = (dt_address){.coefficients = DT_NEW_ARRAY(p->arena, int64_t, p->nest.n_loops)};
    DT_TRY(expect_argument(p, &address->buffer));
    DT_TRY(expect(p, "["));
    int64_t sign = dt_read_symbol(&p->r, "-") ? -1 : 1;
    for (;;) {
        DT_TRY(parse_term(p, sign, address));
        if (dt_read_symbol(&p->r, "]")) return NULL;
        sign = dt_read_symbol(&p->r, "-") ? -1 : 1;
        if (sign > 0) DT_TRY(expect(p, "+"));
    }
}

/* ---- instructions ---- */

static dt_status *parse_load(parser *p, dt_instruction *x) {
    x->kind = DT_INSTRUCTION_LOAD;
    DT_TRY(parse_address(p, &x->address));
    if (!dt_read_keyword(&p->r, "if")) return NULL;
    DT_TRY(expect_scalar(p, &x->guard));
    DT_TRY(expect_word(p, "else"));
    return expect_scalar(p, &x->otherwise);
}

static dt_status *parse_check(parser *p, dt_instruction *x) {
    x->kind = DT_INSTRUCTION_CHECK;
    x->before = dt_read_keyword(&p->r, "again");
    DT_TRY(expect_word(p, "location"));
    DT_TRY(expect_int(p, 0, INT_MAX, &x->index));
    DT_TRY(expect_text(p, "of %"));
    DT_TRY(expect_int(p, 0, INT_MAX, &x->indices));
    DT_TRY(expect_word(p, "below"));
    return expect_number(p, 0, INT64_MAX, &x->integer);
}

/* The row of DT_SCALARS whose text comes next, the longest. */
static bool read_scalar_op(parser *p, dt_scalar_op *op) {
    int found = -1;
    for (int i = 0; i < DT_N_SCALARS; i++) {
        dt_reader before = p->r;
        const char *text = dt_scalar_text((dt_scalar_op)i);
        bool is_word = text[0] >= 'a' && text[0] <= 'z';
        bool is_there = is_word ? dt_read_keyword(&p->r, text) : dt_read_symbol(&p->r, text);
        p->r = before;
        if (is_there && (found < 0 || strlen(text) > strlen(dt_scalar_text((dt_scalar_op)found)))) found = i;
    }
    if (found < 0) return false;
    *op = (dt_scalar_op)found;
    return dt_read_symbol(&p->r, dt_scalar_text(*op));
}

static bool read_constant(parser *p, dt_instruction *x) {
    x->kind = DT_INSTRUCTION_CONSTANT;
    if (dt_dtype_is_float(x->dtype)) {
        if (!dt_read_float(&p->r, &x->number)) return false;
        if (x->dtype != DT_F64) x->number = (double)(float)x->number; /* as dt_nest_constant has it */
        return true;
    }
    if (!dt_read_int(&p->r, &x->integer)) return false;
    x->number = (double)x->integer;
    return dt_scalar_round((dt_scalar){.i = x->integer}, x->dtype).i == x->integer;
}

/* What is behind "s3 = f32". */
static dt_status *parse_operation(parser *p, dt_instruction *x) {
    const char *field;
    if (dt_read_keyword(&p->r, "load")) return parse_load(p, x);
    if (dt_read_keyword(&p->r, "check")) return parse_check(p, x);
    if (read_numbered(p, 'l', p->nest.n_loops, &x->index)) return x->kind = DT_INSTRUCTION_LOOP, NULL;
    if (dt_read_symbol(&p->r, "launch.")) {
        x->kind = DT_INSTRUCTION_LAUNCH;
        if (!dt_read_word(&p->r, &field) || (x->index = dt_launch_field_find(field)) < 0) FAIL(p, "expected what a launch has");
        return NULL;
    }
    if (dt_read_keyword(&p->r, "reduction")) return x->kind = DT_INSTRUCTION_REDUCED, expect_int(p, 0, INT_MAX, &x->index);
    if (dt_read_keyword(&p->r, "from")) return x->kind = DT_INSTRUCTION_CONVERT, NULL;
    if (dt_read_keyword(&p->r, "bits")) return x->kind = DT_INSTRUCTION_BITS, NULL;
    if (read_constant(p, x)) return NULL;
    x->kind = DT_INSTRUCTION_SCALAR;
    return read_scalar_op(p, &x->scalar) ? NULL : dt_reader_error(&p->r, "expected an operation");
}

static int n_operands_of(const dt_instruction *x) {
    if (x->kind == DT_INSTRUCTION_SCALAR) return dt_scalar_n_operands(x->scalar);
    return x->kind == DT_INSTRUCTION_CONVERT || x->kind == DT_INSTRUCTION_BITS || x->kind == DT_INSTRUCTION_CHECK;
}

/* "s3 = f32 + s1, s2", from the = on. */
static dt_status *parse_instruction(parser *p) {
    dt_instruction x = {.guard = -1, .otherwise = -1};
    DT_TRY(expect(p, "="));
    DT_TRY(expect_dtype(p, &x.dtype));
    DT_TRY(parse_operation(p, &x));
    for (int n = n_operands_of(&x); x.n_operands < n; x.n_operands++) {
        if (x.n_operands > 0) DT_TRY(expect(p, ","));
        DT_TRY(expect_scalar(p, &x.operands[x.n_operands]));
    }
    if (x.kind == DT_INSTRUCTION_CHECK && dt_read_symbol(&p->r, ",")) DT_TRY(expect_scalar(p, &x.operands[x.n_operands++]));
    dt_list_push(p->arena, &p->instructions, x);
    p->nest.instructions = p->instructions.items;
    p->nest.n_instructions = (int)p->instructions.n;
    return NULL;
}

static dt_status *parse_combiner(parser *p, dt_combiner *combiner) {
    for (int c = DT_COMBINE_NONE; c <= DT_COMBINE_ARGMIN; c++)
        if (dt_read_keyword(&p->r, dt_combiner_name((dt_combiner)c))) return *combiner = (dt_combiner)c, NULL;
    FAIL(p, "expected how elements are combined, as sum");
}

static dt_status *parse_reduction(parser *p) {
    dt_reduction reduction;
    int number, n = (int)p->reductions.n;
    DT_TRY(expect_int(p, n, n, &number));
    DT_TRY(expect(p, "="));
    DT_TRY(expect_dtype(p, &reduction.dtype));
    DT_TRY(parse_combiner(p, &reduction.combiner));
    DT_TRY(expect_scalar(p, &reduction.operand));
    dt_list_push(p->arena, &p->reductions, reduction);
    return NULL;
}

static dt_status *parse_store(parser *p, dt_store_way *way) {
    dt_store store = {.guard = -1};
    DT_TRY(parse_address(p, &store.address));
    store.accumulate = dt_read_symbol(&p->r, "+=");
    if (!store.accumulate) DT_TRY(expect(p, "="));
    DT_TRY(expect_scalar(p, &store.operand));
    if (dt_read_keyword(&p->r, "if")) DT_TRY(expect_scalar(p, &store.guard));
    *way = dt_read_keyword(&p->r, "streaming") ? DT_STORE_STREAMING : dt_read_keyword(&p->r, "prefetched") ? DT_STORE_PREFETCHED : DT_STORE_ORDINARY;
    dt_list_push(p->arena, &p->stores, store);
    return NULL;
}

/* ---- a nest's line ---- */

static dt_status *parse_extent(parser *p, int64_t *extent) {
    if (!dt_read_keyword(&p->r, "B")) return expect_number(p, 0, MOST_NUMBER, extent);
    *extent = dt_read_symbol(&p->r, "*V") ? DT_GATHERED : DT_BATCH;
    return NULL;
}

/* "l0 < B, l1 < 26, over l2 < 3" */
static dt_status *parse_loops(parser *p) {
    DT_LIST(dt_loop) loops = {0};
    bool reduced = false;
    do {
        dt_loop loop = {0};
        int number;
        reduced |= dt_read_keyword(&p->r, "over");
        loop.reduced = reduced;
        if (!read_numbered(p, 'l', MOST_LOOPS, &number)) {
            if (loops.n == 0 && !reduced) break; /* it has none */
            FAIL(p, "expected a loop as l0 < 3");
        }
        if (number != (int)loops.n) FAIL(p, "expected l%zu: loops are numbered in their order", loops.n);
        DT_TRY(expect(p, "<"));
        DT_TRY(parse_extent(p, &loop.extent));
        dt_list_push(p->arena, &loops, loop);
    } while (dt_read_symbol(&p->r, ","));
    p->nest.loops = loops.items;
    p->nest.n_loops = (int)loops.n;
    return NULL;
}

/* "tiled l0 x l1 of s3, s4", whose instructions are still to come. */
static dt_status *parse_algorithm(parser *p) {
    dt_tiling *tiling = &p->nest.tiling;
    for (int a = DT_ALGORITHM_LOOPS + 1; a < DT_N_ALGORITHMS && p->nest.algorithm == DT_ALGORITHM_LOOPS; a++)
        if (dt_read_keyword(&p->r, dt_algorithm_name((dt_algorithm)a))) p->nest.algorithm = (dt_algorithm)a;
    if (p->nest.algorithm == DT_ALGORITHM_LOOPS) return NULL;
    DT_TRY(expect_loop(p, &tiling->vector_loop));
    if (dt_read_keyword(&p->r, "x")) {
        tiling->row_loop = tiling->vector_loop;
        DT_TRY(expect_loop(p, &tiling->vector_loop));
    }
    DT_TRY(expect_word(p, "of"));
    if (!read_numbered(p, 's', INT_MAX, &tiling->a)) FAIL(p, "expected an operand as s0");
    DT_TRY(expect(p, ","));
    if (!read_numbered(p, 's', INT_MAX, &tiling->b)) FAIL(p, "expected an operand as s0");
    p->nest.vector_loop = tiling->vector_loop;
    return NULL;
}

static dt_status *expect_outermost(parser *p) {
    int loop;
    DT_TRY(expect_loop(p, &loop));
    return loop == 0 ? NULL : dt_reader_error(&p->r, "parts and units are of l0");
}

/* "parts of 16 l0  units of 64 l0, from 0 of 1152, turn 0" */
static dt_status *parse_parts(parser *p) {
    dt_nest_share *share = &p->nest.share;
    if (dt_read_keyword(&p->r, "parts")) {
        DT_TRY(expect_text(p, "of +", &p->nest.part_iterations));
        DT_TRY(expect_outermost(p));
    }
    if (!dt_read_keyword(&p->r, "units")) return NULL;
    DT_TRY(expect_text(p, "of +", &share->unit_iterations));
    DT_TRY(expect_outermost(p));
    return expect_text(p, ", from # of + , turn #", &share->first_unit, &share->n_units, &share->turn);
}

/* "6 x 2 in 2 chains by 4 in memory" */
static dt_status *parse_tile(parser *p, dt_tile *tile) {
    *tile = (dt_tile){.chains = 1, .unroll = 1};
    DT_TRY(expect_int(p, 1, INT_MAX, &tile->rows));
    DT_TRY(expect_word(p, "x"));
    DT_TRY(expect_int(p, 1, INT_MAX, &tile->vectors));
    bool in = dt_read_keyword(&p->r, "in");
    tile->in_memory = in && dt_read_keyword(&p->r, "memory");
    if (tile->in_memory) return NULL;
    if (in) DT_TRY(expect_int(p, 1, INT_MAX, &tile->chains));
    if (in) DT_TRY(expect_word(p, "chains"));
    if (dt_read_keyword(&p->r, "by")) DT_TRY(expect_int(p, 1, INT_MAX, &tile->unroll));
    tile->in_memory = dt_read_keyword(&p->r, "in");
    return tile->in_memory ? expect_word(p, "memory") : NULL;
}

/* "of 6 x 2: 6 x 2 by 4, 5 x 2" */
static dt_status *parse_tiles(parser *p, dt_nest_choices *choices) {
    choices->tiled = true;
    DT_TRY(expect_word(p, "of"));
    DT_TRY(expect_int(p, 0, INT_MAX, &choices->tile_rows));
    DT_TRY(expect_word(p, "x"));
    DT_TRY(expect_int(p, 0, INT_MAX, &choices->tile_vectors));
    if (!dt_read_symbol(&p->r, ":")) return NULL;
    do {
        if (choices->n_tiles == DT_MOST_TILES) FAIL(p, "there are %d kinds of tiles at most", DT_MOST_TILES);
        DT_TRY(parse_tile(p, &choices->tiles[choices->n_tiles]));
        choices->n_tiles++;
    } while (dt_read_symbol(&p->r, ","));
    return NULL;
}

/* "l4, l5 by 32, 24 rows, gap 16 prefetched" */
static dt_status *parse_packing(parser *p, dt_nest_choices *choices) {
    DT_TRY(expect_loop(p, &choices->packed_loop));
    if (dt_read_symbol(&p->r, ",")) {
        choices->packed_around = choices->packed_loop;
        DT_TRY(expect_loop(p, &choices->packed_loop));
    }
    DT_TRY(expect_text(p, "by +", &choices->depth));
    if (dt_read_symbol(&p->r, ",")) DT_TRY(expect_text(p, "+ rows , gap #", &choices->packed_rows, &choices->packed_gap));
    choices->prefetches_rows = dt_read_keyword(&p->r, "prefetched");
    return NULL;
}

static dt_status *parse_order(parser *p, dt_nest_choices *choices) {
    for (int l = 0; l < p->nest.n_loops; l++) choices->order[l] = l;
    if (!dt_read_keyword(&p->r, "order")) return NULL;
    for (int l = 0; l < p->nest.n_loops; l++) DT_TRY(expect_loop(p, &choices->order[l]));
    return NULL;
}

static dt_status *parse_vector_loop(parser *p, dt_nest_choices *choices) {
    if (!dt_read_keyword(&p->r, "vector")) return NULL;
    DT_TRY(expect_loop(p, &choices->vector_loop));
    DT_TRY(expect_word(p, "x"));
    DT_TRY(expect_int(p, 1, INT_MAX, &choices->width));
    if (p->nest.algorithm == DT_ALGORITHM_LOOPS) p->nest.vector_loop = choices->vector_loop;
    return NULL;
}

static dt_status *parse_choices(parser *p, dt_nest_choices *choices) {
    int n = p->nest.n_loops, loop;
    *choices = (dt_nest_choices){.vector_loop = -1, .width = 1, .packed_loop = -1, .packed_around = -1};
    choices->order = DT_NEW_ARRAY(p->arena, int, n);
    choices->jammed = DT_NEW_ARRAY(p->arena, int, n);
    choices->unrolled = DT_NEW_ARRAY(p->arena, bool, n);
    DT_TRY(parse_order(p, choices));
    DT_TRY(parse_vector_loop(p, choices));
    while (dt_read_keyword(&p->r, "jammed")) {
        DT_TRY(expect_loop(p, &loop));
        DT_TRY(expect_word(p, "by"));
        DT_TRY(expect_int(p, 1, INT_MAX, &choices->jammed[loop]));
    }
    if (dt_read_keyword(&p->r, "unrolled"))
        while (read_numbered(p, 'l', n, &loop)) choices->unrolled[loop] = true;
    if (dt_read_keyword(&p->r, "tiles")) DT_TRY(parse_tiles(p, choices));
    return dt_read_keyword(&p->r, "packed") ? parse_packing(p, choices) : NULL;
}

static dt_status *parse_locations(parser *p) {
    DT_LIST(dt_location) locations = {0};
    while (dt_read_symbol(&p->r, "@")) {
        dt_location at;
        DT_TRY(expect_int(p, 0, INT_MAX, &at.file));
        DT_TRY(expect(p, ":"));
        DT_TRY(expect_int(p, 0, INT_MAX, &at.line));
        DT_TRY(expect(p, ":"));
        DT_TRY(expect_int(p, 0, INT_MAX, &at.column));
        dt_list_push(p->arena, &locations, at);
    }
    p->nest.locations = locations.items;
    p->nest.n_locations = (int)locations.n;
    return NULL;
}

/* What a nest's line says behind its loops. */
static dt_status *parse_form(parser *p) {
    DT_TRY(parse_algorithm(p));
    DT_TRY(parse_parts(p));
    if (p->target != NULL)
        DT_TRY(parse_choices(p, p->chosen));
    else if (dt_read_keyword(&p->r, "vector"))
        DT_TRY(expect_loop(p, &p->nest.vector_loop));
    return parse_locations(p);
}

/* ---- nests ---- */

static bool read_nest(parser *p) {
    dt_reader before = p->r;
    p->nest = (dt_nest){.vector_loop = -1, .tiling = {.row_loop = -1, .vector_loop = -1, .a = -1, .b = -1}};
    p->nest.in_blocks = dt_read_keyword(&p->r, "block");
    p->nest.in_rows = p->nest.in_blocks || dt_read_keyword(&p->r, "row");
    if (dt_read_keyword(&p->r, "nest")) return true;
    p->r = before;
    return false;
}

/* Whether what an address comes to stays far from the ends of an i64, and so does the product of all extents. */
static bool is_small(const parser *p, const dt_address *address) {
    int64_t sum = 0, one;
    for (int l = 0; l < p->nest.n_loops; l++) {
        int64_t extent = p->nest.loops[l].extent, coefficient = address->coefficients[l];
        if (dt_dim_is_symbol(extent)) extent = p->plan->microbatch_rows;
        if (__builtin_mul_overflow(coefficient < 0 ? -coefficient : coefficient, extent, &one) || __builtin_add_overflow(sum, one, &sum))
            return false;
    }
    return sum < INT64_MAX / 256;
}

static dt_status *check_sizes(parser *p) {
    int64_t product = 1;
    for (int l = 0; l < p->nest.n_loops; l++) {
        int64_t extent = dt_dim_is_symbol(p->nest.loops[l].extent) ? p->plan->microbatch_rows : p->nest.loops[l].extent;
        if (__builtin_mul_overflow(product, extent > 0 ? extent : 1, &product) || product > INT64_MAX / 256)
            FAIL(p, "the nest has too many iterations");
    }
    for (int i = 0; i < p->nest.n_instructions; i++)
        if (p->nest.instructions[i].kind == DT_INSTRUCTION_LOAD && !is_small(p, &p->nest.instructions[i].address)) FAIL(p, "an address is too large");
    for (size_t s = 0; s < p->stores.n; s++)
        if (!is_small(p, &p->stores.items[s].address)) FAIL(p, "an address is too large");
    return NULL;
}

static dt_status *parse_nest(parser *p) {
    dt_store_way way;
    DT_LIST(dt_store_way) ways = {0};
    int number;
    p->instructions.n = p->reductions.n = p->stores.n = 0;
    p->instructions.capacity = p->reductions.capacity = p->stores.capacity = 0;
    dt_read_string(&p->r, &p->nest.note);
    DT_TRY(parse_loops(p));
    DT_TRY(parse_form(p));
    while (read_numbered(p, 's', INT_MAX, &number)) {
        if (number != p->nest.n_instructions) FAIL(p, "expected s%d: instructions are numbered in their order", p->nest.n_instructions);
        DT_TRY(parse_instruction(p));
    }
    while (dt_read_keyword(&p->r, "reduction")) DT_TRY(parse_reduction(p));
    while (dt_read_keyword(&p->r, "store")) {
        DT_TRY(parse_store(p, &way));
        if (way != DT_STORE_ORDINARY && p->target == NULL) FAIL(p, "a plan for no target has ordinary stores");
        dt_list_push(p->arena, &ways, way);
    }
    if (p->target != NULL) p->chosen->stores = ways.items;
    DT_TRY(check_sizes(p));
    p->nest.reductions = p->reductions.items;
    p->nest.n_reductions = (int)p->reductions.n;
    p->nest.stores = p->stores.items;
    p->nest.n_stores = (int)p->stores.n;
    return NULL;
}

/* ---- kernels and collectives ---- */

/* "in units of 64, turn 0" */
static dt_status *parse_share(parser *p, dt_share *share) {
    *share = (dt_share){0};
    if (!dt_read_keyword(&p->r, "in")) return NULL;
    return expect_text(p, "units of + , turn #", &share->unit, &share->turn);
}

static dt_status *parse_arguments(parser *p) {
    int buffer;
    DT_TRY(expect(p, "("));
    while (!dt_read_symbol(&p->r, ")")) {
        int n = p->kernel->n_buffers;
        if (n > 0) DT_TRY(expect(p, ","));
        DT_TRY(expect_buffer(p, &buffer));
        if (dt_kernel_argument(p->arena, p->kernel, buffer) < n) FAIL(p, "%s is an argument twice", p->plan->buffers[buffer].name);
    }
    return NULL;
}

/* "once, divided  update  for examples  in loop 0" */
static dt_status *parse_flags(parser *p) {
    dt_kernel_function *kernel = p->kernel;
    kernel->once = dt_read_keyword(&p->r, "once");
    if (dt_read_symbol(&p->r, ",")) {
        DT_TRY(expect_word(p, "divided"));
        kernel->divided = true;
    }
    kernel->update = dt_read_keyword(&p->r, "update");
    if (dt_read_keyword(&p->r, "for")) {
        DT_TRY(expect_word(p, "examples"));
        kernel->for_examples = true;
    }
    if (!dt_read_keyword(&p->r, "in")) return NULL;
    int loop;
    DT_TRY(expect_word(p, "loop"));
    if (p->loops.n == 0) FAIL(p, "the plan has no loops");
    DT_TRY(expect_int(p, 0, (int)p->loops.n - 1, &loop));
    kernel->loop = p->loops.items[loop];
    return NULL;
}

/* A C identifier. */
static dt_status *parse_kernel_name(parser *p, const char **name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    if (!dt_read_word(&p->r, name) || strchr(letters, **name) == NULL) FAIL(p, "expected the name of a kernel");
    for (const char *c = *name; *c; c++)
        if (strchr(letters, *c) == NULL && (*c < '0' || *c > '9')) FAIL(p, "%s is no name that C knows", *name);
    return NULL;
}

static dt_status *parse_kernel(parser *p, dt_segment *segment) {
    dt_kernel_function *kernel = p->kernel = DT_NEW(p->arena, dt_kernel_function);
    DT_LIST(dt_nest_choices) choices = {0};
    DT_LIST(dt_shared_buffer) gathers = {0};
    DT_TRY(parse_kernel_name(p, &kernel->name));
    DT_TRY(parse_arguments(p));
    DT_TRY(parse_flags(p));
    while (read_nest(p)) {
        p->chosen = DT_NEW(p->arena, dt_nest_choices);
        DT_TRY(parse_nest(p));
        dt_kernel_insert_nest(p->arena, kernel, kernel->n_nests, p->nest);
        dt_list_push(p->arena, &choices, *p->chosen);
    }
    while (dt_read_keyword(&p->r, "gathers")) {
        dt_shared_buffer gather;
        DT_TRY(expect_buffer(p, &gather.buffer));
        DT_TRY(parse_share(p, &gather.share));
        dt_list_push(p->arena, &gathers, gather);
    }
    kernel->gathers = gathers.items;
    kernel->n_gathers = (int)gathers.n;
    if (kernel->once && segment->n_replica_kernels > 0) FAIL(p, "%s runs once: it stands before kernels that replicas run", kernel->name);
    int number = dt_plan_add_kernel(p->arena, p->plan, *kernel), *n = kernel->once ? &segment->n_device_kernels : &segment->n_replica_kernels;
    int **list = kernel->once ? &segment->device_kernels : &segment->replica_kernels, *longer = DT_NEW_ARRAY(p->arena, int, *n + 1);
    for (int k = 0; k < *n; k++) longer[k] = (*list)[k];
    longer[(*n)++] = number;
    *list = longer;
    dt_list_push(p->arena, &p->choices, choices.items);
    return NULL;
}

static dt_status *parse_collective(parser *p, int kind, dt_collective *collective) {
    *collective = (dt_collective){.kind = (dt_collective_kind)kind};
    DT_TRY(parse_combiner(p, &collective->combiner));
    DT_TRY(expect_buffer(p, &collective->source));
    DT_TRY(expect(p, "->"));
    DT_TRY(expect_buffer(p, &collective->target));
    DT_TRY(parse_share(p, &collective->share));
    DT_TRY(expect_word(p, "for"));
    if (!dt_read_string(&p->r, &collective->label)) FAIL(p, "expected a label in quotes");
    if (*collective->label == '\0') collective->label = NULL;
    DT_TRY(expect_text(p, "of %"));
    return expect_int(p, 0, INT_MAX, &collective->value);
}

static int read_collective_kind(parser *p) {
    for (int c = 0; c < DT_N_COLLECTIVES; c++)
        if (dt_read_keyword(&p->r, dt_collective_names()[c])) return c;
    return -1;
}

static dt_status *parse_segment(parser *p) {
    dt_segment segment = {0};
    DT_LIST(dt_collective) collectives = {0};
    int number, kind;
    DT_TRY(expect_int(p, p->plan->n_segments, p->plan->n_segments, &number));
    while (dt_read_keyword(&p->r, "kernel")) DT_TRY(parse_kernel(p, &segment));
    while ((kind = read_collective_kind(p)) >= 0) {
        dt_collective collective;
        DT_TRY(parse_collective(p, kind, &collective));
        dt_list_push(p->arena, &collectives, collective);
    }
    segment.collectives = collectives.items;
    segment.n_collectives = (int)collectives.n;
    dt_segment *segments = DT_NEW_ARRAY(p->arena, dt_segment, number + 1);
    for (int s = 0; s < number; s++) segments[s] = p->plan->segments[s];
    segments[number] = segment;
    p->plan->segments = segments;
    p->plan->n_segments++;
    return NULL;
}

/* ---- buffers ---- */

/* "at 27 - t modulo 28 of axis 1 of %0, loop 0, as f32[28, 3]", from the number on; dtype and shape are those before it. */
static dt_status *parse_view(parser *p, dt_dtype dtype, dt_view *view) {
    *view = (dt_view){0};
    int64_t last;
    int loop;
    dt_dtype same;
    bool begins_with_t = dt_read_keyword(&p->r, "t");
    if (begins_with_t) view->step = 1;
    if (!begins_with_t) {
        DT_TRY(expect_number(p, 0, MOST_NUMBER, &view->first));
        if (dt_read_keyword(&p->r, "to")) {
            DT_TRY(expect_number(p, view->first, MOST_NUMBER, &last));
            view->length = last - view->first + 1;
        } else if (dt_read_symbol(&p->r, "+") || dt_read_symbol(&p->r, "-")) {
            view->step = p->r.at[-1] == '+' ? 1 : -1;
            DT_TRY(expect_word(p, "t"));
        }
    }
    if (dt_read_keyword(&p->r, "modulo")) DT_TRY(expect_number(p, 1, MOST_NUMBER, &view->wrap));
    DT_TRY(expect_text(p, "of axis"));
    DT_TRY(expect_int(p, 0, INT_MAX, &view->axis));
    DT_TRY(expect_word(p, "of"));
    DT_TRY(expect_buffer(p, &view->of));
    DT_TRY(expect(p, ","));
    if (dt_read_keyword(&p->r, "loop")) {
        if (p->loops.n == 0) FAIL(p, "the plan has no loops");
        DT_TRY(expect_int(p, 0, (int)p->loops.n - 1, &loop));
        view->loop = p->loops.items[loop];
        DT_TRY(expect(p, ","));
    }
    DT_TRY(expect_word(p, "as"));
    DT_TRY(expect_type(p, &same, &view->shape));
    return same == dtype ? NULL : dt_reader_error(&p->r, "a part has the type of the buffer that it is part of");
}

/* What dt_plan_add_view takes for granted. */
static dt_status *check_view(parser *p, const dt_view *view, dt_dtype dtype, dt_shape shape) {
    const dt_buffer *of = &p->plan->buffers[view->of];
    int64_t extent = view->axis < view->shape.rank ? view->shape.dims[view->axis] : 0;
    int64_t steps = view->loop != NULL ? view->loop->trips - 1 : 0, end = view->first + (view->length > 0 ? view->length - 1 : 0);
    if (view->length > 0 && view->wrap > 0) FAIL(p, "several positions do not wrap");
    if (of->dtype != dtype) FAIL(p, "a part has the type of the buffer that it is part of");
    if (view->axis >= view->shape.rank || dt_dim_is_symbol(extent)) FAIL(p, "a part is of an axis of constant extent");
    if (of->view != NULL ? !dt_shape_equal(view->shape, of->shape) : dt_shape_elements(view->shape, 1, 1) != dt_shape_elements(of->shape, 1, 1))
        FAIL(p, "a buffer that is seen as another shape has as many elements");
    if (dt_shape_count(view->shape, DT_BATCH) != dt_shape_count(of->shape, DT_BATCH)) FAIL(p, "a buffer that is seen as another shape has its rows");
    if (view->step != 0 && view->loop == NULL) FAIL(p, "only in a loop does a part move");
    if (view->wrap > 0 ? view->wrap > extent || view->first >= view->wrap || view->step < 0
                       : end + (view->step > 0 ? steps : 0) >= extent || (view->step < 0 && view->first < steps))
        FAIL(p, "a part lies within its axis");
    int rank = view->shape.rank - (view->length == 0);
    if (rank != shape.rank) FAIL(p, "a part has all but one of the dimensions, or all where it is several positions");
    return NULL;
}

/* "scratch at 1,024, 512 bytes", from the space on. */
static dt_status *parse_place(parser *p, dt_buffer *buffer) {
    int space;
    DT_TRY(expect_name_of(p, "where the buffer is, as scratch", dt_memory_space_names(), DT_N_MEMORY_SPACES, &space));
    buffer->space = (dt_memory_space)space;
    if (space == DT_MEMORY_VARIABLE) DT_TRY(expect_int(p, 0, MOST_ARGUMENTS, &buffer->variable));
    if (space == DT_MEMORY_INPUT) DT_TRY(expect_int(p, 0, p->plan->n_inputs - 1, &buffer->input));
    if (!p->plan->is_placed) return NULL;
    DT_TRY(expect_word(p, "at"));
    DT_TRY(expect_size(p, &buffer->offset));
    DT_TRY(expect(p, ","));
    DT_TRY(expect_size(p, &buffer->bytes));
    return expect_word(p, "bytes");
}

static dt_status *parse_buffer(parser *p) {
    dt_buffer buffer = {.variable = -1, .input = -1};
    dt_view view;
    int precision;
    const char *token;
    if (!read_buffer_name(p, &buffer.name, &token)) FAIL(p, "expected the name of a buffer");
    if (dt_names_find(&p->buffers, token) >= 0) FAIL(p, "there are two buffers %s", token);
    DT_TRY(expect(p, ":"));
    DT_TRY(expect_type(p, &buffer.dtype, &buffer.shape));
    bool is_view = dt_read_keyword(&p->r, "at");
    if (is_view) DT_TRY(parse_view(p, buffer.dtype, &view));
    if (is_view) DT_TRY(check_view(p, &view, buffer.dtype, buffer.shape));
    if (!is_view) DT_TRY(parse_place(p, &buffer));
    while (dt_read_symbol(&p->r, ",")) {
        if (dt_read_keyword(&p->r, "one")) {
            DT_TRY(expect_word(p, "row"));
            buffer.one_row = true;
            continue;
        }
        DT_TRY(expect_text(p, "rounded to"));
        DT_TRY(expect_name_of(p, "a precision as bf16", dt_precision_names(), DT_N_PRECISIONS, &precision));
        buffer.precision = (dt_precision)precision;
    }
    int number = is_view ? dt_plan_add_view(p->arena, p->plan, buffer.name, view) : dt_plan_add_buffer(p->arena, p->plan, buffer);
    dt_buffer *added = &p->plan->buffers[number];
    if (!dt_shape_equal(added->shape, buffer.shape)) FAIL(p, "%s has another shape than the part that it is", buffer.name);
    added->precision = buffer.precision;
    added->one_row = buffer.one_row;
    dt_names_add(p->arena, &p->buffers, token, number);
    return NULL;
}

/* ---- plans ---- */

/* "device 426,240  replica 12,288  partial 0  scratch 86,016 bytes" */
static dt_status *parse_bytes(parser *p, dt_space_bytes *bytes) {
    DT_TRY(expect_word(p, "device"));
    DT_TRY(expect_size(p, &bytes->device));
    DT_TRY(expect_word(p, "replica"));
    DT_TRY(expect_size(p, &bytes->replica));
    DT_TRY(expect_word(p, "partial"));
    DT_TRY(expect_size(p, &bytes->partial));
    DT_TRY(expect_word(p, "scratch"));
    DT_TRY(expect_size(p, &bytes->scratch));
    return expect_word(p, "bytes");
}

/* "0: 30 times in each iteration of loop 1, 2 carried, 0 made again" */
static dt_status *parse_plan_loop(parser *p) {
    dt_plan_loop *loop = DT_NEW(p->arena, dt_plan_loop);
    int around, n = (int)p->loops.n;
    DT_TRY(expect_int(p, n, n, &loop->number));
    DT_TRY(expect(p, ":"));
    DT_TRY(expect_number(p, 0, INT_MAX, &loop->trips));
    DT_TRY(expect_word(p, "times"));
    if (dt_read_keyword(&p->r, "in")) {
        DT_TRY(expect_text(p, "each iteration of loop"));
        if (n == 0) FAIL(p, "a loop stands after those around it");
        DT_TRY(expect_int(p, 0, n - 1, &around));
        loop->around = p->loops.items[around];
    }
    DT_TRY(expect(p, ","));
    DT_TRY(expect_int(p, 0, INT_MAX, &loop->n_carries));
    DT_TRY(expect_text(p, "carried , # made again", &loop->remade));
    dt_list_push(p->arena, &p->loops, loop);
    return NULL;
}

static dt_status *parse_target(parser *p) {
    const char *level;
    p->target = NULL;
    if (!dt_read_keyword(&p->r, "for")) return NULL;
    if (dt_read_word(&p->r, &level)) p->target = dt_cpu_target_find(level);
    return p->target != NULL ? NULL : dt_reader_error(&p->r, "expected " DT_LEVEL_V3 " or " DT_LEVEL_V4);
}

static dt_status *parse_head(parser *p) {
    dt_plan *plan = p->plan;
    int role, number;
    if (!dt_read_name(&p->r, &plan->name)) FAIL(p, "expected the name of a plan");
    DT_TRY(expect(p, ":"));
    DT_TRY(expect_name_of(p, "what the plan is for, as step", dt_function_role_names(), DT_N_FUNCTION_ROLES, &role));
    plan->role = (dt_function_role)role;
    DT_TRY(parse_target(p));
    DT_TRY(expect_number(p, 1, INT_MAX, &plan->microbatch_rows));
    DT_TRY(expect_word(p, "of"));
    DT_TRY(expect_number(p, 1, INT_MAX, &plan->capacity));
    DT_TRY(expect_word(p, "rows"));
    plan->batched = dt_read_keyword(&p->r, "together");
    if (plan->batched && p->target != NULL) FAIL(p, "rows that run together are those of a plan for GPUs");
    DT_TRY(expect(p, ","));
    DT_TRY(expect_word(p, "inputs"));
    DT_TRY(expect_int(p, 0, MOST_ARGUMENTS, &plan->n_inputs));
    dt_reader before = p->r;
    plan->is_placed = dt_read_keyword(&p->r, "device");
    p->r = before;
    if (p->target != NULL && !plan->is_placed) FAIL(p, "choices are made when memory is planned: expected device");
    if (plan->is_placed) DT_TRY(parse_bytes(p, &plan->bytes));
    if (dt_read_keyword(&p->r, "and")) {
        DT_TRY(expect_text(p, "for each microbatch of all replicas"));
        DT_TRY(parse_bytes(p, &plan->gathered));
    }
    while (dt_read_keyword(&p->r, "file")) {
        const char *file;
        DT_TRY(expect_int(p, (int)p->files.n, (int)p->files.n, &number));
        if (!dt_read_string(&p->r, &file)) FAIL(p, "expected a file in quotes");
        dt_list_push(p->arena, &p->files, file);
    }
    plan->files = p->files.items;
    plan->n_files = (int)p->files.n;
    while (dt_read_keyword(&p->r, "loop")) DT_TRY(parse_plan_loop(p));
    plan->loops = (const dt_plan_loop **)p->loops.items;
    plan->n_loops = (int)p->loops.n;
    return NULL;
}

static dt_status *parse_results(parser *p) {
    DT_LIST(dt_plan_result) results = {0};
    while (dt_read_keyword(&p->r, "result")) {
        dt_plan_result result;
        if (!dt_read_name(&p->r, &result.name)) FAIL(p, "expected the name of a result");
        DT_TRY(expect(p, ":"));
        DT_TRY(expect_type(p, &result.dtype, &result.shape));
        DT_TRY(expect(p, "="));
        DT_TRY(expect_buffer(p, &result.buffer));
        dt_list_push(p->arena, &results, result);
    }
    p->plan->results = results.items;
    p->plan->n_results = (int)results.n;
    return NULL;
}

/* What a verifier says of a plan that somebody wrote is a mistake of the plan. */
static dt_status *refuse(const dt_reader *reader, dt_status *status) {
    if (status == NULL) return NULL;
    dt_status *refused = dt_reader_error(reader, "%s", dt_status_message(status));
    dt_status_free(status);
    return refused;
}

static dt_status *parse_plan(parser *p) {
    p->plan = DT_NEW(p->arena, dt_plan);
    DT_TRY(parse_head(p));
    while (dt_read_keyword(&p->r, "buffer")) DT_TRY(parse_buffer(p));
    while (dt_read_keyword(&p->r, "segment")) DT_TRY(parse_segment(p));
    DT_TRY(parse_results(p));
    DT_TRY(refuse(&p->r, dt_plan_verify(p->plan)));
    if (!dt_read_keyword(&p->r, "for")) return NULL;
    if (!p->plan->is_placed || !p->plan->batched) FAIL(p, "choices for a GPU are of plans whose rows run together, and whose memory is planned");
    return dt_gpu_choices_read(&p->r, p->plan, &p->gpu, &p->gpu_kernels);
}

/* ---- sets ---- */

static bool begins_set(const dt_plan_set *set, const parser *p) {
    if (set == NULL || (set->choices == NULL ? NULL : set->choices->target) != p->target) return true;
    if ((set->gpu_choices == NULL ? NULL : set->gpu_choices->target) != p->gpu) return true;
    for (int i = 0; i < set->n_plans; i++)
        if (strcmp(set->plans[i]->name, p->plan->name) == 0) return true;
    return false;
}

/* Code for a set has a function for each kernel of all its plans. */
static dt_status *add_kernel_names(parser *p, dt_names *names) {
    for (int k = 0; k < p->plan->n_kernels; k++) {
        const char *name = p->plan->kernels[k].name;
        if (dt_names_find(names, name) >= 0) FAIL(p, "there are two kernels %s", name);
        dt_names_add(p->arena, names, name, k);
    }
    return NULL;
}

/* What was chosen for the plans of a set, which has one more now. */
static void add_choices(const parser *p, dt_plan_set *set, dt_nest_choices ***nests, dt_gpu_kernel **gpu_kernels) {
    const dt_plan *const *plans = (const dt_plan *const *)set->plans;
    dt_choices *choices = DT_NEW(p->arena, dt_choices);
    dt_gpu_choices *of_gpu = DT_NEW(p->arena, dt_gpu_choices);
    *choices = (dt_choices){.target = p->target, .n_plans = set->n_plans, .plans = plans, .nests = nests};
    *of_gpu = (dt_gpu_choices){.target = p->gpu, .n_plans = set->n_plans, .plans = plans, .kernels = gpu_kernels};
    set->choices = p->target != NULL ? choices : NULL;
    set->gpu_choices = p->gpu != NULL ? of_gpu : NULL;
}

static dt_status *parse_sets(dt_arena *arena, dt_reader reader, dt_plan_sets *sets) {
    DT_LIST(dt_plan_set) list = {0};
    DT_LIST(dt_plan *) plans = {0};
    DT_LIST(dt_nest_choices **) nests = {0};
    DT_LIST(dt_gpu_kernel *) gpu_kernels = {0};
    dt_names kernels = {0};
    while (!dt_read_end(&reader)) {
        parser p = {.r = reader, .arena = arena};
        if (!dt_read_keyword(&p.r, "plan")) FAIL(&p, "expected a line of the plan, or the next plan");
        DT_TRY(parse_plan(&p));
        if (begins_set(list.n > 0 ? &list.items[list.n - 1] : NULL, &p)) {
            plans.items = NULL, nests.items = NULL, gpu_kernels.items = NULL, kernels = (dt_names){0};
            plans.n = plans.capacity = nests.n = nests.capacity = gpu_kernels.n = gpu_kernels.capacity = 0;
            dt_list_push(arena, &list, (dt_plan_set){0});
        }
        DT_TRY(add_kernel_names(&p, &kernels));
        dt_list_push(arena, &plans, p.plan);
        dt_list_push(arena, &nests, p.choices.items);
        dt_list_push(arena, &gpu_kernels, p.gpu_kernels);
        assert(list.n > 0);
        dt_plan_set *set = &list.items[list.n - 1];
        set->plans = plans.items;
        set->n_plans = (int)plans.n;
        add_choices(&p, set, nests.items, gpu_kernels.items);
        reader = p.r;
    }
    *sets = (dt_plan_sets){(int)list.n, list.items};
    if (list.n == 0) return dt_reader_error(&reader, "there is no plan here");
    for (size_t s = 0; s < list.n; s++) {
        if (list.items[s].choices != NULL) DT_TRY(refuse(&reader, dt_choices_verify(arena, list.items[s].choices)));
        if (list.items[s].gpu_choices != NULL) DT_TRY(refuse(&reader, dt_gpu_choices_verify(arena, list.items[s].gpu_choices)));
    }
    return NULL;
}

dt_status *dt_plans_parse(dt_arena *arena, const char *name, const char *source, dt_plan_sets *sets) {
    *sets = (dt_plan_sets){0};
    return parse_sets(arena, (dt_reader){.name = name, .source = source, .at = source, .arena = arena}, sets);
}

void dt_plan_sets_print(dt_arena *arena, dt_text *text, const dt_plan_sets *sets) {
    for (int s = 0; s < sets->n; s++)
        for (int p = 0; p < sets->items[s].n_plans; p++) {
            dt_plan_print(arena, text, sets->items[s].plans[p], sets->items[s].choices);
            if (sets->items[s].gpu_choices != NULL) dt_gpu_choices_print(text, sets->items[s].gpu_choices, p);
        }
}
