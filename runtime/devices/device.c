/* device: see device.h. Here: waiting for devices that work ahead. */
#include "runtime/devices/device.h"

#include "runtime/threads/clock.h"

#include <sched.h>

/* What others may still take once one has failed: they may be waiting for it, and then never end. What a device gets beside its deadline that waits
 * for those of other processes: whoever is late there says so itself. */
static const double GRACE_SECONDS = 2;

/* Looks at each once; those that are done are taken out of `left`. */
static dt_status *look(dt_device **left, int *n_left, dt_device **which) {
    for (int i = 0; i < *n_left;) {
        bool done = false;
        *which = left[i];
        DT_TRY(left[i]->kind->query(left[i], &done));
        if (done)
            left[i] = left[--*n_left];
        else
            i++;
    }
    return NULL;
}

/* One that does not wait for others, or any; NULL: there is none. */
static dt_device *find_late(dt_device *const *devices, int n, bool any) {
    for (int i = 0; i < n; i++)
        if (any || devices[i]->kind->waits == NULL || !devices[i]->kind->waits(devices[i])) return devices[i];
    return NULL;
}

dt_status *dt_devices_synchronize(dt_device *const *devices, int n, dt_device **which) {
    dt_device *left[DT_MOST_AHEAD];
    double deadline = -1;
    dt_status *failure = NULL;
    int n_left = 0;
    for (int i = 0; i < n && n_left < DT_MOST_AHEAD; i++)
        if (devices[i]->kind->query != NULL) left[n_left++] = devices[i];
    while (n_left > 0) {
        dt_device *looked_at = NULL;
        dt_status *status = look(left, &n_left, &looked_at);
        double now = dt_seconds_now();
        if (deadline < 0) deadline = now + left[0]->deadline_seconds;
        dt_device *late = status == NULL && n_left > 0 && now > deadline ? find_late(left, n_left, now > deadline + GRACE_SECONDS) : NULL;
        if (late != NULL) {
            looked_at = late;
            status = looked_at->kind->give_up(looked_at);
        }
        if (status != NULL) {
            if (failure == NULL) *which = looked_at, deadline = now + GRACE_SECONDS;
            failure = dt_status_first(failure, status);
            for (int i = 0; i < n_left; i++)
                if (left[i] == looked_at) left[i] = left[--n_left];
        }
        sched_yield();
    }
    return failure;
}

dt_status *dt_device_synchronize(dt_device *device) {
    dt_device *which;
    return device->kind->query != NULL ? dt_devices_synchronize(&device, 1, &which) : NULL;
}
