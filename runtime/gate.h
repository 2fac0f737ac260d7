/* gate: a counter that threads wait on: they look again and again for some microseconds, then sleep (futex).
 *
 * Everything in the runtime that waits inside a step waits here. Looking costs a core, so it is allowed only where each thread has its own:
 * with more threads than cores the one that is waited for may be waiting for this very core, and looking would cost a scheduler's tick. */
#ifndef DT_RUNTIME_GATE_H
#define DT_RUNTIME_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct dt_gate { /* starts as {0} */
    _Atomic uint32_t value;
    _Atomic uint32_t n_sleeping;
} dt_gate;

static inline uint32_t dt_gate_value(dt_gate *gate) { return atomic_load(&gate->value); }

/* Adds one and wakes who waits. What was written before is seen by whoever sees the new value. */
void dt_gate_advance(dt_gate *gate);

/* Waits until the value is another than `seen`; false when `deadline` (dt_now) comes first. May return true early: look again. */
bool dt_gate_wait(dt_gate *gate, uint32_t seen, bool may_look, double deadline);

/* Seconds of a clock that only moves forward. */
double dt_now(void);

/* Cores that this process may use. */
int dt_n_cores(void);

#endif
