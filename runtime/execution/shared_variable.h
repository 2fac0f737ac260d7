/* shared_variable: one of which each process has a share (--shard-optimizer), or each parameter server, whole in process 0. */
#ifndef DT_RUNTIME_EXECUTION_SHARED_VARIABLE_H
#define DT_RUNTIME_EXECUTION_SHARED_VARIABLE_H

#include "runtime/comm/processes.h"
#include "runtime/execution/memory.h"

/* All processes call it, each with a domain that has its share; `data` is process 0's, the others' is not looked at. */
dt_status *dt_shared_variable_collect(const dt_artifact *artifact, const dt_memory_domain *domain, int variable, dt_processes *processes, void *data);
/* The same of some bytes of it, which are all that `data` is for. */
dt_status *dt_shared_variable_collect_part(const dt_artifact *artifact, const dt_memory_domain *domain, int variable, dt_processes *processes,
                                           dt_byte_range part, void *data);

#endif
