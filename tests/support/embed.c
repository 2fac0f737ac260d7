/* What a C17 program does with the installed libraries: it compiles a program, trains it on arrays of its own, and prints the loss. */
#include <dtc.h>
#include <dtrt.h>

#include <stdio.h>
#include <stdlib.h>

static const char text[] = "use nn, losses, optimizers\n"
                           "model Line(x: f32[B, 2]) -> f32[B, 1] { return dense(x, units: 1) }\n"
                           "step train(x: f32[B, 2], y: f32[B, 1]) {\n"
                           "    loss = mean_squared_error(y, Line(x))\n"
                           "    minimize(loss, sgd(learning_rate: 0.2))\n"
                           "    report loss: mean(loss)\n"
                           "}\n";

static void require(dt_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "%s\n", status->message);
    exit(1);
}

int main(void) {
    dtc_program source = {.size = sizeof source, .path = "line.dt", .source = text, .batch = 4};
    dtc_bytes bytes;
    dtrt_program *program;
    dtrt_session *session;
    require(dtc_compile(&source, NULL, &bytes));
    require(dtrt_open_memory("line.dtx", bytes.data, bytes.n_bytes, NULL, &program));
    dtc_free(bytes.data);
    require(dtrt_session_create(program, NULL, &session));
    require(dtrt_initialize(session));

    float x[] = {0, 0, 1, 0, 0, 1, 1, 1}, y[] = {1, 4, -1, 2}; /* y = 3 a - 2 b + 1 */
    dtrt_array arrays[] = {{x, DTRT_F32, 2, (int64_t[]){4, 2}, NULL}, {y, DTRT_F32, 2, (int64_t[]){4, 1}, NULL}};
    double loss = 1;
    int train = dtrt_find_step(program, "train");
    for (int i = 0; i < 200; i++) require(dtrt_step(session, train, arrays, 0));
    require(dtrt_report(session, train, "loss", &loss));
    printf("%s, dtrt %s: loss %g\n", dtc_version(), dtrt_version(), loss);
    require(dtrt_session_destroy(session));
    dtrt_close(program);
    return loss < 1e-3 ? 0 : 1;
}
