/* elaborate_meaning: programs that are no mistake to the compiler, and probably one to their author. Each is a warning.
 *
 * Heads say what a function means: an argument of `logits[…]` or `probability[…]` is held against what its values can be (elaborate_ranges.c), one of
 * `target[…]` against what is trained. The rest is read off the graph of the step. */
#include "frontends/dsl/elaborator.h"

#include <string.h>

static bool is_word(const dt_type_syntax *type, const char *word) { return type != NULL && type->word != NULL && strcmp(type->word, word) == 0; }

const char *dt_word_that_holds(const char *word) {
    bool is_meaning = strcmp(word, "logits") == 0 || strcmp(word, "probability") == 0 || strcmp(word, "target") == 0;
    return is_meaning ? "float" : word;
}

static dt_span span_of(const dt_elaborator *e, dt_location location) {
    for (size_t i = 0; i < e->files.n; i++)
        if (e->files.items[i]->module_file == location.file)
            return (dt_span){.file = e->files.items[i]->source, .line = location.line, .column = location.column, .length = 1};
    return e->at;
}

/* ---- logits and probabilities ---- */

static bool is_given(const dt_frame *frame, const char *word, const dt_value *value) {
    const dt_callable *callable = frame->callee != NULL ? frame->callee->callable : NULL;
    for (size_t p = 0; callable != NULL && p < callable->parameters.n; p++) {
        const dt_binding *given = dt_find_binding(frame->scope, callable->parameters.items[p].name);
        bool is_it = given != NULL && given->object.kind == DT_OBJECT_TENSOR && given->object.value == value;
        if (is_it && is_word(callable->parameters.items[p].type, word)) return true;
    }
    return false;
}

/* Whether functions hand on what they were given, of which they have been told. */
static bool is_handed_on(const dt_elaborator *e, const char *word, const dt_value *value) {
    for (const dt_frame *frame = e->frame; frame != NULL; frame = frame->caller)
        if (is_given(frame, word, value)) return true;
    return false;
}

/* What compares logits or probabilities with a target has probabilities for one. */
static const dt_parameter *parameter_of_classes(const dt_callable *callable) {
    for (size_t p = 0; p < callable->parameters.n; p++) {
        const dt_parameter *parameter = &callable->parameters.items[p];
        if (is_word(parameter->type, "logits") || is_word(parameter->type, "probability")) return parameter;
    }
    return NULL;
}

static void check_range(dt_elaborator *e, const dt_callee *callee, const dt_parameter *parameter, const dt_value *value, dt_span span) {
    const dt_parameter *of_classes = parameter_of_classes(callee->callable);
    if (of_classes == NULL || is_handed_on(e, parameter->type->word, value)) return;
    bool wants_logits = is_word(parameter->type, "logits"), is_target = is_word(parameter->type, "target");
    dt_value_range range = dt_find_range(e, value);
    if (wants_logits && dt_is_probability(range)) {
        dt_diagnostic *warning =
            dt_elaborator_warning(e, DT_WARN_LOGITS_FROM_SOFTMAX, span,
                                  "%s takes logits, and its %s lie between 0 and 1 here: they are probabilities", callee->name, parameter->name);
        dt_diagnostic_help(warning, "give it what goes into the softmax or sigmoid, which %s takes itself", callee->name);
    } else if (wants_logits) {
        dt_list_push(e->arena, &e->step->logits, value);
    } else if ((is_target || is_word(parameter->type, "probability")) && range.kind == DT_RANGE_LINEAR) {
        dt_diagnostic *warning =
            dt_elaborator_warning(e, DT_WARN_PROBABILITIES_FROM_LOGITS, span,
                                  "%s takes probabilities, and %s may be any numbers here: they are logits", callee->name, parameter->name);
        if (is_target) dt_diagnostic_help(warning, "what is known is its %s, what a model computes its %s", parameter->name, of_classes->name);
        if (!is_target) dt_diagnostic_help(warning, "softmax(x) makes probabilities of them, or sigmoid(x) where classes do not exclude each other");
    }
}

static const dt_value *before_moves(const dt_value *value) {
    while (value->op->class == DT_CLASS_MOVE) value = value->operands[0];
    return value;
}

static bool is_logits(const dt_elaborator *e, const dt_value *value) {
    for (size_t i = 0; i < e->step->logits.n; i++)
        if (before_moves(e->step->logits.items[i]) == before_moves(value)) return true;
    return false;
}

