/* ps_message: every row of messages.def, written and read again, against a writer of the test's own; and what is cut, altered, too long or out of
 * bounds, which is refused. */
#include "runtime/ps/message.h"
#include "tests/support/expect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- a message of each kind: its fields drawn, or each at its bound ---- */

typedef struct draw {
    uint64_t state;
    bool at_bounds;
} draw;

static uint64_t draw_number(draw *from, uint64_t most) {
    from->state = from->state * 6364136223846793005u + 1442695040888963407u;
    uint64_t number = from->state ^ from->state >> 29;
    if (from->at_bounds) return most;
    return most == UINT64_MAX ? number : number % (most + 1);
}

static void draw_text(draw *from, char *text, size_t most) {
    size_t n = (size_t)draw_number(from, most);
    for (size_t i = 0; i < n; i++) text[i] = (char)(0x20 + draw_number(from, 0x7e - 0x20));
    text[n] = 0;
}

static void draw_words(draw *from, char *text, size_t most) {
    size_t n = (size_t)draw_number(from, most);
    for (size_t i = 0; i < n; i++) text[i] = (char)(1 + draw_number(from, 254));
    text[n] = 0;
}

static void draw_bytes(draw *from, uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)draw_number(from, 255);
}

#define MESSAGE(name, NAME, says) static void draw_##name(draw *from, dt_ps_##name *message) {
#define U8(name, most) message->name = (uint8_t)draw_number(from, most);
#define U16(name, most) message->name = (uint16_t)draw_number(from, most);
#define U32(name, most) message->name = (uint32_t)draw_number(from, most);
#define U64(name, most) message->name = draw_number(from, most);
#define F64(name) message->name = ldexp((double)draw_number(from, 1 << 30), -20);
#define TEXT(name, most) draw_text(from, message->name, most);
#define WORDS(name, most) draw_words(from, message->name, most);
#define BYTES(name, n) draw_bytes(from, message->name, n);
#define NUMBERS(name, most)                                                                                                                          \
    message->n_##name = (uint32_t)draw_number(from, most);                                                                                           \
    for (uint32_t i = 0; i < message->n_##name; i++) message->name[i] = draw_number(from, UINT64_MAX);
#define END(name)                                                                                                                                    \
    (void)from, (void)message;                                                                                                                       \
    }
#include "runtime/ps/messages.def"

static uint64_t payload_words[512];

static dt_ps_message draw_message(draw *from, dt_ps_kind kind) {
    dt_ps_message message = {.kind = kind};
    switch (kind) {
#define MESSAGE(name, NAME, says)                                                                                                                    \
    case DT_PS_##NAME:                                                                                                                               \
        draw_##name(from, &message.name);                                                                                                            \
        break;
#include "runtime/ps/messages.def"
    case DT_PS_N_KINDS: break;
    }
    size_t item = dt_ps_kind_item_bytes(kind);
    if (item > 0) message.payload = (dt_ps_payload){.data = payload_words, .bytes = item * (size_t)draw_number(from, sizeof payload_words / item)};
    return message;
}

/* ---- the bytes, as docs/distributed.md has them, written without a look at message.c ---- */

typedef struct bytes {
    size_t n;
    uint8_t data[2 * sizeof(dt_ps_buffer)];
} bytes;

static void put(bytes *to, uint64_t number, int n) {
    while (n-- > 0) to->data[to->n++] = (uint8_t)number, number >>= 8;
}

static void put_bytes(bytes *to, const void *data, size_t n) {
    memcpy(to->data + to->n, data, n);
    to->n += n;
}

static void put_text(bytes *to, const char *text) {
    put(to, strlen(text), 2);
    put_bytes(to, text, strlen(text));
}

static void put_f64(bytes *to, double number) { put_bytes(to, &number, sizeof number); }

