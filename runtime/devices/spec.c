/* spec: see spec.h. */
#include "runtime/devices/spec.h"

#include "base/text.h"

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

dt_status *dt_device_spec_parse(const char *text, dt_device_spec *spec) {
    size_t n_name = strcspn(text, ":");
    *spec = (dt_device_spec){.n = 1};
    for (int i = 0; dt_device_kinds[i] != NULL; i++)
        if (strlen(dt_device_kinds[i]->name) == n_name && strncmp(dt_device_kinds[i]->name, text, n_name) == 0) spec->kind = dt_device_kinds[i];
    if (spec->kind == NULL) return unknown_kind(text, n_name < 40 ? (int)n_name : 40);
    if (text[n_name] == '\0') return NULL;
    const char *number = text + n_name + 1;
    size_t n_digits = strspn(number, "0123456789");
    if (n_digits != 0 && number[n_digits] == 'x')
        return dt_error(DT_INVALID_ARGUMENT, "--devices %s: a %s device is one core so far; write %s:%.*s", text, spec->kind->name, spec->kind->name,
                        (int)n_digits, number);
    if (n_digits == 0 || number[n_digits] != '\0')
        return dt_error(DT_INVALID_ARGUMENT, "--devices %s: after \"%s:\" comes the number of devices, as in %s:2", text, spec->kind->name,
                        spec->kind->name);
    long n = n_digits < 10 ? strtol(number, NULL, 10) : MOST_DEVICES + 1;
    if (n < 1 || n > MOST_DEVICES) return dt_error(DT_INVALID_ARGUMENT, "--devices %s: the number of devices is 1 to %d", text, MOST_DEVICES);
    spec->n = (int)n;
    return NULL;
}
