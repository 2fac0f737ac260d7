/* html: see html.h. */
#include "runtime/report/html.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

void dt_html_text(dt_text *page, const char *string) {
    for (const char *c = string; *c != 0;) {
        size_t n = dt_text_character_bytes(c);
        bool is_control = (unsigned char)*c < 0x20 && *c != '\n' && *c != '\t';
        switch (*c) {
        case '&': dt_text_append(page, "&amp;"); break;
        case '<': dt_text_append(page, "&lt;"); break;
        case '>': dt_text_append(page, "&gt;"); break;
        case '"': dt_text_append(page, "&quot;"); break;
        case '\'': dt_text_append(page, "&#39;"); break;
        default:
            if (n == 0 || is_control)
                dt_text_append(page, REPLACEMENT);
            else
                dt_text_append_bytes(page, c, n);
        }
        c += n != 0 ? n : 1;
    }
}

/* Rounded, with the letter of its thousands. */
static void append_scaled(dt_text *page, double value, double thousand, const char *const *units, int n_units) {
    int unit = 0;
    while (fabs(value) >= 999.5 && unit + 1 < n_units) {
        value /= thousand;
        unit++;
    }
    double size = fabs(value);
    dt_text_format(page, "%.*f\u00a0%s", unit == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, value, units[unit]);
}

void dt_html_number(dt_text *page, double value) {
    char commas[32];
    double size = fabs(value);
    if (size == floor(size) && size < 1e15)
        dt_text_append(page, dt_text_with_commas((int64_t)value, commas));
    else if (size >= 1000 && size < 1e15)
        dt_text_append(page, dt_text_with_commas(llround(value), commas));
    else if (size >= 1e-3 && size < 1000)
        dt_text_format(page, "%.*f", size < 1 ? 4 : size < 10 ? 3 : size < 100 ? 2 : 1, value);
    else
        dt_text_format(page, "%.3g", value);
}

void dt_html_bytes(dt_text *page, double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    append_scaled(page, bytes, 1024, units, 5);
}

void dt_html_duration(dt_text *page, double seconds) {
    int64_t s = seconds < 1e12 ? llround(seconds) : 0;
    if (seconds < 0.995e-4)
        dt_text_format(page, "%.3g\u00a0µs", seconds * 1e6);
    else if (seconds < 0.0995)
        dt_text_format(page, "%.3g\u00a0ms", seconds * 1e3);
    else if (seconds < 60)
        dt_text_format(page, "%.3g\u00a0s", seconds);
    else if (s < 3600)
        dt_text_format(page, "%" PRId64 "\u00a0min %" PRId64 "\u00a0s", s / 60, s % 60);
    else
        dt_text_format(page, "%" PRId64 "\u00a0h %" PRId64 "\u00a0min", s / 3600, s / 60 % 60);
}
