/* bench: where the time of a step goes, printed. */
#include "runtime/bench.h"

#include "base/text.h"
#include "runtime/commands/dtrun.h"

/* Before a wait that may be long: a batch that is made up has as many rows as it is asked for. */
static void announce(const dtrun_call *call, const dt_kernels *kernels) {
    static const int64_t LARGE_BATCH = 100000;
    int64_t replicas = call->run.replicas != 0 ? call->run.replicas : 1;
    int64_t rows = call->run.global_batch != 0 ? call->run.global_batch : replicas * dt_kernels_artifact(kernels)->capacity;
    if (rows >= LARGE_BATCH && dt_run_leads(&call->run))
        fprintf(stderr, "dtrun: note: %lld step%s of %lld rows, after some to warm up: --steps, --replicas and --global-batch say how many\n",
                (long long)call->n_steps, dt_plural((int)call->n_steps), (long long)rows);
}

static dt_status *run(const dtrun_call *call, const dt_kernels *const kernels[], int n) {
    dt_text text = {0};
    announce(call, kernels[0]);
    dt_status *status = dt_bench_programs(kernels, n, &call->run, call->n_steps, call->json, &text);
    if (status == NULL && dt_run_leads(&call->run)) fputs(text.data, stdout);
    dt_text_free(&text);
    return status;
}

static dt_status *load_and_run(const dtrun_call *call, const dt_artifact *const artifacts[], int n) {
    dt_kernels *kernels[2] = {NULL};
    dt_status *status = NULL;
    for (int i = 0; i < n && status == NULL; i++) status = dt_kernels_load(artifacts[i], &call->kernels, &kernels[i]);
    if (status == NULL) status = run(call, (const dt_kernels *[]){kernels[0], kernels[1]}, n);
    for (int i = 0; i < n; i++) dt_kernels_free(kernels[i]);
    return status;
}

dt_status *dtrun_bench(const dtrun_call *call, const dt_artifact *artifact) {
    if (call->versus == NULL) return load_and_run(call, &artifact, 1);
    dtrun_program other;
    DT_TRY(dtrun_open_program(call, call->versus, &other));
    dt_status *status = load_and_run(call, (const dt_artifact *[]){artifact, other.artifact}, 2);
    dtrun_close_program(&other);
    return status;
}
