/* fuzz: any bytes as an artifact. A zip is opened as it is; anything else becomes the manifest of one, with each @ the sum of its only object,
 * so that the fuzzer gets past the zip's sums. What opens is walked, as every index in it must lead somewhere, and said, as `dtrun info` does. */
#include "runtime/artifact/artifact.h"
#include "include/dtrt.h"

#include "base/text.h"

#include <nettle/sha2.h>
#include <zlib.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char object[] = "kernels";

static void append_number(dt_text *text, uint32_t number, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) dt_text_append_bytes(text, &(char){(char)(number >> 8 * i)}, 1);
}

static void append_member(dt_text *zip, dt_text *directory, const char *name, const char *bytes, size_t n_bytes) {
    uint32_t sum = (uint32_t)crc32(0, (const unsigned char *)bytes, (unsigned)n_bytes), start = (uint32_t)zip->n;
    dt_text *both[] = {zip, directory};
    for (int i = 0; i < 2; i++) {
        dt_text_append_bytes(both[i], i == 0 ? "PK\3\4" : "PK\1\2\24\0", i == 0 ? 4 : 6);
        append_number(both[i], 20, 2); /* version; flags, method, time, date */
        append_number(both[i], 0, 4), append_number(both[i], 0, 4);
        append_number(both[i], sum, 4);
        append_number(both[i], (uint32_t)n_bytes, 4), append_number(both[i], (uint32_t)n_bytes, 4);
        append_number(both[i], (uint32_t)strlen(name), 2), append_number(both[i], 0, 2);
        if (i == 1) {
            append_number(directory, 0, 4), append_number(directory, 0, 2), append_number(directory, 0, 4);
            append_number(directory, start, 4);
        }
        dt_text_append(both[i], name);
    }
    dt_text_append_bytes(zip, bytes, n_bytes);
}

/* A zip of manifest.json and kernels.o, stored. */
static dt_text wrap(const char *manifest, size_t n_bytes) {
    dt_text zip = {0}, directory = {0}, text = {0};
    struct sha256_ctx context;
    uint8_t sum[32];
    sha256_init(&context);
    sha256_update(&context, sizeof object - 1, (const uint8_t *)object);
    sha256_digest(&context, sizeof sum, sum);
    for (size_t i = 0; i < n_bytes; i++) {
        if (manifest[i] != '@')
            dt_text_append_bytes(&text, manifest + i, 1);
        else
            for (int j = 0; j < 32; j++) dt_text_format(&text, "%02x", sum[j]);
    }
    append_member(&zip, &directory, "manifest.json", text.data != NULL ? text.data : "", text.n);
    append_member(&zip, &directory, "kernels.o", object, sizeof object - 1);
    uint32_t start = (uint32_t)zip.n;
    dt_text_append_bytes(&zip, directory.data, directory.n);
    dt_text_append_bytes(&zip, "PK\5\6\0\0\0\0\2\0\2\0", 12);
    append_number(&zip, (uint32_t)directory.n, 4), append_number(&zip, start, 4), append_number(&zip, 0, 2);
    dt_text_free(&directory);
    dt_text_free(&text);
    return zip;
}

/* Every kernel's buffers, every collective's two sides, every result: read, so that a sanitizer sees where they are. */
static int64_t walk(const dt_artifact *artifact) {
    int64_t sum = 0;
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        for (int k = 0; k < function->n_kernels; k++)
            for (int b = 0; b < function->kernels[k].n_buffers; b++) sum += function->buffers[function->kernels[k].buffers[b]].bytes;
        for (int s = 0; s < function->n_segments; s++) {
            const dt_artifact_segment *segment = &function->segments[s];
            for (int c = 0; c < segment->n_collectives; c++)
                sum += function->buffers[segment->collectives[c].source].bytes + function->buffers[segment->collectives[c].target].bytes;
            for (int k = 0; k < segment->n_replica_kernels; k++) sum += function->kernels[segment->replica_kernels[k]].once;
        }
        for (int r = 0; r < function->n_results; r++) sum += function->buffers[function->results[r].buffer].offset;
    }
    for (int s = 0; s < artifact->n_steps; s++) {
        sum += artifact->functions[artifact->steps[s].function].n_inputs;
        if (artifact->steps[s].pipeline >= 0) sum += artifact->pipelines[artifact->steps[s].pipeline].n_stages;
    }
    return sum;
}

/* Every launch: its arguments are buffers of its kernel, and those that a library's call stands for are there. */
static int64_t walk_cuda(const dt_artifact_cuda *cuda) {
    int64_t sum = walk(cuda->program);
    for (int f = 0; f < cuda->program->n_functions; f++) {
        const dt_artifact_function *function = &cuda->program->functions[f];
        for (int k = 0; k < function->n_kernels; k++)
            for (int l = 0; l < function->kernels[k].n_launches; l++) {
                const dt_artifact_launch *launch = &function->kernels[k].launches[l];
                for (int a = 0; a < launch->n_arguments; a++) sum += function->kernels[k].buffers[launch->arguments[a]];
                if (launch->library != NULL) sum += function->kernels[k].launches[l + launch->library->n_launches - 1].n_items;
            }
    }
    for (int m = 0; m < cuda->n_modules; m++) sum += cuda->modules[m].bytes[cuda->modules[m].n_bytes];
    return sum;
}

/* What it holds, and what a few processes exchange. */
static void say(const char *bytes, size_t n_bytes) {
    dtrt_info_options options = {.size = sizeof options, .replicas = 3};
    dtrt_program *program;
    char *text;
    if (dtrt_open_memory("fuzz.dtx", bytes, n_bytes, NULL, &program) != NULL) abort();
    for (; options.n_processes < 4; options.n_processes += 3) {
        dt_status_free(dtrt_info(program, &options, &text));
        dtrt_free(text);
    }
    dtrt_close(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    bool is_zip = n_bytes >= 2 && memcmp(data, "PK", 2) == 0;
    dt_text zip = {0};
    dt_artifact *artifact;
    if (!is_zip) zip = wrap((const char *)data, n_bytes);
    const char *bytes = is_zip ? (const char *)data : zip.data;
    if (!is_zip) n_bytes = zip.n;
    dt_status *status = dt_artifact_open_memory("fuzz.dtx", bytes, n_bytes, &artifact);
    if ((status == NULL) != (artifact != NULL)) abort();
    if (artifact != NULL && walk(artifact) == INT64_MIN) abort();
    if (artifact != NULL && artifact->cuda != NULL && walk_cuda(artifact->cuda) == INT64_MIN) abort();
    if (artifact != NULL) say(bytes, n_bytes);
    dt_status_free(status);
    dt_artifact_close(artifact);
    dt_text_free(&zip);
    return 0;
}
