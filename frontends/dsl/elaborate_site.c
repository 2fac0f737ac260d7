/* elaborate_site: which layer a call means. A call in the text of a layer or model binds one layer: it is known by its place, by the calls of
 * functions through which it was reached, and by the iterations of `for` around these. What is called again must bind the same layers from the same
 * sites, or parameters would move from one to another without a word. In a loop an argument may say which layer is meant, too.
 *
 * A layer that `layer` has bound is a value, which is called at any place and any number of times: there the site is that of the binding. */
#include "frontends/dsl/elaborator.h"

#include <string.h>

/* ---- sites ---- */

static const char *identify(dt_elaborator *e, dt_object item);

/* By those of its items that can be told. */
static const char *identify_list(dt_elaborator *e, const dt_items *items) {
    dt_text text = {.arena = e->arena};
    bool any = false;
    for (size_t i = 0; i < items->n; i++) {
        const char *known = identify(e, items->items[i]);
        dt_text_format(&text, "%s%s", i > 0 ? ", " : "", known != NULL ? known : "…");
        any |= known != NULL;
    }
    return any ? dt_arena_format(e->arena, "[%s]", text.data) : NULL;
}

/* What an item of a loop is, where that can be told in each unrolling: numbers, words, bound layers, lists of these. Numbers that are no int may be
 * rates, which differ from call to call for good reasons. NULL: not told. */
static const char *identify(dt_elaborator *e, dt_object item) {
    switch (item.kind) {
    case DT_OBJECT_INT:
    case DT_OBJECT_STRING:
    case DT_OBJECT_CHOICE: return dt_object_describe(e->arena, item);
    case DT_OBJECT_LIST:
    case DT_OBJECT_TUPLE: return identify_list(e, item.items);
    case DT_OBJECT_FUNCTION: return item.callee->instance != NULL ? item.callee->instance->path : NULL;
    default: return NULL;
    }
}

/* " (i = 3)", " (iteration 4 of 8)" */
static void describe_loops(dt_elaborator *e, dt_text *text, const dt_unrolled_loop *loop, const dt_unrolled_loop *outside, const dt_frame *frame) {
    if (loop == outside) return;
    describe_loops(e, text, loop->outer, outside, frame);
    if (loop->frame != frame) return;
    bool is_list = loop->item.kind == DT_OBJECT_LIST || loop->item.kind == DT_OBJECT_TUPLE, any = false;
    size_t n = loop->statement->targets.n;
    dt_text items = {.arena = e->arena};
    for (size_t i = 0; i < n && (n == 1 || (is_list && i < loop->item.items->n)); i++) {
        const char *known = identify(e, n == 1 ? loop->item : loop->item.items->items[i]);
        if (known != NULL) dt_text_format(&items, "%s%s = %s", any ? ", " : "", loop->statement->targets.items[i].name, known);
        any |= known != NULL;
    }
    if (any)
        dt_text_format(text, " (%s)", items.data);
    else
        dt_text_format(text, " (iteration %zu of %zu)", loop->turn + 1, loop->n_turns);
}

static const char *describe_site(dt_elaborator *e, dt_span span, bool exact, bool with_loops) {
    dt_text text = {.arena = e->arena};
    const dt_visit *visit = e->visit;
    for (const dt_frame *frame = e->frame; frame != NULL; frame = frame->caller) {
        if (frame != e->frame) dt_text_append(&text, ", called in ");
        dt_text_append(&text, dt_elaborator_place(e, span));
        if (exact) dt_text_format(&text, ", column %d", span.column);
        if (with_loops) describe_loops(e, &text, e->loop, visit->loop, frame);
        if (frame == visit->frame) break;
        span = frame->call;
    }
    return text.data;
}

dt_site dt_site_of(dt_elaborator *e, dt_span span, const dt_actual *actuals, size_t n) {
    return (dt_site){.span = span,
                     .exact = describe_site(e, span, true, true),
                     .text = describe_site(e, span, false, true),
                     .place = describe_site(e, span, true, false),
                     .actuals = dt_arena_copy(e->arena, actuals, n * sizeof *actuals),
                     .n_actuals = n};
}

static const char *identify_argument(dt_elaborator *e, const dt_site *site, size_t i) {
    dt_object object = site->actuals[i].object;
    return object.kind == DT_OBJECT_BOOL ? dt_object_describe(e->arena, object) : identify(e, object);
}