#define MESSAGE(name, NAME, says) static void put_##name(bytes *to, const dt_ps_##name *message) {
#define U8(name, most) put(to, message->name, 1);
#define U16(name, most) put(to, message->name, 2);
#define U32(name, most) put(to, message->name, 4);
#define U64(name, most) put(to, message->name, 8);
#define F64(name) put_f64(to, message->name);
#define TEXT(name, most) put_text(to, message->name);
#define BYTES(name, n) put_bytes(to, message->name, n);
#define NUMBERS(name, most)                                                                                                                          \
    put(to, message->n_##name, 4);                                                                                                                   \
    for (uint32_t i = 0; i < message->n_##name; i++) put(to, message->name[i], 8);
#define END(name)                                                                                                                                    \
    (void)to, (void)message, (void)put_bytes, (void)put_f64;                                                                                         \
    }
#include "runtime/ps/messages.def"

static void seal(bytes *message, const dt_ps_payload *payload) {
    size_t n = message->n;
    message->n = 32;
    put(message, dt_ps_checksum(message->data, n, payload != NULL ? payload->data : NULL, payload != NULL ? payload->bytes : 0), 4);
    message->n = n;
}

static void put_message(bytes *to, const dt_ps_message *message, const dt_ps_head *head) {
    bool has_payload = dt_ps_kind_item_bytes(message->kind) > 0;
    to->n = 0;
    put_bytes(to, "dtps", 4);
    put(to, head->version, 2);
    put(to, message->kind, 2);
    put(to, head->session, 8);
    put(to, head->sequence, 8);
    put(to, has_payload ? message->payload.bytes : UINT64_MAX, 8);
    put(to, 0, 4);
    switch (message->kind) {
#define MESSAGE(name, NAME, says)                                                                                                                    \
    case DT_PS_##NAME:                                                                                                                               \
        put_##name(to, &message->name);                                                                                                              \
        break;
#include "runtime/ps/messages.def"
    case DT_PS_N_KINDS: break;
    }
    seal(to, &message->payload);
}

static const dt_ps_head some_head = {.version = 1, .session = 0x0123456789abcdef, .sequence = 77};

static const dt_ps_payload *payload_of(const dt_ps_message *message) { return dt_ps_kind_item_bytes(message->kind) > 0 ? &message->payload : NULL; }

/* ---- tests ---- */

static void expect_same(const dt_ps_message *message) {
    static bytes expected;
    static dt_ps_message read;
    dt_ps_buffer buffer, again;
    dt_ps_head head;
    size_t n, n_again;
    put_message(&expected, message, &some_head);
    expect_ok(dt_ps_encode(message, &some_head, &buffer, &n));
    assert_int_equal(n, expected.n);
    assert_memory_equal(buffer.bytes, expected.data, n);
    expect_ok(dt_ps_decode(buffer.bytes, n, payload_of(message), &head, &read));
    assert_int_equal(read.kind, message->kind);
    assert_true(head.version == some_head.version && head.session == some_head.session && head.sequence == some_head.sequence);
    assert_int_equal(read.payload.bytes, message->payload.bytes);
    expect_ok(dt_ps_encode(&read, &head, &again, &n_again));
    assert_int_equal(n_again, n);
    assert_memory_equal(again.bytes, buffer.bytes, n);
}

static void every_message_is_read_as_it_was_written(void **state) {
    (void)state;
    for (int kind = 0; kind < DT_PS_N_KINDS; kind++)
        for (int i = 0; i < 50; i++) {
            draw from = {.state = (uint64_t)kind * 1000 + (uint64_t)i, .at_bounds = i == 0};
            dt_ps_message message = draw_message(&from, (dt_ps_kind)kind);
            expect_same(&message);
        }
}

/* A message of the kind, as bytes. */
static dt_ps_message some_message(dt_ps_kind kind, bytes *written) {
    draw from = {.state = (uint64_t)kind + 5};
    dt_ps_message message = draw_message(&from, kind);
    put_message(written, &message, &some_head);
    return message;
}

static bool is_read(const bytes *written, size_t n, const dt_ps_payload *payload) {
    static dt_ps_message read;
    dt_ps_head head;
    uint8_t exact[sizeof written->data]; /* so that a sanitizer sees what is read beyond n */
    memcpy(exact + sizeof exact - n, written->data, n);
    dt_status *status = dt_ps_decode(exact + sizeof exact - n, n, payload, &head, &read);
    assert_true(status == NULL || dt_status_code(status) == DT_DATA_LOSS);
    dt_status_free(status);
    return status == NULL;
}

static void what_is_cut_or_longer_is_refused(void **state) {
    (void)state;
    static bytes written;
    for (int kind = 0; kind < DT_PS_N_KINDS; kind++) {
        dt_ps_message message = some_message((dt_ps_kind)kind, &written);
        size_t whole = written.n;
        assert_true(is_read(&written, whole, payload_of(&message)));
        for (size_t n = 0; n < whole; n++) {
            written.n = n;
            if (n >= DT_PS_HEAD_BYTES) seal(&written, payload_of(&message)); /* so that it is the fields that tell */
            assert_false(is_read(&written, n, payload_of(&message)));
        }
        for (size_t more = 1; more < 20; more++) {
            written.n = whole + more;
            seal(&written, payload_of(&message));
            assert_false(is_read(&written, written.n, payload_of(&message)));
        }
    }
}

static void an_altered_bit_is_found(void **state) {
    (void)state;
    static bytes written;
    for (int kind = 0; kind < DT_PS_N_KINDS; kind++) {
        dt_ps_message message = some_message((dt_ps_kind)kind, &written);
        for (size_t bit = 0; bit < 8 * written.n; bit++) {
            written.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_false(is_read(&written, written.n, payload_of(&message)));
            written.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        if (message.payload.bytes == 0) continue;
        payload_words[0] ^= 1;
        assert_false(is_read(&written, written.n, payload_of(&message)));
        payload_words[0] ^= 1;
        assert_true(is_read(&written, written.n, payload_of(&message)));
    }
}

static void a_payload_belongs_to_its_message(void **state) {
    (void)state;
    static bytes written;
    for (int kind = 0; kind < DT_PS_N_KINDS; kind++) {
        dt_ps_message message = some_message((dt_ps_kind)kind, &written);
        dt_ps_payload other = {.data = payload_words, .bytes = message.payload.bytes + 8};
        const dt_ps_payload *none = payload_of(&message) != NULL ? NULL : &other;
        seal(&written, none);
        assert_false(is_read(&written, written.n, none));
        seal(&written, &other);
        assert_false(is_read(&written, written.n, &other));
    }
}

static int n_bounds; /* that were exceeded: where a number fills its bytes there is none */

static void expect_refused(dt_ps_message *message, const char *field) {
    static bytes written;
    dt_ps_buffer buffer;
    size_t n;
    put_message(&written, message, &some_head);
    assert_false(is_read(&written, written.n, payload_of(message)));
    expect_error(dt_ps_encode(message, &some_head, &buffer, &n), DT_INVALID_ARGUMENT, field);
    n_bounds++;
}

static void a_number_beyond_its_bound_is_refused(void **state) {
    (void)state;
#define MESSAGE(name, NAME, says)                                                                                                                    \
    {                                                                                                                                                \
        draw from = {.state = 3};                                                                                                                    \
        const dt_ps_kind kind = DT_PS_##NAME;                                                                                                        \
        dt_ps_message message = draw_message(&from, kind);                                                                                           \
        dt_ps_##name *fields = &message.name;                                                                                                        \
        (void)fields;
#define OVER(field, most, widest)                                                                                                                    \
    if ((uint64_t)(most) < (uint64_t)(widest)) {                                                                                                     \
        fields->field = (__typeof__(fields->field))((uint64_t)(most) + 1);                                                                           \
        expect_refused(&message, #field);                                                                                                            \
        message = draw_message(&from, kind);                                                                                                         \
    }
#define U8(name, most) OVER(name, most, UINT8_MAX)
#define U16(name, most) OVER(name, most, UINT16_MAX)
#define U32(name, most) OVER(name, most, UINT32_MAX)
#define U64(name, most) OVER(name, most, UINT64_MAX)
#define F64(name)                                                                                                                                    \
    fields->name = NAN;                                                                                                                              \
    expect_refused(&message, #name);                                                                                                                 \
    message = draw_message(&from, kind);
#define END(name) }
#include "runtime/ps/messages.def"
    assert_true(n_bounds > 0);
}

static void a_payload_of_half_an_item_is_refused(void **state) {
    (void)state;
    int n_kinds = 0;
    for (int kind = 0; kind < DT_PS_N_KINDS; kind++) {
        size_t item = dt_ps_kind_item_bytes((dt_ps_kind)kind);
        draw from = {.state = 3};
        dt_ps_message message = draw_message(&from, (dt_ps_kind)kind);
        if (item < 2) continue;
        message.payload.bytes = item + item / 2;
        expect_refused(&message, "12 bytes beside it, where items have 8");
        n_kinds++;
    }
    assert_int_equal(n_kinds, 2); /* rows_wanted, examples */
}

static void what_is_no_message_is_refused(void **state) {
    (void)state;
    static bytes written;
    static const char request[] = "GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: somebody\r\nAccept: */*\r\n\r\n";
    put_bytes(&written, request, sizeof request);
    assert_false(is_read(&written, written.n, NULL));
    some_message(DT_PS_PING, &written);
    written.data[6] = DT_PS_N_KINDS; /* of a kind that there is not */
    seal(&written, NULL);
    assert_false(is_read(&written, written.n, NULL));
    some_message(DT_PS_REFUSAL, &written); /* a text with a 0 in it */
    written.data[DT_PS_HEAD_BYTES + 3] = 0;
    seal(&written, NULL);
    assert_false(is_read(&written, written.n, NULL));
    written.n = sizeof written.data;
    assert_false(is_read(&written, written.n, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_is_read_as_it_was_written),
        cmocka_unit_test(what_is_cut_or_longer_is_refused),
        cmocka_unit_test(an_altered_bit_is_found),
        cmocka_unit_test(a_payload_belongs_to_its_message),
        cmocka_unit_test(a_number_beyond_its_bound_is_refused),
        cmocka_unit_test(a_payload_of_half_an_item_is_refused),
        cmocka_unit_test(what_is_no_message_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
