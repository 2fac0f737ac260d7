/* serve: answers requests with a trained classifier, one image at a time.
 *
 *   serve PROGRAM.dtx WEIGHTS < IMAGES > LABELS
 *
 * A request is the bytes of one image (28 by 28 of them for fashion_cnn), the answer a line: the label, and how probable it is. The session is
 * forward-only, so it has no gradients and no optimizer's state, has one row and one thread, and the request is read straight into the buffer that
 * the kernels read. At the end it says on stderr how long answers took, reading and writing not counted. */
#include <dtrt.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(dt_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "serve: %s\n", status->message);
    exit(1);
}

static double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void say_latency(double *times, size_t n) {
    if (n == 0) return;
    qsort(times, n, sizeof *times, by_size);
    fprintf(stderr, "%zu answers: p50 %.1f us, p99 %.1f us\n", n, times[n / 2], times[n * 99 / 100]);
}

/* Whether another request was read: whole, or else there are no more. */
static int read_request(void *image, size_t image_bytes, size_t n_before) {
    size_t n_bytes = fread(image, 1, image_bytes, stdin);
    if (n_bytes == image_bytes) return 1;
    if (n_bytes == 0 && !ferror(stdin)) return 0;
    fprintf(stderr, "serve: request %zu: %zu of the %zu bytes of an image\n", n_before + 1, n_bytes, image_bytes);
    exit(1);
}

/* Opens the program and gives its weights to a session of one row. */
static dtrt_session *open_session(const char *path, const char *weights) {
    dtrt_program *program;
    dtrt_session *session;
    dtrt_session_options options = DTRT_INIT(dtrt_session_options);
    options.forward_only = 1;
    options.global_batch = 1;
    options.threads = 1;
    check(dtrt_open(path, NULL, &program));
    check(dtrt_session_create(program, &options, &session));
    check(dtrt_load_weights(session, weights, NULL));
    dtrt_close(program); /* the session keeps it */
    return session;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: serve PROGRAM.dtx WEIGHTS < IMAGES > LABELS\n");
        return 2;
    }
    dtrt_session *session = open_session(argv[1], argv[2]);
    dtrt_program *program = dtrt_session_program(session);
    int predict = dtrt_find_step(program, "predict");
    int label = dtrt_find_result(program, predict, "label"), probability = dtrt_find_result(program, predict, "probability");
    void *image;
    size_t image_bytes, n = 0, capacity = 1024;
    double *times = malloc(capacity * sizeof *times);
    check(dtrt_step_buffer(session, predict, 0, &image, &image_bytes));

    while (times != NULL && read_request(image, image_bytes, n)) {
        int64_t class;
        float probabilities[10];
        double began = microseconds();
        check(dtrt_step(session, predict, NULL, 1));
        check(dtrt_result(session, predict, label, &class, sizeof class, NULL));
        check(dtrt_result(session, predict, probability, probabilities, sizeof probabilities, NULL));
        times[n++] = microseconds() - began;
        printf("%d %.4f\n", (int)class, probabilities[class]);
        if (n == capacity) times = realloc(times, (capacity *= 2) * sizeof *times);
    }
    if (times != NULL) say_latency(times, n);
    free(times);
    check(dtrt_session_destroy(session));
    return 0;
}