/* Whether argument i, which is `known` in one call of a loop, is another in others: it may stand for the iteration. */
static bool varies(dt_elaborator *e, const dt_instance *owner, const dt_site *site, size_t i, const char *known) {
    for (size_t k = 0; k < owner->children.n; k++) {
        const dt_site *other = &owner->children.items[k]->site;
        if (other->n_actuals != site->n_actuals || strcmp(other->place, site->place) != 0) continue;
        const char *others = identify_argument(e, other, i);
        if (others != NULL && strcmp(others, known) != 0) return true;
    }
    return false;
}

/* An argument that numbers the layers of a loop, as in `k = i if forward else n - 1 - i`, and is another than it was; n_actuals: there is none. */
static size_t other_argument(dt_elaborator *e, const dt_instance *owner, const dt_site *here, const dt_site *there) {
    size_t i = 0;
    for (; i < here->n_actuals && here->n_actuals == there->n_actuals; i++) {
        const char *now = identify_argument(e, here, i), *then = identify_argument(e, there, i);
        if (now != NULL && then != NULL && strcmp(now, then) != 0 && varies(e, owner, there, i, then)) return i;
    }
    return here->n_actuals;
}

const dt_visit *dt_shared_visit(const dt_elaborator *e) {
    const dt_visit *visit = e->visit;
    for (; visit->instance->parent != NULL; visit = visit->outer) {
        const dt_visit *owner = visit->outer;
        while (visit->instance->is_bound && owner->instance != visit->instance->parent) owner = owner->outer;
        if (visit->instance->is_bound && visit->instance->first_within == owner->serial) break;
    }
    return visit;
}

bool dt_same_site(dt_elaborator *e, dt_instance *child, dt_site site) {
    dt_instance *owner = e->visit->instance;
    bool is_same = strcmp(site.exact, child->site.exact) == 0;
    size_t other = is_same ? other_argument(e, owner, &site, &child->site) : site.n_actuals;
    if (owner->broken || (is_same && other == site.n_actuals)) return true;
    const dt_visit *shared = dt_shared_visit(e);
    bool is_clear = is_same || strcmp(site.text, child->site.text) != 0;
    if (is_same) {
        const char *name = site.actuals[other].name;
        if (name == NULL) name = other < child->callable->parameters.n ? child->callable->parameters.items[other].name : "an argument";
        site.text = dt_arena_format(e->arena, "%s, %s: %s", site.text, name, identify_argument(e, &site, other));
        child->site.text = dt_arena_format(e->arena, "%s, %s: %s", child->site.text, name, identify_argument(e, &child->site, other));
    }
    dt_diagnostic *error =
        dt_elaborator_error(e, site.span, "%s is another layer here than in the first call of %s", child->path, shared->instance->path);
    dt_diagnostic_note(error, "here: %s", is_clear ? site.text : site.exact);
    dt_diagnostic_note(error, "there: %s", is_clear ? child->site.text : child->site.exact);
    dt_diagnostic_note(error, "the first call of %s is in %s, this one in %s", shared->instance->path,
                       dt_elaborator_place(e, shared->instance->first_call), dt_elaborator_place(e, shared->call));
    dt_diagnostic_help(error, "where calls differ in their order or place, bind the layer once and call what is bound: c = layer %s(…), c(x)",
                       child->kind);
    owner->broken = true; /* what follows from it is not told */
    return false;
}

/* ---- names ---- */

const char *dt_name_of_child(dt_elaborator *e, const dt_callee *callee, const dt_expression *written) {
    dt_visit *visit = e->visit;
    const char *name = NULL;
    bool is_one_of_many = e->loop != visit->loop;
    if (written != NULL && visit->pending_call == written) {
        name = visit->pending_name;
        visit->pending_call = NULL;
    } else if (written != NULL && written->kind == DT_EXPRESSION_LAYER && e->frame->binding != NULL) {
        name = e->frame->binding;
        is_one_of_many |= e->frame->lists > 0;
        if (!is_one_of_many) return dt_numbered(e, name, dt_count_up(e, &visit->counters, dt_arena_format(e->arena, "= %s", name)));
    }
    if (name == NULL) return dt_numbered(e, callee->name, dt_count_up(e, &visit->counters, callee->name));
    if (!is_one_of_many) return name;
    return dt_arena_format(e->arena, "%s_%d", name, dt_count_up(e, &visit->counters, dt_arena_format(e->arena, "as %s", name)));
}

