/* spec: what --devices says: a kind, how many, and of how many cores each.
 *
 *   cpu        one device with all cores
 *   cpu:D      D devices that share the cores evenly; each has at least one
 *   cpu:DxT    D devices with T cores each, be there so many or not
 *   cuda       all GPUs that the driver shows, which CUDA_VISIBLE_DEVICES limits
 *   cuda:0,3   GPUs by their numbers, from 0, in this order
 *   null:1     where devices are not made of cores */
#ifndef DT_RUNTIME_DEVICES_SPEC_H
#define DT_RUNTIME_DEVICES_SPEC_H

#include "runtime/devices/device.h"

enum {
    DT_MOST_GPUS = DT_MOST_AHEAD /* of a process */
};

typedef struct dt_device_spec {
    const dt_device_kind *kind;
    int n;                     /* >= 1; 0: all GPUs, of which dt_device_spec_choose_gpus says how many */
    int n_cores;               /* of each, >= 1 */
    int numbers[DT_MOST_GPUS]; /* [n], of GPUs */
} dt_device_spec;

/* Needs no GPU and no driver. DT_INVALID_ARGUMENT, with what may be written instead. */
dt_status *dt_device_spec_parse(const char *text, dt_device_spec *spec);

/* Holds GPUs that were asked for against the `n_present` that there are. All GPUs become at most `n_wanted` >= 1, the first ones: how many were left
 * out is n_present - spec->n. DT_NOT_FOUND: there is none, or not the one that is named. */
dt_status *dt_device_spec_choose_gpus(dt_device_spec *spec, int n_present, int n_wanted);

/* Of all GPUs that of this process, one of several of this machine: the next one each, and from the first on again where there are too few. */
void dt_device_spec_choose_gpu_of(dt_device_spec *spec, int n_present, int process_of_host);

/* The number, after the colon of its name, of device `d` of n. */
int dt_device_spec_number(const dt_device_spec *spec, int d);

#endif
