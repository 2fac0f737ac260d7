/* elaborate_statement: bodies are run statement by statement; `if` and `for` are decided here, at compile time. */
#include "frontends/dsl/elaborator.h"

#include <string.h>

void dt_bind_name(dt_elaborator *e, const char *name, dt_object object, dt_span span) {
    if (strcmp(name, "_") == 0) return;
    dt_binding *old = dt_find_binding(e->frame->scope, name);
    if (old != NULL && old->object.kind == DT_OBJECT_VARIABLE && !old->conditional) {
        bool is_state = e->module->variables.items[old->object.i].kind == DT_VARIABLE_STATE;
        dt_diagnostic *error = dt_elaborator_error(e, span, "%s is a %s: = binds a name, it does not write", name, is_state ? "state" : "parameter");
        if (is_state)
            dt_diagnostic_help(error, "write %s := …", name);
        else
            dt_diagnostic_help(error, "bind another name; parameters are written by optimizers");
        return;
    }
    e->frame->scope = dt_bind(e->arena, e->frame->scope, name, object, span);
}

static void bind_poison(dt_elaborator *e, const dt_assignment_target *target) {
    e->frame->scope = dt_bind(e->arena, e->frame->scope, target->name, dt_poison(), target->span);
}

static void run_assign(dt_elaborator *e, const dt_statement *s) {
    bool is_named = s->targets.n == 1 && strcmp(s->targets.items[0].name, "_") != 0;
    e->frame->binding = is_named ? s->targets.items[0].name : NULL;
    e->frame->lists = 0;
    dt_object value = dt_settle(e, dt_value_of(e, s->value));
    e->frame->binding = NULL;
    if (value.kind == DT_OBJECT_NONE && s->value->kind == DT_EXPRESSION_CALL)
        value = (dt_elaborator_error(e, s->value->span, "the call gives no value that could be bound"), dt_poison());
    if (s->targets.n == 1) {
        if (value.kind == DT_OBJECT_TUPLE) {
            dt_diagnostic *error = dt_elaborator_error(e, s->value->span, "the call gives %zu values, one name takes them", value.items->n);
            dt_diagnostic_help(error, "bind each: %s, _ = …", s->targets.items[0].name);
            value = dt_poison();
        }
        dt_bind_name(e, s->targets.items[0].name, value, s->targets.items[0].span);
        return;
    }
    bool unpacks = (value.kind == DT_OBJECT_TUPLE || value.kind == DT_OBJECT_LIST) && value.items->n == s->targets.n;
    if (!unpacks && !dt_is_poison(value)) {
        size_t n = value.kind == DT_OBJECT_TUPLE || value.kind == DT_OBJECT_LIST ? value.items->n : 1;
        dt_elaborator_error(e, s->targets.items[0].span, "%zu names take %zu value%s", s->targets.n, n, dt_plural(n));
    }
    for (size_t i = 0; i < s->targets.n; i++)
        dt_bind_name(e, s->targets.items[i].name, unpacks ? dt_settle(e, value.items->items[i]) : dt_poison(), s->targets.items[i].span);
}

/* ---- if ---- */

typedef DT_LIST(dt_assignment_target) target_list;

/* Names that the statements bind for certain, whatever path is taken. */
static void list_bound(dt_elaborator *e, const dt_block *block, target_list *bound);

static bool is_listed(const target_list *list, const char *name) {
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i].name, name) == 0) return true;
    return false;
}

static void list_bound(dt_elaborator *e, const dt_block *block, target_list *bound) {
    for (size_t i = 0; i < block->n; i++) {
        const dt_statement *s = block->items[i];
        if (s->kind == DT_STATEMENT_ASSIGN || s->kind == DT_STATEMENT_PARAM || s->kind == DT_STATEMENT_STATE || s->broken)
            for (size_t k = 0; k < s->targets.n; k++)
                if (!is_listed(bound, s->targets.items[k].name)) dt_list_push(e->arena, bound, s->targets.items[k]);
        if (s->kind == DT_STATEMENT_FOR) list_bound(e, &s->body, bound);
        if (s->kind != DT_STATEMENT_IF) continue;
        target_list first = {0}, second = {0};
        list_bound(e, &s->body, &first);
        list_bound(e, &s->otherwise, &second);
        for (size_t k = 0; k < first.n; k++)
            if (is_listed(&second, first.items[k].name) && !is_listed(bound, first.items[k].name)) dt_list_push(e->arena, bound, first.items[k]);
    }
}

