/* event: see event.h. */
#include "runtime/threads/event.h"

#include "runtime/threads/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How long to look before sleeping: about what putting a thread to sleep and waking it costs. */
static const double LOOKING_SECONDS = 50e-6;

static void relax(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

void dt_event_advance(dt_event *event) {
    atomic_fetch_add(&event->value, 1);
    /* Sequentially consistent with the sleeper's order: it counts itself, then lets the kernel compare the value. */
    if (atomic_load(&event->n_sleeping) != 0) syscall(SYS_futex, &event->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool look(dt_event *event, uint32_t seen) {
    enum {
        LOOKS_PER_CLOCK = 64
    };
    double end = dt_seconds_now() + LOOKING_SECONDS;
    do {
        for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
            if (atomic_load_explicit(&event->value, memory_order_acquire) != seen) return true;
            relax();
        }
    } while (dt_seconds_now() < end);
    return false;
}

bool dt_event_wait(dt_event *event, uint32_t seen, bool may_look, double deadline) {
    if (dt_event_value(event) != seen || (may_look && look(event, seen))) return true;
    double left = deadline - dt_seconds_now();
    if (!(left > 0)) return false;
    struct timespec wait = {0};
    bool forever = left > 1e9;
    if (!forever) {
        wait.tv_sec = (time_t)left;
        wait.tv_nsec = (long)((left - floor(left)) * 1e9);
    }
    atomic_fetch_add(&event->n_sleeping, 1);
    syscall(SYS_futex, &event->value, FUTEX_WAIT_PRIVATE, seen, forever ? NULL : &wait, NULL, 0);
    atomic_fetch_sub(&event->n_sleeping, 1);
    return dt_event_value(event) != seen || dt_seconds_now() < deadline;
}
