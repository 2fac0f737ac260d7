/* gate: where the members of a group come by, each once a run, and what begins when all have: exchanges with other processes, or nothing.
 *
 * It is open, for a member's nth time, once all have come n times. So a step needs no more than a count, and nobody waits for who is later. */
#ifndef DT_RUNTIME_COMM_GATE_H
#define DT_RUNTIME_COMM_GATE_H

#include "runtime/comm/processes.h"

typedef struct dt_gate {
    unsigned n_members;
    int n_exchanges;
    dt_exchange *const *exchanges; /* [n_exchanges] that begin when it opens */
    dt_processes *processes;
    _Atomic uint64_t n_arrivals; /* of all members together */
} dt_gate;

static inline void dt_gate_arrive(dt_gate *gate, const dt_step_context *context) {
    if ((atomic_fetch_add(&gate->n_arrivals, 1) + 1) % gate->n_members != 0) return;
    for (int e = 0; e < gate->n_exchanges; e++) dt_processes_begin(gate->processes, gate->exchanges[e], context);
}

static inline bool dt_gate_is_open(const dt_gate *gate, uint64_t times) { return atomic_load(&gate->n_arrivals) >= times * gate->n_members; }

/* Returns when all that it began the last of so many times is over. */
static inline dt_status *dt_gate_await(const dt_gate *gate, uint64_t times) {
    for (int e = 0; e < gate->n_exchanges; e++) DT_TRY(dt_processes_wait(gate->processes, gate->exchanges[e], (uint32_t)times));
    return NULL;
}

#endif
