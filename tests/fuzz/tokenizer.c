/* Vocabularies, merges and texts that come from anywhere: the first byte says which tokenizer, and lines of ten dashes part its files and the text.
 * What is accepted must give `length` tokens for any text that is UTF-8, the same when it is asked again; nothing may crash or hang. */
#include "runtime/data/tokenizer.h"
#include "tests/fuzz/scratch.h"

#include <stdint.h>
#include <string.h>
#include <utf8proc.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* What stands before the next line of dashes. */
static const char *take_part(const char **at, const char *end, size_t *n) {
    static const char dashes[] = "----------\n";
    const char *part = *at, *found = memmem(part, (size_t)(end - part), dashes, sizeof dashes - 1);
    *n = (size_t)((found != NULL ? found : end) - part);
    *at = found != NULL ? found + sizeof dashes - 1 : end;
    return part;
}

static bool is_utf8(const char *text, size_t n) {
    utf8proc_int32_t c;
    for (size_t i = 0; i < n;) {
        utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
        if (length <= 0) return false;
        i += (size_t)length;
    }
    return true;
}

static void encode_twice(dt_tokenizer *tokenizer, const char *text, size_t n) {
    dt_tokenizer_worker worker = {0};
    size_t n_bytes = (size_t)tokenizer->length * sizeof(int32_t);
    int32_t *first = malloc(n_bytes), *second = malloc(n_bytes);
    if (first == NULL || second == NULL) abort();
    dt_status_free(tokenizer->encode(tokenizer, &worker, text, n, first));
    dt_status_free(tokenizer->encode(tokenizer, &worker, text, n, second));
    if (memcmp(first, second, n_bytes) != 0) abort();
    for (int64_t i = 0; i < tokenizer->length; i++)
        if (first[i] < 0) abort();
    dt_tokenizer_worker_free(&worker);
    free(first);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n == 0) return 0;
    scratch_make();
    bool is_bpe = bytes[0] % 2;
    const char *at = (const char *)bytes + 1, *end = (const char *)bytes + n;
    for (int i = 0; i <= is_bpe; i++) {
        size_t n_part;
        const char *part = take_part(&at, end, &n_part);
        scratch_write(i == 0 ? "0" : "1", part, n_part);
    }
    const dt_artifact_argument wordpiece[] = {{.string = "0"}, {.integer = 3 + bytes[0] / 4 % 32}, {.integer = bytes[0] / 2 % 2}};
    const dt_artifact_argument bpe[] = {{.string = "0"}, {.string = "1"}, {.integer = 1 + bytes[0] / 4 % 32}, {.integer = 0}};
    dt_tokenizer *tokenizer;
    dt_status *status = is_bpe ? dt_tokenizer_open_bpe(bpe, scratch, &tokenizer) : dt_tokenizer_open_wordpiece(wordpiece, scratch, &tokenizer);
    if (status == NULL && is_utf8(at, (size_t)(end - at))) encode_twice(tokenizer, at, (size_t)(end - at));
    dt_tokenizer_close(tokenizer);
    dt_status_free(status);
    return 0;
}
