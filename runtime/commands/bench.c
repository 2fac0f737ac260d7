/* bench: where the time of a step goes, printed. */
#include "base/text.h"
#include "runtime/commands/dtrun.h"
#include "runtime/dtrt/program.h"

/* Before a wait that may be long: a batch that is made up has as many rows as it is asked for. */
static void announce(const dtrun_call *call, const dt_artifact *artifact) {
    static const int64_t LARGE_BATCH = 100000;
    int64_t replicas = call->run.replicas != 0 ? call->run.replicas : 1;
    int64_t rows = call->run.global_batch != 0 ? call->run.global_batch : replicas * artifact->capacity;
    if (rows >= LARGE_BATCH && dt_run_leads(&call->run))
        fprintf(stderr, "dtrun: note: %lld step%s of %lld rows, after some to warm up: --steps, --replicas and --global-batch say how many\n",
                (long long)call->n_steps, dt_plural((int)call->n_steps), (long long)rows);
}

static dt_status *measure(dtrun_call *call, dtrt_program *const programs[], int n) {
    const char *level;
    dt_text note = {0}, text = {0};
    dt_status *status = dt_program_rendezvous(programs[0], "bench", &call->run, &level, &note);
    if (status == NULL && note.n > 0) fprintf(stderr, "dtrun: note: %s\n", note.data);
    dt_text_free(&note);
    DT_TRY(status);
    announce(call, dt_program_artifact(programs[0]));
    const dt_bench_wishes wishes = {call->n_steps, call->json, call->svg};
    status = dt_program_bench(programs, n, level, &call->run, &wishes, &text);
    if (status == NULL && dt_run_leads(&call->run)) fputs(text.data, stdout);
    dt_text_free(&text);
    return status;
}

dt_status *dtrun_bench(dtrun_call *call, dtrt_program *program) {
    if (call->versus == NULL) return measure(call, &program, 1);
    dtrun_program other;
    DT_TRY(dtrun_open_program(call, call->versus, &other));
    dt_status *status = measure(call, (dtrt_program *const[]){program, other.program}, 2);
    dtrun_close_program(&other);
    return status;
}
