/* diagnostics: see diagnostics.h. */
#include "frontends/dsl/diagnostics.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ERRORS = 20
};

typedef struct source {
    const char *name, *text;
} source;

struct dt_diagnostics {
    dt_arena *arena;
    DT_LIST(source) files;
    DT_LIST(dt_diagnostic *) kept;
    DT_LIST(dt_allowed) allowed;
    size_t n_errors, n_warnings;
    dt_diagnostic swallowed; /* what a caller gets that may not add another: its remarks go nowhere */
};

dt_diagnostics *dt_diagnostics_create(dt_arena *arena) {
    dt_diagnostics *diagnostics = DT_NEW(arena, dt_diagnostics);
    diagnostics->arena = arena;
    return diagnostics;
}

int dt_diagnostics_add_file(dt_diagnostics *diagnostics, const char *name, const char *text) {
    source file = {name, text};
    dt_list_push(diagnostics->arena, &diagnostics->files, file);
    return (int)diagnostics->files.n - 1;
}

const char *dt_diagnostics_file_name(const dt_diagnostics *diagnostics, int file) { return diagnostics->files.items[file].name; }

/* The text, in which U+FFFD stands for each byte that is of no character: programs may quote anything. */
static const char *as_utf8(dt_arena *arena, const char *text) {
    dt_text made = {.arena = arena};
    for (size_t n; *text != '\0'; text += n > 0 ? n : 1) {
        n = dt_text_character_bytes(text);
        dt_text_append_bytes(&made, n > 0 ? text : "\xef\xbf\xbd", n > 0 ? n : 3);
    }
    return made.data != NULL ? made.data : "";
}

const char *dt_diagnostics_line(const dt_diagnostics *diagnostics, int file, int line) {
    const char *at = diagnostics->files.items[file].text;
    for (int i = 1; i < line && *at != '\0'; at++)
        if (*at == '\n') i++;
    return dt_arena_substring(diagnostics->arena, at, strcspn(at, "\r\n"));
}

static bool same_place(dt_span a, dt_span b) { return a.file == b.file && a.line == b.line && a.column == b.column; }

/* NULL: it repeats what was said of that place, or is one too many. */
static dt_diagnostic *keep(dt_diagnostics *diagnostics, dt_diagnostic found) {
    bool is_error = found.severity == DT_SEVERITY_ERROR;
    for (size_t i = 0; i < diagnostics->kept.n; i++) {
        const dt_diagnostic *other = diagnostics->kept.items[i];
        bool same = found.span.line > 0 ? same_place(other->span, found.span) : strcmp(other->message, found.message) == 0;
        if (same && other->severity == found.severity && other->warning == found.warning) return NULL;
    }
    if (is_error ? dt_diagnostics_full(diagnostics) : diagnostics->n_warnings >= MOST_ERRORS) return NULL;
    found.diagnostics = diagnostics;
    found.ordinal = diagnostics->kept.n;
    dt_diagnostic *diagnostic = dt_arena_copy(diagnostics->arena, &found, sizeof found);
    dt_list_push(diagnostics->arena, &diagnostics->kept, diagnostic);
    if (is_error)
        diagnostics->n_errors++;
    else
        diagnostics->n_warnings++;
    return diagnostic;
}

dt_diagnostic *dt_diagnostics_swallowed(dt_diagnostics *diagnostics) { return &diagnostics->swallowed; }

dt_diagnostic *dt_diagnostics_vadd(dt_diagnostics *diagnostics, dt_span span, const char *format, va_list arguments) {
    const char *message = as_utf8(diagnostics->arena, dt_arena_vformat(diagnostics->arena, format, arguments));
    dt_diagnostic *kept = keep(diagnostics, (dt_diagnostic){.severity = DT_SEVERITY_ERROR, .span = span, .message = message});
    return kept != NULL ? kept : &diagnostics->swallowed;
}

dt_diagnostic *dt_diagnostics_add(dt_diagnostics *diagnostics, dt_span span, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dt_diagnostic *diagnostic = dt_diagnostics_vadd(diagnostics, span, format, arguments);
    va_end(arguments);
    return diagnostic;
}

