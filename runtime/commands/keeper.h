/* keeper: the parent of a process of a launched run. It waits for it, and where something else than the process itself ended it, says so: which
 * process, where, by which signal, and what it did last. It can on every machine, under every launcher, for it is there when the process is gone; and
 * it says it before the launcher knows, which may then end all others without a word. The last one on a machine leaves nothing behind there. */
#ifndef DT_RUNTIME_COMMANDS_KEEPER_H
#define DT_RUNTIME_COMMANDS_KEEPER_H

#include "base/status.h"

/* Returns in a child of this process, which is process `process` of `n_processes` and keeps its state in `folder`. This process never returns: it
 * ends as its child ends. Called before there are other threads. */
dt_status *dt_keeper_start(const char *folder, int process, int n_processes);

#endif
