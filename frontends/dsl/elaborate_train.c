/* elaborate_train: objectives, gradients, optimizers, and the trees they pass to each other. */
#include "frontends/dsl/elaborator.h"
#include "ir/body.h"

#include <string.h>

/* ---- which steps train ---- */

/* Whether a text names minimize or apply, or a fn that does. It is asked before the text runs, for `training` must be known then: so what an `if`
 * leaves out counts too. */
typedef struct search {
    dt_elaborator *e;
    const dt_file *file; /* whose text is at hand */
    DT_LIST(const dt_callable *) seen;
    DT_LIST(const dt_declaration *) constants; /* seen likewise: one may be defined by itself */
    DT_LIST(const char *) own;                 /* names that the text itself has bound up to this point: they are no fn's */
    size_t first_own;                          /* of the declaration at hand */
} search;

static bool block_trains(search *s, const dt_block *block);
static bool expression_trains(search *s, const dt_expression *x);

static bool callable_trains(search *s, const dt_callable *callable) {
    for (size_t i = 0; i < s->seen.n; i++)
        if (s->seen.items[i] == callable) return false;
    dt_list_push(s->e->arena, &s->seen, callable);
    size_t n_own = s->own.n;
    for (size_t i = 0; i < callable->parameters.n; i++) dt_list_push(s->e->arena, &s->own, callable->parameters.items[i].name);
    bool trains = block_trains(s, &callable->body);
    s->own.n = n_own;
    return trains;
}

/* What `name` is at the top of a file; NULL: nothing. */
static const dt_declaration *declared(const dt_file *file, const char *name) {
    int i = dt_names_find(&file->by_name, name);
    return i >= 0 ? file->syntax->declarations.items[i] : NULL;
}

static bool constant_trains(search *s, const dt_declaration *d) {
    for (size_t i = 0; i < s->constants.n; i++)
        if (s->constants.items[i] == d) return false;
    dt_list_push(s->e->arena, &s->constants, d);
    return expression_trains(s, d->value);
}

static bool declaration_trains(search *s, const dt_file *file, const dt_declaration *d) {
    const dt_file *here = s->file;
    size_t first_own = s->first_own;
    s->file = file;
    s->first_own = s->own.n;
    bool trains = d->kind == DT_DECLARATION_FN ? callable_trains(s, d->callable) : d->kind == DT_DECLARATION_CONST && constant_trains(s, d);
    s->file = here;
    s->first_own = first_own;
    return trains;
}

static bool is_update(const char *name) { return strcmp(name, "minimize") == 0 || strcmp(name, "apply") == 0; }

static bool name_trains(search *s, const char *name) {
    for (size_t i = s->first_own; i < s->own.n; i++)
        if (strcmp(s->own.items[i], name) == 0) return false;
    const dt_declaration *d = declared(s->file, name);
    if (d != NULL) return declaration_trains(s, s->file, d);
    for (size_t i = 0; i < s->file->uses.n; i++)
        if ((d = declared(s->file->uses.items[i], name)) != NULL && !d->is_private) return declaration_trains(s, s->file->uses.items[i], d);
    return is_update(name);
}

/* module.name */
static bool field_trains(search *s, const dt_expression *x) {
    for (size_t i = 0; i < s->file->uses.n && x->a->kind == DT_EXPRESSION_NAME; i++) {
        const dt_file *used = s->file->uses.items[i];
        if (strcmp(used->name, x->a->text) != 0) continue;
        const dt_declaration *d = declared(used, x->text);
        return d != NULL ? declaration_trains(s, used, d) : used == s->e->core && is_update(x->text);
    }
    return false;
}

static bool expression_trains(search *s, const dt_expression *x) {
    if (x == NULL) return false;
    if (x->kind == DT_EXPRESSION_NAME) return name_trains(s, x->text);
    if (x->kind == DT_EXPRESSION_FIELD && field_trains(s, x)) return true;
    bool found = expression_trains(s, x->a) || expression_trains(s, x->b) || expression_trains(s, x->c);
    for (size_t i = 0; i < x->items.n && !found; i++) found = expression_trains(s, x->items.items[i]);
    for (size_t i = 0; i < x->arguments.n && !found; i++) found = expression_trains(s, x->arguments.items[i].value);
    found = found || block_trains(s, &x->body);
    return found || (x->callable != NULL && callable_trains(s, x->callable));
}

