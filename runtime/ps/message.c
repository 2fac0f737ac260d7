/* message: see the header. */
#include "runtime/ps/message.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

/* Offsets in the head; all numbers are little-endian. */
enum {
    AT_MARK = 0, /* "dtps" */
    AT_VERSION = 4,
    AT_KIND = 6,
    AT_SESSION = 8,
    AT_SEQUENCE = 16,
    AT_PAYLOAD = 24, /* bytes of it; ~0: there is none */
    AT_CHECKSUM = 32,
    MARK = 0x73707464
};

static const struct {
    const char *name;
    size_t item_bytes;
} kinds[] = {
#define MESSAGE(name, NAME, says)                                                                                                                    \
    {                                                                                                                                                \
#name, 0
#define PAYLOAD(item) +(item)
#define END(name)                                                                                                                                    \
    }                                                                                                                                                \
    ,
#include "runtime/ps/messages.def"
};

const char *dt_ps_kind_name(dt_ps_kind kind) { return kinds[kind].name; }
size_t dt_ps_kind_item_bytes(dt_ps_kind kind) { return kinds[kind].item_bytes; }

void dt_ps_payload_release(dt_ps_payload *payload) {
    if (payload->release != NULL) payload->release(payload->owner);
    *payload = (dt_ps_payload){0};
}

/* ---- numbers ---- */

static void put_number(uint8_t *at, int n_bytes, uint64_t number) {
    for (int i = 0; i < n_bytes; i++) at[i] = (uint8_t)(number >> 8 * i);
}

static uint64_t get_number(const uint8_t *at, int n_bytes) {
    uint64_t number = 0;
    for (int i = 0; i < n_bytes; i++) number |= (uint64_t)at[i] << 8 * i;
    return number;
}

uint32_t dt_ps_checksum(const void *bytes, size_t n_bytes, const void *payload, size_t payload_bytes) {
    uLong sum = crc32_z(0, bytes, AT_CHECKSUM);
    sum = crc32_z(sum, (const uint8_t *)bytes + DT_PS_HEAD_BYTES, n_bytes - DT_PS_HEAD_BYTES);
    return (uint32_t)(payload_bytes > 0 ? crc32_z(sum, payload, payload_bytes) : sum);
}

/* ---- writing ---- */

#define UNUSED_KIND __attribute__((unused)) /* of field: the rows of the day may have none */

/* The first field that is beyond its bound ends it. */
typedef struct writer {
    const char *kind;
    uint8_t *at;
    dt_status *status;
} writer;

static void write_number(writer *to, const char *field, int n_bytes, uint64_t number, uint64_t most) {
    if (number > most && to->status == NULL)
        to->status = dt_error(DT_INVALID_ARGUMENT, "message %s: %s is %" PRIu64 ", at most %" PRIu64, to->kind, field, number, most);
    if (to->status != NULL) return;
    put_number(to->at, n_bytes, number);
    to->at += n_bytes;
}

UNUSED_KIND static void write_f64(writer *to, const char *field, double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    if (!isfinite(number) && to->status == NULL) to->status = dt_error(DT_INVALID_ARGUMENT, "message %s: %s is %g", to->kind, field, number);
    write_number(to, field, sizeof bits, bits, UINT64_MAX);
}

static void write_bytes(writer *to, const void *bytes, size_t n) {
    if (to->status != NULL) return;
    memcpy(to->at, bytes, n);
    to->at += n;
}

static void write_text(writer *to, const char *field, const char *text, size_t most) {
    size_t n = strnlen(text, most + 1);
    write_number(to, field, 2, n, most);
    write_bytes(to, text, n);
}

UNUSED_KIND static void write_numbers(writer *to, const char *field, uint32_t n, const uint64_t *numbers, size_t most) {
    write_number(to, field, 4, n, most);
    for (uint32_t i = 0; i < n && to->status == NULL; i++) write_number(to, field, 8, numbers[i], UINT64_MAX);
}

#define MESSAGE(name, NAME, says) static void write_##name(writer *to, const dt_ps_##name *message) {
#define U8(name, most) write_number(to, #name, 1, message->name, most);
#define U16(name, most) write_number(to, #name, 2, message->name, most);
#define U32(name, most) write_number(to, #name, 4, message->name, most);
#define U64(name, most) write_number(to, #name, 8, message->name, most);
#define F64(name) write_f64(to, #name, message->name);
#define TEXT(name, most) write_text(to, #name, message->name, most);
#define BYTES(name, n) write_bytes(to, message->name, n);
#define NUMBERS(name, most) write_numbers(to, #name, message->n_##name, message->name, most);
#define END(name)                                                                                                                                    \
    (void)to, (void)message;                                                                                                                         \
    }
