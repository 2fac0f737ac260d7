/* dtrt_fixture: a small program, compiled once, for the tests of include/dtrt.h: two dense layers with dropout, trained by adam. */
#ifndef DT_TESTS_UNIT_DTRT_FIXTURE_H
#define DT_TESTS_UNIT_DTRT_FIXTURE_H

#include "include/dtrt.h"
#include "tests/unit/scratch_folder.h"

enum {
    NET_ROWS = 6, /* its batch */
    NET_IN = 4,
    NET_OUT = 3
};

static const char net_program[] = "use nn, losses, optimizers\n"
                                  "launch rate = 1e-3\n"
                                  "data rows = npy(\"x.npy\", \"label.npy\") | shuffle(64) | batch(6)\n"
                                  "data test = npy(\"x.npy\", \"label.npy\") | batch(6)\n"
                                  "model Net(x: f32[B, 4]) -> f32[B, 3] {\n"
                                  "    x = dropout(dense(x, units: 5, activation: relu), rate: 0.25)\n"
                                  "    return dense(x, units: 3)\n"
                                  "}\n"
                                  "step train(x: f32[B, 4], label: i32[B]) from rows {\n"
                                  "    loss = sparse_categorical_crossentropy(label, Net(x))\n"
                                  "    minimize(loss, adam(learning_rate: rate))\n"
                                  "    report loss: mean(loss), n: sum(f32(label == label))\n"
                                  "}\n"
                                  "step evaluate(x: f32[B, 4], label: i32[B]) from test {\n"
                                  "    report accuracy: mean(argmax(Net(x)) == label)\n"
                                  "}\n"
                                  "step predict(x: f32[B, 4]) {\n"
                                  "    return score: Net(x), same: x\n"
                                  "}\n";

static dtrt_program *net;
static int net_train, net_predict;

static inline int net_open(void **state) {
    if (scratch_make(state) != 0) return -1;
    scratch_write("net.dt", net_program, strlen(net_program));
    char command[512];
    snprintf(command, sizeof command, "dtc compile %s -o %s --cpu x86-64-v3", scratch_path("net.dt"), scratch_path("net.dtx"));
    if (system(command) != 0) return -1;
    assert_ok(dtrt_open(scratch_path("net.dtx"), NULL, &net));
    net_train = dtrt_find_step(net, "train");
    net_predict = dtrt_find_step(net, "predict");
    return 0;
}

static inline int net_close(void **state) {
    dtrt_close(net);
    return scratch_remove(state);
}

/* A batch, none of whose numbers is exact in binary. */
typedef struct net_batch {
    float x[NET_ROWS][NET_IN];
    int32_t label[NET_ROWS];
} net_batch;

static inline net_batch net_make(int number) {
    net_batch made;
    for (int r = 0; r < NET_ROWS; r++) {
        for (int i = 0; i < NET_IN; i++) made.x[r][i] = (float)((number * 131 + r * 37 + i * 11) % 101) / 101.0f;
        made.label[r] = (number + r * 2) % NET_OUT;
    }
    return made;
}

static const int64_t net_x_dims[] = {NET_ROWS, NET_IN}, net_label_dims[] = {NET_ROWS};

/* Both inputs of `train`. */
#define NET_ARRAYS(batch)                                                                                                                            \
    {                                                                                                                                                \
        {(batch).x, DTRT_F32, 2, net_x_dims, NULL}, { (batch).label, DTRT_I32, 1, net_label_dims, NULL }                                             \
    }

static inline dtrt_session *net_session(const dtrt_session_options *options) {
    dtrt_session *session;
    assert_ok(dtrt_session_create(net, options, &session));
    assert_ok(dtrt_initialize(session));
    return session;
}

/* All variables, one after another; the caller frees them. */
static inline char *net_variables(dtrt_session *session, size_t *bytes) {
    dtrt_program_info about = DTRT_INIT(dtrt_program_info);
    char *all = NULL;
    *bytes = 0;
    assert_ok(dtrt_program_describe(net, &about));
    for (int v = 0; v < about.n_variables; v++) {
        dtrt_tensor tensor = DTRT_INIT(dtrt_tensor);
        assert_ok(dtrt_describe_variable(net, v, &tensor));
        char *longer = realloc(all, *bytes + tensor.row_bytes);
        assert_non_null(longer);
        all = longer;
        assert_ok(dtrt_read(session, v, all + *bytes, tensor.row_bytes));
        *bytes += tensor.row_bytes;
    }
    return all;
}

static inline void net_assert_same(dtrt_session *a, dtrt_session *b) {
    size_t n_a, n_b;
    char *of_a = net_variables(a, &n_a), *of_b = net_variables(b, &n_b);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(of_a, of_b, n_a);
    free(of_a);
    free(of_b);
}

#endif