static void own_targets(search *s, const dt_statement *statement) {
    for (size_t i = 0; i < statement->targets.n; i++) dt_list_push(s->e->arena, &s->own, statement->targets.items[i].name);
}

static bool block_trains(search *s, const dt_block *block) {
    size_t n_own = s->own.n;
    for (size_t i = 0; i < block->n; i++) {
        const dt_statement *statement = block->items[i];
        if (expression_trains(s, statement->value)) return true;
        for (size_t k = 0; k < statement->arguments.n; k++)
            if (expression_trains(s, statement->arguments.items[k].value)) return true;
        own_targets(s, statement);
        if (block_trains(s, &statement->body) || block_trains(s, &statement->otherwise)) return true;
    }
    s->own.n = n_own;
    return false;
}

bool dt_declaration_trains(dt_elaborator *e, const dt_declaration *step) {
    search s = {.e = e, .file = e->program};
    return callable_trains(&s, step->callable);
}

/* ---- weighted sums ---- */

dt_object dt_broadcast_weight(dt_elaborator *e, dt_object weight, dt_value *x) {
    weight = dt_to_tensor(e, weight, x->dtype);
    if (dt_is_poison(weight)) return weight;
    dt_shape own = weight.value->shape;
    bool leads = own.rank <= x->shape.rank;
    for (int d = 0; leads && d < own.rank; d++) leads = own.dims[d] == x->shape.dims[d] || own.dims[d] == 1;
    if (!leads) {
        dt_diagnostic *error =
            dt_elaborator_error(e, e->at, "the weight %s fits no leading part of %s", dt_describe_shape(e, own), dt_describe_shape(e, x->shape));
        dt_diagnostic_help(error, "a weight has the shape of what it weighs, or its first dimensions");
        return dt_poison();
    }
    weight = dt_emit_convert(e, weight.value, x->dtype);
    if (dt_is_poison(weight)) return weight;
    int64_t *dims = DT_NEW_ARRAY(e->arena, int64_t, x->shape.rank);
    for (int d = 0; d < x->shape.rank; d++) dims[d] = d < own.rank ? own.dims[d] : 1;
    weight = dt_emit_reshape(e, weight.value, (dt_shape){x->shape.rank, dims});
    return dt_is_poison(weight) ? weight : dt_emit_broadcast(e, weight.value, x->shape);
}

/* 1 where there is nothing to weigh, so that nothing is what is learned of it. */
static dt_object sum_of_weights(dt_elaborator *e, dt_value *weights) {
    dt_object sum = dt_emit_reduce_all(e, "reduce_sum", weights);
    if (dt_is_poison(sum)) return sum;
    dt_object is_zero = dt_binary(e, DT_TOKEN_EQUAL_EQUAL, sum, dt_object_int(0));
    return dt_is_poison(is_zero) ? is_zero : dt_elementwise(e, dt_op_find("where"), (dt_object[]){is_zero, dt_object_int(1), sum}, 3);
}

/* In the type of x, which holds sums and counts. */
static dt_object objective_of(dt_elaborator *e, dt_value *x, dt_object weight, const char *normalize) {
    dt_object weights = dt_object_none();
    if (weight.kind != DT_OBJECT_NONE) {
        weights = dt_broadcast_weight(e, weight, x);
        if (dt_is_poison(weights)) return weights;
        dt_object product = dt_emit_binary(e, "multiply", x, weights.value);
        if (dt_is_poison(product)) return product;
        x = product.value;
    }
    dt_object sum = dt_emit_reduce_all(e, "reduce_sum", x);
    if (dt_is_poison(sum)) return sum;
    dt_object divisor;
    bool by_weights = strcmp(normalize, "weights") == 0 && weights.kind != DT_OBJECT_NONE;
    if (by_weights)
        divisor = sum_of_weights(e, weights.value);
    else if (dt_shape_batch_axis(x->shape) < 0 && dt_shape_elements_per_row(x->shape) == 1)
        return sum;
    else
        divisor = dt_emit_count(e, x, strcmp(normalize, "batch") == 0 ? "global_batch" : "valid");
    if (!dt_is_poison(divisor)) divisor = dt_emit_convert(e, divisor.value, x->dtype);
    return dt_is_poison(divisor) ? divisor : dt_emit_binary(e, "divide", sum.value, divisor.value);
}

