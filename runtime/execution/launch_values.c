/* launch_values: see launch_values.h. */
#include "runtime/execution/launch_values.h"

#include "base/memory.h"
#include "runtime/execution/ranges.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_INTEGER ((double)(INT64_C(1) << 53)) /* a double holds all whole numbers up to it */

static bool is_launch(const dt_artifact_variable *variable) { return variable->kind == DT_VARIABLE_LAUNCH; }

/* ---- names ---- */

static dt_status *refuse_name(const dt_artifact *artifact, const char *text, size_t n_characters) {
    dt_text there = {0}, whole = {0};
    dt_text_append_bytes(&whole, text, n_characters);
    const char *name = whole.data != NULL ? whole.data : "";
    const char **names = dt_allocate_zeroed((size_t)artifact->n_variables + 1, sizeof *names);
    size_t n = 0;
    char buffer[32];
    for (int v = 0; v < artifact->n_variables && names != NULL; v++) {
        const dt_artifact_variable *variable = &artifact->variables[v];
        if (!is_launch(variable)) continue;
        dt_text_format(&there, "%s%s (%s)", n > 0 ? ", " : "", variable->path, dt_launch_print(variable, variable->launch_default, buffer));
        names[n++] = variable->path;
    }
    const char *nearest = names != NULL ? dt_text_nearest(name, names, n) : NULL;
    dt_status *status =
        n == 0 ? dt_error(DT_NOT_FOUND, "the program has no launch value %s, and no other: it declares one with `launch %s = ...`", name, name)
               : dt_error(DT_NOT_FOUND, "the program has no launch value %s%s%s%s; there are: %s", name, nearest != NULL ? "; did you mean " : "",
                          nearest != NULL ? nearest : "", nearest != NULL ? "?" : "", there.data != NULL ? there.data : "");
    dt_release(names);
    dt_text_free(&there);
    dt_text_free(&whole);
    return status;
}

/* ---- values ---- */

dt_status *dt_launch_check(const dt_artifact_variable *variable, double value) {
    if (!is_launch(variable)) return dt_error(DT_INVALID_ARGUMENT, "%s is no launch value", variable->path);
    switch (variable->tensor.dtype) {
    case DT_F32:
        if (isfinite((float)value)) return NULL;
        return dt_status_about(dt_error(DT_INVALID_ARGUMENT, "launch value %s cannot be %g: it is a finite number", variable->path, value),
                               variable->path);
    case DT_I64:
        if (value == trunc(value) && fabs(value) <= MOST_INTEGER) return NULL;
        return dt_status_about(
            dt_error(DT_INVALID_ARGUMENT, "launch value %s cannot be %g: it is a whole number, of 2^53 at most", variable->path, value),
            variable->path);
    default:
        if (value == 0 || value == 1) return NULL;
        return dt_status_about(dt_error(DT_INVALID_ARGUMENT, "launch value %s cannot be %g: it is true or false", variable->path, value),
                               variable->path);
    }
}

const char *dt_launch_print(const dt_artifact_variable *variable, double value, char buffer[32]) {
    if (variable->tensor.dtype == DT_F32) return dt_text_from_f32((float)value, buffer);
    if (variable->tensor.dtype == DT_BOOL) return value != 0 ? "true" : "false";
    snprintf(buffer, 32, "%" PRId64, (int64_t)value);
    return buffer;
}

/* Of a text of `n` characters, after which comes no digit. */
static dt_status *parse_value(const dt_artifact_variable *variable, const char *text, size_t n, double *value) {
    bool is_bool = variable->tensor.dtype == DT_BOOL;
    char *end;
    *value = is_bool ? n == 4 && strncmp(text, "true", n) == 0 : strtod(text, &end);
    bool is_value = is_bool ? *value == 1 || (n == 5 && strncmp(text, "false", n) == 0) : end == text + n;
    if (is_value) return dt_launch_check(variable, *value);
    return dt_status_about(dt_error(DT_INVALID_ARGUMENT, "launch value %s cannot be \"%.*s\": it is %s", variable->path, (int)n, text,
                                    is_bool                            ? "true or false"
                                    : variable->tensor.dtype == DT_I64 ? "a whole number"
                                                                       : "a number"),
                           variable->path);
}

