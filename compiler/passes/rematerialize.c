/* rematerialize: what the gradient of a loop over tensors computes again rather than scans.
 *
 * autodiff stacks all that the backward loop reads of the forward one. Of that, what is quickly computed of invariants and of what the backward loop
 * scans anyway is computed there again, so that its stack is neither written nor read and takes no memory: 1 - z of a gate z, a normalised state, a
 * comparison. Quickly is elementwise, without exp and its like. Nothing is scanned that was not, so each move is worth it.
 *
 * The bits are the same: it is the same op of the same operands. The backward loop says how many stacks it does without, for --emit=plan. */
#include "compiler/passes/passes.h"
#include "ir/body.h"
#include "ir/formula.h"
#include "ir/loops.h"

/* A value of the forward body as the backward one has it. */
typedef struct copy {
    const dt_value *value, *loop;
    bool reverse;
    dt_value *made;
} copy;

/* Whether a value can be made again, as was found for that question. */
typedef struct answer {
    int question;
    bool can;
} answer;

typedef struct rematerialize {
    dt_arena *arena;
    dt_function *function;
    int n;             /* ids below this one are of values that were there before the pass */
    dt_value **bodies; /* [n] */
    answer *answers;   /* [n] of can_remake */
    int question;      /* which one it is asked now, from 1 */
    DT_LIST(copy) copies;
} rematerialize;

/* Where something of a loop is read: in the body of another one, which walks the iterations the same way or the other way round. */
typedef struct reading {
    const dt_value *from;
    dt_value *by;
    bool reverse;
} reading;

static bool has_function(const dt_formula *formula) {
    bool has = formula->kind == DT_FORMULA_FUNCTION;
    for (int k = 0; k < formula->n_arguments && !has; k++) has = has_function(formula->arguments[k]);
    return has;
}

static bool is_quick(const rematerialize *r, const dt_value *value) {
    if (value->op->class == DT_CLASS_SOURCE) return !dt_value_is(value, "input");
    if (value->op->class == DT_CLASS_MOVE) return value->n_operands == 1;
    return value->op->class == DT_CLASS_MAP && !has_function(dt_value_loops(r->arena, value)->body);
}

/* ---- what the loop that reads scans ---- */

static bool is_scan_of(const dt_value *scanned, const dt_value *value, const reading *at) {
    const dt_value *whole = scanned->operands[0];
    bool reverse = dt_value_bool(scanned, "reverse");
    if (dt_value_is(value, "scanned")) {
        bool same_axis = dt_value_int(scanned, "axis") == dt_value_int(value, "axis");
        return whole == value->operands[0] && same_axis && (reverse != dt_value_bool(value, "reverse")) == at->reverse;
    }
    if (!dt_value_is(whole, "stack") || whole->operands[0] != value || whole->operands[1] != at->from) return false;
    return dt_value_int(whole, "axis") == dt_value_int(scanned, "axis") && (reverse != dt_value_bool(whole, "reverse")) == at->reverse;
}

/* NULL: the value is not scanned there. */
static dt_value *find_scanned(const rematerialize *r, const dt_value *value, const reading *at) {
    const dt_value *end = dt_loop_end(at->by);
    for (dt_value *other = at->by->next; other != end; other = other->next)
        if (other->id < r->n && r->bodies[other->id] == at->by && dt_value_is(other, "scanned") && is_scan_of(other, value, at)) return other;
    return NULL;
}

/* ---- what can be made again ---- */

static bool is_invariant(const rematerialize *r, const dt_value *value, const reading *at) {
    return value != at->from && value->id < r->n && !dt_body_is_within(r->bodies, r->bodies[value->id], at->from);
}

static bool can_remake(const rematerialize *r, const dt_value *value, const reading *at) {
    if (value->id >= r->n) return false;
    answer *known = &r->answers[value->id];
    if (known->question == r->question) return known->can;
    *known = (answer){r->question, r->bodies[value->id] == at->from && is_quick(r, value)};
    for (int k = 0; k < value->n_operands && known->can; k++) {
        const dt_value *operand = value->operands[k];
        known->can = is_invariant(r, operand, at) || find_scanned(r, operand, at) != NULL || can_remake(r, operand, at);
    }
    return known->can;
}

static dt_value *find_copy(const rematerialize *r, const dt_value *value, const reading *at) {
    for (size_t i = 0; i < r->copies.n; i++) {
        const copy *copy = &r->copies.items[i];
        if (copy->value == value && copy->loop == at->by && copy->reverse == at->reverse) return copy->made;
    }
    return NULL;
}