/* ---- warnings, and where they are not wanted ---- */

dt_diagnostic *dt_diagnostics_vwarn(dt_diagnostics *diagnostics, dt_warning_kind warning, dt_span span, const char *format, va_list arguments) {
    bool is_allowed = false;
    for (size_t i = 0; i < diagnostics->allowed.n; i++) {
        dt_allowed *allowed = &diagnostics->allowed.items[i];
        if (allowed->warning != warning || allowed->span.file != span.file || allowed->line != span.line) continue;
        is_allowed = allowed->silences = true;
    }
    if (is_allowed) return &diagnostics->swallowed;
    const char *message = as_utf8(diagnostics->arena, dt_arena_vformat(diagnostics->arena, format, arguments));
    dt_diagnostic *kept = keep(diagnostics, (dt_diagnostic){.severity = DT_SEVERITY_WARNING, .warning = warning, .span = span, .message = message});
    return kept != NULL ? kept : &diagnostics->swallowed;
}

dt_diagnostic *dt_diagnostics_warn(dt_diagnostics *diagnostics, dt_warning_kind warning, dt_span span, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dt_diagnostic *diagnostic = dt_diagnostics_vwarn(diagnostics, warning, span, format, arguments);
    va_end(arguments);
    return diagnostic;
}

static void allow(dt_diagnostics *diagnostics, dt_span span, const char *name, int line) {
    dt_allowed allowed = {.warning = dt_warning_find(name), .span = span, .line = line};
    if (allowed.warning != DT_N_WARNINGS) {
        dt_list_push(diagnostics->arena, &diagnostics->allowed, allowed);
        return;
    }
    const char *names[DT_N_WARNINGS];
    for (int k = 0; k < DT_N_WARNINGS; k++) names[k] = dt_warning_name((dt_warning_kind)k);
    dt_diagnostic *unknown = dt_diagnostics_warn(diagnostics, DT_WARN_UNKNOWN_ALLOW, span, "there is no warning %s", name);
    dt_diagnostic_suggest(unknown, name, names, DT_N_WARNINGS);
}

void dt_diagnostics_allow(dt_diagnostics *diagnostics, dt_span comment, int line) {
    static const char between[] = " \t\r,";
    const char *whole = dt_diagnostics_line(diagnostics, comment.file, comment.line), *text = whole + comment.column - 1;
    for (const char *at = strchr(text, ':') + 1; *(at += strspn(at, between)) != '\0';) {
        size_t n = strcspn(at, between);
        dt_span span = {comment.file, comment.line, comment.column + (int)(at - text), (int)n};
        allow(diagnostics, span, dt_arena_substring(diagnostics->arena, at, n), line);
        at += n;
    }
}

dt_allowed *dt_diagnostics_allowed(const dt_diagnostics *diagnostics, size_t *n) {
    *n = diagnostics->allowed.n;
    return diagnostics->allowed.items;
}

static void add_remark(dt_diagnostic *diagnostic, bool is_help, const char *format, va_list arguments) {
    if (diagnostic->diagnostics == NULL) return;
    dt_arena *arena = diagnostic->diagnostics->arena;
    dt_remark added = {is_help, as_utf8(arena, dt_arena_vformat(arena, format, arguments))};
    dt_list_push(arena, &diagnostic->remarks, added);
}

void dt_diagnostic_note(dt_diagnostic *diagnostic, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_remark(diagnostic, false, format, arguments);
    va_end(arguments);
}

void dt_diagnostic_help(dt_diagnostic *diagnostic, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_remark(diagnostic, true, format, arguments);
    va_end(arguments);
}

void dt_diagnostic_suggest(dt_diagnostic *diagnostic, const char *name, const char *const *names, size_t n_names) {
    const char *nearest = dt_text_nearest(name, names, n_names);
    if (nearest != NULL) dt_diagnostic_help(diagnostic, "did you mean %s?", nearest);
}

