/* launcher: what each launcher sets is understood, and what none can have set is an error. */
#include "runtime/comm/launcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static dt_launcher found;

/* In an environment of these variables alone. */
static const dt_launcher *find(int n, const char *const (*variables)[2]) {
    clearenv();
    for (int i = 0; i < n; i++) setenv(variables[i][0], variables[i][1], 1);
    assert_null(dt_launcher_find(&found));
    return &found;
}
#define FIND(...) find(sizeof((const char *const[][2]){__VA_ARGS__}) / sizeof(char *[2]), (const char *const[][2]){__VA_ARGS__})

static void assert_launcher(const dt_launcher *launcher, dt_launcher_kind kind, int process, int n, int process_of_host, int n_of_host) {
    assert_int_equal(launcher->kind, kind);
    assert_int_equal(launcher->process, process);
    assert_int_equal(launcher->n_processes, n);
    assert_int_equal(launcher->process_of_host, process_of_host);
    assert_int_equal(launcher->n_processes_of_host, n_of_host);
    assert_true(launcher->host[0] != 0);
}

static void without_one_there_is_one_process(void **state) {
    (void)state;
    assert_launcher(FIND({"PATH", "/usr/bin"}), DT_LAUNCHER_NONE, 0, 1, 0, 1);
    assert_launcher(FIND({"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}), DT_LAUNCHER_NONE, 0, 1, 0, 1); /* sbatch's own script */
}

static void one_process_alone_has_no_launcher(void **state) {
    (void)state;
    assert_launcher(
        FIND({"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}),
        DT_LAUNCHER_NONE, 0, 1, 0, 1);
    assert_launcher(FIND({"PMI_SIZE", "1"}, {"PMI_RANK", "0"}), DT_LAUNCHER_NONE, 0, 1, 0, 1);
}

static void open_mpi_is_known(void **state) {
    (void)state;
    assert_launcher(FIND({"OMPI_COMM_WORLD_SIZE", "6"}, {"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}, {"PMIX_RANK", "4"}, {"SLURM_NTASKS", "2"}),
                    DT_LAUNCHER_OPEN_MPI, 4, 6, 1, 3);
    assert_string_equal(dt_launcher_name(&found), "mpirun of Open MPI");
}

/* Of a training with parameter servers alone. */
static void processes_without_mpi_are_numbered(void **state) {
    (void)state;
    static const struct {
        dt_launcher_kind kind;
        int process, n;
        const char *variables[3][2];
    } cases[] = {{DT_LAUNCHER_SLURM, 2, 4, {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}}},
                 {DT_LAUNCHER_PRRTE, 3, 0, {{"PMIX_RANK", "3"}}},
                 {DT_LAUNCHER_PMIX, 3, 5, {{"PMIX_RANK", "3"}, {"SLURM_STEP_NUM_TASKS", "5"}, {"SLURM_PROCID", "3"}}},
                 {DT_LAUNCHER_OPEN_MPI, 1, 3, {{"PMIX_RANK", "1"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "3"}}},
                 {DT_LAUNCHER_KUBERNETES, 6, 0, {{"JOB_COMPLETION_INDEX", "6"}}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clearenv();
        for (int v = 0; v < 3 && cases[i].variables[v][0] != NULL; v++) setenv(cases[i].variables[v][0], cases[i].variables[v][1], 1);
        assert_null(dt_launcher_find_numbered(&found));
        assert_int_equal(found.kind, cases[i].kind);
        assert_int_equal(found.process, cases[i].process);
        assert_int_equal(found.n_processes, cases[i].n);
        assert_null(dt_launcher_find(&found)); /* which MPI could connect */
        bool has_mpi = cases[i].kind == DT_LAUNCHER_OPEN_MPI || cases[i].kind == DT_LAUNCHER_PMIX;
        assert_int_equal(found.kind, has_mpi ? cases[i].kind : DT_LAUNCHER_NONE);
    }
    setenv("JOB_COMPLETION_INDEX", "six", 1);
    dt_status *status = dt_launcher_find_numbered(&found);
    assert_non_null(status);
    assert_non_null(strstr(dt_status_message(status), "JOB_COMPLETION_INDEX=six"));
    dt_status_free(status);
}

static void mpich_is_known(void **state) {
    (void)state;
    assert_launcher(FIND({"PMI_SIZE", "4"}, {"PMI_RANK", "3"}, {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}), DT_LAUNCHER_PMI, 3, 4, 1, 2);
    assert_launcher(FIND({"PMI_SIZE", "4"}, {"PMI_RANK", "3"}), DT_LAUNCHER_PMI, 3, 4, 0, 0);
}

/* Tasks of the machines, in SLURM_STEP_TASKS_PER_NODE: 2, 2, 2, 1. */
static void srun_is_known(void **state) {
    (void)state;
    assert_launcher(FIND({"PMIX_RANK", "5"}, {"SLURM_STEP_NUM_TASKS", "7"}, {"SLURM_NTASKS", "9"}, {"SLURM_NODEID", "2"}, {"SLURM_LOCALID", "1"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}),
                    DT_LAUNCHER_PMIX, 5, 7, 1, 2);
    assert_launcher(
        FIND({"PMIX_RANK", "6"}, {"SLURM_NTASKS", "7"}, {"SLURM_NODEID", "3"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}),
        DT_LAUNCHER_PMIX, 6, 7, 0, 1);
    assert_launcher(FIND({"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"SLURM_NODEID", "1"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "2,1"}),
                    DT_LAUNCHER_PMI, 2, 3, 0, 1);
    assert_launcher(
        FIND({"PMIX_RANK", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_NODEID", "5"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "2"}),
        DT_LAUNCHER_PMIX, 0, 2, 0, 0);
}

static void wrong_numbers_are_errors(void **state) {
    (void)state;
    static const char *const wrong[][2] = {{"4", "4"}, {"4", "-1"}, {"4", "1x"}, {"4x", "1"}, {"0", "0"}, {"99999999999", "0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        clearenv();
        setenv("PMI_SIZE", wrong[i][0], 1);
        setenv("PMI_RANK", wrong[i][1], 1);
        dt_status *status = dt_launcher_find(&found);
        assert_int_equal(dt_status_code(status), DT_INVALID_ARGUMENT);
        assert_non_null(strstr(dt_status_message(status), "the launcher should have set"));
        dt_status_free(status);
    }
}

static void tf_config_gets_a_sentence_where_nobody_launched(void **state) {
    (void)state;
    assert_null(dt_launcher_note(FIND({"PATH", "/usr/bin"})));
    assert_non_null(strstr(dt_launcher_note(FIND({"TF_CONFIG", "{}"})), "mpirun -n 4 dtrun train"));
    assert_null(dt_launcher_note(FIND({"TF_CONFIG", "{}"}, {"PMI_SIZE", "4"}, {"PMI_RANK", "3"})));
}

static void srun_without_mpi_gets_a_sentence(void **state) {
    (void)state;
    assert_non_null(strstr(dt_launcher_note(FIND({"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"})), "srun --mpi=pmix"));
    assert_null(dt_launcher_note(FIND({"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"})));
    assert_null(dt_launcher_note(FIND({"SLURM_STEP_NUM_TASKS", "4"}, {"PMIX_RANK", "2"})));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_one_there_is_one_process),
        cmocka_unit_test(one_process_alone_has_no_launcher),
        cmocka_unit_test(open_mpi_is_known),
        cmocka_unit_test(processes_without_mpi_are_numbered),
        cmocka_unit_test(mpich_is_known),
        cmocka_unit_test(srun_is_known),
        cmocka_unit_test(wrong_numbers_are_errors),
        cmocka_unit_test(tf_config_gets_a_sentence_where_nobody_launched),
        cmocka_unit_test(srun_without_mpi_gets_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
