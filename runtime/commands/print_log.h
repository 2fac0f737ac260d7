/* print_log: what a run says, printed: on a terminal one live line that ends as a plain one, in a file plain lines, with --log-format json one object
 * a line; notes and warnings to standard error (json: to both). It is a listener of the log. */
#ifndef DT_RUNTIME_COMMANDS_PRINT_LOG_H
#define DT_RUNTIME_COMMANDS_PRINT_LOG_H

#include "runtime/log.h"

#include <stdio.h>

typedef enum dt_log_format {
    DT_LOG_TEXT, /* live where the stream is a terminal */
    DT_LOG_JSON
} dt_log_format;

typedef struct dtrun_printer dtrun_printer;

/* Prints to `stream` what `log` says; both outlive it. may_be_live: a terminal may be taken for one; a launcher shows its processes a terminal where
 * there may be a file behind. What cannot be written is a failure of the log, and nothing is from then on. */
dt_status *dtrun_printer_create(FILE *stream, dt_log_format format, bool may_be_live, dt_log *log, dtrun_printer **printer);
void dtrun_printer_destroy(dtrun_printer *printer); /* NULL is allowed */

#endif
