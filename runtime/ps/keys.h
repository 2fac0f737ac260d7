/* keys: which processes may talk to one another, by pairs of keys (CURVE, which is Curve25519 with Salsa20 and Poly1305, in ZeroMQ).
 *
 * The servers of a run have one pair, each worker one, which workers may share. A server knows the public keys that may connect to it, a worker that
 * of the servers. A folder holds, as text, a key in a file:
 *
 *     server.secret, server.public, allowed           what servers need
 *     worker.secret, worker.public, server.public     what workers need
 *
 * `allowed` has a public key in each line, and after it what people want to note. */
#ifndef DT_RUNTIME_PS_KEYS_H
#define DT_RUNTIME_PS_KEYS_H

#include "base/status.h"
#include "runtime/ps/message.h"

enum {
    DT_PS_KEY_BYTES = 32
};

typedef uint8_t dt_ps_key[DT_PS_KEY_BYTES];

typedef struct dt_ps_keys {
    dt_ps_key own_public, own_secret;
    dt_ps_key server;   /* public, of the servers */
    dt_ps_key *allowed; /* [n_allowed] public, of workers that may connect: of a server */
    size_t n_allowed;
} dt_ps_keys;

/* Makes such a folder with two new pairs, whose secrets only the user can read; the workers' key is allowed. DT_ALREADY_EXISTS: one of the files is
 * there, and none is written. */
dt_status *dt_ps_keys_create(const char *folder);

/* Reads what a process of that role needs. A secret that others can read is refused. dt_ps_keys_forget() after an error too. */
dt_status *dt_ps_keys_load(const char *folder, dt_ps_role role, dt_ps_keys *keys);
void dt_ps_keys_forget(dt_ps_keys *keys); /* overwritten, and freed */

/* Whether who shows this key may connect, and as what: the servers' is for servers, all others are for workers. */
bool dt_ps_keys_allow(const dt_ps_keys *keys, const uint8_t *key, dt_ps_role *role);

#endif
