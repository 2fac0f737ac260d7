/* bench_kernel_print: our time and the libraries', as a table or as one JSON object. */
#include "bench/bench_kernel.h"
#include "bench/kernel_peers.h"
#include "runtime/artifact/json_text.h"
#include "runtime/devices/peak.h"

#include <stdio.h>
#include <string.h>

/* Who computes the kernel. */
typedef struct contender {
    const char *name, *version; /* NULL: not installed */
    double seconds;             /* 0: it has no such operation */
} contender;

typedef struct contest {
    const bench_kernel_call *call;
    const kernel_measured *ours;
    dt_peak peak;
    contender contenders[4];
    int n;
} contest;

static void add(contest *c, const char *name, const char *version, double seconds) { c->contenders[c->n++] = (contender){name, version, seconds}; }

static void measure_peers(contest *c) {
    const kernel_case *test = &c->call->test;
    bool avx2 = c->call->level_number < 4;
    kernel_peers_load(avx2);
    if (test->kind == CASE_MATMUL) add(c, "OpenBLAS", kernel_peers_openblas_version(), kernel_peers_openblas(test));
    if (test->kind == CASE_ELEMENTWISE) add(c, "libmvec", kernel_peers_has_libmvec() ? "of glibc" : NULL, kernel_peers_libmvec(test, avx2));
    add(c, "oneDNN", kernel_peers_onednn_version(), kernel_peers_onednn(test));
    double winograd = kernel_peers_winograd(test);
    if (winograd > 0) add(c, "oneDNN, Winograd", kernel_peers_onednn_version(), winograd);
}

/* ---- text ---- */

static void say_contender(dt_text *text, const contest *c, const contender *one) {
    char name[64];
    bool numbered = one->version != NULL && one->version[0] != 0;
    snprintf(name, sizeof name, "%s%s%s", one->name, numbered ? " " : "", numbered ? one->version : "");
    if (one->version == NULL || one->seconds == 0) {
        dt_text_format(text, "%-28s  %s\n", name, one->version == NULL ? "not installed: bench/peers/setup.sh installs it" : "has no such operation");
        return;
    }
    double flops = c->ours->flops / one->seconds, bytes = c->ours->bytes / one->seconds;
    dt_peak_share nearest = dt_peak_nearest(&c->peak, flops, bytes);
    dt_text_format(text, "%-28s %12.2f %9.1f %9.1f %7.1f%% %s\n", name, 1e6 * one->seconds, 1e-9 * flops, 1e-9 * bytes, 100 * nearest.share,
                   nearest.of);
}

static void say(dt_text *text, const contest *c) {
    dt_text_format(text, "%s\n%s, one core; results of %d row%s are the interpreter's\n", c->call->test.name, c->call->level, c->ours->checked_rows,
                   dt_plural(c->ours->checked_rows));
    dt_text_format(text, "one core of this machine: %.1f GFLOP/s, memory %.1f GB/s, cache %.1f GB/s\n\n", 1e-9 * c->peak.flops,
                   1e-9 * c->peak.memory_bytes, 1e-9 * c->peak.cache_bytes);
    dt_text_format(text, "%-28s %13s %9s %9s  of peak\n", "", "µs", "GFLOP/s", "GB/s");
    for (int i = 0; i < c->n; i++) say_contender(text, c, &c->contenders[i]);
}

/* ---- JSON ---- */

static void say_number(dt_text *text, const char *key, double value) {
    dt_text_format(text, ", \"%s\": ", key);
    dt_text_append_json_number(text, value);
}

static void say_contender_json(dt_text *text, const contest *c, const contender *one) {
    dt_text_append(text, "{\"name\": ");
    dt_text_append_json_string(text, one->name);
    dt_text_append(text, ", \"version\": ");
    one->version != NULL ? dt_text_append_json_string(text, one->version) : dt_text_append(text, "null");
    if (one->seconds > 0) {
        say_number(text, "seconds", one->seconds);
        say_number(text, "flops_of_peak", c->ours->flops / one->seconds / c->peak.flops);
        say_number(text, "bytes_of_peak", c->peak.memory_bytes > 0 ? c->ours->bytes / one->seconds / c->peak.memory_bytes : 0);
    } else
        dt_text_append(text, ", \"seconds\": null");
    dt_text_append(text, "}");
}

static void say_json(dt_text *text, const contest *c) {
    dt_text_append(text, "{\"kernel\": ");
    dt_text_append_json_string(text, c->call->test.name);
    dt_text_append(text, ", \"level\": ");
    dt_text_append_json_string(text, c->call->level);
    say_number(text, "checked_rows", c->ours->checked_rows);
    say_number(text, "flops", c->ours->flops);
    say_number(text, "bytes", c->ours->bytes);
    say_number(text, "peak_flops", c->peak.flops);
    say_number(text, "peak_bytes", c->peak.memory_bytes);
    say_number(text, "peak_cache_bytes", c->peak.cache_bytes);
    dt_text_append(text, ", \"times\": [");
    for (int i = 0; i < c->n; i++) {
        if (i > 0) dt_text_append(text, ", ");
        say_contender_json(text, c, &c->contenders[i]);
    }
    dt_text_append(text, "]}\n");
}

dt_status *bench_kernel_print(const bench_kernel_call *call, const kernel_measured *ours) {
    contest c = {.call = call, .ours = ours, .peak = dt_peak_measure(call->level_number)};
    add(&c, "dtc", "", ours->seconds);
    measure_peers(&c);
    dt_text text = {0};
    (call->json ? say_json : say)(&text, &c);
    dt_status *status = text.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    if (status == NULL) fputs(text.data, stdout);
    dt_text_free(&text);
    return status;
}