/* Logits against 0.5: as if they were probabilities. */
void dt_check_comparisons(dt_elaborator *e) {
    static const char *const comparisons[] = {"x > y", "x >= y", "x < y", "x <= y"};
    for (const dt_value *value = e->step->function->first; value != NULL && e->step->logits.n > 0; value = value->next) {
        bool compares = false, is_share = false;
        for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++) compares |= strcmp(value->op->formula, comparisons[i]) == 0;
        for (int i = 0; compares && i < 2; i++) {
            if (!is_logits(e, value->operands[i])) continue;
            dt_value_range limit = dt_find_range(e, value->operands[1 - i]);
            is_share |= limit.kind == DT_RANGE_NEUTRAL && limit.low > 0 && limit.high < 1;
        }
        if (!is_share) continue;
        dt_diagnostic *warning = dt_elaborator_warning(e, DT_WARN_PROBABILITIES_FROM_LOGITS, span_of(e, value->locations[0]),
                                                       "logits are compared with a number between 0 and 1, as probabilities are");
        dt_diagnostic_help(warning, "compare sigmoid(x), or softmax(x), with it; of logits 0 is where sigmoid(x) is 0.5");
    }
}

void dt_note_arguments(dt_elaborator *e, const dt_callee *callee, const dt_actual *actuals, const int *matched, const dt_frame *frame) {
    if (e->step == NULL || dt_is_tainted(e)) return;
    for (size_t p = 0; p < callee->callable->parameters.n; p++) {
        const dt_parameter *parameter = &callee->callable->parameters.items[p];
        if (parameter->type == NULL || parameter->type->word == NULL || strcmp(dt_word_that_holds(parameter->type->word), "float") != 0) continue;
        dt_object given = dt_find_binding(frame->scope, parameter->name)->object;
        if (given.kind != DT_OBJECT_TENSOR || given.value->function != e->step->function) continue;
        check_range(e, callee, parameter, given.value, matched[p] >= 0 ? actuals[matched[p]].span : frame->call);
        if (!is_word(parameter->type, "target") || e->function != e->step->function) continue;
        dt_target target = {given.value, e->function->next_id, -1};
        dt_list_push(e->arena, &e->step->targets, target);
    }
}

void dt_note_result(dt_elaborator *e, const dt_type_syntax *type, dt_object result) {
    bool is_probability = e->step != NULL && is_word(type, "probability") && result.kind == DT_OBJECT_TENSOR;
    if (is_probability) dt_list_push(e->arena, &e->step->probabilities, result.value);
}

/* ---- targets ---- */

void dt_note_end(dt_elaborator *e, size_t n_targets) {
    for (size_t i = n_targets; e->step != NULL && e->function != NULL && i < e->step->targets.n; i++)
        if (e->step->targets.items[i].limit < 0) e->step->targets.items[i].limit = e->function->next_id;
}

bool dt_is_target_of(const dt_elaborator *e, const dt_value *operand, const dt_value *user) {
    for (size_t i = 0; i < e->step->targets.n; i++) {
        const dt_target *target = &e->step->targets.items[i];
        if (target->value == operand && user->id >= target->first && user->id < target->limit) return true;
    }
    return false;
}

static bool is_reached(const dt_variable_state *state, const bool *reached) {
    for (size_t i = 0; i < state->versions.n; i++)
        if (reached[state->versions.items[i]->id]) return true;
    return false;
}

/* Of the parameters of a model that the loss reaches: whether it reaches any of them by another way than as a target. */
static void count_reached(dt_elaborator *e, const dt_instance *model, const dt_tree *over, const bool *all, const bool *direct, int *n,
                          int *n_direct) {
    size_t n_path = strlen(model->path);
    for (size_t i = 0; i < over->n; i++) {
        if (strncmp(over->leaves[i].path, model->path, n_path) != 0 || over->leaves[i].path[n_path] != '/') continue;
        const dt_variable_state *state = &e->variables.items[over->leaves[i].variable];
        *n += is_reached(state, all);
        *n_direct += is_reached(state, direct);
    }
}

void dt_check_targets(dt_elaborator *e, dt_object scalar, dt_object over) {
    if (scalar.kind != DT_OBJECT_TENSOR || over.kind != DT_OBJECT_TREE || e->step->targets.n == 0 || dt_is_tainted(e)) return;
    const bool *all = dt_reached_from(e, scalar.value, false), *direct = dt_reached_from(e, scalar.value, true);
    const dt_instance *teacher = NULL, *student = NULL;
    for (size_t i = 0; i < e->step->called.n; i++) {
        const dt_instance *model = e->step->called.items[i];
        int n = 0, n_direct = 0;
        count_reached(e, model, over.tree, all, direct, &n, &n_direct);
        if (n > 0 && n_direct == 0) teacher = model;
        if (n_direct > 0) student = model;
    }
    if (teacher == NULL || student == NULL) return;
    dt_diagnostic *warning =
        dt_elaborator_warning(e, DT_WARN_TRAINS_TARGETS, e->at, "%s is trained too, and only makes targets of this loss", teacher->name);
    dt_diagnostic_help(warning, "say what is trained, over: params(%s), or put freeze(%s) first", student->name, teacher->name);
}

