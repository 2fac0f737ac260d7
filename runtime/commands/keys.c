/* keys: `dtrun keys FOLDER`. */
#include "runtime/ps/keys.h"
#include "runtime/commands/dtrun.h"

#include <stdio.h>

dt_status *dtrun_keys(const dtrun_call *call) {
    DT_TRY(dt_ps_keys_create(call->program));
    printf("keys in %s\n"
           "    for servers  server.secret, server.public, allowed\n"
           "    for workers  worker.secret, worker.public, server.public\n",
           call->program);
    return NULL;
}
