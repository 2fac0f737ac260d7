/* operations: the table of operations as a reference, straight from its rows. */
#include "compiler/api/api.h"
#include "ir/formula.h"

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

static const char *signature_of(dt_arena *arena, const dt_op *op) {
    dt_text text = {.arena = arena};
    dt_text_format(&text, "%s(", op->name);
    for (int k = 0; k < op->n_operands; k++)
        dt_text_format(&text, "%s%s: %s%s", k ? ", " : "", op->operands[k].name, op->operands[k].type, op->variadic ? "..." : "");
    for (int a = 0; a < op->n_attributes; a++) {
        dt_text_append(&text, a ? ", " : op->n_operands ? "; " : "");
        print_attribute(&text, &op->attributes[a]);
    }
    dt_text_append(&text, ")");
    if (op->result_type[0]) dt_text_format(&text, " -> %s", op->result_type);
    return text.data;
}

/* Of an op that is one scalar function and nothing else: how exactly the kernels compute it. */
static const char *accuracy_of(dt_arena *arena, const dt_op *op) {
    size_t n = strcspn(op->formula, "(");
    if (strcspn(op->formula, ")") + 1 != strlen(op->formula)) return "";
    for (size_t i = 0; i < dt_n_scalar_functions; i++) {
        const dt_scalar_function *function = dt_scalar_function_at(i);
        if (strlen(function->name) == n && strncmp(function->name, op->formula, n) == 0)
            return dt_arena_format(arena, "at most %g units in the last place, %g of f64, over [%s]", function->f32_ulp, function->f64_ulp,
                                   function->domain);
    }
    return "";
}

static void print_row(dt_text *text, const char *name, const char *value) {
    if (*value != 0) dt_text_format(text, "    %-9s %s\n", name, value);
}

static const char *text_of(dt_arena *arena, const dtc_operation *operation) {
    dt_text text = {.arena = arena};
    dt_text_format(&text, "%s\n    %s\n", operation->signature, operation->description);
    print_row(&text, "means", operation->formula);
    print_row(&text, "error", operation->accuracy);
    print_row(&text, "gradient", operation->gradient);
    print_row(&text, "NumPy", operation->numpy);
    return text.data;
}

static const dtc_operation *describe(dt_arena *arena, const dt_op *op) {
    dtc_operation *operation = DT_NEW(arena, dtc_operation);
    *operation = (dtc_operation){.name = op->name,
                                 .kind = dt_class_name(op->class),
                                 .signature = signature_of(arena, op),
                                 .description = op->doc,
                                 .formula = op->formula,
                                 .gradient = op->gradient,
                                 .numpy = op->numpy,
                                 .accuracy = accuracy_of(arena, op)};
    operation->text = text_of(arena, operation);
    operation->conformance = dt_api_conformance_of(arena, op);
    return operation;
}

/* By class, and in the order of the table. */
static void *list(dt_arena *arena, const void *context) {
    (void)context;
    dtc_operations *table = dt_api_kept(arena, sizeof *table);
    const dtc_operation **operations = DT_NEW_ARRAY(arena, const dtc_operation *, dt_n_ops);
    dt_text text = {.arena = arena};
    size_t n = 0;
    for (int class = 0; class < DT_N_CLASSES; class ++) {
        dt_text_format(&text, "%s%s\n\n", class ? "\n" : "", dt_class_name((dt_op_class) class));
        for (size_t i = 0; i < dt_n_ops; i++) {
            if (dt_op_at(i)->class != (dt_op_class) class) continue;
            operations[n] = describe(arena, dt_op_at(i));
            dt_text_append(&text, operations[n++]->text);
        }
    }
    *table = (dtc_operations){.text = text.data, .operations = operations, .n_operations = n, .conformance = dt_api_conformance(arena)};
    return table;
}

dt_status *dtc_list_operations(dtc_operations **operations) {
    void *made = NULL;
    dt_status *status = dt_api_keep(list, NULL, &made);
    *operations = made;
    return status;
}

void dtc_operations_free(dtc_operations *operations) { dt_api_release(operations); }
