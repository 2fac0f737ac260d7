/* A ledger from anywhere: one that is accepted goes on, going back too, and what was written to it is accepted again. */
#include "runtime/ps/ledger.h"
#include "tests/fuzz/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(dt_status *status) {
    if (status != NULL) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    dt_ps_ledger *ledger;
    int64_t version;
    scratch_make();
    const char *path = scratch_write("ledger.jsonl", bytes, n);
    dt_status *status = dt_ps_ledger_open(path, true, &ledger, &version);
    if ((status == NULL) != (ledger != NULL)) abort();
    dt_status_free(status);
    if (ledger == NULL) return 0;
    int64_t begin = version > 0 ? version / 2 : 0;
    must(dt_ps_ledger_opened(ledger, 0, 0, 9, begin));
    must(dt_ps_ledger_applied(ledger, 0, 3, begin, 0, "\"w\""));
    dt_ps_ledger_close(ledger);
    must(dt_ps_ledger_open(path, true, &ledger, &version));
    if (version != begin + 1) abort();
    dt_ps_ledger_close(ledger);
    return 0;
}
