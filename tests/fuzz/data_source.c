/* Data files that come from anywhere: the first byte says which source reads them, how, and whether in windows, the rest is the file. What is
 * accepted must be readable to its last byte; nothing may crash, hang, or take more memory than the file can account for. */
#include "runtime/data/source.h"
#include "tests/fuzz/scratch.h"

#include <stdint.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static volatile unsigned char sink;

/* Of all rows together. */
static size_t bytes_of(const dt_source *source, const dt_column *column) {
    if (column->is_text) return column->offsets[source->n_examples];
    return source->n_examples > 0 ? (size_t)((source->n_examples - 1) * column->stride + column->tensor.row_bytes) : 0;
}

static void read_all(dt_source *source) {
    dt_status *status = dt_source_wait(source, source->n_examples);
    for (int i = 0; status == NULL && i < source->n_columns; i++) {
        const dt_column *column = &source->columns[i];
        size_t row_bytes = (size_t)column->tensor.row_bytes;
        unsigned char *row = malloc(row_bytes);
        if (row == NULL) abort();
        if (column->bytes != NULL)
            for (size_t k = 0; k < bytes_of(source, column) + DT_SLACK_BYTES; k++) sink ^= column->bytes[k];
        else
            for (int64_t r = 0; r < source->n_examples && status == NULL; r++) status = dt_source_read(source, i, r, 1, row);
        free(row);
    }
    dt_status_free(status);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const struct {
        const char *kind, *name;
    } kinds[] = {{"idx", "file"}, {"idx", "file.gz"}, {"npy", "file"}, {"csv", "file"}, {"lines", "file"}, {"bytes", "file.gz"}};
    if (n == 0) return 0;
    scratch_make();
    int choice = bytes[0] % 16 >= 8 ? 4 + bytes[0] % 2 : bytes[0] % 4;
    const char *path = scratch_write(kinds[choice].name, bytes + 1, n - 1);

    dt_artifact_argument arguments[2] = {{.kind = DT_ARGUMENT_STRING, .string = kinds[choice].name},
                                         {.name = "target", .kind = DT_ARGUMENT_INT, .integer = (int64_t)(bytes[0] >> 4) - 8}};
    dt_artifact_stage stage = {.kind = kinds[choice].kind, .n_arguments = choice == 3 && bytes[0] >= 128 ? 2 : 1, .arguments = arguments};
    dt_window window = {.first = bytes[0] >> 7, .most = INT64_MAX, .n = (bytes[0] >> 4) % 4, .shift = 1 + (bytes[0] >> 6)};
    dt_source *source;
    dt_status *status = dt_source_open(&stage, scratch, (bytes[0] & 4) != 0, &source);
    if (status == NULL && choice < 3 && window.n > 0) status = dt_source_window(source, &window, &source);
    if (status == NULL) read_all(source);
    dt_source_close(source);
    dt_status_free(status);
    unlink(path);
    return 0;
}
