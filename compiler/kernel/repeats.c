/* repeats: see the header. A piece is described by two lists: what has to be equal, among it which of its buffers each access goes to, counted in the
 * order of first use; and the numbers that may differ. Pieces with equal first lists are one routine. */
#include "compiler/kernel/repeats.h"

#include "base/text.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/view.h"

#include <string.h>

enum {
    LEAST_WORK = 2048,   /* instructions that a call does within a row: then the call is next to nothing */
    LEAST_TABLE = 1 << 6 /* of hashes */
};

/* A piece, described. */
typedef struct piece {
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    int first, end;
    dt_text fixed; /* 8 bytes each */
    DT_LIST(int) buffers;
    int *places; /* [arguments of the kernel] in `buffers`, from 1; 0: it is not there yet */
    DT_LIST(int64_t) numbers;
} piece;

/* Pieces that are one routine, while they are gathered. */
typedef struct class {
    uint64_t hash;
    const char *fixed;
    size_t n_fixed;
    dt_routine routine;
    const int64_t *numbers; /* of the first piece */
    bool *varies;           /* [n_numbers] */
    int n_numbers;
    int index;          /* of its routine */
    struct class *next; /* of the same place in the table */
} class;

/* Where a piece is used. */
typedef struct use {
    class *class;
    dt_routine_use *use;
    const int64_t *numbers; /* all of them */
} use;

typedef struct finder {
    dt_arena *arena;
    const dt_choices *const *choices;
    int n_targets;
    piece at_work;
    class **table;
    size_t n_table, n_classes;
    DT_LIST(class *) classes;
    DT_LIST(use) uses;
} finder;

/* ---- describing ---- */

static void fix(piece *p, int64_t value) { dt_text_append_bytes(&p->fixed, (const char *)&value, sizeof value); }

static void number(finder *f, int64_t value) { dt_list_push(f->arena, &f->at_work.numbers, value); }

static void fix_buffer(finder *f, int argument) {
    piece *p = &f->at_work;
    if (p->places[argument] == 0) {
        fix(p, p->plan->buffers[p->kernel->buffers[argument]].dtype);
        dt_list_push(f->arena, &p->buffers, argument);
        p->places[argument] = (int)p->buffers.n;
    }
    fix(p, p->places[argument]);
}

static void fix_overlaps(piece *p) {
    for (size_t a = 0; a < p->buffers.n; a++)
        for (size_t b = 0; b < a; b++) fix(p, dt_arguments_overlap(p->plan, p->kernel, p->buffers.items[a], p->buffers.items[b]));
}

/* All but its offset. */
static void fix_address(finder *f, const dt_nest *nest, const dt_address *address) {
    fix_buffer(f, address->buffer);
    for (int l = 0; l < nest->n_loops; l++) fix(&f->at_work, address->coefficients[l]);
    fix(&f->at_work, address->n_terms);
    for (int t = 0; t < address->n_terms; t++) {
        fix(&f->at_work, address->terms[t]);
        fix(&f->at_work, address->term_coefficients[t]);
    }
}

/* Whether code is the better for knowing the constant: a division or a shift by it becomes another instruction. */
static void mark_divisors(const dt_nest *nest, bool *is_divisor) {
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (x->kind != DT_INSTRUCTION_SCALAR || x->n_operands < 2) continue;
        is_divisor[x->operands[1]] |= x->scalar == DT_SCALAR_DIVIDE || x->scalar == DT_SCALAR_REMAINDER || x->scalar == DT_SCALAR_SHIFT_LEFT ||
                                      x->scalar == DT_SCALAR_SHIFT_RIGHT;
    }
}

static int64_t constant_bits(const dt_instruction *x) {
    int64_t bits = x->integer;
    if (dt_dtype_is_float(x->dtype)) memcpy(&bits, &x->number, sizeof bits);
    return bits;
}

static void describe_instruction(finder *f, const dt_nest *nest, const dt_instruction *x, bool is_divisor) {
    piece *p = &f->at_work;
    int64_t free_number = 0;
    fix(p, x->kind);
    fix(p, x->dtype);
    fix(p, x->n_operands);
    for (int k = 0; k < x->n_operands; k++) fix(p, x->operands[k]);
    switch (x->kind) {
    case DT_INSTRUCTION_CONSTANT:
        if (is_divisor || x->dtype == DT_BOOL)
            fix(p, constant_bits(x));
        else
            free_number = constant_bits(x);
        break;
    case DT_INSTRUCTION_SCALAR: fix(p, x->scalar); break;
    case DT_INSTRUCTION_CHECK:
        fix(p, x->integer);
        fix(p, x->before);
        fix(p, x->by_first_shard);
        free_number = x->index;
        break;
    case DT_INSTRUCTION_LOAD:
        fix(p, x->guard);
        fix(p, x->guard >= 0 ? x->otherwise : -1);
        fix_address(f, nest, &x->address);
        free_number = x->address.offset;
        break;
    default: fix(p, x->index); break;
    }
    number(f, free_number);
}

