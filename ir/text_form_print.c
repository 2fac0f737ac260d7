/* text_form_print: the module as text, see text_form.h. Whatever the parser takes back is printed here, and nothing else. */
#include "ir/loops.h"
#include "ir/reader.h"
#include "ir/text_form.h"

#include <inttypes.h>

static void print_location(dt_text *text, dt_location location) { dt_text_format(text, " @%d:%d:%d", location.file, location.line, location.column); }

static void print_distribution(dt_text *text, dt_distribution distribution) {
    switch (distribution.kind) {
    case DT_UNKNOWN: break;
    case DT_REPLICATED: dt_text_append(text, " {replicated}"); break;
    case DT_SPLIT: dt_text_format(text, " {split(%d)}", distribution.axis); break;
    case DT_PARTIAL: dt_text_format(text, " {partial(%s)}", dt_combiner_name(distribution.combiner)); break;
    }
}

/* "%3 hint: f32[B]" */
static void print_definition(dt_text *text, const dt_value *value) {
    dt_text_format(text, "%%%d", value->id);
    if (value->name != NULL) {
        dt_text_append(text, " ");
        dt_print_name(text, value->name);
    }
    dt_text_append(text, ": ");
    dt_shape_print(text, value->dtype, value->shape);
}

static void print_tail(dt_text *text, const dt_value *value) {
    print_distribution(text, value->distribution);
    if (value->distribution.sharded) dt_text_append(text, " sharded");
    if (value->recompute > 0) dt_text_format(text, " recompute %d", value->recompute);
    for (int i = 0; i < value->n_locations; i++) print_location(text, value->locations[i]);
}

void dt_value_print(dt_text *text, const dt_value *value) {
    if (!dt_value_has_effect(value)) {
        print_definition(text, value);
        dt_text_append(text, " = ");
    }
    dt_text_format(text, "%s(", value->op->name);
    for (int i = 0; i < value->n_operands; i++) dt_text_format(text, "%s%%%d", i > 0 ? ", " : "", value->operands[i]->id);
    dt_print_attributes(text, value, value->n_operands > 0);
    dt_text_append(text, ")");
    print_tail(text, value);
}

void dt_function_print(dt_text *text, const dt_function *function) {
    dt_text_append(text, "function ");
    dt_print_name(text, function->name);
    dt_text_format(text, " %s (", dt_function_role_names()[function->role]);
    for (size_t i = 0; i < function->inputs.n; i++) {
        if (i > 0) dt_text_append(text, ", ");
        print_definition(text, function->inputs.items[i]);
        print_tail(text, function->inputs.items[i]);
    }
    dt_text_append(text, ") {\n");
    const dt_value *value = function->first;
    for (size_t i = 0; i < function->inputs.n; i++) value = value->next;
    for (; value != NULL; value = value->next) {
        dt_text_append(text, "  ");
        dt_value_print(text, value);
        dt_text_append(text, "\n");
    }
    for (size_t i = 0; i < function->results.n; i++) {
        dt_text_append(text, i == 0 ? "  return " : ", ");
        dt_print_name(text, function->results.items[i].name);
        dt_text_format(text, "=%%%d", function->results.items[i].value->id);
    }
    dt_text_append(text, function->results.n > 0 ? "\n}\n" : "}\n");
}

static void print_variable(dt_text *text, const dt_variable *variable) {
    dt_text_append(text, "variable ");
    dt_print_string(text, variable->path);
    dt_text_append(text, ": ");
    dt_shape_print(text, variable->dtype, variable->shape);
    dt_text_format(text, " %s%s", dt_variable_kind_names()[variable->kind], variable->trainable ? " trainable" : "");
    if (variable->shard_axis >= 0) dt_text_format(text, " shard(axis=%d, groups=%d)", variable->shard_axis, variable->shard_groups);
    print_location(text, variable->location);
    dt_text_append(text, "\n");
}

static void print_argument(dt_text *text, const dt_stage_argument *argument) {
    char buffer[32];
    if (argument->name != NULL) {
        dt_print_name(text, argument->name);
        dt_text_append(text, "=");
    }
    switch (argument->kind) {
    case DT_STAGE_INT: dt_text_format(text, "%" PRId64, argument->i); break;
    case DT_STAGE_FLOAT: dt_text_append(text, dt_text_from_f64(argument->f, buffer)); break;
    case DT_STAGE_STRING: dt_print_string(text, argument->s); break;
    case DT_STAGE_FUNCTION:
        dt_text_append(text, "function ");
        dt_print_name(text, argument->s);
        break;
    }
}

static bool is_same_place(dt_location a, dt_location b) { return a.file == b.file && a.line == b.line && a.column == b.column; }

