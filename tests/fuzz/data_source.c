/* Data files that come from anywhere: the first byte says which source reads them, and how, the rest is the file. What is accepted must be readable
 * to its last byte; nothing may crash, hang, or take more memory than the file can account for. */
#include "runtime/data/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static volatile unsigned char sink;
static char folder[64];

static void remove_folder(void) { rmdir(folder); }

static void read_all(dt_source *source) {
    dt_status *status = dt_source_wait(source, source->n_examples);
    for (int i = 0; status == NULL && i < source->n_columns; i++) {
        const dt_column *column = &source->columns[i];
        size_t row_bytes = (size_t)column->tensor.row_bytes;
        unsigned char *row = malloc(row_bytes);
        if (row == NULL) abort();
        if (column->bytes != NULL)
            for (size_t k = 0; k < (column->is_text ? column->offsets[source->n_examples] : (size_t)source->n_examples * row_bytes) + DT_SLACK_BYTES;
                 k++)
                sink ^= column->bytes[k];
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
    if (folder[0] == 0) {
        snprintf(folder, sizeof folder, "/dev/shm/dt-fuzz-XXXXXX");
        if (mkdtemp(folder) == NULL) abort();
        atexit(remove_folder);
    }
    int choice = bytes[0] % 16 >= 8 ? 4 + bytes[0] % 2 : bytes[0] % 4;
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, kinds[choice].name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes + 1, 1, n - 1, file) != n - 1 || fclose(file) != 0) abort();

    dt_artifact_argument arguments[2] = {{.kind = DT_ARGUMENT_STRING, .string = kinds[choice].name},
                                         {.name = "target", .kind = DT_ARGUMENT_INT, .integer = (int64_t)(bytes[0] >> 4) - 8}};
    dt_artifact_stage stage = {.kind = kinds[choice].kind, .n_arguments = choice == 3 && bytes[0] >= 128 ? 2 : 1, .arguments = arguments};
    dt_source *source;
    dt_status *status = dt_source_open(&stage, folder, (bytes[0] & 4) != 0, &source);
    if (status == NULL) read_all(source);
    dt_source_close(source);
    dt_status_free(status);
    unlink(path);
    return 0;
}