/* The variable whose name are the `n` characters, or -1. */
static int find(const dt_artifact *artifact, const char *name, size_t n) {
    for (int v = 0; v < artifact->n_variables; v++) {
        const dt_artifact_variable *variable = &artifact->variables[v];
        if (is_launch(variable) && strlen(variable->path) == n && strncmp(variable->path, name, n) == 0) return v;
    }
    return -1;
}

/* "rate=0.0003", of `n` characters. What is right takes no memory. */
static dt_status *parse(const dt_artifact *artifact, const char *text, size_t n, int *variable, double *value) {
    const char *equals = memchr(text, '=', n);
    size_t n_name = equals != NULL ? (size_t)(equals - text) : n, n_value = equals != NULL ? n - n_name - 1 : 0;
    *variable = find(artifact, text, n_name);
    if (*variable < 0) return refuse_name(artifact, text, n_name);
    const char *name = artifact->variables[*variable].path;
    if (n_value == 0) return dt_error(DT_INVALID_ARGUMENT, "launch value %s is given no value: write %s=VALUE", name, name);
    return parse_value(&artifact->variables[*variable], equals + 1, n_value, value);
}

dt_status *dt_launch_find(const dt_artifact *artifact, const char *name, int *variable) {
    *variable = find(artifact, name, strlen(name));
    return *variable >= 0 ? NULL : refuse_name(artifact, name, strlen(name));
}

dt_status *dt_launch_parse(const dt_artifact *artifact, const char *text, int *variable, double *value) {
    return parse(artifact, text, strlen(text), variable, value);
}

/* ---- memory ---- */

typedef union cell {
    float f32;
    int64_t i64;
    bool b;
} cell;

static double value_of(const dt_artifact_variable *variable, const cell *cell) {
    return variable->tensor.dtype == DT_F32 ? (double)cell->f32 : variable->tensor.dtype == DT_I64 ? (double)cell->i64 : cell->b;
}

dt_status *dt_session_set_launch(dt_session *session, int v, double value) {
    const dt_artifact_variable *variable = &dt_session_artifact(session)->variables[v];
    cell cell = {0};
    DT_TRY(dt_launch_check(variable, value));
    switch (variable->tensor.dtype) {
    case DT_F32: cell.f32 = (float)value; break;
    case DT_I64: cell.i64 = (int64_t)value; break;
    default: cell.b = value != 0; break;
    }
    return dt_ranges_write(session, v, dt_ranges_own(session, v), &cell);
}

dt_status *dt_session_get_launch(dt_session *session, int v, double *value) {
    const dt_artifact_variable *variable = &dt_session_artifact(session)->variables[v];
    cell cell = {0};
    if (!is_launch(variable)) return dt_error(DT_INVALID_ARGUMENT, "%s is no launch value", variable->path);
    DT_TRY(dt_ranges_read(session, 0, v, dt_ranges_own(session, v), &cell));
    *value = value_of(variable, &cell);
    return NULL;
}

dt_status *dt_session_print_launch(dt_session *session, dt_text *lines) {
    const dt_artifact *artifact = dt_session_artifact(session);
    char buffer[32];
    double value;
    dt_text_append(lines, "");
    for (int v = 0; v < artifact->n_variables; v++) {
        if (!is_launch(&artifact->variables[v])) continue;
        DT_TRY(dt_session_get_launch(session, v, &value));
        dt_text_format(lines, "%s=%s\n", artifact->variables[v].path, dt_launch_print(&artifact->variables[v], value, buffer));
    }
    return lines->failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
}

/* Each line that the program knows: set, or only looked at. */
static dt_status *read_lines(dt_session *session, const char *lines, const char *path, bool sets) {
    for (const char *at = lines; at != NULL && *at != 0; at += strspn(at, "\n")) {
        size_t n = strcspn(at, "\n");
        int variable;
        double value;
        dt_status *status = parse(dt_session_artifact(session), at, n, &variable, &value);
        bool is_unknown = status != NULL && dt_status_code(status) == DT_NOT_FOUND;
        dt_status *refused = status == NULL || is_unknown ? NULL : dt_error_in(DT_DATA_LOSS, path, 0, "%s", dt_status_message(status));
        dt_status_free(status);
        DT_TRY(refused);
        if (!is_unknown && sets) DT_TRY(dt_session_set_launch(session, variable, value));
        at += n;
    }
    return NULL;
}

dt_status *dt_session_restore_launch(dt_session *session, const char *lines, const char *path) {
    DT_TRY(read_lines(session, lines, path, false));
    return read_lines(session, lines, path, true);
}
