/* json: a finding as one line of JSON, for editors and other programs. */
#include "compiler/api/api.h"

/* With its quotes. What is no UTF-8, as a path and what a program quotes may be, becomes U+FFFD. */
static void print_string(dt_text *text, const char *string) {
    dt_text_append(text, "\"");
    while (*string != '\0') {
        size_t n = dt_text_character_bytes(string);
        unsigned char c = (unsigned char)*string;
        if (n == 0)
            dt_text_append(text, "\\ufffd");
        else if (c < ' ' || c == 0x7f)
            dt_text_format(text, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            dt_text_format(text, "\\%c", c);
        else
            dt_text_append_bytes(text, string, n);
        string += n > 0 ? n : 1;
    }
    dt_text_append(text, "\"");
}

static void print_remarks(dt_text *text, const dtc_diagnostic *diagnostic, int is_help) {
    int n = 0;
    for (size_t i = 0; i < diagnostic->n_remarks; i++) {
        if (diagnostic->remarks[i].is_help != is_help) continue;
        dt_text_append(text, n++ > 0 ? ", " : "");
        print_string(text, diagnostic->remarks[i].text);
    }
}

void dt_api_print_json(dt_text *text, const dtc_diagnostic *diagnostic) {
    static const char *const severities[] = {[DTC_ERROR] = "error", [DTC_WARNING] = "warning", [DTC_REPORT] = "report"};
    bool has_name = diagnostic->name != NULL && *diagnostic->name != '\0';
    dt_text_format(text, "{\"severity\": \"%s\", \"name\": ", severities[diagnostic->severity]);
    if (has_name)
        print_string(text, diagnostic->name);
    else
        dt_text_append(text, "null");
    dt_text_append(text, ", \"file\": ");
    if (diagnostic->line > 0) {
        print_string(text, diagnostic->file);
        dt_text_format(text, ", \"line\": %d, \"column\": %d, \"end\": %d", diagnostic->line, diagnostic->column,
                       diagnostic->column + diagnostic->length);
    } else {
        dt_text_append(text, "null, \"line\": null, \"column\": null, \"end\": null");
    }
    dt_text_append(text, ", \"message\": ");
    print_string(text, diagnostic->severity == DTC_REPORT ? diagnostic->text : diagnostic->message);
    dt_text_append(text, ", \"notes\": [");
    print_remarks(text, diagnostic, 0);
    dt_text_append(text, "], \"hints\": [");
    print_remarks(text, diagnostic, 1);
    dt_text_append(text, "]}\n");
}

char *dtc_status_json(const dt_status *status) {
    dt_text text = {0};
    bool has_place = status->line > 0;
    dtc_diagnostic diagnostic = {.severity = DTC_ERROR,
                                 .file = has_place ? status->file : "",
                                 .line = status->line,
                                 .column = status->column > 0 ? status->column : 1,
                                 .message = status->message};
    dt_api_print_json(&text, &diagnostic);
    return dt_text_take(&text);
}
