/* json_text: see json_text.h. */
#include "runtime/artifact/json_text.h"

#include <math.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD, for what is no character */

void dt_text_append_json_string(dt_text *text, const char *string) {
    dt_text_append(text, "\"");
    for (const char *c = string; *c != 0;) {
        size_t n = dt_text_character_bytes(c);
        if (*c == '"' || *c == '\\')
            dt_text_format(text, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            dt_text_format(text, "\\u%04x", (unsigned char)*c);
        else if (n == 0)
            dt_text_append(text, REPLACEMENT);
        else
            dt_text_append_bytes(text, c, n);
        c += n != 0 ? n : 1;
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
