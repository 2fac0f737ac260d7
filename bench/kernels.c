/* kernels: the speed of single kernels of generated code on one core, beside OpenBLAS and oneDNN where these are installed.
 *
 *   build/bench/kernels x86-64-v3|x86-64-v4|native [WORD]      only those whose name contains WORD
 *
 * Each case is a program of one op, so that what is measured is what the passes make of it. Times are the best of many runs on the same
 * buffers, ours and theirs. A ratio is to the faster of the two libraries with the same arithmetic; Winograd's convolutions stand beside it, and
 * the last figure of a mean is that of the ratios with these counted too. */
#include "base/cpu.h"
#include "bench/kernel_code.h"
#include "bench/kernel_peers.h"
#include "compiler/codegen/codegen.h"
#include "runtime/devices/peak.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void succeed(dt_status *status) {
    if (status == NULL) return;
    fprintf(stderr, "kernels: %s\n", dt_status_message(status));
    exit(1);
}

static double time_ours(const kernel_case *test, const char *level) {
    kernel_measured measured;
    succeed(kernel_code_measure(test, level, &measured));
    return measured.seconds;
}

/* ---- the table ---- */

static void print_rate(double operations, double seconds) {
    if (seconds > 0)
        printf(" %.1f |", 1e-9 * operations / seconds);
    else
        printf(" — |");
}

/* Of two times of which either may be 0, not there. */
static double faster(double a, double b) { return a > 0 && b > 0 ? fmin(a, b) : fmax(a, b); }

/* A geometric mean; ratios of 0 are not there. */
typedef struct mean {
    double sum_of_logs;
    int n;
} mean;

static void add(mean *mean, double ratio) {
    if (ratio > 0) mean->sum_of_logs += log(ratio), mean->n++;
}

static double value(const mean *mean) { return exp(mean->sum_of_logs / mean->n); }

static void print_version(const char *name, const char *version) { printf(", %s %s", name, version != NULL ? version : "not installed"); }

static void print_cases(const kernel_case *cases, const char *whose, const char *level, double peak, const char *word) {
    mean direct = {0}, any = {0};
    for (const kernel_case *test = cases; test->name != NULL; test++) {
        if (strstr(test->name, word) == NULL) continue;
        double operations = kernel_case_operations(test), ours = time_ours(test, level), openblas = kernel_peers_openblas(test),
               onednn = kernel_peers_onednn(test), winograd = kernel_peers_winograd(test), best = faster(openblas, onednn);
        printf("| %s |", test->name);
        print_rate(operations, ours);
        test->kind == CASE_OTHER ? printf(" — |") : printf(" %.0f %% |", 100 * operations / ours / peak);
        print_rate(operations, openblas), print_rate(operations, onednn);
        best > 0 ? printf(" %.2f |", best / ours) : printf(" — |");
        print_rate(operations, winograd);
        printf("\n");
        fflush(stdout);
        add(&direct, best / ours), add(&any, faster(best, winograd) / ours);
    }
    if (direct.n > 0) printf("| geometric mean of %s, %d | | | | | %.2f | %.2f |\n", whose, direct.n, value(&direct), value(&any));
}

int main(int argc, char **argv) {
    const char *level = argc > 1 ? argv[1] : "", *word = argc > 2 ? argv[2] : "";
    bool native = strcmp(level, DT_LEVEL_NATIVE) == 0;
    int number = native ? dt_cpu_level() : dt_cpu_level_from_name(level);
    if (number < 3 || argc > 3) return fputs("usage: kernels x86-64-v3|x86-64-v4|native [WORD]\n", stderr), 2;
    if (number > dt_cpu_level()) return fprintf(stderr, "kernels: this machine is below %s\n", level), 1;
    kernel_peers_load(number < 4);
    printf("%s, one core", level);
    print_version("OpenBLAS", kernel_peers_openblas_version());
    print_version("oneDNN", kernel_peers_onednn_version());
    printf("\n\n| GFLOP/s | ours | of peak | OpenBLAS | oneDNN | ours / the faster | oneDNN, Winograd |\n|---|---|---|---|---|---|---|\n");
    double peak = dt_peak_measure(number).flops;
    printf("| peak of the core | %.1f | | | | | |\n", 1e-9 * peak);
    print_cases(kernel_cases_of_examples, "the examples", level, peak, word);
    print_cases(kernel_cases_of_others, "the others", level, peak, word);
    return 0;
}