size_t dt_diagnostics_n_errors(const dt_diagnostics *diagnostics) { return diagnostics->n_errors; }
size_t dt_diagnostics_n_warnings(const dt_diagnostics *diagnostics) { return diagnostics->n_warnings; }
bool dt_diagnostics_has_error(const dt_diagnostics *diagnostics, int file, int line) {
    for (size_t i = 0; i < diagnostics->kept.n; i++) {
        const dt_diagnostic *d = diagnostics->kept.items[i];
        if (d->severity == DT_SEVERITY_ERROR && d->span.file == file && d->span.line == line) return true;
    }
    return false;
}
bool dt_diagnostics_full(const dt_diagnostics *diagnostics) { return diagnostics->n_errors >= MOST_ERRORS; }

static int by_place(const void *a, const void *b) {
    const dt_diagnostic *x = *(dt_diagnostic *const *)a, *y = *(dt_diagnostic *const *)b;
    if (x->span.file != y->span.file) return x->span.file < y->span.file ? -1 : 1;
    if (x->span.line != y->span.line) return x->span.line < y->span.line ? -1 : 1;
    return x->ordinal < y->ordinal ? -1 : x->ordinal > y->ordinal;
}

/* The line and carets below the span. A tab stays a tab, a character of several bytes is one column wide. */
static void print_source_line(dt_text *text, const dt_diagnostics *diagnostics, dt_span span) {
    const char *line = dt_diagnostics_line(diagnostics, span.file, span.line);
    dt_text_format(text, "%5d | %s\n      | ", span.line, as_utf8(diagnostics->arena, line));
    int n_line = (int)strlen(line);
    for (int i = 0; i < span.column - 1 && i < n_line; i++)
        if (((unsigned char)line[i] & 0xc0) != 0x80) dt_text_append(text, line[i] == '\t' ? "\t" : " ");
    int n_carets = 0;
    for (int i = span.column - 1; i < span.column - 1 + span.length && i < n_line; i++) n_carets += ((unsigned char)line[i] & 0xc0) != 0x80;
    for (int i = 0; i < (n_carets > 0 ? n_carets : 1); i++) dt_text_append(text, "^");
    dt_text_append(text, "\n");
}

void dt_diagnostics_print_one(dt_text *text, const dt_diagnostic *diagnostic) {
    const dt_diagnostics *diagnostics = diagnostic->diagnostics;
    bool is_error = diagnostic->severity == DT_SEVERITY_ERROR;
    dt_span span = diagnostic->span;
    if (span.line > 0) dt_text_format(text, "%s:%d:%d: ", dt_diagnostics_file_name(diagnostics, span.file), span.line, span.column);
    dt_text_format(text, "%s: %s", is_error ? "error" : "warning", diagnostic->message);
    if (!is_error) dt_text_format(text, " [%s]", dt_warning_name(diagnostic->warning));
    dt_text_append(text, "\n");
    if (span.line > 0 && diagnostics->files.items[span.file].text != NULL) print_source_line(text, diagnostics, span);
    for (size_t i = 0; i < diagnostic->remarks.n; i++)
        dt_text_format(text, "   %s: %s\n", diagnostic->remarks.items[i].is_help ? "help" : "note", diagnostic->remarks.items[i].text);
}

dt_diagnostic *const *dt_diagnostics_sorted(const dt_diagnostics *diagnostics, size_t *n) {
    *n = diagnostics->kept.n;
    dt_diagnostic **sorted = dt_arena_copy(diagnostics->arena, diagnostics->kept.items, *n * sizeof *sorted);
    if (*n > 0) qsort(sorted, *n, sizeof *sorted, by_place);
    return sorted;
}

void dt_diagnostics_print(dt_text *text, const dt_diagnostics *diagnostics) {
    size_t n;
    dt_diagnostic *const *sorted = dt_diagnostics_sorted(diagnostics, &n);
    for (size_t i = 0; i < n; i++) dt_diagnostics_print_one(text, sorted[i]);
    if (dt_diagnostics_full(diagnostics)) dt_text_format(text, "error: %zu errors shown, the rest is left out\n", diagnostics->n_errors);
}