/* All but how its results are stored: routines have ordinary stores, unless tiles prefetch what they are stored over. */
static void describe_choices(piece *p, const dt_nest *nest, const dt_nest_choices *choices) {
    const int64_t form[] = {choices->vector_loop,     choices->width,         choices->tiled,      choices->tile_rows,   choices->tile_vectors,
                            choices->packed_loop,     choices->packed_around, choices->depth,      choices->packed_rows, choices->packed_gap,
                            choices->prefetches_rows, choices->n_tiles,       choices->skips_zeros};
    for (size_t i = 0; i < sizeof form / sizeof *form; i++) fix(p, form[i]);
    for (int l = 0; l < nest->n_loops; l++) {
        fix(p, choices->order[l]);
        fix(p, choices->unrolled[l]);
        fix(p, choices->jammed[l]);
    }
    for (int t = 0; t < choices->n_tiles; t++) {
        const dt_tile *tile = &choices->tiles[t];
        for (int i = 0; i < 5; i++) fix(p, (const int[]){tile->rows, tile->vectors, tile->chains, tile->unroll, tile->in_memory}[i]);
    }
    for (int s = 0; s < nest->n_stores; s++) fix(p, choices->stores[s] == DT_STORE_PREFETCHED);
}

static void describe_nest(finder *f, const dt_nest *nest) {
    piece *p = &f->at_work;
    bool in_parts = p->kernel->divided && nest->part_iterations > 0; /* its outermost loop begins and ends where it is told at run time */
    const int64_t form[] = {in_parts,
                            nest->in_rows,
                            nest->in_blocks,
                            nest->share.n_units > 0,
                            nest->share.unit_iterations,
                            nest->part_iterations,
                            nest->n_loops,
                            nest->n_instructions,
                            nest->n_reductions,
                            nest->n_stores,
                            nest->algorithm};
    const dt_tiling tiling = nest->algorithm == DT_ALGORITHM_LOOPS ? (dt_tiling){0} : nest->tiling;
    bool *is_divisor = DT_NEW_ARRAY(f->arena, bool, nest->n_instructions);
    for (size_t i = 0; i < sizeof form / sizeof *form; i++) fix(p, form[i]);
    for (int i = 0; i < 4; i++) fix(p, (const int[]){tiling.row_loop, tiling.vector_loop, tiling.a, tiling.b}[i]);
    for (int l = 0; l < nest->n_loops; l++) {
        fix(p, in_parts && l == dt_nest_part_loop(nest) ? 0 : nest->loops[l].extent); /* 0: that is a number */
        fix(p, nest->loops[l].reduced);
    }
    mark_divisors(nest, is_divisor);
    for (int i = 0; i < nest->n_instructions; i++) describe_instruction(f, nest, &nest->instructions[i], is_divisor[i]);
    for (int r = 0; r < nest->n_reductions; r++) {
        fix(p, nest->reductions[r].combiner);
        fix(p, nest->reductions[r].operand);
        fix(p, nest->reductions[r].dtype);
    }
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        fix(p, store->operand);
        fix(p, store->accumulate);
        fix(p, store->guard);
        fix_address(f, nest, &store->address);
        number(f, store->address.offset);
    }
    const int64_t of_share[] = {nest->share.turn, nest->share.first_unit, nest->share.n_units,
                                in_parts ? nest->loops[dt_nest_part_loop(nest)].extent : 0};
    for (int i = 0; i < DT_SHARE_NUMBERS; i++) number(f, of_share[i]);
    for (int t = 0; t < f->n_targets; t++) describe_choices(p, nest, &dt_choices_of(f->choices[t], p->plan, p->kernel)[nest - p->kernel->nests]);
}

/* All but which of its buffers share memory. */
static void describe(finder *f, const dt_plan *plan, const dt_kernel_function *kernel, int first, int end) {
    piece *p = &f->at_work;
    if (p->kernel != kernel) p->places = DT_NEW_ARRAY(f->arena, int, kernel->n_buffers);
    for (size_t b = 0; b < p->buffers.n && p->kernel == kernel; b++) p->places[p->buffers.items[b]] = 0;
    p->plan = plan;
    p->kernel = kernel;
    p->first = first;
    p->end = end;
    p->fixed.n = p->buffers.n = p->numbers.n = 0;
    fix(p, plan->microbatch_rows);
    fix(p, kernel->divided ? 1 + kernel->once : 0);
    fix(p, end - first);
    for (int n = first; n < end; n++) describe_nest(f, &kernel->nests[n]);
}

