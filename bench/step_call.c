/* step_call: the median time of a call of dtrt_step with one batch of zeros and of reading its first report, from C: what bench/python_step.py holds
 * the same calls from Python against.
 *
 *   step_call ARTIFACT DEVICES STEPS      prints microseconds */
#include "include/dtrt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(dt_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "step_call: %s\n", status->message);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *allocate(size_t n, size_t bytes) {
    void *memory = calloc(n > 0 ? n : 1, bytes);
    if (memory == NULL) exit(1);
    return memory;
}

/* A batch of zeros for an input. */
static dtrt_array zeros(const dtrt_tensor *input, int64_t rows) {
    int64_t *dims = allocate((size_t)input->n_dims, sizeof *dims);
    memcpy(dims, input->dims, sizeof *dims * (size_t)input->n_dims);
    int has_rows = input->n_dims > 0 && dims[0] == DTRT_ROWS;
    if (has_rows) dims[0] = rows;
    void *data = allocate(has_rows ? (size_t)rows : 1, input->row_bytes);
    return (dtrt_array){.data = data, .dtype = input->dtype, .n_dims = input->n_dims, .dims = dims};
}

int main(int n_arguments, char **arguments) {
    if (n_arguments != 4) return fputs("usage: step_call ARTIFACT DEVICES STEPS\n", stderr), 2;
    size_t n = (size_t)strtoll(arguments[3], NULL, 10);
    dtrt_session_options options = DTRT_INIT(dtrt_session_options);
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    dtrt_step_info about = DTRT_INIT(dtrt_step_info);
    dtrt_program *program;
    dtrt_session *session;
    options.devices = arguments[2];
    check(dtrt_open(arguments[1], NULL, &program));
    check(dtrt_session_create(program, &options, &session));
    check(dtrt_initialize(session));
    check(dtrt_session_describe(session, &info));
    int step = dtrt_find_step(program, "train");
    check(dtrt_describe_step(program, step, &about));

    dtrt_array *arrays = allocate((size_t)about.n_inputs, sizeof *arrays);
    double *values = allocate((size_t)about.n_reports, sizeof *values), *times = allocate(n, sizeof *times);
    for (int i = 0; i < about.n_inputs; i++) {
        dtrt_tensor input = DTRT_INIT(dtrt_tensor);
        check(dtrt_describe_input(program, step, i, &input));
        arrays[i] = zeros(&input, info.global_batch);
    }
    for (size_t i = 0; i < n; i++) {
        double begin = now();
        check(dtrt_step(session, step, arrays, 0));
        check(dtrt_reports(session, step, values));
        times[i] = now() - begin;
    }
    qsort(times, n, sizeof *times, compare);
    printf("%.3f\n", times[n / 2]);

    for (int i = 0; i < about.n_inputs; i++) {
        free((void *)(uintptr_t)arrays[i].data);
        free((void *)(uintptr_t)arrays[i].dims);
    }
    free(arrays);
    free(values);
    free(times);
    check(dtrt_session_destroy(session));
    dtrt_close(program);
    return 0;
}