/* ---- regularization ---- */

void dt_regularize(dt_elaborator *e, dt_object term) {
    if (e->step == NULL || e->visit == NULL) {
        dt_elaborator_error(e, e->at, "regularize stands in a layer or model");
        return;
    }
    if (!e->training || dt_is_poison(term) || dt_refuse_in_scan(e, e->at, "regularize stands")) return;
    term = dt_to_tensor(e, term, DT_F32);
    if (dt_is_poison(term)) return;
    if (term.value->shape.rank != 0 || !dt_dtype_is_float(term.value->dtype)) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "regularize takes a scalar, this is %s", dt_object_describe(e->arena, term));
        dt_diagnostic_help(error, "sum(x) makes one of it");
        return;
    }
    dt_step_work *step = e->step;
    dt_instance *instance = e->visit->instance;
    for (size_t i = 0; i < step->regularizations.n; i++)
        if (step->regularizations.items[i].instance == instance && step->regularizations.items[i].visit != e->visit->serial) return;
    dt_regularization regularization = {instance, e->visit->serial, term, dt_elaborator_user_span(e, e->at), false};
    dt_list_push(e->arena, &step->regularizations, regularization);
}

/* The parameters that a term belongs to: the layer's and those of all that it calls; of a layer without any, those of what calls it. */
static dt_variable_list parameters_of(dt_elaborator *e, const dt_regularization *r) {
    dt_variable_list variables = {0};
    for (const dt_instance *instance = r->instance; instance != NULL && variables.n == 0; instance = instance->parent)
        dt_instance_params(e, instance, &variables);
    return variables;
}

static bool share_one(const dt_variable_list *a, const dt_variable_list *b) {
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; k < b->n; k++)
            if (a->items[i] == b->items[k]) return true;
    return false;
}

/* The terms of the layers that `over` trains. */
static dt_object add_regularization(dt_elaborator *e, dt_object scalar, const dt_variable_list *over) {
    for (size_t i = 0; i < e->step->regularizations.n && !dt_is_poison(scalar); i++) {
        const dt_regularization *r = &e->step->regularizations.items[i];
        dt_variable_list own = parameters_of(e, r);
        if (share_one(&own, over)) scalar = dt_binary(e, DT_TOKEN_PLUS, scalar, r->term);
    }
    return scalar;
}

void dt_check_regularizations(dt_elaborator *e) {
    for (size_t i = 0; i < e->step->regularizations.n; i++) {
        const dt_regularization *r = &e->step->regularizations.items[i];
        dt_variable_list own = parameters_of(e, r);
        bool trained = false;
        for (size_t k = 0; k < own.n; k++) trained |= e->variables.items[own.items[k]].written;
        if (r->counted || !trained || dt_is_tainted(e)) continue;
        dt_diagnostic *error = dt_elaborator_error(
            e, e->step->applied, "%s is trained without its penalty: no gradient is taken of what it regularizes", r->instance->path);
        dt_diagnostic_note(error, "%s says regularize(…)", dt_elaborator_place(e, r->span));
        dt_diagnostic_help(error, "take the gradient of objective(loss), which adds it to the loss");
    }
}

/* ---- objective ---- */

dt_object dt_objective(dt_elaborator *e, dt_object loss, dt_object weight, const char *normalize, dt_object over) {
    if (dt_is_poison(loss)) return loss;
    if (loss.kind != DT_OBJECT_TENSOR || !dt_dtype_is_float(loss.value->dtype))
        return dt_elaborator_fail(e, "a loss is a tensor of floats, this is %s", dt_object_describe(e->arena, loss));
    dt_variable_list variables = {0};
    if (!dt_collect_params(e, over, false, &variables)) return dt_poison();
    dt_dtype dtype = loss.value->dtype;
    dt_object x = dt_emit_convert(e, loss.value, dt_dtype_of_sums(dtype));
    dt_object objective = dt_is_poison(x) ? x : objective_of(e, x.value, weight, normalize);
    if (!dt_is_poison(objective)) objective = dt_emit_convert(e, objective.value, dtype);
    return dt_is_poison(objective) ? objective : add_regularization(e, objective, &variables);
}