static void print_pipeline(dt_text *text, const dt_pipeline_declaration *pipeline) {
    dt_text_append(text, "pipeline ");
    dt_print_name(text, pipeline->name);
    for (size_t i = 0; i < pipeline->stages.n; i++) {
        const dt_stage_declaration *stage = &pipeline->stages.items[i];
        dt_text_append(text, i == 0 ? " = " : " | ");
        dt_print_name(text, stage->kind);
        dt_text_append(text, "(");
        for (size_t k = 0; k < stage->arguments.n; k++) {
            if (k > 0) dt_text_append(text, ", ");
            print_argument(text, &stage->arguments.items[k]);
        }
        dt_text_append(text, ")");
        if (!is_same_place(stage->location, pipeline->location)) print_location(text, stage->location);
    }
    print_location(text, pipeline->location);
    dt_text_append(text, "\n");
}

static void print_layer(dt_text *text, const dt_layer *layer) {
    dt_text_append(text, "layer ");
    dt_print_string(text, layer->path);
    dt_text_append(text, " ");
    dt_print_name(text, layer->kind);
    dt_text_format(text, " %d ", layer->depth);
    dt_shape_print(text, layer->dtype, layer->shape);
    dt_text_format(text, " parameters %" PRId64 " trainable %" PRId64, layer->n_parameters, layer->n_trainable);
    print_location(text, layer->location);
    dt_text_append(text, "\n");
}

static void print_step(dt_text *text, const dt_step *step) {
    dt_text_append(text, "step ");
    dt_print_name(text, step->name);
    dt_text_append(text, " = ");
    dt_print_name(text, step->function->name);
    if (step->report != NULL) {
        dt_text_append(text, " report ");
        dt_print_name(text, step->report->name);
    }
    if (step->data != NULL) {
        dt_text_append(text, " from ");
        dt_print_name(text, step->data);
    }
    if (step->every > 0) dt_text_format(text, " every %" PRId64, step->every);
    for (int i = 0; i < step->n_aggregates; i++)
        dt_text_format(text, "%s%s", i == 0 ? " aggregates(" : ", ", dt_aggregate_names()[step->aggregates[i]]);
    dt_text_append(text, step->n_aggregates > 0 ? ")" : "");
    dt_text_append(text, step->trains ? " trains" : "");
    print_location(text, step->location);
    dt_text_append(text, "\n");
}

static void print_named(dt_text *text, const char *what, const dt_function *function) {
    if (function == NULL) return;
    dt_text_format(text, "%s ", what);
    dt_print_name(text, function->name);
}

static void print_row_form(dt_text *text, const dt_row_form *form) {
    dt_text_append(text, "row_form ");
    dt_print_string(text, form->table);
    print_named(text, " of", form->of);
    print_named(text, " indices", form->indices);
    dt_text_format(text, " %d", form->index);
    print_named(text, " step", form->step);
    dt_text_format(text, " %d", form->rows);
    if (form->gradient >= 0) dt_text_format(text, " gradient %d numbers %d %d", form->gradient, form->first_number, form->n_numbers);
    print_named(text, " sum", form->sum);
    print_named(text, " update", form->update);
    for (size_t s = 0; s < form->slots.n; s++) {
        dt_text_append(text, s == 0 ? " slots(" : ", ");
        dt_print_string(text, form->slots.items[s]);
    }
    if (form->slots.n > 0) dt_text_append(text, ")");
    if (form->moves != NULL) {
        dt_text_append(text, " moves ");
        dt_print_string(text, form->moves);
    }
    print_location(text, form->location);
    dt_text_append(text, "\n");
}

void dt_module_print(dt_text *text, const dt_module *module) {
    dt_text_append(text, "module ");
    dt_print_name(text, module->name);
    dt_text_format(text, " capacity %" PRId64 "\n", module->capacity);
    if (module->n_shards != 1) dt_text_format(text, "shards %" PRId64 "\n", module->n_shards);
    for (size_t i = 0; i < module->files.n; i++) {
        dt_text_format(text, "file %zu ", i);
        dt_print_string(text, module->files.items[i]);
        dt_text_append(text, "\n");
    }
    for (size_t i = 0; i < module->variables.n; i++) print_variable(text, &module->variables.items[i]);
    for (size_t i = 0; i < module->pipelines.n; i++) print_pipeline(text, &module->pipelines.items[i]);
    for (size_t i = 0; i < module->layers.n; i++) print_layer(text, &module->layers.items[i]);
    for (size_t i = 0; i < module->steps.n; i++) print_step(text, &module->steps.items[i]);
    print_named(text, "row_init", module->row_init);
    if (module->row_init != NULL) dt_text_append(text, "\n");
    for (size_t i = 0; i < module->row_variables.n; i++) {
        dt_text_append(text, "row_variable ");
        dt_print_string(text, module->row_variables.items[i].path);
        print_named(text, " init", module->row_variables.items[i].init);
        dt_text_append(text, "\n");
    }
    for (size_t i = 0; i < module->row_forms.n; i++) print_row_form(text, &module->row_forms.items[i]);
    for (size_t i = 0; i < module->functions.n; i++) dt_function_print(text, module->functions.items[i]);
}
