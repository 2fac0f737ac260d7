/* export: a step as an ONNX model; see onnx.h. */
#include "compiler/onnx/onnx.h"

#include "abi/version.h"
#include "compiler/onnx/model.h"
#include "ir/body.h"

#include <limits.h>
#include <string.h>

static const struct {
    const char *op;
    dt_onnx_renderer *render;
} operators[] = {
#define X(op, render) {#op, render},
#include "compiler/onnx/operators.def"
#undef X
};

/* ---- which step ---- */

static dt_status *find_step(const dt_module *module, const char *name, const dt_step **found) {
    *found = NULL;
    int n_fit = 0;
    for (size_t i = 0; i < module->steps.n; i++) {
        const dt_step *step = &module->steps.items[i];
        if (name != NULL ? strcmp(step->name, name) == 0 : !step->trains) *found = step, n_fit++;
        if (name == NULL && strcmp(step->name, "predict") == 0) return *found = step, NULL;
    }
    if (n_fit == 1) return NULL;
    if (name == NULL && n_fit == 0)
        return dt_error(DT_NOT_FOUND,
                        "no step of the program only returns: a model for inference is of one such as predict(x: …) { return y: Net(x) }");
    dt_text names = {.arena = module->arena};
    for (size_t i = 0; i < module->steps.n; i++) dt_text_format(&names, "%s%s", i > 0 ? ", " : "", module->steps.items[i].name);
    const char *all = names.data != NULL ? names.data : "none";
    return name != NULL ? dt_error(DT_NOT_FOUND, "there is no step %s; there are: %s", name, all)
                        : dt_error(DT_NOT_FOUND, "which step is to be the model? --step names one of: %s", all);
}

static const dt_value *find_update(const dt_function *function) {
    const dt_value *value = function->first;
    while (value != NULL && !dt_value_writes(value)) value = value->next;
    return value;
}

dt_status *dt_onnx_select(dt_module *module, const char *step, const dt_function **function) {
    const dt_step *found;
    DT_TRY(find_step(module, step, &found));
    dt_function *own = found->function;
    const dt_value *update = find_update(own);
    if (update != NULL)
        return dt_value_error(update, DT_INVALID_ARGUMENT, "the step %s updates %s, and a model for inference updates nothing: name another step",
                              found->name, dt_value_string(update, "variable"));
    own->results.n -= (size_t)found->n_aggregates;
    if (own->results.n == 0)
        return dt_error(DT_INVALID_ARGUMENT, "the step %s returns no tensor, which a model needs: name another step", found->name);
    memmove(own->results.items, own->results.items + found->n_aggregates, own->results.n * sizeof *own->results.items);
    dt_step alone = *found;
    alone.report = NULL;
    alone.n_aggregates = 0;
    module->steps.n = module->functions.n = 1;
    module->steps.items[0] = alone;
    module->functions.items[0] = own;
    module->pipelines.n = 0;
    dt_function_sweep(own);
    *function = own;
    return NULL;
}

/* ---- the values ---- */

static dt_onnx_renderer *find_renderer(const dt_op *op) {
    if (op->class == DT_CLASS_MAP) return dt_onnx_render_formula;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strcmp(operators[i].op, op->name) == 0) return operators[i].render;
    return NULL;
}

dt_status *dt_onnx_render_values(dt_onnx *onnx, const dt_value *from, const dt_value *end) {
    for (const dt_value *value = from; value != end; value = value->next) {
        if (onnx->tensors[value->id].name != NULL || dt_value_is(value, "advance")) continue; /* an input, or what goes through a loop */
        onnx->value = value;
        if (dt_value_is_loop(value)) {
            DT_TRY(dt_onnx_render_loop(onnx, value));
            value = dt_loop_end(value);
            continue;
        }
        dt_onnx_renderer *render = find_renderer(value->op);
        if (render == NULL) return dt_onnx_unimplemented(value, NULL);
        DT_TRY(render(onnx, value));
    }
    return NULL;
}

/* ---- the model ---- */

dt_status *dt_onnx_need_rows(const dt_value *value) {
    const dt_function *function = value->function;
    for (size_t i = 0; i < function->inputs.n; i++)
        if (dt_shape_batch_axis(function->inputs.items[i]->shape) >= 0) return NULL;
    return dt_value_error(value, DT_INVALID_ARGUMENT, "no input of the step says how many rows there are, which a model has from its inputs");
}

static dt_status *check_rows(const dt_function *function) {
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (dt_shape_batch_axis(value->shape) >= 0) return dt_onnx_need_rows(value);
    return NULL;
}

