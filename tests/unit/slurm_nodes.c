/* slurm_nodes: the lists of srun: names with ranges, processes of each node, in blocks or in turn; and what is no such list. */
#include "runtime/comm/slurm_nodes.h"
#include "tests/support/expect.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST = 16
};

static dt_status *find(const char *nodes, const char *tasks, const char *order, int n, char *found, size_t bytes) {
    dt_arena *arena = dt_arena_create();
    const char *hosts[MOST];
    dt_status *status = dt_slurm_hosts(nodes, tasks, order, n, arena, hosts);
    found[0] = 0;
    for (int p = 0; p < n && status == NULL; p++) snprintf(found + strlen(found), bytes - strlen(found), "%s%s", p > 0 ? " " : "", hosts[p]);
    dt_arena_destroy(arena);
    return status;
}

static void assert_hosts(const char *nodes, const char *tasks, const char *order, int n, const char *wanted) {
    char found[500];
    expect_ok(find(nodes, tasks, order, n, found, sizeof found));
    assert_string_equal(found, wanted);
}

static void lists_are_expanded(void **state) {
    (void)state;
    assert_hosts("one", "3", NULL, 3, "one one one");
    assert_hosts("a,b", "1(x2)", NULL, 2, "a b");
    assert_hosts("node[1-3,07],gpu", "1(x5)", "block", 5, "node1 node2 node3 node07 gpu");
    assert_hosts("n[08-11]", "1(x4)", NULL, 4, "n08 n09 n10 n11");
    assert_hosts("b[3],a", "2,1", NULL, 3, "b3 b3 a");
    assert_hosts("a,b,c", "2(x2),1", "block:cyclic", 5, "a a b b c");
}

static void processes_are_dealt_in_turn(void **state) {
    (void)state;
    assert_hosts("a,b,c", "2(x2),1", "cyclic", 5, "a b c a b");
    assert_hosts("a,b", "1,3", "cyclic:block", 4, "a b b b");
}

static void what_srun_does_not_write_is_refused(void **state) {
    (void)state;
    char found[500];
    static const char *const no_lists[] = {"", "a[", "a[]", "a[1", "a[3-1]", "a[x]", "a[1-2]b", "a[1,]", "a[0-99999999]"};
    for (size_t i = 0; i < sizeof no_lists / sizeof *no_lists; i++)
        expect_error(find(no_lists[i], "1(x9)", NULL, 1, found, sizeof found), DT_INVALID_ARGUMENT, "is no list of nodes");
    expect_error(find("a,b", "1(x2)", "arbitrary", 2, found, sizeof found), DT_INVALID_ARGUMENT, "use block or cyclic");
    static const char *const no_tasks[] = {"", "1", "0,1", "x", "1(x", "-1(x2)"};
    for (size_t i = 0; i < sizeof no_tasks / sizeof *no_tasks; i++)
        expect_error(find("a,b", no_tasks[i], i % 2 == 0 ? "cyclic" : NULL, 2, found, sizeof found), DT_INVALID_ARGUMENT,
                     "has fewer than 2 processes");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_are_expanded), cmocka_unit_test(processes_are_dealt_in_turn),
                                       cmocka_unit_test(what_srun_does_not_write_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