#include "runtime/ps/messages.def"

static void write_fields(writer *to, const dt_ps_message *message) {
    switch (message->kind) {
#define MESSAGE(name, NAME, says)                                                                                                                    \
    case DT_PS_##NAME:                                                                                                                               \
        write_##name(to, &message->name);                                                                                                            \
        break;
#include "runtime/ps/messages.def"
    case DT_PS_N_KINDS: break;
    }
}

/* Whether a message of that kind may have this payload. */
static bool fits(dt_ps_kind kind, const dt_ps_payload *payload) {
    size_t item_bytes = kinds[kind].item_bytes;
    return item_bytes > 0 ? payload != NULL && payload->bytes % item_bytes == 0 : payload == NULL;
}

dt_status *dt_ps_encode(const dt_ps_message *message, const dt_ps_head *head, dt_ps_buffer *buffer, size_t *n_bytes) {
    writer to = {.kind = kinds[message->kind].name, .at = buffer->bytes + DT_PS_HEAD_BYTES};
    const dt_ps_payload *payload = &message->payload;
    bool has_payload = kinds[message->kind].item_bytes > 0;
    if (!fits(message->kind, has_payload || payload->bytes > 0 ? payload : NULL))
        return dt_error(DT_INVALID_ARGUMENT, "message %s: %zu bytes beside it, where items have %zu", to.kind, payload->bytes,
                        kinds[message->kind].item_bytes);
    write_fields(&to, message);
    DT_TRY(to.status);
    put_number(buffer->bytes + AT_MARK, 4, MARK);
    put_number(buffer->bytes + AT_VERSION, 2, head->version);
    put_number(buffer->bytes + AT_KIND, 2, (uint64_t)message->kind);
    put_number(buffer->bytes + AT_SESSION, 8, head->session);
    put_number(buffer->bytes + AT_SEQUENCE, 8, head->sequence);
    put_number(buffer->bytes + AT_PAYLOAD, 8, has_payload ? payload->bytes : UINT64_MAX);
    *n_bytes = (size_t)(to.at - buffer->bytes);
    put_number(buffer->bytes + AT_CHECKSUM, 4, dt_ps_checksum(buffer->bytes, *n_bytes, payload->data, payload->bytes));
    return NULL;
}

/* ---- reading ---- */

/* The first thing that is wrong ends it. */
typedef struct reader {
    const char *kind;
    const uint8_t *at, *end;
    dt_status *status;
} reader;

/* Whether n more bytes are there. */
static bool has(reader *from, const char *field, size_t n) {
    if (from->status != NULL) return false;
    if ((size_t)(from->end - from->at) >= n) return true;
    from->status = dt_error(DT_DATA_LOSS, "message %s ends in %s", from->kind, field);
    return false;
}

static uint64_t read_number(reader *from, const char *field, int n_bytes, uint64_t most) {
    if (!has(from, field, (size_t)n_bytes)) return 0;
    uint64_t number = get_number(from->at, n_bytes);
    from->at += n_bytes;
    if (number <= most) return number;
    from->status = dt_error(DT_DATA_LOSS, "message %s: %s is %" PRIu64 ", at most %" PRIu64, from->kind, field, number, most);
    return 0;
}

UNUSED_KIND static double read_f64(reader *from, const char *field) {
    uint64_t bits = read_number(from, field, 8, UINT64_MAX);
    double number;
    memcpy(&number, &bits, sizeof number);
    if (!isfinite(number) && from->status == NULL) from->status = dt_error(DT_DATA_LOSS, "message %s: %s is not finite", from->kind, field);
    return number;
}

static void read_bytes(reader *from, const char *field, void *bytes, size_t n) {
    if (!has(from, field, n)) return;
    memcpy(bytes, from->at, n);
    from->at += n;
}

static void read_text(reader *from, const char *field, char *text, size_t most) {
    size_t n = (size_t)read_number(from, field, 2, most);
    text[0] = 0;
    if (!has(from, field, n)) return;
    if (memchr(from->at, 0, n) != NULL) from->status = dt_error(DT_DATA_LOSS, "message %s: %s has a 0 in it", from->kind, field);
    read_bytes(from, field, text, n);
    text[n] = 0;
}

/* For people: whoever prints it need not look at it. */
static void read_line(reader *from, const char *field, char *text, size_t most) {
    read_text(from, field, text, most);
    dt_text_make_printable(text);
}

UNUSED_KIND static uint32_t read_numbers(reader *from, const char *field, uint64_t *numbers, size_t most) {
    uint32_t n = (uint32_t)read_number(from, field, 4, most);
    if (!has(from, field, 8 * (size_t)n)) return 0;
    for (uint32_t i = 0; i < n; i++) numbers[i] = read_number(from, field, 8, UINT64_MAX);
    return n;
}

