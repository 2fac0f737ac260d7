/* json_text: see json_text.h. */
#include "runtime/json_text.h"

#include <math.h>

void dt_text_append_json_string(dt_text *text, const char *string) {
    dt_text_append(text, "\"");
    for (const char *c = string; *c != 0; c++) {
        if (*c == '"' || *c == '\\')
            dt_text_format(text, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            dt_text_format(text, "\\u%04x", (unsigned char)*c);
        else
            dt_text_append_bytes(text, c, 1);
    }
    dt_text_append(text, "\"");
}

void dt_text_append_json_number(dt_text *text, double value) {
    char buffer[32];
    if (!isfinite(value)) {
        dt_text_append(text, "null");
        return;
    }
    dt_text_append(text, dt_text_from_f64(value, buffer));
}
