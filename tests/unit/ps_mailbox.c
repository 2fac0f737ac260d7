/* ps_mailbox: what comes before it is waited for, after, and in another order, is received as it was sent; what is too short or too much is an error.
 */
#include "runtime/ps/mailbox.h"
#include "tests/support/expect.h"

enum {
    MOST_BYTES = 10 /* that are kept of one process */
};

static dt_ps_payload text(const char *words) { return (dt_ps_payload){.data = words, .bytes = strlen(words)}; }

static void deliver(dt_ps_mailbox *box, int peer, int tag, const char *words) {
    dt_ps_payload payload = text(words);
    expect_ok(dt_ps_mailbox_deliver(box, peer, tag, MOST_BYTES, &payload));
}

static void messages_of_one_sender_and_tag_keep_their_order(void **state) {
    (void)state;
    dt_ps_mailbox box = {0};
    char a[4] = "", b[4] = "", c[4] = "";
    int first, second;
    deliver(&box, 1, 7, "one"); /* before anybody waits */
    deliver(&box, 2, 7, "two");
    expect_ok(dt_ps_mailbox_expect(&box, 7, (dt_message[]){{1, false, a, 3}, {1, false, b, 3}, {3, true, NULL, 9}}, 3, &first));
    expect_ok(dt_ps_mailbox_expect(&box, 8, (dt_message[]){{1, false, c, 3}}, 1, &second));
    assert_string_equal(a, "one");
    assert_false(dt_ps_mailbox_has_all(&box, first) || dt_ps_mailbox_has_all(&box, second));
    deliver(&box, 1, 8, "six");
    assert_true(dt_ps_mailbox_has_all(&box, second) && !dt_ps_mailbox_has_all(&box, first));
    deliver(&box, 1, 7, "ten");
    assert_true(dt_ps_mailbox_has_all(&box, first));
    assert_string_equal(b, "ten");
    assert_string_equal(c, "six");
    dt_ps_mailbox_clear(&box);
}

static void n_released(void *owner) { ++*(int *)owner; }

static void what_does_not_fit_is_an_error_and_nothing_is_lost(void **state) {
    (void)state;
    dt_ps_mailbox box = {0};
    char a[4];
    int round, n = 0;
    dt_ps_payload given = {.data = "four", .bytes = 4, .release = n_released, .owner = &n};
    expect_ok(dt_ps_mailbox_expect(&box, 7, (dt_message[]){{1, false, a, 3}}, 1, &round));
    expect_error(dt_ps_mailbox_deliver(&box, 1, 7, MOST_BYTES, &given), DT_DATA_LOSS, "process 1 sent 4 bytes under tag 7, and 3 were expected");
    assert_int_equal(n, 1);
    given = (dt_ps_payload){.data = "four", .bytes = 4, .release = n_released, .owner = &n};
    expect_ok(dt_ps_mailbox_deliver(&box, 1, 7, MOST_BYTES, &given)); /* nobody waits any more: it is kept, and goes with the box */
    assert_int_equal(n, 1);
    dt_ps_mailbox_clear(&box);
    assert_int_equal(n, 2);
}

static void what_came_early_is_forgotten(void **state) {
    (void)state;
    dt_ps_mailbox box = {0};
    char a[4];
    int round, n = 0;
    for (int peer = 1; peer <= 3; peer++) {
        dt_ps_payload given = {.data = "one", .bytes = 3, .release = n_released, .owner = &n};
        expect_ok(dt_ps_mailbox_deliver(&box, peer, 7, MOST_BYTES, &given));
    }
    dt_ps_mailbox_forget(&box, 2);
    assert_int_equal(n, 1);
    expect_ok(dt_ps_mailbox_expect(&box, 7, (dt_message[]){{1, false, a, 3}, {2, false, a, 3}}, 2, &round));
    assert_true(dt_ps_mailbox_expects(&box, 2) && !dt_ps_mailbox_expects(&box, 1) && !dt_ps_mailbox_has_all(&box, round));
    deliver(&box, 2, 7, "two");
    assert_true(!dt_ps_mailbox_expects(&box, 2) && dt_ps_mailbox_has_all(&box, round));
    dt_ps_mailbox_clear(&box);
    assert_int_equal(n, 3);
}

static dt_ps_payload counted(const char *words, int *n_released_so_far) {
    return (dt_ps_payload){.data = words, .bytes = strlen(words), .release = n_released, .owner = n_released_so_far};
}

static void each_process_has_so_many_bytes_waiting_and_no_more(void **state) {
    (void)state;
    dt_ps_mailbox box = {0};
    char a[4];
    int round, n = 0;
    deliver(&box, 1, 7, "one");
    deliver(&box, 1, 8, "sixteen");
    deliver(&box, 2, 7, "sixteen"); /* another process's are counted by themselves */
    deliver(&box, 1, 7, "");
    dt_ps_payload given = counted("x", &n);
    expect_error(dt_ps_mailbox_deliver(&box, 1, 9, MOST_BYTES, &given), DT_DATA_LOSS,
                 "process 1 sends 1 bytes that nobody waits for, beside 10, and the run's exchanges have 10 at most");
    assert_int_equal(n, 1);
    given = counted("eleven bytes", &n);
    expect_error(dt_ps_mailbox_deliver(&box, 3, 7, MOST_BYTES, &given), DT_DATA_LOSS, "process 3 sends 12 bytes");
    assert_int_equal(n, 2);
    expect_ok(dt_ps_mailbox_expect(&box, 7, (dt_message[]){{1, false, a, 3}}, 1, &round)); /* these wait no more */
    assert_true(dt_ps_mailbox_has_all(&box, round));
    deliver(&box, 1, 9, "ten");
    given = counted("x", &n);
    expect_error(dt_ps_mailbox_deliver(&box, 1, 9, MOST_BYTES, &given), DT_DATA_LOSS, "beside 10");
    dt_ps_mailbox_forget(&box, 1);
    deliver(&box, 1, 9, "ten bytes!");
    char long_text[MOST_BYTES + 2];
    expect_ok(dt_ps_mailbox_expect(&box, 10, (dt_message[]){{1, false, long_text, sizeof long_text}}, 1, &round));
    memset(long_text, 0, sizeof long_text);
    given = (dt_ps_payload){.data = "what is waited for", .bytes = sizeof long_text};
    expect_ok(dt_ps_mailbox_deliver(&box, 1, 10, MOST_BYTES, &given)); /* is as long as it is */
    assert_memory_equal(long_text, "what is waited for", sizeof long_text);
    dt_ps_mailbox_clear(&box);
}

static void each_process_has_so_many_messages_waiting_and_no_more(void **state) {
    (void)state;
    dt_ps_mailbox box = {0};
    for (int i = 0; i < DT_PS_MOST_EARLY; i++) deliver(&box, 1, 7, "");
    dt_ps_payload given = text("");
    expect_error(dt_ps_mailbox_deliver(&box, 1, 7, MOST_BYTES, &given), DT_DATA_LOSS, "process 1 sends more than 65536 messages");
    deliver(&box, 2, 7, "");
    dt_ps_mailbox_clear(&box);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_one_sender_and_tag_keep_their_order),
        cmocka_unit_test(what_does_not_fit_is_an_error_and_nothing_is_lost),
        cmocka_unit_test(what_came_early_is_forgotten),
        cmocka_unit_test(each_process_has_so_many_bytes_waiting_and_no_more),
        cmocka_unit_test(each_process_has_so_many_messages_waiting_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