static void add_inputs(dt_onnx *onnx) {
    for (size_t i = 0; i < onnx->function->inputs.n; i++) {
        const dt_value *input = onnx->function->inputs.items[i];
        dt_dtype kept = dt_onnx_kept(input->dtype);
        onnx->value = input;
        dt_list_push(onnx->arena, &onnx->main.inputs, dt_onnx_info(onnx, input->name, input->dtype, input->shape));
        dt_onnx_give(onnx, input, kept == input->dtype ? input->name : dt_onnx_cast(onnx, input->name, kept), NULL);
    }
}

static bool is_input(const dt_function *function, const char *name) {
    for (size_t i = 0; i < function->inputs.n; i++)
        if (strcmp(function->inputs.items[i]->name, name) == 0) return true;
    return false;
}

/* Each by its name, in its own type; one that is called as an input is NAME_result. */
static void add_results(dt_onnx *onnx) {
    for (size_t i = 0; i < onnx->function->results.n; i++) {
        const dt_result *result = &onnx->function->results.items[i];
        const dt_value *value = result->value;
        const char *name = is_input(onnx->function, result->name) ? dt_arena_format(onnx->arena, "%s_result", result->name) : result->name;
        onnx->value = value;
        const char *whole = dt_onnx_whole(onnx, value);
        Onnx__AttributeProto *to = dt_onnx_int(onnx, "to", (int64_t)dt_onnx_type(value->dtype));
        bool is_kept = dt_onnx_kept(value->dtype) == value->dtype;
        dt_onnx_add_named(onnx, is_kept ? "Identity" : "Cast", DT_ONNX_INPUTS(whole), DT_ONNX_INPUTS(name), is_kept ? NULL : DT_ONNX_ATTRIBUTES(to));
        dt_list_push(onnx->arena, &onnx->main.outputs, dt_onnx_info(onnx, name, value->dtype, value->shape));
    }
}

static const dt_onnx_model *make_model(dt_onnx *onnx) {
    dt_onnx_graph all = onnx->main;
    memset(&all.nodes, 0, sizeof all.nodes);
    for (size_t i = 0; i < onnx->first.n; i++) dt_list_push(onnx->arena, &all.nodes, onnx->first.items[i]);
    for (size_t i = 0; i < onnx->main.nodes.n; i++) dt_list_push(onnx->arena, &all.nodes, onnx->main.nodes.items[i]);
    Onnx__GraphProto *graph = dt_onnx_close_graph(onnx, &all, onnx->function->module->name);
    graph->n_initializer = onnx->initializers.n;
    graph->initializer = onnx->initializers.items;
    Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT, **sets = DT_NEW(onnx->arena, Onnx__OperatorSetIdProto *);
    set.domain = dt_arena_string(onnx->arena, "");
    set.has_version = true;
    set.version = DT_ONNX_OPERATOR_SET;
    *sets = dt_arena_copy(onnx->arena, &set, sizeof set);
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    model.has_ir_version = true;
    model.ir_version = DT_ONNX_IR_VERSION;
    model.producer_name = dt_arena_string(onnx->arena, "dtc");
    model.producer_version = dt_arena_string(onnx->arena, DT_VERSION);
    model.graph = graph;
    model.n_opset_import = 1;
    model.opset_import = sets;
    dt_onnx_model *made = DT_NEW(onnx->arena, dt_onnx_model);
    made->proto = dt_arena_copy(onnx->arena, &model, sizeof model);
    return made;
}

dt_status *dt_onnx_render(dt_arena *arena, const dt_function *function, const dt_weights *weights, const dt_onnx_model **model) {
    dt_onnx onnx = {.arena = arena, .function = function, .weights = weights, .graph = &onnx.main};
    onnx.tensors = DT_NEW_ARRAY(arena, dt_onnx_tensor, function->next_id);
    DT_TRY(check_rows(function));
    add_inputs(&onnx);
    DT_TRY(dt_onnx_render_values(&onnx, function->first, NULL));
    add_results(&onnx);
    *model = make_model(&onnx);
    return NULL;
}

/* ---- its bytes ---- */

typedef struct sink {
    ProtobufCBuffer base;
    dt_text *bytes;
} sink;

static void append(ProtobufCBuffer *buffer, size_t n, const uint8_t *data) { dt_text_append_bytes(((sink *)buffer)->bytes, (const char *)data, n); }

dt_status *dt_onnx_write(dt_text *bytes, const dt_onnx_model *model) {
    size_t n = onnx__model_proto__get_packed_size(model->proto);
    if (n > INT_MAX)
        return dt_error(DT_INVALID_ARGUMENT, "the model would be %.1f GiB, and a file of protocol buffers holds less than 2", (double)n / (1 << 30));
    sink sink = {.base.append = append, .bytes = bytes};
    onnx__model_proto__pack_to_buffer(model->proto, &sink.base);
    return NULL;
}