static dt_status *remake(rematerialize *r, dt_value *value, const reading *at, dt_value *before, dt_value **result) {
    *result = find_copy(r, value, at);
    if (*result != NULL) return NULL;
    dt_value **operands = DT_NEW_ARRAY(r->arena, dt_value *, value->n_operands);
    for (int k = 0; k < value->n_operands; k++) {
        operands[k] = value->operands[k];
        if (is_invariant(r, operands[k], at)) continue;
        dt_value *scanned = find_scanned(r, operands[k], at);
        if (scanned == NULL)
            DT_TRY(remake(r, operands[k], at, before, &operands[k]));
        else
            operands[k] = scanned;
    }
    dt_builder builder = {.function = r->function, .before = before, .locations = value->locations, .n_locations = value->n_locations};
    DT_TRY(dt_build(&builder, value->op, operands, value->n_operands, value->attributes, result));
    copy copy = {value, at->by, at->reverse, *result};
    dt_list_push(r->arena, &r->copies, copy);
    return NULL;
}

/* ---- stacks ---- */

/* A value that scans the stack. */
typedef struct reader {
    dt_value *scanned;
    reading at;
} reader;

typedef DT_LIST(reader) reader_list;

/* Whether `value`, which reads the stack, is a reader for which what is stacked can be made again. */
static bool can_do_without(rematerialize *r, dt_value *value, const dt_value *stack, reader *found) {
    if (!dt_value_is(value, "scanned") || dt_value_int(value, "axis") != dt_value_int(stack, "axis")) return false;
    dt_value *by = r->bodies[value->id];
    *found = (reader){value, {stack->operands[1], by, dt_value_bool(value, "reverse") != dt_value_bool(stack, "reverse")}};
    r->question++;
    return r->bodies[by->id] == r->bodies[stack->id] && can_remake(r, stack->operands[0], &found->at);
}

/* All that read the stack; none where one of them needs it. */
static reader_list find_readers(rematerialize *r, const dt_value *stack) {
    reader_list readers = {0};
    reader found;
    for (size_t i = 0; i < r->function->results.n; i++)
        if (r->function->results.items[i].value == stack) return readers;
    for (dt_value *value = stack->next; value != NULL; value = value->next)
        for (int k = 0; k < value->n_operands; k++) {
            if (value->operands[k] != stack) continue;
            if (!can_do_without(r, value, stack, &found)) return (reader_list){0};
            dt_list_push(r->arena, &readers, found);
        }
    return readers;
}

/* What a body scans comes to stand first in it, and then what was made: all else may use both. Gives the first value after them. */
static dt_value *after_made(const rematerialize *r, dt_value *loop) {
    dt_value *first = loop->next, *end = dt_loop_end(loop);
    for (dt_value *value = first, *next; value != end; value = next) {
        next = value->next;
        bool scans = value->id < r->n && r->bodies[value->id] == loop && dt_value_is(value, "scanned");
        if (value == first && (scans || value->id >= r->n))
            first = next;
        else if (scans)
            dt_value_move(value, first);
    }
    return first;
}

static dt_status *remake_stacked(rematerialize *r, const dt_value *stack) {
    reader_list readers = find_readers(r, stack);
    for (size_t i = 0; i < readers.n; i++) {
        const reader *reader = &readers.items[i];
        dt_value *made, *by = reader->at.by;
        DT_TRY(remake(r, stack->operands[0], &reader->at, after_made(r, by), &made));
        dt_value_replace(reader->scanned, made);
        dt_value_remove(reader->scanned);
        by->attributes[dt_op_attribute_index(by->op, "remade")].i++;
    }
    return NULL;
}

/* In the order of the body: what a value is made of has been decided about. */
static dt_status *remake_of_loop(rematerialize *r, const dt_value *loop) {
    const dt_value *end = dt_loop_end(loop);
    for (const dt_value *value = loop->next; value != end; value = value->next)
        for (const dt_value *stack = end->next; stack != NULL && value->id < r->n && r->bodies[value->id] == loop; stack = stack->next)
            if (stack->id < r->n && dt_value_is(stack, "stack") && stack->operands[0] == value && stack->operands[1] == loop)
                DT_TRY(remake_stacked(r, stack));
    return NULL;
}

dt_status *dt_pass_rematerialize(dt_compilation *compilation) {
    for (size_t f = 0; f < compilation->module->functions.n; f++) {
        dt_function *function = compilation->module->functions.items[f];
        if (!dt_function_has_loops(function)) continue;
        rematerialize r = {.arena = compilation->arena, .function = function, .n = function->next_id};
        r.bodies = DT_NEW_ARRAY(r.arena, dt_value *, r.n);
        r.answers = DT_NEW_ARRAY(r.arena, answer, r.n);
        dt_function_find_bodies(function, r.bodies);
        for (const dt_value *value = function->first; value != NULL; value = value->next)
            if (value->id < r.n && dt_value_is_loop(value)) DT_TRY(remake_of_loop(&r, value));
        dt_function_sweep(function);
        dt_function_renumber(function);
    }
    return NULL;
}
