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

/* What comes behind the colon of GPUs: their numbers, with commas between. */
static dt_status *parse_gpus(const char *text, const char *numbers, dt_device_spec *spec) {
    const char *kind = spec->kind->name;
    spec->n = 0;
    for (const char *at = numbers;; at++) {
        size_t n_digits = strspn(at, "0123456789");
        if (n_digits == 0 && at != numbers && (*at == '\0' || *at == ','))
            return dt_error(DT_INVALID_ARGUMENT, "--devices %s: a number of a GPU is missing after a comma", text);
        if (n_digits == 0 || n_digits > 4 || (at[n_digits] != '\0' && at[n_digits] != ','))
            return dt_error(DT_INVALID_ARGUMENT,
                            "--devices %s: after \"%s:\" come the numbers of GPUs, as in %s:0 or %s:0,3; %s alone is all of them", text, kind, kind,
                            kind, kind);
        int number = (int)strtol(at, NULL, 10);
        for (int i = 0; i < spec->n; i++)
            if (spec->numbers[i] == number) return dt_error(DT_INVALID_ARGUMENT, "--devices %s: GPU %d is named twice", text, number);
        if (spec->n == DT_MOST_GPUS) return dt_error(DT_INVALID_ARGUMENT, "--devices %s: more than %d GPUs", text, DT_MOST_GPUS);
        spec->numbers[spec->n++] = number;
        at += n_digits;
        if (*at == '\0') return NULL;
    }
}

dt_status *dt_device_spec_parse(const char *text, dt_device_spec *spec) {
    size_t n_name = strcspn(text, ":");
    *spec = (dt_device_spec){.n = 1, .n_cores = 1};
    for (int i = 0; dt_device_kinds[i] != NULL; i++)
        if (strlen(dt_device_kinds[i]->name) == n_name && strncmp(dt_device_kinds[i]->name, text, n_name) == 0) spec->kind = dt_device_kinds[i];
    if (spec->kind == NULL) return unknown_kind(text, n_name < 40 ? (int)n_name : 40);
    if (spec->kind->is_gpu && text[n_name] == '\0') return spec->n = 0, NULL;
    if (spec->kind->is_gpu) return parse_gpus(text, text + n_name + 1, spec);
    return parse_numbers(text, text[n_name] == '\0' ? "1" : text + n_name + 1, spec);
}

dt_status *dt_device_spec_choose_gpus(dt_device_spec *spec, int n_present, int n_wanted) {
    const char *kind = spec->kind->name;
    if (n_present == 0)
        return dt_error(DT_NOT_FOUND, "%s:%d: NVIDIA's driver finds no GPU on this machine; --devices cpu runs without", kind, spec->numbers[0]);
    for (int d = 0; d < spec->n; d++)
        if (spec->numbers[d] >= n_present)
            return dt_error(DT_NOT_FOUND, "%s:%d: this machine has %d GPU%s, counted from 0; `dtrun devices` lists what there is", kind,
                            spec->numbers[d], n_present, dt_plural(n_present));
    if (spec->n > 0) return NULL;
    while (spec->n < n_present && spec->n < n_wanted && spec->n < DT_MOST_GPUS) {
        spec->numbers[spec->n] = spec->n;
        spec->n++;
    }
    return NULL;
}

void dt_device_spec_choose_gpu_of(dt_device_spec *spec, int n_present, int process_of_host) {
    if (spec->n > 0 || n_present == 0) return;
    spec->numbers[spec->n++] = process_of_host % n_present;
}

int dt_device_spec_number(const dt_device_spec *spec, int d) { return spec->kind->is_gpu ? spec->numbers[d] : d; }
