/* dtrt_data_fixture: the program of dtrt_fixture.h with files of data, and dtrun beside it. */
#ifndef DT_TESTS_UNIT_DTRT_DATA_FIXTURE_H
#define DT_TESTS_UNIT_DTRT_DATA_FIXTURE_H

#include "tests/support/npy_file.h"
#include "tests/unit/dtrt_fixture.h"

#include <stdlib.h>

enum {
    N_EXAMPLES = 20 /* four batches, the last one short */
};

static inline void write_npy(const char *name, const char *header, const void *data, size_t n_bytes) {
    char file[4096];
    scratch_write(name, file, npy_file_make(file, header, data, n_bytes));
}

static inline int open_all(void **state) {
    float x[N_EXAMPLES][NET_IN];
    int32_t label[N_EXAMPLES];
    if (net_open(state) != 0) return -1;
    for (int e = 0; e < N_EXAMPLES; e++) {
        net_batch batch = net_make(e);
        memcpy(x[e], batch.x[0], sizeof x[e]);
        label[e] = batch.label[0];
    }
    write_npy("x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (20, 4), }", x, sizeof x);
    write_npy("label.npy", "{'descr': '<i4', 'fortran_order': False, 'shape': (20,), }", label, sizeof label);
    return 0;
}

static inline dtrt_session_options with_data(void) {
    dtrt_session_options options = DTRT_INIT(dtrt_session_options);
    options.data = scratch;
    options.seed = 7;
    return options;
}

static inline dtrt_session *open_session(void) {
    dtrt_session_options options = with_data();
    return net_session(&options);
}

static inline void destroy(dtrt_session *session) { assert_ok(dtrt_session_destroy(session)); }

static inline void dtrun(const char *arguments) {
    char command[1024];
    snprintf(command, sizeof command, "dtrun %s --data %s --seed 7 > /dev/null", arguments, scratch);
    assert_int_equal(system(command), 0);
}

static inline char *read_scratch(const char *name, size_t *bytes) {
    char *data;
    assert_ok(dt_file_read(scratch_path(name), &data, bytes));
    return data;
}

static inline void assert_same_files(const char *a, const char *b) {
    size_t n_a, n_b;
    char *of_a = read_scratch(a, &n_a), *of_b = read_scratch(b, &n_b);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(of_a, of_b, n_a);
    free(of_a), free(of_b);
}

#endif