/* ---- gradients ---- */

/* What the gradient of `y` flows into, by id: through floats only, not through stop_gradient, and no further than values that a forward pass
 * began with. From a carry it flows into what that advances to. */
bool *dt_reached_from(dt_elaborator *e, dt_value *y, bool past_targets) {
    size_t n = (size_t)e->function->next_id;
    bool *reached = DT_NEW_ARRAY(e->arena, bool, n), *begins = DT_NEW_ARRAY(e->arena, bool, n);
    dt_value **advances = dt_function_find_advances(e->arena, e->function);
    for (size_t v = 0; v < e->variables.n; v++)
        for (size_t k = 0; k < e->variables.items[v].versions.n; k++) begins[e->variables.items[v].versions.items[k]->id] = true;
    DT_LIST(dt_value *) stack = {0};
    dt_list_push(e->arena, &stack, y);
    reached[y->id] = true;
    while (stack.n > 0) {
        dt_value *value = stack.items[--stack.n];
        if (begins[value->id] || strcmp(value->op->name, "stop_gradient") == 0) continue;
        for (int i = advances[value->id] != NULL ? -1 : 0; i < value->n_operands; i++) {
            dt_value *operand = i < 0 ? advances[value->id]->operands[1] : value->operands[i];
            if (reached[operand->id] || !dt_dtype_is_float(operand->dtype)) continue;
            if (past_targets && dt_is_target_of(e, operand, value)) continue;
            reached[operand->id] = true;
            dt_list_push(e->arena, &stack, operand);
        }
    }
    return reached;
}

static dt_object emit_gradient(dt_elaborator *e, dt_value *y, dt_value *x) { return dt_emit_binary(e, "gradient", y, x); }

/* The sum over the values of a variable that the forward pass has read; NONE: it has read none. */
static dt_object variable_gradient(dt_elaborator *e, dt_value *y, int variable, const bool *reached) {
    dt_object total = dt_object_none();
    const dt_variable_state *state = &e->variables.items[variable];
    for (size_t k = 0; k < state->versions.n; k++) {
        if (!reached[state->versions.items[k]->id]) continue;
        dt_object gradient = emit_gradient(e, y, state->versions.items[k]);
        if (dt_is_poison(gradient)) return gradient;
        total = total.kind == DT_OBJECT_NONE ? gradient : dt_emit_binary(e, "add", total.value, gradient.value);
    }
    return total;
}

dt_object dt_gradients(dt_elaborator *e, dt_object scalar, dt_object over) {
    if (dt_is_poison(scalar) || dt_is_poison(over) || dt_refuse_in_scan(e, e->at, "a gradient is taken")) return dt_poison();
    if (scalar.kind != DT_OBJECT_TENSOR || scalar.value->shape.rank != 0 || !dt_dtype_is_float(scalar.value->dtype)) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "a gradient is taken of a scalar, this is %s", dt_object_describe(e->arena, scalar));
        dt_diagnostic_help(error, "objective(loss) makes the scalar that training minimizes");
        return dt_poison();
    }
    if (scalar.value->function != e->function) return dt_elaborator_fail(e, "this scalar belongs to another step");
    dt_check_divided(e, scalar.value);
    bool *reached = dt_reached_from(e, scalar.value, false);
    for (size_t i = 0; i < e->step->regularizations.n; i++) {
        dt_regularization *r = &e->step->regularizations.items[i];
        r->counted |= reached[r->term.value->id];
    }
    if (over.kind == DT_OBJECT_TENSOR) {
        if (over.value->function == e->function && reached[over.value->id]) return emit_gradient(e, scalar.value, over.value);
        return dt_is_tainted(e) ? dt_poison() : dt_elaborator_fail(e, "the scalar does not depend on this value");
    }
    if (over.kind != DT_OBJECT_TREE)
        return dt_elaborator_fail(e, "a gradient is taken over a tree or a tensor: params(Model), not %s", dt_object_describe(e->arena, over));
    dt_tree *tree = dt_arena_new(e->arena, sizeof *tree + over.tree->n * sizeof *tree->leaves);
    for (size_t i = 0; i < over.tree->n; i++) {
        dt_leaf leaf = over.tree->leaves[i];
        if (leaf.variable < 0) return dt_elaborator_fail(e, "%s is no parameter", leaf.path);
        leaf.object = variable_gradient(e, scalar.value, leaf.variable, reached);
        if (dt_is_poison(leaf.object)) return leaf.object;
        if (leaf.object.kind != DT_OBJECT_NONE) tree->leaves[tree->n++] = leaf;
    }
    for (size_t i = 0, k = 0; i < over.tree->n && tree->n > 0; i++) {
        if (k < tree->n && tree->leaves[k].variable == over.tree->leaves[i].variable)
            k++;
        else if (!dt_is_tainted(e))
            dt_elaborator_warning(e, DT_WARN_NOT_REACHED, e->at, "the loss does not reach %s, which is skipped", over.tree->leaves[i].path);
    }
    return (dt_object){.kind = DT_OBJECT_TREE, .tree = tree};
}

