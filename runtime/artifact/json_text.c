/* json_text: see json_text.h. */
#include "runtime/artifact/json_text.h"

#include <math.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD, for what is no character */

/* Bytes of the character of UTF-8 that `c` begins with; 0: it begins with none. A path may be any bytes. */
static size_t character_bytes(const unsigned char *c) {
    size_t n = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90)) return 0; /* longer than it need be */
    if ((c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf4 && c[1] > 0x8f)) return 0; /* half of a pair; beyond the last */
    return n;
}

void dt_text_append_json_string(dt_text *text, const char *string) {
    dt_text_append(text, "\"");
    for (const char *c = string; *c != 0;) {
        size_t n = character_bytes((const unsigned char *)c);
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
