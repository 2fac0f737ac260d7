/* launcher_hosts: on which machines the first processes of a launcher are, for those that connect to one another without MPI. */
#ifndef DT_RUNTIME_COMM_LAUNCHER_HOSTS_H
#define DT_RUNTIME_COMM_LAUNCHER_HOSTS_H

#include "base/arena.h"
#include "runtime/comm/launcher.h"

/* Writes the machines of processes 0 to n - 1, as the launcher names them, to hosts [n], arena memory. Every process of the launcher calls it, once,
 * with the same n: Hydra's answer each other through it.
 * Errors  DT_NOT_FOUND: this launcher does not tell; what to do instead. DT_INVALID_ARGUMENT, DT_IO: what it tells cannot be read. */
dt_status *dt_launcher_find_hosts(const dt_launcher *launcher, int n, dt_arena *arena, const char **hosts);

#endif
