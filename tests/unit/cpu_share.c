/* cpu_share: processes that may use the same cores take shares that cover all of them and overlap only where there are more processes than cores. */
#include "base/cpu.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct taker {
    int index, n;
    cpu_set_t taken;
} taker;

static void *take(void *argument) {
    taker *self = argument;
    dt_cpu_take_share(self->index, self->n);
    sched_getaffinity(0, sizeof self->taken, &self->taken);
    return NULL;
}

static void shares_are_alike_and_apart(void **state) {
    (void)state;
    int n_cores = dt_cpu_n_cores();
    for (int n = 1; n <= 2 * n_cores; n++) {
        int times[CPU_SETSIZE] = {0};
        for (int i = 0; i < n; i++) {
            pthread_t thread;
            taker one = {.index = i, .n = n};
            assert_int_equal(pthread_create(&thread, NULL, take, &one), 0);
            pthread_join(thread, NULL);
            assert_int_equal(CPU_COUNT(&one.taken), n_cores / n > 0 ? n_cores / n : 1);
            for (int core = 0; core < CPU_SETSIZE; core++) times[core] += CPU_ISSET(core, &one.taken) != 0;
        }
        for (int core = 0; core < CPU_SETSIZE; core++) assert_true(times[core] <= (n + n_cores - 1) / n_cores);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shares_are_alike_and_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
