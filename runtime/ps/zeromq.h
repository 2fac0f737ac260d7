/* zeromq: libzmq, loaded when parameter servers are asked for: dtrun does not link it, and a machine without servers needs none.
 *
 * Its interface is C, and one for all versions that are called libzmq.so.5, so the functions have the types of the header that we are built with, and
 * no plugin lies between. */
#ifndef DT_RUNTIME_PS_ZEROMQ_H
#define DT_RUNTIME_PS_ZEROMQ_H

#include "base/status.h"

#include <zmq.h>

/* X(function, after zmq_) */
#define DT_ZEROMQ_FUNCTIONS(X)                                                                                                                       \
    X(bind)                                                                                                                                          \
    X(close)                                                                                                                                         \
    X(connect)                                                                                                                                       \
    X(ctx_new)                                                                                                                                       \
    X(ctx_set)                                                                                                                                       \
    X(ctx_term)                                                                                                                                      \
    X(curve_keypair)                                                                                                                                 \
    X(curve_public)                                                                                                                                  \
    X(getsockopt)                                                                                                                                    \
    X(has)                                                                                                                                           \
    X(msg_close)                                                                                                                                     \
    X(msg_data)                                                                                                                                      \
    X(msg_get)                                                                                                                                       \
    X(msg_gets)                                                                                                                                      \
    X(msg_init)                                                                                                                                      \
    X(msg_init_data)                                                                                                                                 \
    X(msg_init_size)                                                                                                                                 \
    X(msg_more)                                                                                                                                      \
    X(msg_move)                                                                                                                                      \
    X(msg_recv)                                                                                                                                      \
    X(msg_send)                                                                                                                                      \
    X(msg_size)                                                                                                                                      \
    X(poll)                                                                                                                                          \
    X(setsockopt)                                                                                                                                    \
    X(socket)                                                                                                                                        \
    X(socket_monitor)                                                                                                                                \
    X(strerror)                                                                                                                                      \
    X(version)                                                                                                                                       \
    X(z85_decode)                                                                                                                                    \
    X(z85_encode)

typedef struct dt_zeromq {
#define X(function) __typeof__(zmq_##function) *function;
    DT_ZEROMQ_FUNCTIONS(X)
#undef X
} dt_zeromq;

/* Loads libzmq.so.5, or what the environment variable DT_ZEROMQ names; it stays loaded. DT_NOT_FOUND: there is none. DT_FAILED_PRECONDITION: one that
 * is too old. Both say what to install. */
dt_status *dt_zeromq_open(dt_zeromq *zeromq);

/* Whether it can encrypt: NULL, or that it was built without. */
dt_status *dt_zeromq_has_curve(const dt_zeromq *zeromq);

#endif
