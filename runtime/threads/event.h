/* event: a counter that threads wait on: they look again and again for some microseconds, then sleep (futex).
 *
 * Everything in the runtime that waits inside a step waits here. Looking costs a core, so it is allowed only where each thread has its own:
 * with more threads than cores the one that is waited for may be waiting for this very core, and looking would cost a scheduler's tick. */
#ifndef DT_RUNTIME_THREADS_EVENT_H
#define DT_RUNTIME_THREADS_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct dt_event { /* starts as {0} */
    _Atomic uint32_t value;
    _Atomic uint32_t n_sleeping;
} dt_event;

static inline uint32_t dt_event_value(dt_event *event) { return atomic_load(&event->value); }

/* Adds one and wakes who waits. What was written before is seen by whoever sees the new value. */
void dt_event_advance(dt_event *event);

/* Waits until the value is another than `seen`; false when `deadline` (dt_seconds_now) comes first. May return true early: look again. */
bool dt_event_wait(dt_event *event, uint32_t seen, bool may_look, double deadline);

#endif
