/* lease_variables: how a worker of asynchronous training (leasing.h) gets variables. Each server gives what it has of them: server 0 what all servers
 * have, and every server its share of what they have shared out. */
#ifndef DT_RUNTIME_PS_LEASE_VARIABLES_H
#define DT_RUNTIME_PS_LEASE_VARIABLES_H

#include "runtime/execution/session.h"
#include "runtime/ps/message.h"

/* To whom, and how: the payload is given away. */
typedef struct dt_ps_giving {
    bool leads;    /* this is server 0 */
    int step;      /* whose lease was applied: what its worker has of its own update alone; -1: all variables but slots and rows of tables */
    uint64_t plan; /* its number for the worker */
    dt_status *(*post)(void *context, dt_ps_message message);
    void *context;
} dt_ps_giving;

/* In pieces, and then that these were all. */
dt_status *dt_ps_give_variables(dt_session *session, const dt_ps_giving *giving);

/* What has come, of each variable all or nothing. DT_DATA_LOSS: it cannot be. */
dt_status *dt_ps_set_variables(dt_session *session, const dt_ps_message *pieces, size_t n);

#endif