static bool ends_with_return(const dt_block *block) { return block->n > 0 && block->items[block->n - 1]->kind == DT_STATEMENT_RETURN; }

static void run_if(dt_elaborator *e, const dt_statement *s) {
    bool condition = false;
    bool known = dt_evaluate_bool(e, s->value, "if", &condition);
    target_list then_bound = {0}, else_bound = {0};
    list_bound(e, &s->body, &then_bound);
    list_bound(e, &s->otherwise, &else_bound);
    if (!known) { /* both paths are looked at, and what either would have bound is poison, so that nothing follows from this mistake */
        dt_binding *scope = e->frame->scope;
        bool has_returned = e->frame->returned;
        for (int side = 0; side < 2; side++) {
            e->n_uncertain++;
            dt_run_block(e, side == 0 ? &s->body : &s->otherwise);
            e->n_uncertain--;
            e->frame->scope = scope;
            e->frame->returned = has_returned;
        }
        for (size_t i = 0; i < then_bound.n; i++) bind_poison(e, &then_bound.items[i]);
        for (size_t i = 0; i < else_bound.n; i++) bind_poison(e, &else_bound.items[i]);
        if (ends_with_return(&s->body) || ends_with_return(&s->otherwise)) e->frame->returned = true, e->frame->result = dt_poison();
        return;
    }
    dt_binding *before = e->frame->scope;
    dt_run_block(e, condition ? &s->body : &s->otherwise);
    /* A name that only one path binds exists on neither afterwards, so that the program's meaning does not depend on which one is taken. A path that
     * ends in return has no afterwards. */
    if (ends_with_return(&s->body) || ends_with_return(&s->otherwise)) return;
    for (int side = 0; side < 2; side++) {
        const target_list *bound = side == 0 ? &then_bound : &else_bound, *other = side == 0 ? &else_bound : &then_bound;
        for (size_t i = 0; i < bound->n; i++) {
            const dt_assignment_target *target = &bound->items[i];
            if (is_listed(other, target->name) || dt_find_binding(before, target->name) != NULL) continue;
            e->frame->scope = dt_bind(e->arena, e->frame->scope, target->name, dt_poison(), target->span);
            e->frame->scope->conditional = true;
        }
    }
}

/* ---- for ---- */

static void run_turn(dt_elaborator *e, const dt_statement *s, dt_object item) {
    if (s->targets.n == 1) {
        dt_bind_name(e, s->targets.items[0].name, item, s->targets.items[0].span);
    } else if ((item.kind == DT_OBJECT_LIST || item.kind == DT_OBJECT_TUPLE) && item.items->n == s->targets.n) {
        for (size_t i = 0; i < s->targets.n; i++) dt_bind_name(e, s->targets.items[i].name, item.items->items[i], s->targets.items[i].span);
    } else if (dt_is_poison(item)) {
        for (size_t i = 0; i < s->targets.n; i++) bind_poison(e, &s->targets.items[i]);
    } else {
        dt_diagnostic *error =
            dt_elaborator_error(e, s->targets.items[0].span, "for binds %zu names, an item is %s", s->targets.n, dt_object_describe(e->arena, item));
        dt_diagnostic_help(error, "for i, x in enumerate(list) counts along");
        for (size_t i = 0; i < s->targets.n; i++) dt_bind_name(e, s->targets.items[i].name, dt_poison(), s->targets.items[i].span);
    }
    dt_run_block(e, &s->body);
}

/* Keeps, of what was bound since `before`, the newest binding of each name: a loop of many iterations must not make looking up slow. What lambdas
 * have captured stays as it was. */
