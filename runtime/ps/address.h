/* address: where servers listen, as people write it: "host:7000", "tcp://10.0.0.7:7000", "[::1]:7000"; to listen also "*:7000" and "127.0.0.1:*". */
#ifndef DT_RUNTIME_PS_ADDRESS_H
#define DT_RUNTIME_PS_ADDRESS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    DT_PS_ADDRESS_BYTES = 288 /* a host of 255, a port, and what else is in one */
};

/* address [DT_PS_ADDRESS_BYTES]: "tcp://host:7000". DT_INVALID_ARGUMENT: it is none, with how one is written. */
dt_status *dt_ps_address_to_listen(const char *text, char *address);
dt_status *dt_ps_address_to_connect(const char *text, char *address);

/* Of an address to listen on, whose host may be a name: the first address of this name, in numbers, which ZeroMQ wants there. What is no name of a
 * host, as an interface's, stays. */
void dt_ps_address_resolve(char *address);

/* Whether only processes of this machine are there. Of a name only "localhost" is known to be so. */
bool dt_ps_address_is_loopback(const char *address);

const char *dt_ps_address_text(const char *address); /* without "tcp://" */

#endif
