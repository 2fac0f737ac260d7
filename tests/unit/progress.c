/* progress: on a terminal one line that is drawn again and taken away, elsewhere a line every few seconds, and nothing for what is soon done. */
#include "compiler/commands/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double time_now;
static double clock_of_test(void) { return time_now; }

/* A piece of work of n parts, each of which takes `seconds`: all that is written. */
static void expect(bool live, int n, double seconds, const char *expected) {
    char *written;
    size_t n_bytes;
    FILE *stream = open_memstream(&written, &n_bytes);
    dt_progress progress;
    time_now = 100;
    dt_progress_begin(&progress, stream, live, clock_of_test, "checking gan.dt");
    for (int i = 1; i <= n; i++) {
        time_now += seconds;
        dt_progress_tell(&progress, (double)i / n);
    }
    dt_progress_end(&progress);
    fclose(stream);
    assert_string_equal(written, expected);
    free(written);
}

static void a_terminal_has_one_line_that_goes_away(void **state) {
    (void)state;
    expect(true, 3, 0.2, "\rchecking gan.dt: 33 %\033[K\rchecking gan.dt: 67 %\033[K\rchecking gan.dt: 100 %\033[K\r\033[K");
    expect(true, 4, 0.0625, "\rchecking gan.dt: 50 %\033[K\rchecking gan.dt: 100 %\033[K\r\033[K");
    expect(true, 3, 0.01, "");
}

static void a_file_has_a_line_every_five_seconds(void **state) {
    (void)state;
    expect(false, 5, 3, "checking gan.dt: 40 % after 6 s\nchecking gan.dt: 80 % after 12 s\n");
    expect(false, 4, 1, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_has_one_line_that_goes_away),
        cmocka_unit_test(a_file_has_a_line_every_five_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
