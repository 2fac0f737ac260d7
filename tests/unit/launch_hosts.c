/* launch_hosts: machines as a list and as a file of either launcher, written such that they are read back; what is neither is refused. */
#include "runtime/commands/launch_hosts.h"
#include "tests/unit/scratch_folder.h"

static dt_arena *arena;

static int make_arena(void **state) {
    arena = dt_arena_create();
    return arena == NULL || scratch_make(state) != 0 ? -1 : 0;
}

static int drop_arena(void **state) {
    dt_arena_destroy(arena);
    return scratch_remove(state);
}

static void assert_hosts(const dt_hosts *hosts) {
    assert_int_equal(hosts->n, 3);
    assert_string_equal(hosts->items[0].name, "node1");
    assert_string_equal(hosts->items[1].name, "me@node2");
    assert_string_equal(hosts->items[2].name, "10.0.0.3");
    assert_int_equal(hosts->items[0].n_slots, 2);
    assert_int_equal(hosts->items[1].n_slots, 1);
    assert_int_equal(hosts->items[2].n_slots, 16);
}

static void lists_and_files_say_the_same(void **state) {
    (void)state;
    static const char file[] = "# all of them\nnode1 slots=2 # two\n\nme@node2\r\n\t10.0.0.3:16 max_slots=20";
    dt_hosts listed = {0}, read = {0};
    scratch_write("hosts", file, strlen(file));
    assert_ok(dt_hosts_parse("node1:2,me@node2,10.0.0.3:16", arena, &listed));
    assert_ok(dt_hosts_read(scratch_path("hosts"), arena, &read));
    assert_hosts(&listed);
    assert_hosts(&read);
    for (int is_hydra = 0; is_hydra < 2; is_hydra++) {
        dt_hosts again = {0};
        assert_ok(dt_hosts_write(&listed, &(dt_mpirun){.is_hydra = is_hydra}, scratch_path("written")));
        assert_ok(dt_hosts_read(scratch_path("written"), arena, &again));
        assert_hosts(&again);
    }
}

static void what_names_no_machine_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        ",",
                                        ":2",
                                        "a:",
                                        "a:0",
                                        "a:-1",
                                        "a:2x",
                                        "a:99999999999999999999",
                                        "-a",
                                        "a b",
                                        "a\nb",
                                        "a#b:2",
                                        "\"a\":2",
                                        "a,,b",
                                        "a:1073741823,b:1073741823,c:1073741823"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dt_hosts hosts = {0};
        assert_fails(dt_hosts_parse(wrong[i], arena, &hosts), DT_INVALID_ARGUMENT, "--hosts ");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_and_files_say_the_same), cmocka_unit_test(what_names_no_machine_is_refused)};
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
