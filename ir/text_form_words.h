/* text_form_words: the words of the text form that stand for enumerators, for printer and parser alike. */
#ifndef DT_IR_TEXT_FORM_WORDS_H
#define DT_IR_TEXT_FORM_WORDS_H

#include "ir/graph.h"

static const char *const dt_function_kind_words[] = {
    [DT_FUNCTION_INIT] = "init", [DT_FUNCTION_STEP] = "step", [DT_FUNCTION_REPORT] = "report", [DT_FUNCTION_EXAMPLE] = "example"};
static const char *const dt_variable_kind_words[] = {
    [DT_VARIABLE_PARAMETER] = "parameter", [DT_VARIABLE_STATE] = "state", [DT_VARIABLE_SLOT] = "slot"};
static const char *const dt_aggregate_kind_words[] = {
    [DT_AGGREGATE_SUM] = "sum", [DT_AGGREGATE_MIN] = "min", [DT_AGGREGATE_MAX] = "max", [DT_AGGREGATE_LAST] = "last"};

static inline bool dt_location_equal(dt_location a, dt_location b) { return a.file == b.file && a.line == b.line && a.column == b.column; }

#endif
