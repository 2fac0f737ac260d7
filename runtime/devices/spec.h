/* spec: what --devices says: a kind, how many, and of how many cores each.
 *
 *   cpu        one device with all cores
 *   cpu:D      D devices that share the cores evenly; each has at least one
 *   cpu:DxT    D devices with T cores each, be there so many or not
 *   cuda:N     the GPU of that number, from 0; cuda is cuda:0
 *   null:1     where devices are not made of cores */
#ifndef DT_RUNTIME_DEVICES_SPEC_H
#define DT_RUNTIME_DEVICES_SPEC_H

#include "runtime/devices/device.h"

typedef struct dt_device_spec {
    const dt_device_kind *kind;
    int n;       /* >= 1 */
    int first;   /* number of the first of them: 0, or a GPU's */
    int n_cores; /* of each, >= 1 */
} dt_device_spec;

/* DT_INVALID_ARGUMENT, with what may be written instead. */
dt_status *dt_device_spec_parse(const char *text, dt_device_spec *spec);

#endif
