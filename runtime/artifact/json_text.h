/* json_text: the pieces of JSON that are written, appended to a text. */
#ifndef DT_RUNTIME_ARTIFACT_JSON_TEXT_H
#define DT_RUNTIME_ARTIFACT_JSON_TEXT_H

#include "base/text.h"

/* `string` in quotes, escaped. */
void dt_text_append_json_string(dt_text *text, const char *string);

/* The shortest number that reads back as `value`; null for what JSON cannot say (infinite, not a number). */
void dt_text_append_json_number(dt_text *text, double value);

#endif
