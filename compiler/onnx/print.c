/* print: a model as text, a line for each node. */
#include "compiler/onnx/model.h"

#include <inttypes.h>

static void print_type(dt_text *text, const Onnx__ValueInfoProto *info) {
    const Onnx__TypeProto__Tensor *tensor = info->type->tensor_type;
    for (int d = 0; d < DT_N_DTYPES; d++)
        if ((int32_t)dt_onnx_type((dt_dtype)d) == tensor->elem_type) dt_text_append(text, dt_dtype_name((dt_dtype)d));
    for (size_t d = 0; d < tensor->shape->n_dim; d++) {
        const Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[d];
        dt_text_append(text, d == 0 ? "[" : ", ");
        if (dim->has_dim_value)
            dt_text_format(text, "%" PRId64, dim->dim_value);
        else
            dt_text_append(text, dim->dim_param);
    }
    if (tensor->shape->n_dim > 0) dt_text_append(text, "]");
}

static void print_names(dt_text *text, size_t n, char *const *names) {
    for (size_t i = 0; i < n; i++) dt_text_format(text, "%s%s", i > 0 ? ", " : "", names[i]);
}

static void print_infos(dt_text *text, const char *what, size_t n, Onnx__ValueInfoProto *const *infos, int depth) {
    for (size_t i = 0; i < n; i++) {
        dt_text_format(text, "%*s%s %s: ", 2 * depth, "", what, infos[i]->name);
        print_type(text, infos[i]);
        dt_text_append(text, "\n");
    }
}

static void print_attribute(dt_text *text, const Onnx__AttributeProto *attribute) {
    dt_text_format(text, ", %s=", attribute->name);
    if (attribute->g != NULL) dt_text_append(text, attribute->g->name);
    if (attribute->has_i) dt_text_format(text, "%" PRId64, attribute->i);
    if (attribute->has_s) dt_text_format(text, "\"%.*s\"", (int)attribute->s.len, attribute->s.data);
    if (attribute->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS) return;
    for (size_t i = 0; i < attribute->n_ints; i++) dt_text_format(text, "%s%" PRId64, i == 0 ? "[" : ", ", attribute->ints[i]);
    dt_text_append(text, attribute->n_ints > 0 ? "]" : "[]");
}

static void print_graph(dt_text *text, const Onnx__GraphProto *graph, int depth) {
    dt_text_format(text, "%*sgraph %s\n", 2 * depth, "", graph->name);
    depth++;
    print_infos(text, "input", graph->n_input, graph->input, depth);
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        dt_text_format(text, "%*s", 2 * depth, "");
        print_names(text, node->n_output, node->output);
        dt_text_format(text, " = %s(", node->op_type);
        print_names(text, node->n_input, node->input);
        for (size_t a = 0; a < node->n_attribute; a++) print_attribute(text, node->attribute[a]);
        dt_text_append(text, ")");
        if (node->doc_string != NULL) dt_text_format(text, "  # %s", node->doc_string);
        dt_text_append(text, "\n");
        for (size_t a = 0; a < node->n_attribute; a++)
            if (node->attribute[a]->g != NULL) print_graph(text, node->attribute[a]->g, depth + 1);
    }
    print_infos(text, "output", graph->n_output, graph->output, depth);
}

void dt_onnx_print(dt_text *text, const dt_onnx_model *model) { print_graph(text, model->proto->graph, 0); }
