/* pad: the stage pad(n, value, truncate): the bytes of a text as numbers, then `value` up to n of them. What is longer is an error, or cut off. */
#include "base/memory.h"
#include "runtime/data/tokenizer.h"

typedef struct pad {
    dt_tokenizer tokenizer;
    int32_t value;
    bool truncates;
} pad;

enum {
    MOST_SHOWN = 40 /* bytes of a text that is too long */
};

static dt_status *encode(const dt_tokenizer *base, dt_tokenizer_worker *worker, const char *text, size_t n_bytes, int32_t *tokens) {
    (void)worker;
    const pad *self = (const pad *)base;
    size_t n = (size_t)base->length;
    if (n_bytes > n && !self->truncates)
        return dt_error(DT_DATA_LOSS, "a text of %zu bytes is longer than the %zu of pad(), \"%.*s%s\": write pad(%zu), or truncate: true", n_bytes,
                        n, (int)(n_bytes < MOST_SHOWN ? n_bytes : MOST_SHOWN), text, n_bytes > MOST_SHOWN ? "…" : "", n_bytes);
    for (size_t i = 0; i < n; i++) tokens[i] = i < n_bytes ? (unsigned char)text[i] : self->value;
    return NULL;
}

static void close(dt_tokenizer *base) { dt_release(base); }

dt_status *dt_tokenizer_open_pad(const dt_artifact_argument *arguments, const char *folder, dt_tokenizer **tokenizer) {
    (void)folder;
    *tokenizer = NULL;
    pad *opened = dt_allocate_zeroed(1, sizeof *opened);
    if (opened == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    opened->tokenizer = (dt_tokenizer){.length = arguments[0].integer, .encode = encode, .close = close};
    opened->value = (int32_t)arguments[1].integer;
    opened->truncates = arguments[2].integer != 0;
    *tokenizer = &opened->tokenizer;
    return NULL;
}
