/* log_lines: an event as a line, for people or for programs. */
#ifndef DT_RUNTIME_LOG_LINES_H
#define DT_RUNTIME_LOG_LINES_H

#include "base/text.h"
#include "runtime/log.h"

/* Appends the event's line for people, without its end; nothing for details. */
void dt_log_append_line(const dt_log_event *event, dt_text *line);
/* The live line: of the epoch so far. */
void dt_log_append_progress(const dt_log_epoch *so_far, const dt_log_values *values, dt_text *line);

/* Appends the members of the event's JSON object, without the braces: "event":"step","number":100,"loss":0.25. Nothing for weights. A picture
 * is its PNG file in base64. */
void dt_log_append_members(const dt_log_event *event, dt_text *line);

#endif