/* A whole kernel, of which nothing may differ, nor the length and the place of its buffers. Which of them share memory is compared if all else is the
 * same: there may be thousands. */
static void describe_kernel(finder *f, const dt_plan *plan, const dt_kernel_function *kernel) {
    piece *p = &f->at_work;
    describe(f, plan, kernel, 0, kernel->n_nests);
    fix(p, kernel->n_buffers);
    for (int b = 0; b < kernel->n_buffers; b++) {
        fix(p, plan->buffers[kernel->buffers[b]].bytes);
        fix(p, dt_buffer_begins_at(plan, kernel->buffers[b], 64));
    }
    for (int t = 0; t < f->n_targets; t++)
        for (int n = 0; n < kernel->n_nests; n++)
            for (int s = 0; s < kernel->nests[n].n_stores; s++) fix(p, dt_choices_of(f->choices[t], plan, kernel)[n].stores[s]);
    for (int n = 0; n < kernel->n_nests; n++) fix(p, 2 * kernel->nests[n].timer + kernel->nests[n].meets);
    for (size_t b = 0; b < p->buffers.n; b++) fix(p, p->buffers.items[b]);
    for (size_t i = 0; i < p->numbers.n; i++) fix(p, p->numbers.items[i]);
}

/* ---- classes ---- */

static void grow_table(finder *f) {
    f->n_table = f->n_table > 0 ? 2 * f->n_table : LEAST_TABLE;
    f->table = DT_NEW_ARRAY(f->arena, class *, f->n_table);
    for (size_t i = 0; i < f->classes.n; i++) {
        class *one = f->classes.items[i], **place = &f->table[one->hash % f->n_table];
        one->next = *place;
        *place = one;
    }
}

/* The class of the piece at work. */
static class *find_class(finder *f) {
    const piece *p = &f->at_work;
    uint64_t hash = dt_hash_bytes(p->fixed.data, p->fixed.n, 0);
    if (f->classes.n >= f->n_table) grow_table(f);
    class **place = &f->table[hash % f->n_table];
    for (class *one = *place; one != NULL; one = one->next)
        if (one->hash == hash && one->n_fixed == p->fixed.n && memcmp(one->fixed, p->fixed.data, p->fixed.n) == 0) return one;
    class *made = DT_NEW(f->arena, class);
    *made =
        (class){.hash = hash,
                .fixed = dt_arena_copy(f->arena, p->fixed.data, p->fixed.n),
                .n_fixed = p->fixed.n,
                .routine = {.plan = p->plan, .kernel = p->kernel, .first = p->first, .n_nests = p->end - p->first, .n_buffers = (int)p->buffers.n},
                .n_numbers = (int)p->numbers.n,
                .index = (int)f->classes.n,
                .next = *place};
    *place = made;
    dt_list_push(f->arena, &f->classes, made);
    return made;
}

static const int64_t *copy_numbers(finder *f) {
    return dt_arena_copy(f->arena, f->at_work.numbers.items, f->at_work.numbers.n * sizeof *f->at_work.numbers.items);
}

static dt_routine_use *note_use(finder *f) {
    class *class = find_class(f);
    const piece *p = &f->at_work;
    dt_routine_use *made = DT_NEW(f->arena, dt_routine_use);
    const int64_t *numbers = copy_numbers(f);
    made->buffers = dt_arena_copy(f->arena, p->buffers.items, p->buffers.n * sizeof *p->buffers.items);
    if (class->routine.n_uses++ == 0) {
        class->routine.buffers = made->buffers;
        class->numbers = numbers;
        class->varies = DT_NEW_ARRAY(f->arena, bool, class->n_numbers);
    }
    for (int i = 0; i < class->n_numbers; i++) class->varies[i] |= numbers[i] != class->numbers[i];
    dt_list_push(f->arena, &f->uses, ((use){class, made, numbers}));
    return made;
}

/* ---- what is worth a call ---- */

static int64_t extent_at_capacity(const dt_plan *plan, int64_t extent) { return dt_dim_is_symbol(extent) ? plan->microbatch_rows : extent; }

double dt_piece_work(const dt_plan *plan, const dt_kernel_function *kernel, int first, int end) {
    double sum = 0;
    for (int n = first; n < end; n++) {
        double one = kernel->nests[n].n_instructions;
        for (int l = kernel->nests[n].in_rows; l < kernel->nests[n].n_loops; l++)
            one *= (double)extent_at_capacity(plan, kernel->nests[n].loops[l].extent);
        sum += one;
    }
    return sum;
}

