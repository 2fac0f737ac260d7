/* html: the pieces of a page, appended to a text. What comes from files and programs goes through dt_html_text; nothing else escapes. */
#ifndef DT_RUNTIME_REPORT_HTML_H
#define DT_RUNTIME_REPORT_HTML_H

#include "base/text.h"

/* `string` as text of an element, or in an attribute's double quotes. What is no character of UTF-8, or none that XML takes, is U+FFFD. */
void dt_html_text(dt_text *page, const char *string);

/* A number for people: "0.3068", "1,234", "12.3 M". */
void dt_html_number(dt_text *page, double value);
/* "417 KiB" */
void dt_html_bytes(dt_text *page, double bytes);
/* "12.3 ms", "2 min 5 s" */
void dt_html_duration(dt_text *page, double seconds);

#endif
