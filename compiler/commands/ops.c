/* dtc ops: the table of operations as a reference. */
#include "base/status.h"
#include "compiler/commands/command.h"

#include <string.h>

/* The table, and what was asked for of it. */
typedef struct printing {
    const dtc_operations *table;
    dt_text text;
    bool conformance; /* is asked for, of all or of the names behind it */
} printing;

static const struct argp_option option_rows[] = {
    {"conformance", 'c', NULL, 0,
     "Of each operation and element type, what tests show to hold: values, gradients, second gradients, edges; and whose convention holds", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    printing *printing = state->input;
    if (key == 'c') return printing->conformance = true, 0;
    if (key != ARGP_KEY_ARG)
        return key == ARGP_KEY_NO_ARGS || key == ARGP_KEY_END || key == ARGP_KEY_INIT || key == ARGP_KEY_SUCCESS || key == ARGP_KEY_FINI
                   ? 0
                   : ARGP_ERR_UNKNOWN;
    for (size_t i = 0; i < printing->table->n_operations; i++) {
        const dtc_operation *operation = printing->table->operations[i];
        if (strcmp(operation->name, argument) != 0) continue;
        dt_text_append(&printing->text, printing->conformance ? operation->conformance : operation->text);
        return 0;
    }
    argp_failure(state, 1, 0, "there is no op \"%s\"; `dtc ops` lists them all", argument);
    return 0;
}

int dt_command_ops(int argc, char **argv) {
    static const struct argp argp = {
        .options = option_rows,
        .parser = parse,
        .args_doc = "[NAME...]",
        .doc = "Print the operations that programs are made of: signature, meaning, gradient and NumPy equivalent of each."};
    dtc_operations *table;
    dt_status *status = dtc_list_operations(&table);
    if (status != NULL) return dt_command_finish(status);
    printing printing = {.table = table};
    int code = 2;
    if (dt_arguments_parse(&argp, argc, argv, 0, &printing) == 0) {
        const char *text = printing.text.n > 0 ? printing.text.data : printing.conformance ? table->conformance : table->text;
        code = dt_command_finish(printing.text.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : dt_command_print_text(text));
    }
    dt_text_free(&printing.text);
    dtc_operations_free(table);
    return code;
}