int dt_piece_end(const dt_kernel_function *kernel, int first) {
    int end = first + 1;
    while (end < kernel->n_nests && kernel->nests[end].in_blocks) end++;
    return end;
}

static void look_at_kernel(finder *f, const dt_plan *plan, const dt_kernel_function *kernel, dt_kernel_repeats *repeats) {
    repeats->uses = DT_NEW_ARRAY(f->arena, const dt_routine_use *, kernel->n_nests);
    for (int n = 0, end; n < kernel->n_nests; n = end) {
        end = dt_piece_end(kernel, n);
        if (kernel->nests[n].in_rows && dt_piece_work(plan, kernel, n, end) < LEAST_WORK) continue;
        describe(f, plan, kernel, n, end);
        fix_overlaps(&f->at_work);
        repeats->uses[n] = note_use(f);
    }
}

static bool overlap_alike(const dt_plan *plan, const dt_kernel_function *kernel, const dt_plan *other_plan, const dt_kernel_function *other) {
    for (int a = 0; a < kernel->n_buffers; a++)
        for (int b = 0; b < a; b++)
            if (dt_arguments_overlap(plan, kernel, a, b) != dt_arguments_overlap(other_plan, other, a, b)) return false;
    return true;
}

/* A kernel before it that is the same, or NULL. */
static const dt_kernel_function *find_same(finder *f, const dt_plan *plan, const dt_kernel_function *kernel) {
    describe_kernel(f, plan, kernel);
    const dt_routine *first = &find_class(f)->routine;
    return first->kernel != kernel && overlap_alike(plan, kernel, first->plan, first->kernel) ? first->kernel : NULL;
}

/* ---- the result ---- */

static void make_routines(finder *f, dt_repeats *repeats) {
    dt_routine *routines = DT_NEW_ARRAY(f->arena, dt_routine, f->classes.n);
    for (size_t c = 0; c < f->classes.n; c++) {
        class *class = f->classes.items[c];
        int *parameters = DT_NEW_ARRAY(f->arena, int, class->n_numbers);
        for (int i = 0; i < class->n_numbers && class->routine.n_uses > 0; i++) parameters[i] = class->varies[i] ? class->routine.n_parameters++ : -1;
        class->routine.parameters = parameters;
        routines[c] = class->routine;
    }
    for (size_t u = 0; u < f->uses.n; u++) {
        const use *one = &f->uses.items[u];
        int64_t *numbers = DT_NEW_ARRAY(f->arena, int64_t, one->class->routine.n_parameters);
        for (int i = 0; i < one->class->n_numbers; i++)
            if (one->class->varies[i]) numbers[one->class->routine.parameters[i]] = one->numbers[i];
        one->use->routine = one->class->index;
        one->use->numbers = numbers;
    }
    repeats->n_routines = (int)f->classes.n;
    repeats->routines = routines;
}

/* What is met once is written where it stands. */
static void forget_single_uses(const dt_repeats *repeats, const dt_kernel_function *kernel, dt_kernel_repeats *of_kernel) {
    for (int n = 0; n < kernel->n_nests; n++)
        if (of_kernel->uses[n] != NULL && repeats->routines[of_kernel->uses[n]->routine].n_uses == 1) of_kernel->uses[n] = NULL;
}

dt_repeats *dt_repeats_find(dt_arena *arena, const dt_plan *const *plans, int n_plans, const dt_choices *const *choices, int n_targets) {
    finder f = {.arena = arena, .choices = choices, .n_targets = n_targets, .at_work.fixed.arena = arena};
    dt_repeats *repeats = DT_NEW(arena, dt_repeats);
    repeats->kernels = DT_NEW_ARRAY(arena, dt_kernel_repeats *, n_plans);
    for (int p = 0; p < n_plans; p++) {
        repeats->kernels[p] = DT_NEW_ARRAY(arena, dt_kernel_repeats, plans[p]->n_kernels);
        for (int k = 0; k < plans[p]->n_kernels; k++) {
            const dt_kernel_function *kernel = &plans[p]->kernels[k];
            repeats->kernels[p][k].same = find_same(&f, plans[p], kernel);
            if (repeats->kernels[p][k].same == NULL) look_at_kernel(&f, plans[p], kernel, &repeats->kernels[p][k]);
        }
    }
    make_routines(&f, repeats);
    for (int p = 0; p < n_plans; p++)
        for (int k = 0; k < plans[p]->n_kernels; k++)
            if (repeats->kernels[p][k].same == NULL) forget_single_uses(repeats, &plans[p]->kernels[k], &repeats->kernels[p][k]);
    return repeats;
}