static void compact_scope(dt_elaborator *e, dt_binding *before) {
    enum {
        MOST_BINDINGS = 64
    };
    int n = 0;
    for (dt_binding *b = e->frame->scope; b != before && n <= MOST_BINDINGS; b = b->outer) n++;
    if (n <= MOST_BINDINGS) return;
    dt_binding *kept = before;
    for (dt_binding *b = e->frame->scope; b != before; b = b->outer) {
        dt_binding *newer = kept;
        while (newer != before && strcmp(newer->name, b->name) != 0) newer = newer->outer;
        if (newer != before) continue;
        kept = dt_bind(e->arena, kept, b->name, b->object, b->span);
        kept->conditional = b->conditional;
    }
    e->frame->scope = kept;
}

static void run_for(dt_elaborator *e, const dt_statement *s) {
    dt_object list = dt_value_of(e, s->value);
    target_list bound = {0};
    if (list.kind != DT_OBJECT_LIST && list.kind != DT_OBJECT_TREE) {
        if (!dt_is_poison(list)) {
            list = dt_settle(e, list);
            dt_diagnostic *error =
                dt_elaborator_error(e, s->value->span, "for runs over a range, a list or a tree, not over %s", dt_object_describe(e->arena, list));
            if (list.kind == DT_OBJECT_INT) dt_diagnostic_help(error, "write 0..%lld", (long long)list.i);
            if (list.kind == DT_OBJECT_PIPELINE) dt_diagnostic_help(error, "0..n are the numbers from 0 to below n; data is read by steps");
            if (list.kind == DT_OBJECT_TENSOR) dt_diagnostic_help(error, "for is unrolled at compile time; scan walks along an axis of a tensor");
        }
        run_turn(e, s, dt_poison()); /* for mistakes of the body's own */
        list_bound(e, &s->body, &bound);
        for (size_t i = 0; i < bound.n; i++) bind_poison(e, &bound.items[i]);
        return;
    }
    dt_binding *before = e->frame->scope;
    size_t n = list.kind == DT_OBJECT_LIST ? list.items->n : list.tree->n;
    dt_unrolled_loop loop = {.statement = s, .frame = e->frame, .n_turns = n, .outer = e->loop};
    e->loop = &loop;
    for (size_t i = 0; i < n && !e->frame->returned && dt_elaborator_tick(e); i++) {
        dt_object item;
        if (list.kind == DT_OBJECT_LIST) {
            item = list.items->items[i];
        } else {
            const dt_leaf *leaf = &list.tree->leaves[i];
            item = dt_object_items(e->arena, DT_OBJECT_TUPLE, (dt_object[]){dt_object_string(leaf->path), leaf->object}, 2);
        }
        loop.turn = i;
        loop.item = item;
        run_turn(e, s, item);
        compact_scope(e, before);
    }
    e->loop = loop.outer;
}

/* ---- return ---- */

static void run_return(dt_elaborator *e, const dt_statement *s) {
    dt_frame *frame = e->frame;
    if (!frame->may_return) {
        dt_elaborator_error(e, s->span, "nothing to return from here");
        return;
    }
    bool is_step = frame->callee != NULL && frame->callee->kind == DT_DECLARATION_STEP;
    dt_object *objects = DT_NEW_ARRAY(e->arena, dt_object, s->arguments.n);
    for (size_t i = 0; i < s->arguments.n; i++) {
        const dt_argument *argument = &s->arguments.items[i];
        objects[i] = dt_settle(e, dt_value_of(e, argument->value));
        if (is_step && argument->name == NULL)
            dt_diagnostic_help(dt_elaborator_error(e, argument->span, "a step's results have names"), "write return name: value");
    }
    frame->returned = true;
    frame->result_span = s->arguments.n > 0 ? s->arguments.items[0].span : s->span;
    if (is_step) {
        frame->named_results = DT_NEW(e->arena, dt_argument_list);
        *frame->named_results = s->arguments;
        frame->named_objects = objects;
        frame->result = dt_object_none();
    } else if (s->arguments.n == 0) {
        frame->result = dt_object_none();
    } else {
        frame->result = s->arguments.n == 1 ? objects[0] : dt_object_items(e->arena, DT_OBJECT_TUPLE, objects, s->arguments.n);
    }
}

