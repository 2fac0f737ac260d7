/* source: see source.h. The registry is abi/pipeline.h, and what only dtrun itself opens. */
#include "runtime/data/source.h"

#include "base/text.h"

#include <string.h>

static const struct {
    const char *kind;
    dt_source_opener *open;
} sources[] = {
#define X(name, most_files, option) {#name, dt_source_open_##name},
    DT_SOURCES(X)
#undef X
        {"files", dt_source_open_files}, /* what `dtrun predict --input` names: .npy, or else idx */
};

enum {
    N_SOURCES = sizeof sources / sizeof *sources
};

dt_status *dt_source_open(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source) {
    *source = NULL;
    for (int i = 0; i < N_SOURCES; i++)
        if (strcmp(sources[i].kind, stage->kind) == 0) return sources[i].open(stage, folder, by_row, source);
    dt_text names = {0};
    for (int i = 0; i < N_SOURCES; i++) dt_text_format(&names, "%s%s", i != 0 ? ", " : "", sources[i].kind);
    dt_status *status = dt_error(DT_UNIMPLEMENTED, "there is no source %s; this dtrun has: %s", stage->kind, names.data != NULL ? names.data : "");
    dt_text_free(&names);
    return status;
}

dt_status *dt_source_wait(dt_source *source, int64_t n_rows) { return source->wait != NULL ? source->wait(source, n_rows) : NULL; }

dt_status *dt_source_read(const dt_source *source, int column, int64_t row, int64_t n_rows, void *bytes) {
    return source->read(source, column, row, n_rows, bytes);
}

void dt_source_cancel(dt_source *source) {
    if (source != NULL && source->cancel != NULL) source->cancel(source);
}

void dt_source_close(dt_source *source) {
    if (source != NULL) source->close(source);
}
