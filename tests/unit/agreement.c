/* agreement: devices of one process that say different things of themselves are refused, with the first thing that differs. Over processes:
 * tests/mpi/gpu_agreement.py. */
#include "runtime/execution/agreement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct speaker {
    dt_device device;
    const char *identity;
} speaker;

static void print_identity(const dt_device *device, dt_text *text) { dt_text_append(text, ((const speaker *)device)->identity); }

static const dt_device_kind kind = {.print_identity = print_identity};

/* What is said of "a" and "b", the last two of three; NULL: nothing. */
static void check(const char *its, const char *others, const char *wanted) {
    speaker a = {{.kind = &kind, .name = "a"}, its}, b = {{.kind = &kind, .name = "b"}, others};
    const dt_device *devices[] = {&a.device, &a.device, &b.device};
    dt_status *status = dt_devices_agree(NULL, devices, 3, 0);
    if (wanted == NULL) assert_null(status);
    if (wanted != NULL && strstr(dt_status_message(status), wanted) == NULL) fail_msg("%s", dt_status_message(status));
    dt_status_free(status);
}

static void the_first_thing_that_differs_is_said(void **state) {
    (void)state;
    check("sm_90\nlibrary 1\n  f   way 2\n", "sm_90\nlibrary 1\n  f   way 2\n", NULL);
    check("sm_90\nlibrary 1\n", "sm_80\nlibrary 2\n", "a has sm_90, b has sm_80; use GPUs of one architecture");
    check("sm_90\nlibrary 1\n  f   way 2\n", "sm_90\nlibrary 1\n  f   way 3\n", "a has f way 2, b has f way 3; install the same libraries, or");
    check("sm_90\n", "sm_90\nlibrary 1\n", "a has nothing of the kind, b has library 1;");
}

static void spaces_make_no_difference(void **state) {
    (void)state;
    check("sm_90\n  f   way 2\n", "sm_90  \nf way 2", NULL);
    check("sm_90\n  f   way 2\n", "sm_90\n\n  f   way 2\n\n", NULL);
    check("sm_90\n\nf way 2\n", "sm_90\n\nf way 3\n", "a has f way 2, b has f way 3;");
}

static void what_is_not_shown_differs_too(void **state) {
    (void)state;
    static char its[2000], others[2000];
    memset(its, 'w', sizeof its - 1);
    memset(others, 'w', sizeof others - 1);
    others[sizeof others - 2] = 'v';
    check(its, its, NULL);
    check(its, others, "www…, and differ after that; use GPUs of one");
    check("sm_90\nw", "sm_90\nwv", "a has w, b has wv; install");
}

static void a_kind_that_says_nothing_agrees(void **state) {
    (void)state;
    static const dt_device_kind silent = {.name = "silent"};
    const dt_device device = {.kind = &silent}, *devices[] = {&device};
    assert_null(dt_devices_agree(NULL, devices, 1, 0));
}

/* It calls no library; but it is to be the same GPU. */
static void an_idle_device_is_of_the_same_kind(void **state) {
    (void)state;
    speaker idle = {{.kind = &kind, .name = "idle"}, "sm_90\n"}, b = {{.kind = &kind, .name = "b"}, "sm_90\nlibrary 1\n"};
    const dt_device *devices[] = {&idle.device, &b.device, &b.device};
    assert_null(dt_devices_agree(NULL, devices, 3, 1));
    idle.identity = "sm_80\n";
    dt_status *status = dt_devices_agree(NULL, devices, 3, 1);
    assert_non_null(strstr(dt_status_message(status), "idle has sm_80, b has sm_90"));
    dt_status_free(status);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_thing_that_differs_is_said), cmocka_unit_test(spaces_make_no_difference),
        cmocka_unit_test(what_is_not_shown_differs_too),        cmocka_unit_test(an_idle_device_is_of_the_same_kind),
        cmocka_unit_test(a_kind_that_says_nothing_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
