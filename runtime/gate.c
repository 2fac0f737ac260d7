/* gate: see gate.h. */
#include "runtime/gate.h"

#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How long to look before sleeping: about what putting a thread to sleep and waking it costs. */
static const double LOOKING_SECONDS = 50e-6;

double dt_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int dt_n_cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static void relax(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

void dt_gate_advance(dt_gate *gate) {
    atomic_fetch_add(&gate->value, 1);
    /* Sequentially consistent with the sleeper's order: it counts itself, then lets the kernel compare the value. */
    if (atomic_load(&gate->n_sleeping) != 0) syscall(SYS_futex, &gate->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool look(dt_gate *gate, uint32_t seen) {
    enum {
        LOOKS_PER_CLOCK = 64
    };
    double end = dt_now() + LOOKING_SECONDS;
    do {
        for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
            if (atomic_load_explicit(&gate->value, memory_order_acquire) != seen) return true;
            relax();
        }
    } while (dt_now() < end);
    return false;
}

bool dt_gate_wait(dt_gate *gate, uint32_t seen, bool may_look, double deadline) {
    if (dt_gate_value(gate) != seen || (may_look && look(gate, seen))) return true;
    double left = deadline - dt_now();
    if (!(left > 0)) return false;
    struct timespec wait = {0};
    bool forever = left > 1e9;
    if (!forever) {
        wait.tv_sec = (time_t)left;
        wait.tv_nsec = (long)((left - floor(left)) * 1e9);
    }
    atomic_fetch_add(&gate->n_sleeping, 1);
    syscall(SYS_futex, &gate->value, FUTEX_WAIT_PRIVATE, seen, forever ? NULL : &wait, NULL, 0);
    atomic_fetch_sub(&gate->n_sleeping, 1);
    return dt_gate_value(gate) != seen || dt_now() < deadline;
}
