/* message: what travels between workers and servers, as structs and as bytes.
 *
 * messages.def has a row for each; nothing else knows their fields. On the wire a message is a head (which message of which connection, a checksum),
 * its fields, and for some a payload beside them, which is neither copied nor interpreted here. What is read comes from the network: every length and
 * every number is held against its bound before it is used, nothing is allocated for it, and a message that is not right to the last byte is refused.
 */
#ifndef DT_RUNTIME_PS_MESSAGE_H
#define DT_RUNTIME_PS_MESSAGE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DT_PS_LOWEST_VERSION = 2, /* of the protocol, that this program speaks */
    DT_PS_HIGHEST_VERSION = 2,
    DT_PS_HEAD_BYTES = 36, /* before the fields */
    DT_PS_MOST_SERVERS = 1024
};

typedef enum dt_ps_role {
    DT_PS_WORKER,
    DT_PS_SERVER
} dt_ps_role;

/* Why somebody is refused. */
typedef enum dt_ps_refused {
    DT_PS_REFUSED_VERSION,
    DT_PS_REFUSED_ARTIFACT,
    DT_PS_REFUSED_SETTINGS,
    DT_PS_REFUSED_FULL,    /* it may come again: there are as many peers as there may be, or it has not got on */
    DT_PS_REFUSED_MESSAGE, /* damaged, out of order, or no message at all */
    DT_PS_REFUSED_OTHERWISE
} dt_ps_refused;

/* What servers of an asynchronous training do next. */
typedef enum dt_ps_what {
    DT_PS_TASK_APPLY,  /* a lease that has come */
    DT_PS_TASK_FORGET, /* what has come of a worker */
    DT_PS_TASK_GIVE,   /* the variables to a worker */
    DT_PS_TASK_END     /* of the range of leases */
} dt_ps_what;

/* ---- the messages ---- */

typedef enum dt_ps_kind {
#define MESSAGE(name, NAME, says) DT_PS_##NAME,
#include "runtime/ps/messages.def"
    DT_PS_N_KINDS
} dt_ps_kind;

/* A struct for each: dt_ps_hello, … */
#define MESSAGE(name, NAME, says) typedef struct dt_ps_##name {
#define U8(name, most) uint8_t name;
#define U16(name, most) uint16_t name;
#define U32(name, most) uint32_t name;
#define U64(name, most) uint64_t name;
#define F64(name) double name;
#define TEXT(name, most) char name[(most) + 1];
#define BYTES(name, n) uint8_t name[n];
#define NUMBERS(name, most)                                                                                                                          \
    uint32_t n_##name;                                                                                                                               \
    uint64_t name[most];
#define END(name)                                                                                                                                    \
    }                                                                                                                                                \
    dt_ps_##name;
#include "runtime/ps/messages.def"

/* Bytes that belong to whoever holds this; it is passed on by value, and one of zeros is none. */
typedef struct dt_ps_payload {
    const void *data; /* what was received is aligned as malloc's */
    size_t bytes;
    void (*release)(void *owner); /* called once, by any thread, when nobody reads the bytes any more; NULL: they are lent, not given */
    void *owner;
} dt_ps_payload;

void dt_ps_payload_release(dt_ps_payload *payload); /* it is none then */

typedef struct dt_ps_message {
    dt_ps_kind kind;
    union {
#define MESSAGE(name, NAME, says) dt_ps_##name name;
#include "runtime/ps/messages.def"
    };
    dt_ps_payload payload; /* of a kind that has one; of others none */
} dt_ps_message;

const char *dt_ps_kind_name(dt_ps_kind kind); /* "hello" */
/* A payload's bytes are a multiple of it; 0: messages of that kind have none. */
size_t dt_ps_kind_item_bytes(dt_ps_kind kind);

/* ---- as bytes ---- */

/* What stands in the head beside the kind. */
typedef struct dt_ps_head {
    uint16_t version;  /* that the two agreed on; 0 in a hello, its answer, and a refusal */
    uint64_t session;  /* of the connection; 0 likewise */
    uint64_t sequence; /* of this message among those of its sender on the connection, from 0 */
} dt_ps_head;

/* Head and fields of each. */
union dt_ps_any_bytes {
#define MESSAGE(name, NAME, says) uint8_t name[DT_PS_HEAD_BYTES
#define U8(name, most) +1
#define U16(name, most) +2
#define U32(name, most) +4
#define U64(name, most) +8
#define F64(name) +8
#define TEXT(name, most) +2 + (most)
#define BYTES(name, n) +(n)
#define NUMBERS(name, most) +4 + 8 * (most)
#define END(name) ];
#include "runtime/ps/messages.def"
};

/* Room for those of any message. */
typedef struct dt_ps_buffer {
    uint8_t bytes[sizeof(union dt_ps_any_bytes)];
} dt_ps_buffer;

/* Writes head and fields. DT_INVALID_ARGUMENT: a field is beyond its bound. */
dt_status *dt_ps_encode(const dt_ps_message *message, const dt_ps_head *head, dt_ps_buffer *buffer, size_t *n_bytes);

/* Reads what somebody sent: bytes [n_bytes] are the head and the fields, *payload what came beside them, or NULL. message->payload is a copy of it,
 * which still belongs to the caller. DT_DATA_LOSS: it is no message, or a damaged one; of head and message nothing is to be read then. */
dt_status *dt_ps_decode(const void *bytes, size_t n_bytes, const dt_ps_payload *payload, dt_ps_head *head, dt_ps_message *message);

/* The checksum that belongs into a head: of all bytes but its own four, and the payload. */
uint32_t dt_ps_checksum(const void *bytes, size_t n_bytes, const void *payload, size_t payload_bytes);

#endif
