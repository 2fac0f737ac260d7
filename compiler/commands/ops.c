/* dtc ops: the table of operations as a reference, straight from its rows. */
#include "compiler/commands/command.h"
#include "ir/formula.h"

#include <stdio.h>
#include <string.h>

static void print_attribute(dt_text *text, const dt_attribute_row *attribute) {
    static const char *const kinds[] = {"int", "number", "bool", "string", "ints", "dtype"};
    dt_text_format(text, "%s: %s", attribute->name, kinds[attribute->kind]);
    if (!attribute->has_default) return;
    char number[32];
    switch (attribute->kind) {
    case DT_ATTR_NUMBER: dt_text_format(text, " = %s", dt_text_from_f64(attribute->standard.f, number)); break;
    case DT_ATTR_BOOL: dt_text_format(text, " = %s", attribute->standard.i ? "true" : "false"); break;
    case DT_ATTR_STRING: dt_text_format(text, " = \"%s\"", attribute->standard.s); break;
    case DT_ATTR_DTYPE: dt_text_format(text, " = %s", dt_dtype_name((dt_dtype)attribute->standard.i)); break;
    case DT_ATTR_INT: dt_text_format(text, " = %lld", (long long)attribute->standard.i); break;
    case DT_ATTR_INTS:
        dt_text_append(text, " = [");
        for (int64_t i = 0; i < attribute->standard.i; i++) dt_text_format(text, "%s%lld", i ? ", " : "", (long long)attribute->standard.ints[i]);
        dt_text_append(text, "]");
        break;
    }
}

/* Of an op that is one scalar function and nothing else: how exactly the kernels compute it. */
static void print_error(dt_text *text, const dt_op *op) {
    size_t n = strcspn(op->formula, "(");
    for (size_t i = 0; i < dt_n_scalar_functions; i++) {
        const dt_scalar_function *function = dt_scalar_function_at(i);
        if (strlen(function->name) != n || strncmp(function->name, op->formula, n) != 0 || strcspn(op->formula, ")") + 1 != strlen(op->formula))
            continue;
        dt_text_format(text, "    error     at most %g units in the last place, %g of f64, over [%s]\n", function->f32_ulp, function->f64_ulp,
                       function->domain);
    }
}

static void print_op(dt_text *text, const dt_op *op) {
    dt_text_format(text, "%s(", op->name);
    for (int k = 0; k < op->n_operands; k++)
        dt_text_format(text, "%s%s: %s%s", k ? ", " : "", op->operands[k].name, op->operands[k].type, op->variadic ? "..." : "");
    for (int a = 0; a < op->n_attributes; a++) {
        dt_text_append(text, a ? ", " : op->n_operands ? "; " : "");
        print_attribute(text, &op->attributes[a]);
    }
    dt_text_append(text, ")");
    if (op->result_type[0]) dt_text_format(text, " -> %s", op->result_type);
    dt_text_format(text, "\n    %s\n", op->doc);
    if (op->formula[0]) dt_text_format(text, "    means     %s\n", op->formula);
    print_error(text, op);
    if (op->gradient[0]) dt_text_format(text, "    gradient  %s\n", op->gradient);
    if (op->numpy[0]) dt_text_format(text, "    NumPy     %s\n", op->numpy);
}

static const char argument_doc[] = "[NAME...]";
static const char doc[] = "Print the operations that programs are made of: signature, meaning, gradient and NumPy equivalent of each.";

static error_t parse(int key, char *argument, struct argp_state *state) {
    dt_text *text = state->input;
    if (key != ARGP_KEY_ARG)
        return key == ARGP_KEY_NO_ARGS || key == ARGP_KEY_END || key == ARGP_KEY_INIT || key == ARGP_KEY_SUCCESS || key == ARGP_KEY_FINI
                   ? 0
                   : ARGP_ERR_UNKNOWN;
    const dt_op *op = dt_op_find(argument);
    if (op == NULL)
        argp_failure(state, 1, 0, "there is no op \"%s\"; `dtc ops` lists them all", argument);
    else
        print_op(text, op);
    return 0;
}

int dt_command_ops(int argc, char **argv) {
    static const struct argp argp = {.parser = parse, .args_doc = argument_doc, .doc = doc};
    dt_text text = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &text) != 0) return 2;
    if (text.n == 0) {
        for (int class = 0; class < DT_N_CLASSES; class ++) {
            dt_text_format(&text, "%s%s\n\n", class ? "\n" : "", dt_class_name((dt_op_class) class));
            for (size_t i = 0; i < dt_n_ops; i++)
                if (dt_op_at(i)->class == (dt_op_class) class) print_op(&text, dt_op_at(i));
        }
    }
    return dt_command_finish(dt_command_write(NULL, &text));
}