/* ---- all ---- */

static void run_expression(dt_elaborator *e, const dt_statement *s) {
    dt_object value = dt_value_of(e, s->value);
    if (value.kind == DT_OBJECT_NONE || dt_is_poison(value)) return;
    if (s->value->kind == DT_EXPRESSION_CALL || s->value->kind == DT_EXPRESSION_AS) {
        bool dropped = value.kind == DT_OBJECT_TENSOR || value.kind == DT_OBJECT_TREE || dt_is_number(value);
        if (dropped)
            dt_diagnostic_help(dt_elaborator_warning(e, DT_WARN_VALUE_NOT_USED, s->value->span, "the value of this call is not used"),
                               "bind it, or write _ = …");
        return;
    }
    dt_diagnostic *error = dt_elaborator_error(e, s->value->span, "this expression does nothing");
    if (s->value->kind == DT_EXPRESSION_BINARY && s->value->operator== DT_TOKEN_EQUAL_EQUAL) dt_diagnostic_help(error, "= binds a name; == compares");
}

/* Where a condition around it is not known, nobody knows how many there are. */
static void run_item(dt_elaborator *e, const dt_statement *s) {
    dt_object item = dt_settle(e, dt_value_of(e, s->value));
    dt_list_push(e->arena, e->frame->kept, e->n_uncertain > 0 ? dt_poison() : item);
}

/* The parser said what is wrong: all that it may have bound is poison. */
static void run_broken(dt_elaborator *e, const dt_statement *s) {
    target_list bound = {0};
    list_bound(e, &s->body, &bound);
    list_bound(e, &s->otherwise, &bound);
    for (size_t i = 0; i < bound.n; i++) bind_poison(e, &bound.items[i]);
    for (size_t i = 0; i < s->targets.n; i++) bind_poison(e, &s->targets.items[i]);
    e->n_poisoned++;
    if (s->kind == DT_STATEMENT_RETURN && e->frame->may_return) e->frame->returned = true, e->frame->result = dt_poison();
}

static void run_statement(dt_elaborator *e, const dt_statement *s) {
    if (s->broken) {
        run_broken(e, s);
        return;
    }
    switch (s->kind) {
    case DT_STATEMENT_ASSIGN: run_assign(e, s); break;
    case DT_STATEMENT_WRITE: dt_write_statement(e, s); break;
    case DT_STATEMENT_PARAM: dt_declare_variable(e, s); break;
    case DT_STATEMENT_STATE:
        if (e->frame->update != NULL)
            dt_declare_slot(e, s);
        else
            dt_declare_variable(e, s);
        break;
    case DT_STATEMENT_IF: run_if(e, s); break;
    case DT_STATEMENT_FOR: run_for(e, s); break;
    case DT_STATEMENT_RETURN: run_return(e, s); break;
    case DT_STATEMENT_REPORT: dt_run_report(e, s); break;
    case DT_STATEMENT_EXPRESSION: run_expression(e, s); break;
    case DT_STATEMENT_UPDATE: dt_run_update(e, s); break;
    case DT_STATEMENT_ITEM: run_item(e, s); break;
    }
}

bool dt_note_run(dt_elaborator *e, const dt_callee *callee) {
    if (callee->file->is_library || callee->is_lambda) return true;
    for (size_t i = 0; i < e->run.n; i++)
        if (e->run.items[i] == callee->callable) return false;
    dt_list_push(e->arena, &e->run, callee->callable);
    return true;
}

void dt_run_block(dt_elaborator *e, const dt_block *block) {
    bool goes_on = dt_elaborator_enter(e);
    for (size_t i = 0; goes_on && i < block->n && !e->frame->returned; i++) {
        goes_on = dt_elaborator_tick(e);
        e->at = block->items[i]->span;
        if (goes_on) run_statement(e, block->items[i]);
    }
    if (!goes_on) { /* given up: nothing may follow from what is missing */
        e->frame->returned = true;
        e->frame->result = dt_poison();
    }
    dt_elaborator_leave(e);
}