dt_object dt_minimize(dt_elaborator *e, dt_object loss, dt_object optimizer, dt_object over, dt_object weight, const char *normalize) {
    if (e->step == NULL || e->reporting) return dt_elaborator_fail(e, "minimize stands in a step");
    if (dt_refuse_in_scan(e, e->at, "parameters are updated")) return dt_poison();
    bool is_all = over.kind == DT_OBJECT_NONE;
    if (over.kind != DT_OBJECT_TREE) over = dt_params(e, over, false);
    if (dt_is_poison(over)) return over;
    if (over.tree->n == 0 && dt_is_tainted(e)) return dt_poison();
    if (over.tree->n == 0) {
        dt_diagnostic *error =
            dt_elaborator_error(e, e->at, "there is nothing to train: no model with trainable parameters is called before this point");
        dt_diagnostic_help(error, "call the model in this step, and compute the loss from its result");
        return dt_poison();
    }
    dt_object scalar = dt_objective(e, loss, weight, normalize, over);
    if (is_all) dt_check_targets(e, scalar, over);
    if (e->between_layers == DT_F16) return dt_scaled_update(e, scalar, optimizer, over);
    return dt_apply(e, optimizer, dt_gradients(e, scalar, over), dt_object_none());
}

/* ---- optimizers ---- */

dt_object dt_make_optimizer(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, size_t n, dt_span span) {
    if (e->step == NULL) {
        dt_elaborator_error(e, span, "an optimizer is made in a step");
        return dt_poison();
    }
    dt_optimizer *optimizer = DT_NEW(e->arena, dt_optimizer);
    optimizer->callee = callee;
    optimizer->count = -1;
    optimizer->frame = DT_NEW(e->arena, dt_frame);
    *optimizer->frame = (dt_frame){.callee = callee, .file = callee->file, .call = span, .stream = dt_next_stream(e, callee->name)};
    if (!dt_bind_arguments(e, callee, actuals, n, optimizer->frame)) return dt_poison();
    int ordinal = dt_count_up(e, &e->optimizers, callee->name);
    optimizer->path = ordinal == 0 ? callee->name : dt_arena_format(e->arena, "%s_%d", callee->name, ordinal);
    return (dt_object){.kind = DT_OBJECT_OPTIMIZER, .optimizer = optimizer};
}

static bool add_count(dt_elaborator *e, dt_optimizer *optimizer) {
    if (optimizer->count >= 0) return true;
    dt_function *function = e->function;
    e->function = e->init;
    dt_object zero = dt_emit_constant(e, DT_I64, dt_object_int(0), dt_shape_scalar());
    e->function = function;
    if (dt_is_poison(zero)) return false;
    optimizer->count = dt_variable_add(e, dt_arena_format(e->arena, "%s/count", optimizer->path), DT_VARIABLE_SLOT, zero, false, e->at);
    return true;
}

