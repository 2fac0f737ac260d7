/* source: see source.h. The registry is abi/pipeline.h, and what only dtrun itself opens. */
#include "runtime/data/source.h"

#include "base/text.h"

#include <string.h>

static const struct {
    const char *kind;
    dt_source_opener *open;
} sources[] = {
#define X(name, most_files, fewest, most) {#name, dt_source_open_##name},
    DT_SOURCES(X)
#undef X
        {"files", dt_source_open_files}, /* what `dtrun predict --input` names: .npy, or else idx */
};

enum {
    N_SOURCES = sizeof sources / sizeof *sources
};

static dt_status *check_option(const dt_artifact_stage *stage, const dt_artifact_argument *argument) {
    const dt_source_option *option = dt_source_option_find(stage->kind, argument->name);
    if (option == NULL) return dt_error(DT_INVALID_ARGUMENT, "%s() has no argument %s", stage->kind, argument->name);
    bool is_int = argument->kind == DT_ARGUMENT_INT && *option->choices == 0;
    bool fits = is_int ? argument->integer >= option->least && argument->integer <= option->most
                       : argument->kind == DT_ARGUMENT_STRING && dt_source_option_allows(option, argument->string);
    return fits ? NULL : dt_error(DT_INVALID_ARGUMENT, "%s(): %s cannot be that", stage->kind, option->name);
}

/* Files, then options. An artifact comes from anywhere. */
static dt_status *check_arguments(const dt_artifact_stage *stage) {
    const dt_source_row *row = dt_source_row_find(stage->kind);
    int n_files = 0;
    for (int i = 0; i < stage->n_arguments; i++) {
        const dt_artifact_argument *argument = &stage->arguments[i];
        if (argument->name != NULL)
            DT_TRY(check_option(stage, argument));
        else if (argument->kind != DT_ARGUMENT_STRING || n_files < i)
            return dt_error(DT_INVALID_ARGUMENT, "%s(): argument %d is not the name of a file", stage->kind, i + 1);
        else
            n_files++;
    }
    if (n_files == 0 && (row == NULL || row->most_files > 0)) return dt_error(DT_INVALID_ARGUMENT, "%s() takes the name of a file", stage->kind);
    if (row != NULL && n_files > row->most_files)
        return dt_error(DT_INVALID_ARGUMENT, "%s() takes at most %d file%s", stage->kind, row->most_files, dt_plural(row->most_files));
    return NULL;
}

static const dt_artifact_argument *find_option(const dt_artifact_stage *stage, const char *name) {
    for (int i = 0; i < stage->n_arguments; i++)
        if (stage->arguments[i].name != NULL && strcmp(stage->arguments[i].name, name) == 0) return &stage->arguments[i];
    return NULL;
}

int64_t dt_source_option_int(const dt_artifact_stage *stage, const char *name, int64_t otherwise) {
    const dt_artifact_argument *option = find_option(stage, name);
    return option != NULL ? option->integer : otherwise;
}

const char *dt_source_option_choice(const dt_artifact_stage *stage, const char *name, const char *otherwise) {
    const dt_artifact_argument *option = find_option(stage, name);
    return option != NULL ? option->string : otherwise;
}

dt_status *dt_source_open(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source) {
    *source = NULL;
    for (int i = 0; i < N_SOURCES; i++)
        if (strcmp(sources[i].kind, stage->kind) == 0) {
            DT_TRY(check_arguments(stage));
            return sources[i].open(stage, folder, by_row, source);
        }
    dt_text names = {0};
    for (int i = 0; i < N_SOURCES; i++) dt_text_format(&names, "%s%s", i != 0 ? ", " : "", sources[i].kind);
    dt_status *status = dt_error(DT_UNIMPLEMENTED, "there is no source %s; this dtrun has: %s", stage->kind, names.data != NULL ? names.data : "");
    dt_text_free(&names);
    return status;
}

static dt_status *open_zipped(const dt_artifact_stage *zip, const char *folder, bool by_row, dt_source **source) {
    if (zip->n_arguments < 1 || zip->arguments[0].kind != DT_ARGUMENT_STRING) return dt_error(DT_INVALID_ARGUMENT, "zip() takes a source");
    dt_artifact_stage stage = {.kind = zip->arguments[0].string, .n_arguments = zip->n_arguments - 1, .arguments = zip->arguments + 1};
    return dt_source_open(&stage, folder, by_row, source);
}

dt_status *dt_source_open_pipeline(const dt_artifact_pipeline *pipeline, const char *folder, bool by_row, dt_source **source) {
    DT_TRY(dt_source_open(&pipeline->stages[0], folder, by_row, source));
    for (int i = 1; i < pipeline->n_stages && strcmp(pipeline->stages[i].kind, DT_STAGE_ZIP) == 0; i++) {
        dt_source *first = *source, *second;
        *source = NULL;
        dt_status *status = open_zipped(&pipeline->stages[i], folder, by_row, &second);
        if (status != NULL) {
            dt_source_close(first);
            return status;
        }
        DT_TRY(dt_source_zip(first, second, source));
    }
    return NULL;
}

dt_status *dt_source_wait(dt_source *source, int64_t n_rows) { return source->wait != NULL ? source->wait(source, n_rows) : NULL; }

dt_status *dt_source_read(const dt_source *source, int column, int64_t row, int64_t n_rows, void *bytes) {
    return source->read(source, column, row, n_rows, bytes);
}

static bool is_named_before(const dt_source *source, int column) {
    for (int i = 0; i < column; i++)
        if (strcmp(source->columns[i].path, source->columns[column].path) == 0) return true;
    return false;
}

void dt_source_name_row(const dt_source *source, int64_t row, dt_text *text) {
    if (source->name_row != NULL) {
        source->name_row(source, row, text);
        return;
    }
    dt_text_format(text, "row %lld (from 0) of %s", (long long)row, source->columns[0].path);
    for (int i = 1; i < source->n_columns; i++)
        if (!is_named_before(source, i)) dt_text_format(text, ", %s", source->columns[i].path);
}

void dt_source_cancel(dt_source *source) {
    if (source != NULL && source->cancel != NULL) source->cancel(source);
}

void dt_source_close(dt_source *source) {
    if (source != NULL) source->close(source);
}