/* ---- divided by the number of replicas ---- */

void dt_note_division(dt_elaborator *e, const dt_expression *x, dt_object result) {
    static const char *const words[] = {"replica", "world_size"};
    if (x->operator!= DT_TOKEN_SLASH || x->b->kind != DT_EXPRESSION_NAME || result.kind != DT_OBJECT_TENSOR || e->step == NULL) return;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char lower[64] = {0};
        for (size_t k = 0; k + 1 < sizeof lower && x->b->text[k] != '\0'; k++) lower[k] = (char)(x->b->text[k] | 0x20 * (x->b->text[k] != '_'));
        if (strstr(lower, words[i]) == NULL) continue;
        dt_list_push(e->arena, &e->step->divided, result.value);
        return;
    }
}

/* Whether it is made of the launch's number of replicas, and of numbers. */
static bool counts_replicas(const dt_value *value, int depth) {
    if (strcmp(value->op->formula, "launch(name)") == 0) return strcmp(dt_value_string(value, "name"), "replicas") == 0;
    bool passes = value->op->class == DT_CLASS_MAP || value->op->class == DT_CLASS_MOVE;
    for (int i = 0; passes && depth < 8 && i < value->n_operands; i++)
        if (counts_replicas(value->operands[i], depth + 1)) return true;
    return false;
}

static bool is_divided(const dt_elaborator *e, const dt_value *value) {
    for (size_t i = 0; i < e->step->divided.n; i++)
        if (e->step->divided.items[i] == value) return true;
    return value->op->class == DT_CLASS_MAP && strcmp(value->op->formula, "x / y") == 0 && counts_replicas(value->operands[1], 0);
}

/* Back from a scalar to minimize, or a gradient to apply, through what it is in proportion to. */
void dt_check_divided(dt_elaborator *e, dt_value *value) {
    bool *seen = DT_NEW_ARRAY(e->arena, bool, e->function->next_id);
    DT_LIST(dt_value *) stack = {0};
    if (value->function != e->function || value->shape.rank < 0) return;
    dt_list_push(e->arena, &stack, value);
    while (stack.n > 0) {
        dt_value *at = stack.items[--stack.n];
        if (is_divided(e, at)) {
            dt_diagnostic *warning = dt_elaborator_warning(e, DT_WARN_DIVIDED_BY_REPLICAS, span_of(e, at->locations[0]),
                                                           "what is minimized is divided by the number of replicas");
            dt_diagnostic_note(warning, "it is a mean over the examples of all of them already, and would be too small by that factor");
            dt_diagnostic_help(warning, "leave the division out: no construct needs the number of replicas");
            return;
        }
        bool passes = at->op->class == DT_CLASS_MAP || at->op->class == DT_CLASS_MOVE || at->op->class == DT_CLASS_REDUCE;
        for (int i = 0; passes && (at->op->algebra & DT_OP_LINEAR) && i < at->n_operands; i++) {
            if (seen[at->operands[i]->id]) continue;
            seen[at->operands[i]->id] = true;
            dt_list_push(e->arena, &stack, at->operands[i]);
        }
    }
}

/* ---- numbers of 8 bits ---- */

/* An image as it comes, of u8, less 128 or times 2: what has two dimensions beside the batch is no label. 1 may be taken from a map of labels. */
void dt_note_wrapping(dt_elaborator *e, const dt_expression *x, dt_object a, dt_object b, dt_object result) {
    bool is_left = a.kind == DT_OBJECT_TENSOR;
    dt_object tensor = is_left ? a : b, number = is_left ? b : a;
    bool is_pair = tensor.kind == DT_OBJECT_TENSOR && number.kind == DT_OBJECT_INT && result.kind == DT_OBJECT_TENSOR && !e->frame->file->is_library;
    if (!is_pair || tensor.value->dtype != DT_U8 || number.i == 0 || number.i == 1) return;
    if (tensor.value->shape.rank - dt_shape_count(tensor.value->shape, DT_BATCH) < 2 || !dt_value_is(before_moves(tensor.value), "input")) return;
    bool wraps = x->operator== DT_TOKEN_PLUS || x->operator== DT_TOKEN_STAR ||(x->operator== DT_TOKEN_MINUS &&(is_left || number.i < 255));
    if (!wraps) return;
    dt_diagnostic *warning = dt_elaborator_warning(
        e, DT_WARN_WRAPS_AROUND, x->span, "u8 holds 0 to 255, and the result of %s wraps around beyond these", dt_token_spelling(x->operator));
    dt_diagnostic_help(warning, "convert first: f32(x), or i32(x)");
}

