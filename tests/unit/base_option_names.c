/* option_names: options become members of structs, and commands stay as they are typed. */
#include "base/option_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void check(const char *typed, const char *wanted) {
    char members[256];
    size_t n = dt_option_names_to_members(typed, NULL);
    assert_true(n <= sizeof members);
    assert_int_equal(dt_option_names_to_members(typed, members), n);
    assert_int_equal(n, strlen(wanted) + 1);
    assert_string_equal(members, wanted);
}

static void an_option_becomes_a_member(void **state) {
    (void)state;
    check("", "");
    check("--global-batch must be a multiple of --replicas", "`global_batch` must be a multiple of `replicas`");
    check("name it (--data), or \"--from\"", "name it (`data`), or \"`from`\"");
    check("--emit=asm: -O leaves it out", "`emit`=asm: `optimize` leaves it out");
}

static void what_is_called_otherwise_is_known(void **state) {
    (void)state;
    check("--bad-index=ignore goes on; --bad-index", "`ignore_bad_index` goes on; `ignore_bad_index`");
    check("--library none, --library=none", "`no_libraries`, `no_libraries`");
    check("--init-all is not --init", "`init_all` is not `dtrt_load_weights`");
    check("-o %s", "`output` %s");
}

static void what_is_no_option_stays(void **state) {
    (void)state;
    check("a--b -- --1 -5 -ox - --", "a--b -- --1 -5 -ox - --");
}

static void a_command_stays_as_it_is_typed(void **state) {
    (void)state;
    check("--batch: dtc compile m.dt --batch 8", "`batch`: dtc compile m.dt --batch 8");
    check("`dtrun train --resume` or --resume", "`dtrun train --resume` or `resume`");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_option_becomes_a_member),
        cmocka_unit_test(what_is_called_otherwise_is_known),
        cmocka_unit_test(what_is_no_option_stays),
        cmocka_unit_test(a_command_stays_as_it_is_typed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
