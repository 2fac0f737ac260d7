/* zap: who may connect. For each connection ZeroMQ asks by its Authentication Protocol (ZAP, RFC 27), once the other side has shown that it has the
 * secret of the key that it names; the answer is whether that key is allowed. The socket asks for requests when it receives: no thread is needed. */
#ifndef DT_RUNTIME_PS_ZAP_H
#define DT_RUNTIME_PS_ZAP_H

#include "runtime/ps/frames.h"
#include "runtime/ps/keys.h"

#define DT_PS_ZAP_DOMAIN "dt"

/* *zap: a socket of ZeroMQ's, to be opened before anybody can connect, which the caller closes. */
dt_status *dt_ps_zap_open(const dt_zeromq *zeromq, void *context, void **zap);

/* Answers one request, where there is one: *any. who [bytes]: "somebody at 10.0.0.7 with the key …", who was refused, or "". */
dt_status *dt_ps_zap_answer(const dt_zeromq *zeromq, void *zap, const dt_ps_keys *keys, char *who, size_t bytes, bool *any);

/* Whether the key of whoever sent this message is one for that role. */
bool dt_ps_zap_is_role(const dt_zeromq *zeromq, dt_ps_frames *frames, dt_ps_role role);

#endif
