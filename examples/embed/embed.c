/* embed: an application that trains a program in a loop of its own.
 *
 *   embed PROGRAM.dtx FOLDER
 *
 * It makes each batch on the fly (pictures of a bright square, whose place is the label), lowers the rate of learning half way, and saves a checkpoint
 * in FOLDER that dtrun can go on from. The sizes are those of embed.dt. */
#include <dtrt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 32,
    SIDE = 28,
    STEPS = 200
};

static void check(dt_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "embed: %s\n", status->message);
    exit(1);
}

/* The same numbers on every machine. */
static unsigned random_below(unsigned *state, unsigned n) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % n;
}

/* Noise, and in it a square of 6 by 6 whose place of five by two is the label. */
static void make_batch(unsigned *state, unsigned char image[ROWS][SIDE][SIDE], unsigned char label[ROWS]) {
    for (int row = 0; row < ROWS; row++) {
        label[row] = (unsigned char)random_below(state, 10);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) image[row][y][x] = (unsigned char)random_below(state, 100);
        int top = label[row] / 5 * 14 + 4, left = label[row] % 5 * 5 + 1;
        for (int y = top; y < top + 6; y++) memset(&image[row][y][left], 200, 6);
    }
}

static void train(dtrt_session *session) {
    static unsigned char image[ROWS][SIDE][SIDE], label[ROWS];
    const int64_t image_dims[] = {ROWS, SIDE, SIDE}, label_dims[] = {ROWS};
    const dtrt_array batch[] = {{image, DTRT_U8, 3, image_dims, NULL}, {label, DTRT_U8, 1, label_dims, NULL}};
    int step = dtrt_find_step(dtrt_session_program(session), "train");
    unsigned state = 1;
    for (int i = 1; i <= STEPS; i++) {
        if (i == STEPS / 2 + 1) check(dtrt_set_launch(session, "rate", 0.02));
        make_batch(&state, image, label);
        check(dtrt_step(session, step, batch, 0));
        if (i % 50 != 0) continue;
        double loss, accuracy;
        check(dtrt_total(session, step, "loss", &loss));
        check(dtrt_total(session, step, "accuracy", &accuracy));
        check(dtrt_reset_totals(session, step));
        printf("steps %d to %d  loss %.4f  accuracy %.4f\n", i - 49, i, loss, accuracy);
    }
}

int main(int argc, char **argv) {
    dtrt_program *program;
    dtrt_session *session;
    char *path;
    if (argc != 3) {
        fprintf(stderr, "usage: embed PROGRAM.dtx FOLDER\n");
        return 2;
    }
    check(dtrt_open(argv[1], NULL, &program));
    check(dtrt_session_create(program, NULL, &session));
    check(dtrt_initialize(session));
    train(session);
    check(dtrt_save(session, argv[2], &path));
    printf("checkpoint %s\n", path);
    dtrt_free(path);
    check(dtrt_session_destroy(session));
    dtrt_close(program);
    return 0;
}