/* Parameters of type `schedule` are seen by the optimizer's body as the rate at this update. */
static bool bind_rates(dt_elaborator *e, dt_frame *frame, dt_object count) {
    const dt_callable *callable = frame->callee->callable;
    for (size_t i = 0; i < callable->parameters.n; i++) {
        const dt_parameter *parameter = &callable->parameters.items[i];
        if (parameter->type == NULL || parameter->type->word == NULL || strcmp(parameter->type->word, "schedule") != 0) continue;
        dt_object schedule = dt_find_binding(frame->scope, parameter->name)->object;
        bool is_constant = schedule.kind == DT_OBJECT_FUNCTION && schedule.callee->callable == NULL && schedule.callee->builtin == NULL &&
                           schedule.callee->op == NULL;
        dt_object rate = is_constant ? schedule.callee->constant : dt_settle(e, dt_call_with(e, schedule, &count, 1));
        if (dt_is_poison(rate)) return false;
        bool is_rate = dt_is_number(rate) || (rate.kind == DT_OBJECT_TENSOR && rate.value->shape.rank == 0);
        if (!is_rate) {
            dt_elaborator_error(e, e->at, "a schedule gives a scalar, %s gives %s", parameter->name, dt_object_describe(e->arena, rate));
            return false;
        }
        if (schedule.kind == DT_OBJECT_FUNCTION) {
            dt_paced paced = {schedule.callee, rate};
            dt_list_push(e->arena, &e->step->paced, paced);
        }
        if (rate.kind == DT_OBJECT_TENSOR) rate.flexible = true;
        frame->scope = dt_bind(e->arena, frame->scope, parameter->name, rate, parameter->span);
    }
    return true;
}

/* `when` as a scalar bool; NULL: reported, or there is none. */
static dt_value *condition_of(dt_elaborator *e, dt_object when) {
    if (when.kind == DT_OBJECT_NONE || dt_is_poison(when)) return NULL;
    when = dt_to_tensor(e, when, DT_BOOL);
    if (when.kind == DT_OBJECT_TENSOR && when.value->dtype == DT_BOOL && when.value->shape.rank == 0) return when.value;
    if (!dt_is_poison(when)) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "apply: when is a scalar bool, this is %s", dt_object_describe(e->arena, when));
        dt_diagnostic_help(error, "all(x) and any(x) make one of many");
    }
    return NULL;
}

dt_object dt_only_when(dt_elaborator *e, const dt_update *update, int variable, dt_object object) {
    if (update->when == NULL || dt_is_poison(object)) return object;
    return dt_elementwise(e, dt_op_find("where"), (dt_object[]){dt_object_tensor(update->when), object, dt_variable_read(e, variable)}, 3);
}

dt_object dt_apply(dt_elaborator *e, dt_object object, dt_object tree, dt_object when) {
    if (dt_is_poison(object) || dt_is_poison(tree) || dt_refuse_in_scan(e, e->at, "parameters are updated")) return dt_poison();
    if (e->step == NULL || e->reporting) return dt_elaborator_fail(e, "apply stands in a step");
    if (object.kind != DT_OBJECT_OPTIMIZER) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "an optimizer is needed, this is %s", dt_object_describe(e->arena, object));
        dt_diagnostic_help(error, "write adam(learning_rate: 1e-3)");
        return dt_poison();
    }
    if (!e->step->trains) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "parameters are updated in a step that does not train");
        dt_diagnostic_note(error, "a step trains when its text, or a fn that it calls, names minimize or apply");
        dt_diagnostic_help(error, "call minimize or apply in the step");
        return dt_poison();
    }
    if (tree.kind != DT_OBJECT_TREE) return dt_elaborator_fail(e, "apply takes a tree of gradients, this is %s", dt_object_describe(e->arena, tree));
    if (tree.tree->n == 0) {
        if (dt_is_tainted(e)) return dt_poison();
        dt_diagnostic_help(dt_elaborator_error(e, e->at, "the loss depends on no parameter"), "compute it from what the model gives");
        return dt_poison();
    }
    dt_optimizer *optimizer = object.optimizer;
    if (!add_count(e, optimizer)) return dt_poison();
    dt_object count = dt_variable_read(e, optimizer->count);
    if (dt_is_poison(count)) return count;
    count.flexible = true;
    dt_span at = e->step->applied = e->at;
    dt_update update = {.optimizer = optimizer, .tree = tree.tree, .when = condition_of(e, when)};
    if (update.when == NULL && when.kind != DT_OBJECT_NONE) return dt_poison();
    dt_frame frame = *optimizer->frame;
    frame.call = at;
    frame.update = &update;
    if (!bind_rates(e, &frame, count)) return dt_poison();
    frame.scope = dt_bind(e->arena, frame.scope, "count", count, optimizer->callee->span);
    dt_note_run(e, frame.callee);
    dt_push_frame(e, &frame);
    dt_run_block(e, &optimizer->callee->callable->body);
    dt_pop_frame(e);
    e->at = at;
    dt_note_application(e, optimizer, tree.tree);
    dt_object next = dt_only_when(e, &update, optimizer->count, dt_binary(e, DT_TOKEN_PLUS, count, dt_object_int(1)));
    if (!dt_is_poison(next)) dt_variable_write(e, optimizer->count, next, at);
    return dt_object_none();
}

