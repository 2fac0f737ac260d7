/* rows: what the files of the pass share. rows.c finds out which tables steps take rows of and use in no other way, rows_forms.c makes the row forms,
 * rows_zero.c says what an update does to a row without a gradient. */
#ifndef DT_PASSES_ROWS_H
#define DT_PASSES_ROWS_H

#include "compiler/passes/passes.h"

/* What a step does with a table, where it does nothing else. Values are of the partitioned step. */
typedef struct dt_table_use {
    dt_function *function;
    const dt_variable *table;
    dt_value *gather;   /* takes the rows; its second operand says which. NULL: the step does not know the table */
    dt_value *scatter;  /* adds up their gradient, [rows, width]; NULL: the step does not change the table */
    dt_value *crossing; /* the all_reduce of what the step makes of that */
    dt_value *write;
    bool *by_row; /* [next_id] of the function: values of the table's shape that are computed row by row from the table, its slots and its gradient */
    DT_LIST(dt_value *) slots;       /* reads of them */
    DT_LIST(dt_value *) slot_writes; /* [slots.n] NULL: it is not written */
    DT_LIST(dt_value *) numbers;     /* without dimensions, that the update reads besides */
} dt_table_use;

/* Values that are a constant, a number that is the same everywhere, or computed of such. [next_id] */
bool *dt_rows_find_uniform(dt_arena *arena, const dt_function *function);

/* The row forms of a step for all tables of which it takes rows: uses [n], n > 0, of one function. */
dt_status *dt_rows_make_forms(dt_module *module, const dt_table_use *uses, int n);

/* Whether initial values of the table, or of a slot of one, can be given for some rows alone. */
bool dt_rows_can_begin(const dt_module *module, const char *variable);

/* The initialisers of the tables and slots that have row forms, and that of all the rest. */
dt_status *dt_rows_make_inits(dt_module *module);

/* What the update of a form does to a row without a gradient, as a part of a sentence; NULL: nothing, to the bit, as long as the numbers that it
 * reads are finite and not negative. */
dt_status *dt_rows_find_moves(dt_arena *arena, const dt_row_form *form, const char **moves);

#endif
