/* spec: what --devices says: a kind, and how many: "cpu", "cpu:2", "null:1". */
#ifndef DT_RUNTIME_DEVICES_SPEC_H
#define DT_RUNTIME_DEVICES_SPEC_H

#include "runtime/devices/device.h"

typedef struct dt_device_spec {
    const dt_device_kind *kind;
    int n; /* >= 1 */
} dt_device_spec;

/* DT_INVALID_ARGUMENT, with what may be written instead. */
dt_status *dt_device_spec_parse(const char *text, dt_device_spec *spec);

#endif