void dt_run_optimizer(dt_elaborator *e, dt_object optimizer) {
    dt_object gradient = dt_emit_constant(e, DT_F32, dt_object_int(0), dt_shape_scalar());
    dt_function *function = e->function;
    e->function = e->init;
    dt_object initial = dt_emit_constant(e, DT_F32, dt_object_int(0), dt_shape_scalar());
    e->function = function;
    if (dt_is_poison(optimizer) || dt_is_poison(gradient) || dt_is_poison(initial)) return;
    int variable = dt_variable_add(e, "", DT_VARIABLE_PARAMETER, initial, true, e->at);
    dt_tree *tree = dt_arena_new(e->arena, sizeof *tree + sizeof *tree->leaves);
    tree->n = 1;
    tree->leaves[0] = (dt_leaf){.path = "", .variable = variable, .object = gradient};
    dt_apply(e, optimizer, (dt_object){.kind = DT_OBJECT_TREE, .tree = tree}, dt_object_none());
}

void dt_run_update(dt_elaborator *e, const dt_statement *s) {
    dt_update *update = e->frame->update;
    if (update == NULL || update->path != NULL || s->callable->parameters.n != 2) {
        dt_diagnostic *error = dt_elaborator_error(e, s->span, "update (p, g) { … } stands in an optimizer");
        dt_diagnostic_help(error, "it has two parameters, the parameter and its gradient");
        return;
    }
    for (size_t i = 0; i < update->tree->n && dt_elaborator_tick(e); i++) {
        const dt_leaf *leaf = &update->tree->leaves[i];
        const dt_parameter *p = &s->callable->parameters.items[0], *g = &s->callable->parameters.items[1];
        dt_binding *scope = e->frame->scope;
        update->path = leaf->path;
        update->variable = leaf->variable;
        e->frame->scope = dt_bind(e->arena, scope, p->name, (dt_object){.kind = DT_OBJECT_VARIABLE, .i = leaf->variable}, p->span);
        e->frame->scope = dt_bind(e->arena, e->frame->scope, g->name, leaf->object, g->span);
        dt_run_block(e, &s->callable->body);
        e->frame->scope = scope;
        update->path = NULL;
    }
}

/* A slot of the parameter's shape is split as that is. */
static void shard_as(dt_module *module, int slot, int parameter) {
    const dt_variable *p = &module->variables.items[parameter];
    dt_variable *variable = &module->variables.items[slot];
    if (!dt_shape_equal(variable->shape, p->shape)) return;
    variable->shard_axis = p->shard_axis;
    variable->shard_groups = p->shard_groups;
}