/* ---- optimizers ---- */

static bool has_slots(const dt_elaborator *e, const dt_optimizer *optimizer) {
    size_t n = strlen(optimizer->path);
    for (size_t i = 0; i < e->module->variables.n; i++) {
        const char *path = e->module->variables.items[i].path;
        if (strncmp(path, optimizer->path, n) == 0 && path[n] == '/' && strcmp(path + n, "/count") != 0) return true;
    }
    return false;
}

static bool share_one(const dt_tree *a, const dt_tree *b) {
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; k < b->n; k++)
            if (a->leaves[i].variable == b->leaves[k].variable) return true;
    return false;
}

static void check_repeated(dt_elaborator *e, const dt_optimizer *optimizer, const dt_tree *tree) {
    dt_span call = optimizer->frame->call;
    for (size_t i = 0; i < e->step->applications.n; i++) {
        const dt_application *other = &e->step->applications.items[i];
        dt_span there = other->optimizer->frame->call;
        if (there.file != call.file || there.line != call.line || there.column != call.column) continue;
        if (other->optimizer == optimizer || !has_slots(e, optimizer) || !share_one(other->tree, tree)) return;
        dt_diagnostic *warning = dt_elaborator_warning(e, DT_WARN_OPTIMIZER_REPEATED, call, "this call makes an optimizer each time that it is met");
        dt_diagnostic_note(warning, "%s and %s update the same parameters, each with states of its own", other->optimizer->path, optimizer->path);
        dt_diagnostic_help(warning, "make one before the loop, and use it there: o = %s(…)", optimizer->callee->name);
        return;
    }
    dt_application application = {optimizer, tree};
    dt_list_push(e->arena, &e->step->applications, application);
}

/* Whether what a parameter gets for a gradient is another parameter: it follows that one. */
static bool follows(const dt_elaborator *e, const dt_leaf *leaf) {
    for (size_t v = 0; v < e->variables.n; v++) {
        if ((int)v == leaf->variable || e->module->variables.items[v].kind != DT_VARIABLE_PARAMETER) continue;
        const dt_variable_state *state = &e->variables.items[v];
        bool is_value = state->current == leaf->object.value;
        for (size_t i = 0; i < state->versions.n; i++) is_value |= state->versions.items[i] == leaf->object.value;
        if (is_value) return true;
    }
    return false;
}

void dt_note_application(dt_elaborator *e, const dt_optimizer *optimizer, const dt_tree *tree) {
    if (dt_is_tainted(e)) return;
    check_repeated(e, optimizer, tree);
    for (size_t i = 0; i < tree->n && i < 1; i++)
        if (tree->leaves[i].object.kind == DT_OBJECT_TENSOR) dt_check_divided(e, tree->leaves[i].object.value);
    if (tree->n == 0 || !follows(e, &tree->leaves[0])) return;
    for (size_t i = 0; i < tree->n; i++) e->variables.items[tree->leaves[i].variable].follows = true;
}

/* ---- states that nothing writes ---- */

static void check_states(dt_elaborator *e, const dt_instance *model, const dt_instance *instance, bool follows) {
    for (size_t i = 0; i < instance->variables.n; i++) follows |= e->variables.items[instance->variables.items[i]].follows;
    for (size_t i = 0; follows && i < instance->variables.n; i++) {
        int v = instance->variables.items[i];
        if (e->module->variables.items[v].kind != DT_VARIABLE_STATE || e->variables.items[v].trained) continue;
        dt_diagnostic *warning =
            dt_diagnostics_warn(e->diagnostics, DT_WARN_STATES_NEVER_WRITTEN, model->first_call,
                                "%s keeps its first value, while the parameters beside it follow others", e->module->variables.items[v].path);
        dt_diagnostic_note(warning, "follow is about parameters: a state is written where its layer is called with training");
        dt_diagnostic_help(warning, "call %s with training in the step that trains, so that its statistics are those of its own values", model->name);
        break;
    }
    for (size_t i = 0; i < instance->children.n; i++) check_states(e, model, instance->children.items[i], follows);
}

void dt_check_states(dt_elaborator *e) {
    for (size_t i = 0; i < e->models.n; i++) check_states(e, e->models.items[i], e->models.items[i], false);
}