#define MESSAGE(name, NAME, says) static void read_##name(reader *from, dt_ps_##name *message) {
#define U8(name, most) message->name = (uint8_t)read_number(from, #name, 1, most);
#define U16(name, most) message->name = (uint16_t)read_number(from, #name, 2, most);
#define U32(name, most) message->name = (uint32_t)read_number(from, #name, 4, most);
#define U64(name, most) message->name = read_number(from, #name, 8, most);
#define F64(name) message->name = read_f64(from, #name);
#define TEXT(name, most) read_line(from, #name, message->name, most);
#define WORDS(name, most) read_text(from, #name, message->name, most);
#define BYTES(name, n) read_bytes(from, #name, message->name, n);
#define NUMBERS(name, most) message->n_##name = read_numbers(from, #name, message->name, most);
#define END(name)                                                                                                                                    \
    (void)from, (void)message;                                                                                                                       \
    }
#include "runtime/ps/messages.def"

static void read_fields(reader *from, dt_ps_message *message) {
    switch (message->kind) {
#define MESSAGE(name, NAME, says)                                                                                                                    \
    case DT_PS_##NAME:                                                                                                                               \
        read_##name(from, &message->name);                                                                                                           \
        break;
#include "runtime/ps/messages.def"
    case DT_PS_N_KINDS: break;
    }
}

/* The head, whose length is there, and what came beside it. */
static dt_status *check_head(const uint8_t *bytes, size_t n_bytes, const dt_ps_payload *payload) {
    uint64_t kind = get_number(bytes + AT_KIND, 2), announced = get_number(bytes + AT_PAYLOAD, 8);
    uint64_t arrived = payload != NULL ? payload->bytes : UINT64_MAX;
    if (get_number(bytes + AT_MARK, 4) != MARK) return dt_error(DT_DATA_LOSS, "%zu bytes that are no message of ours", n_bytes);
    if (announced != arrived && payload == NULL) return dt_error(DT_DATA_LOSS, "a message without the %" PRIu64 " bytes of its payload", announced);
    if (announced != arrived) return dt_error(DT_DATA_LOSS, "a message with a payload of %zu bytes that announces another one", payload->bytes);
    uint32_t sum = dt_ps_checksum(bytes, n_bytes, payload != NULL ? payload->data : NULL, payload != NULL ? payload->bytes : 0);
    if (get_number(bytes + AT_CHECKSUM, 4) != sum) return dt_error(DT_DATA_LOSS, "a message was altered: its checksum is another one");
    if (kind >= DT_PS_N_KINDS) return dt_error(DT_DATA_LOSS, "a message of kind %" PRIu64 ", which there is not", kind);
    if (!fits((dt_ps_kind)kind, payload)) {
        if (payload == NULL) return dt_error(DT_DATA_LOSS, "message %s has no payload", kinds[kind].name);
        return dt_error(DT_DATA_LOSS, "message %s: a payload of %zu bytes, where items have %zu", kinds[kind].name, payload->bytes,
                        kinds[kind].item_bytes);
    }
    return NULL;
}

dt_status *dt_ps_decode(const void *bytes, size_t n_bytes, const dt_ps_payload *payload, dt_ps_head *head, dt_ps_message *message) {
    const uint8_t *begin = bytes;
    if (n_bytes < DT_PS_HEAD_BYTES) return dt_error(DT_DATA_LOSS, "%zu bytes that are no message of ours", n_bytes);
    if (n_bytes > sizeof(dt_ps_buffer))
        return dt_error(DT_DATA_LOSS, "a message of %zu bytes, where none has more than %zu", n_bytes, sizeof(dt_ps_buffer));
    DT_TRY(check_head(begin, n_bytes, payload));
    message->kind = (dt_ps_kind)get_number(begin + AT_KIND, 2);
    head->version = (uint16_t)get_number(begin + AT_VERSION, 2);
    head->session = get_number(begin + AT_SESSION, 8);
    head->sequence = get_number(begin + AT_SEQUENCE, 8);
    reader from = {.kind = kinds[message->kind].name, .at = begin + DT_PS_HEAD_BYTES, .end = begin + n_bytes};
    read_fields(&from, message);
    if (from.status == NULL && from.at != from.end)
        from.status = dt_error(DT_DATA_LOSS, "message %s has %td bytes too many", from.kind, from.end - from.at);
    message->payload = payload != NULL && from.status == NULL ? *payload : (dt_ps_payload){0};
    return from.status;
}
