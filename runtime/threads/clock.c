/* clock: see clock.h. */
#include "runtime/threads/clock.h"

#include "base/file.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double dt_seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double dt_seconds_since_1970(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Field 22 of /proc/self/stat is the start, in ticks since the machine began. */
double dt_seconds_since_exec(void) {
    char *text, *at;
    size_t n;
    struct timespec now;
    dt_status *status = dt_file_read("/proc/self/stat", &text, &n);
    if (status != NULL) {
        dt_status_free(status);
        return -1;
    }
    at = strrchr(text, ')'); /* after the name, which may hold anything */
    for (int field = 2; at != NULL && field < 22; field++) at = strchr(at + 1, ' ');
    double ticks = at != NULL ? strtod(at, NULL) : NAN;
    dt_release(text);
    clock_gettime(CLOCK_BOOTTIME, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - ticks / (double)sysconf(_SC_CLK_TCK);
    return isfinite(seconds) ? seconds : -1;
}