/* ---- layers as values ---- */

/* Only arguments with names are bound: what flows through the layer comes first, with the call. */
static bool check_bound(dt_elaborator *e, const dt_callee *callee, const dt_actuals *bound) {
    bool all_known = true;
    for (size_t i = 0; i < bound->n; i++) {
        const dt_actual *actual = &bound->items[i];
        if (dt_is_poison(actual->object)) all_known = false;
        if (actual->name != NULL) continue;
        dt_diagnostic *error = dt_elaborator_error(e, actual->span, "an argument without a name where a layer is bound");
        dt_diagnostic_help(error, "bind options by their names, layer %s(%s: …); what flows through the layer is given where it is called",
                           callee->name, callee->callable->parameters.n > 1 ? callee->callable->parameters.items[1].name : "name");
        return false;
    }
    return all_known;
}

dt_object dt_evaluate_layer(dt_elaborator *e, const dt_expression *x) {
    if (x->a->kind == DT_EXPRESSION_BROKEN) return dt_poison();
    const char *binding = e->frame->binding;
    e->frame->binding = NULL;
    dt_object object = dt_value_of(e, x->a->a);
    dt_actuals bound = {0};
    if (!dt_is_poison(object)) bound = dt_evaluate_arguments(e, &object, x->a);
    e->frame->binding = binding;
    e->at = x->span;
    if (dt_is_poison(object)) return object;
    bool is_layer = object.kind == DT_OBJECT_FUNCTION && object.callee->kind == DT_DECLARATION_LAYER && object.callee->instance == NULL;
    if (!is_layer) {
        bool is_function = object.kind == DT_OBJECT_FUNCTION, is_model = is_function && object.callee->kind == DT_DECLARATION_MODEL;
        bool is_bound = is_function && object.callee->instance != NULL;
        dt_diagnostic *error =
            dt_elaborator_error(e, x->span, is_bound ? "%s is bound already" : "layer binds a layer, not %s", dt_object_describe(e->arena, object));
        dt_diagnostic_help(error,
                           is_model || is_bound ? "it has one set of parameters: call it" : "what has no parameters of its own is just called");
        return dt_poison();
    }
    if (e->visit == NULL) {
        dt_diagnostic *error = dt_elaborator_error(e, x->span, "a layer is bound outside a model");
        dt_diagnostic_help(error, "its parameters belong to the model or layer that binds it: move it into one");
        return dt_poison();
    }
    if (!check_bound(e, object.callee, &bound)) return dt_poison();
    bool is_first = e->visit->first;
    dt_instance *instance = dt_child_instance(e, object.callee, dt_site_of(e, x->span, bound.items, bound.n), x);
    if (instance == NULL) return dt_poison();
    instance->is_bound = true;
    if (is_first) dt_list_push(e->arena, &e->bound, instance);
    dt_callee *callee = DT_NEW(e->arena, dt_callee);
    *callee = *object.callee;
    callee->instance = instance;
    callee->bound = bound.items;
    callee->n_bound = bound.n;
    return (dt_object){.kind = DT_OBJECT_FUNCTION, .callee = callee};
}

dt_instance *dt_bound_instance(dt_elaborator *e, const dt_callee *callee, dt_span span) {
    dt_instance *instance = callee->instance;
    if (instance->active) return dt_elaborator_error(e, span, "the layer %s calls itself", instance->path), NULL;
    if (!instance->parent->active) {
        dt_diagnostic *error = dt_elaborator_error(e, span, "%s is called outside %s, whose layer it is", instance->path, instance->parent->path);
        dt_diagnostic_help(error, "call it there, and return what it gives");
        return NULL;
    }
    if (instance->first_within > 0) return instance;
    const dt_visit *owner = e->visit;
    while (owner->instance != instance->parent) owner = owner->outer;
    instance->first_within = owner->serial;
    instance->first_call = dt_elaborator_user_span(e, span);
    return instance;
}

void dt_warn_of_uncalled_layers(dt_elaborator *e) {
    for (size_t i = 0; i < e->bound.n; i++) {
        const dt_instance *instance = e->bound.items[i];
        if (instance->first_within > 0) continue;
        dt_diagnostic *warning = dt_diagnostics_warn(e->diagnostics, DT_WARN_LAYER_NOT_CALLED, instance->first_call,
                                                     "%s is bound and never called: it has no parameters", instance->path);
        dt_diagnostic_help(warning, "call it, or leave it out");
    }
}
