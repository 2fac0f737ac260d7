/* checkpoint_lock: one run at a time writes checkpoints into a folder.
 *
 * The lock is the kernel's, on the file .lock of the folder: it ends with the process that holds it, however that ends. What is in the file is for
 * people, and means something only while the lock is held. Who reads checkpoints asks for no lock. */
#ifndef DT_RUNTIME_CHECKPOINT_LOCK_H
#define DT_RUNTIME_CHECKPOINT_LOCK_H

#include "base/status.h"
#include "runtime/comm/processes.h"

/* Takes the folder, which exists, for this process. *lock is -1 after an error, and on a file system that has no locks. DT_FAILED_PRECONDITION when
 * another process has it: the message says which. */
dt_status *dt_checkpoint_lock(const char *folder, int *lock);
void dt_checkpoint_unlock(int lock); /* -1 is allowed */

/* Once process 0 has locked it, whether all processes see the folder, who is named there, and may write in it: each calls it. *mark: of the run, odd;
 * 0: they do not, and *other is the first that does not, -1 where none can tell. */
dt_status *dt_checkpoint_find_mark(const char *folder, dt_processes *processes, uint64_t *mark, int *other);

#endif
