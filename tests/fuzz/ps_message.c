/* A message of parameter servers, from anywhere: two bytes say how long a payload is at the end (65535: there is none), the rest are head and fields.
 * As they are they are refused, or written again to the byte, but for texts, which are made printable as they are read: what is written then is read
 * and written to the byte. And so with a checksum that fits, by which all is reached that comes after it. */
#include "runtime/ps/connection.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum {
    NO_PAYLOAD = 65535,
    AT_CHECKSUM = 32
};

/* What a socket does with who introduces himself. */
static void meet(dt_ps_introduction theirs) {
    static const dt_ps_hello ours = {.settings = "--replicas 4", .name = "ours"};
    char name[DT_PS_NAME_BYTES];
    dt_ps_refused why;
    dt_ps_print_name(&theirs, "10.0.0.7", name, sizeof name);
    for (const char *at = name; *at != 0; at++)
        if ((unsigned char)*at < 0x20) abort();
    dt_status_free(dt_ps_compare(&ours, &theirs, &why));
}

static void write_again(const dt_ps_message *message, const dt_ps_head *head, const uint8_t *bytes, size_t n, const dt_ps_payload *payload) {
    static dt_ps_message read;
    static dt_ps_buffer again, third;
    dt_ps_head read_head;
    size_t n_again, n_third;
    if (dt_ps_encode(message, head, &again, &n_again) != NULL) abort();
    if (n_again == n && memcmp(again.bytes, bytes, n) == 0) return;
    if (dt_ps_decode(again.bytes, n_again, payload, &read_head, &read) != NULL) abort();
    if (dt_ps_encode(&read, &read_head, &third, &n_third) != NULL || n_third != n_again || memcmp(third.bytes, again.bytes, n_again) != 0) abort();
}

static void use(const uint8_t *bytes, size_t n, const dt_ps_payload *payload) {
    static dt_ps_message message;
    dt_ps_head head;
    dt_status *status = dt_ps_decode(bytes, n, payload, &head, &message);
    if (status != NULL) {
        if (dt_status_code(status) != DT_DATA_LOSS) abort();
        dt_status_free(status);
        return;
    }
    write_again(&message, &head, bytes, n, payload);
    dt_ps_connection connection = {.version = head.version, .session = head.session, .n_received = head.sequence};
    if (dt_ps_check_head(&connection, &head) != NULL) abort();
    dt_status_free(dt_ps_check_head(&connection, &head));
    if (message.kind == DT_PS_HELLO) meet(dt_ps_of_hello(&message.hello));
    if (message.kind == DT_PS_WELCOME) meet(dt_ps_of_welcome(&message.welcome));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n < 2) return 0;
    size_t payload_bytes = bytes[0] + 256u * bytes[1];
    bool has_payload = payload_bytes != NO_PAYLOAD;
    if (!has_payload) payload_bytes = 0;
    if (payload_bytes > n - 2) return 0;
    size_t n_bytes = n - 2 - payload_bytes;
    uint8_t *message = malloc(n_bytes > 0 ? n_bytes : 1); /* of its own, so that a sanitizer sees what is read beyond it */
    if (message == NULL) return 0;
    memcpy(message, bytes + 2, n_bytes);
    dt_ps_payload payload = {.data = bytes + 2 + n_bytes, .bytes = payload_bytes};
    use(message, n_bytes, has_payload ? &payload : NULL);
    if (n_bytes >= DT_PS_HEAD_BYTES) {
        uint32_t sum = dt_ps_checksum(message, n_bytes, payload.data, payload_bytes);
        for (int i = 0; i < 4; i++) message[AT_CHECKSUM + i] = (uint8_t)(sum >> 8 * i);
        use(message, n_bytes, has_payload ? &payload : NULL);
    }
    free(message);
    return 0;
}
