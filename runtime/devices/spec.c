/* spec: see spec.h. */
#include "runtime/devices/spec.h"

#include "base/text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_DEVICES = 1024
};

static dt_status *unknown_kind(const char *text, int n_name) {
    dt_text known = {0};
    for (int i = 0; dt_device_kinds[i] != NULL; i++) dt_text_format(&known, "%s%s", i == 0 ? "" : ", ", dt_device_kinds[i]->name);
    dt_status *status = dt_error(DT_INVALID_ARGUMENT, "--devices %s: this dtrun has no devices called \"%.*s\"; it has %s (cpu:2 is two of them)",
                                 text, n_name, text, known.data != NULL ? known.data : "cpu");
    dt_text_free(&known);
    return status;
}

/* The number that *text begins with, 1 to MOST_DEVICES; 0 when it is none of these. Moves *text behind it. */
static int read_number(const char **text) {
    size_t n_digits = strspn(*text, "0123456789");
    long number = n_digits > 0 && n_digits < 10 ? strtol(*text, NULL, 10) : 0;
    *text += n_digits;
    return number <= MOST_DEVICES ? (int)number : 0;
}

/* What comes behind the colon: D or DxT. */
static dt_status *parse_numbers(const char *text, const char *numbers, dt_device_spec *spec) {
    const char *kind = spec->kind->name;
    bool has_cores = false;
    spec->n = read_number(&numbers);
    if (spec->n > 0 && *numbers == 'x') {
        has_cores = true;
        numbers++;
        if (spec->kind->n_cores == NULL)
            return dt_error(DT_INVALID_ARGUMENT, "--devices %s: a %s device is not made of cores; write %s:%d", text, kind, kind, spec->n);
        spec->n_cores = read_number(&numbers);
    }
    if (*numbers == '\0' && spec->n > 0 && spec->n_cores > 0) {
        if (!has_cores && spec->kind->n_cores != NULL) spec->n_cores = spec->kind->n_cores() / spec->n;
        if (spec->n_cores < 1) spec->n_cores = 1;
        return NULL;
    }
    return dt_error(DT_INVALID_ARGUMENT, "--devices %s: after \"%s:\" comes the number of devices, 1 to %d, as in %s:2%s", text, kind, MOST_DEVICES,
                    kind, spec->kind->n_cores != NULL ? ", or that and the cores of each, as in cpu:2x4" : "");
}

/* What comes behind the colon of a GPU: its number. */
static dt_status *parse_gpu(const char *text, const char *number, dt_device_spec *spec) {
    size_t n_digits = strspn(number, "0123456789");
    const char *kind = spec->kind->name, *rest = number + n_digits;
    spec->first = n_digits > 0 && n_digits < 5 ? (int)strtol(number, NULL, 10) : 0;
    if (n_digits > 0 && n_digits < 5 && *rest == '\0') return NULL;
    if (n_digits > 0 && (*rest == ',' || *rest == '-'))
        return dt_error(DT_INVALID_ARGUMENT, "--devices %s: a run takes one GPU; all replicas of --replicas run on it. Name one, as in %s:%d", text,
                        kind, spec->first);
    return dt_error(DT_INVALID_ARGUMENT, "--devices %s: after \"%s:\" comes the number of a GPU, as in %s:0", text, kind, kind);
}

dt_status *dt_device_spec_parse(const char *text, dt_device_spec *spec) {
    size_t n_name = strcspn(text, ":");
    *spec = (dt_device_spec){.n = 1, .n_cores = 1};
    for (int i = 0; dt_device_kinds[i] != NULL; i++)
        if (strlen(dt_device_kinds[i]->name) == n_name && strncmp(dt_device_kinds[i]->name, text, n_name) == 0) spec->kind = dt_device_kinds[i];
    if (spec->kind == NULL) return unknown_kind(text, n_name < 40 ? (int)n_name : 40);
    if (spec->kind->is_gpu) return parse_gpu(text, text[n_name] == '\0' ? "0" : text + n_name + 1, spec);
    return parse_numbers(text, text[n_name] == '\0' ? "1" : text + n_name + 1, spec);
}
