/* host_memory: how much a process may still have, of the machine, of control groups of both versions, and under its own limits. */
#include "runtime/devices/host_memory.h"
#include "tests/unit/scratch_folder.h"

#include <sys/resource.h>

#define MIB ((int64_t)1 << 20)

static void write_text(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s", scratch_path(name));
    *strrchr(path, '/') = '\0';
    assert_ok(dt_file_make_folders(path));
    scratch_write(name, text, strlen(text));
}

static void assert_free(int64_t bytes, const char *wanted) {
    const char *bound;
    assert_int_equal(dt_host_memory_find_free(scratch, &bound), bytes);
    assert_string_equal(bound, wanted);
}

static void the_machine_says_what_is_available(void **state) {
    (void)state;
    assert_free(INT64_MAX, "");
    write_text("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    2048000 kB\n");
    assert_free(2000 * MIB, "");
}

static void groups_of_version_2_and_those_around_them(void **state) {
    (void)state;
    write_text("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    assert_free(2000 * MIB, ""); /* a group that is out of sight */
    write_text("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
    write_text("sys/fs/cgroup/slurm/job_7/memory.max", "524288000\n");
    write_text("sys/fs/cgroup/slurm/job_7/memory.current", "419430400\n");
    assert_free(100 * MIB, " in its control group");
    write_text("sys/fs/cgroup/slurm/job_7/memory.stat", "anon 1\ninactive_file 104857600\nactive_file 52428800\n");
    assert_free(250 * MIB, " in its control group"); /* what files take is given back */
    write_text("sys/fs/cgroup/memory.max", "104857600\n");
    write_text("sys/fs/cgroup/memory.current", "209715200\n"); /* of a limit that was lowered */
    assert_free(0, " in its control group");
    write_text("proc/self/cgroup", "0::/\n");
    assert_free(0, " in its control group");
    assert_ok(dt_file_remove_tree(scratch_path("sys")));
    assert_free(2000 * MIB, "");
}

static void groups_of_version_1(void **state) {
    (void)state;
    write_text("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/1\n0::/\nnonsense\n");
    write_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_text("sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576000\n");
    assert_free(2000 * MIB, "");
    write_text("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "104857600\n");
    write_text("sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "73400320\n");
    write_text("sys/fs/cgroup/memory/docker/1/memory.stat", "inactive_file 1\ntotal_inactive_file 10485760\n");
    assert_free(40 * MIB, " in its control group");
}

static void limits_of_the_process(void **state) {
    (void)state;
    static const struct {
        int resource;
        const char *status, *bound;
    } limits[] = {{RLIMIT_AS, "VmPeak: 9 kB\nVmSize:   1024000 kB\n", " under `ulimit -v`"},
                  {RLIMIT_DATA, "VmData:\t1024000 kB\n", " under `ulimit -d`"}};
    write_text("proc/self/cgroup", "");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit before, lower;
        assert_int_equal(getrlimit(limits[i].resource, &before), 0);
        lower = (struct rlimit){.rlim_cur = (rlim_t)(1500 * MIB), .rlim_max = before.rlim_max};
        write_text("proc/self/status", limits[i].status);
        assert_int_equal(setrlimit(limits[i].resource, &lower), 0);
        const char *bound;
        int64_t bytes = dt_host_memory_find_free(scratch, &bound);
        assert_int_equal(setrlimit(limits[i].resource, &before), 0);
        assert_int_equal(bytes, 500 * MIB);
        assert_string_equal(bound, limits[i].bound);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machine_says_what_is_available),
        cmocka_unit_test(groups_of_version_2_and_those_around_them),
        cmocka_unit_test(groups_of_version_1),
        cmocka_unit_test(limits_of_the_process),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