/* state m = zeros_like(p): one for each parameter in update, else one for the optimizer. Its type is that of its initial value. */
void dt_declare_slot(dt_elaborator *e, const dt_statement *s) {
    const dt_assignment_target *target = &s->targets.items[0];
    const dt_update *update = e->frame->update;
    const char *path = update->path != NULL ? dt_arena_format(e->arena, "%s/%s/%s", update->optimizer->path, update->path, target->name)
                                            : dt_arena_format(e->arena, "%s/%s", update->optimizer->path, target->name);
    const dt_variable *known = dt_module_find_variable(e->module, path);
    int variable = known != NULL ? (int)(known - e->module->variables.items) : -1;
    if (variable < 0) {
        dt_object initial;
        dt_dtype dtype;
        dt_shape shape;
        if (s->type != NULL) {
            initial = dt_resolve_type(e, s->type, &dtype, &shape) ? dt_initial_value(e, s->value, path, dtype, shape) : dt_poison();
        } else {
            dt_function *function = e->function;
            e->function = e->init;
            initial = dt_to_tensor(e, dt_value_of(e, s->value), DT_F32);
            e->function = function;
        }
        if (!dt_is_poison(initial)) variable = dt_variable_add(e, path, DT_VARIABLE_SLOT, initial, false, s->span);
        if (variable >= 0 && update->path != NULL) shard_as(e->module, variable, update->variable);
    }
    dt_object object = variable >= 0 ? (dt_object){.kind = DT_OBJECT_VARIABLE, .i = variable} : dt_poison();
    e->frame->scope = dt_bind(e->arena, e->frame->scope, target->name, object, target->span);
}

/* ---- trees ---- */

/* What stands after the model's name. */
static const char *path_in_model(const char *path) {
    const char *slash = strchr(path, '/');
    return slash != NULL ? slash : path;
}

/* Those of one model, or of two that have the same layers. */
static bool same_paths(const dt_tree *a, const dt_tree *b) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(path_in_model(a->leaves[i].path), path_in_model(b->leaves[i].path)) != 0) return false;
    return true;
}

dt_object dt_tree_map(dt_elaborator *e, dt_object function, const dt_object *trees, size_t n) {
    for (size_t k = 0; k < n; k++) {
        if (dt_is_poison(trees[k])) return trees[k];
        if (trees[k].kind != DT_OBJECT_TREE)
            return dt_elaborator_fail(e, "tree_map runs over trees, this is %s", dt_object_describe(e->arena, trees[k]));
        if (!same_paths(trees[0].tree, trees[k].tree)) return dt_elaborator_fail(e, "the trees have different paths");
    }
    const dt_tree *first = trees[0].tree;
    dt_tree *tree = dt_arena_new(e->arena, sizeof *tree + first->n * sizeof *tree->leaves);
    tree->n = first->n;
    dt_object *leaves = DT_NEW_ARRAY(e->arena, dt_object, n);
    dt_span at = e->at;
    for (size_t i = 0; i < first->n; i++) {
        for (size_t k = 0; k < n; k++) leaves[k] = trees[k].tree->leaves[i].object;
        e->at = at;
        dt_object object = dt_to_tensor(e, dt_call_with(e, function, leaves, n), DT_F32);
        if (dt_is_poison(object)) return object;
        tree->leaves[i] = (dt_leaf){.path = first->leaves[i].path, .variable = first->leaves[i].variable, .object = object};
    }
    return (dt_object){.kind = DT_OBJECT_TREE, .tree = tree};
}

dt_object dt_tree_binary(dt_elaborator *e, dt_token_kind operator, dt_object a, dt_object b) {
    const dt_tree *shape = a.kind == DT_OBJECT_TREE ? a.tree : b.tree;
    if (a.kind == DT_OBJECT_TREE && b.kind == DT_OBJECT_TREE && !same_paths(a.tree, b.tree))
        return dt_elaborator_fail(e, "the trees have different paths");
    dt_tree *tree = dt_arena_new(e->arena, sizeof *tree + shape->n * sizeof *tree->leaves);
    tree->n = shape->n;
    for (size_t i = 0; i < shape->n; i++) {
        dt_object left = a.kind == DT_OBJECT_TREE ? a.tree->leaves[i].object : a, right = b.kind == DT_OBJECT_TREE ? b.tree->leaves[i].object : b;
        dt_object object = dt_binary(e, operator, left, right);
        if (dt_is_poison(object)) return object;
        if (object.kind != DT_OBJECT_TENSOR) return dt_elaborator_fail(e, "%s does not work on trees", dt_token_spelling(operator));
        tree->leaves[i] = (dt_leaf){.path = shape->leaves[i].path, .variable = shape->leaves[i].variable, .object = object};
    }
    return (dt_object){.kind = DT_OBJECT_TREE, .tree = tree};
}
