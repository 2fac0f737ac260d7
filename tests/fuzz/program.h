/* program: a small program, compiled once, for targets that need an artifact: two dense layers, trained on files that are written beside it. */
#ifndef DT_TESTS_FUZZ_PROGRAM_H
#define DT_TESTS_FUZZ_PROGRAM_H

#include "include/dtc.h"
#include "tests/fuzz/scratch.h"
#include "tests/support/npy_file.h"

#include <stdint.h>
#include <string.h>

enum {
    PROGRAM_ROWS = 6, /* its batch */
    PROGRAM_IN = 4,
    PROGRAM_OUT = 3,
    PROGRAM_EXAMPLES = 20
};

static const char program_text[] = "use nn, losses, optimizers\n"
                                   "launch rate = 1e-3\n"
                                   "launch warmup = 10\n"
                                   "launch frozen = false\n"
                                   "data rows = npy(\"x.npy\", \"label.npy\") | shuffle(64) | batch(6)\n"
                                   "data test = npy(\"x.npy\", \"label.npy\") | batch(6)\n"
                                   "model Net(x: f32[B, 4]) -> f32[B, 3] {\n"
                                   "    return dense(dropout(dense(x, units: 5, activation: relu), rate: 0.25), units: 3)\n"
                                   "}\n"
                                   "step train(x: f32[B, 4], label: i32[B]) from rows {\n"
                                   "    loss = sparse_categorical_crossentropy(label, Net(x))\n"
                                   "    minimize(where(frozen, 0.0, f32(warmup) / 10) * loss, adam(learning_rate: rate))\n"
                                   "    report loss: mean(loss), n: sum(f32(label == label))\n"
                                   "}\n"
                                   "step evaluate(x: f32[B, 4], label: i32[B]) from test {\n"
                                   "    report accuracy: mean(argmax(Net(x)) == label)\n"
                                   "}\n"
                                   "step predict(x: f32[B, 4]) {\n"
                                   "    return score: Net(x), same: x\n"
                                   "}\n";

static inline void program_write_npy(const char *name, const char *header, const void *data, size_t n_bytes) {
    char file[1024];
    scratch_write(name, file, npy_file_make(file, header, data, n_bytes));
}

/* Compiles it, into net.dtx too, and writes its data. The artifact lasts as long as the process. */
static inline dtc_bytes program_make(void) {
    const dtc_program program = {.size = sizeof program, .path = "net.dt", .source = program_text};
    const dtc_compile_options options = {.size = sizeof options, .cpu = "x86-64-v3"};
    float x[PROGRAM_EXAMPLES][PROGRAM_IN];
    int32_t label[PROGRAM_EXAMPLES];
    dtc_bytes artifact;
    dt_status *status = dtc_compile(&program, &options, &artifact);
    if (status != NULL) {
        fprintf(stderr, "%s\n", status->message);
        abort();
    }
    for (int e = 0; e < PROGRAM_EXAMPLES; e++) {
        for (int i = 0; i < PROGRAM_IN; i++) x[e][i] = (float)((e * 37 + i * 11) % 101) / 101.0f;
        label[e] = e * 2 % PROGRAM_OUT;
    }
    scratch_make();
    scratch_write("net.dtx", artifact.data, artifact.n_bytes);
    program_write_npy("x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (20, 4), }", x, sizeof x);
    program_write_npy("label.npy", "{'descr': '<i4', 'fortran_order': False, 'shape': (20,), }", label, sizeof label);
    return artifact;
}

#endif
