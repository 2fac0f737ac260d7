/* tokenizer: see tokenizer.h. */
#include "runtime/data/tokenizer.h"

#include "base/memory.h"

enum {
    MOST_WORDS = 1 << 17,        /* that a worker remembers */
    MOST_BYTES_OF_KEYS = 4 << 20 /* … and of their text */
};

dt_tokenizer_opener *dt_tokenizer_opener_of(dt_stage_kind kind) {
    switch (kind) {
    case DT_STAGE_WORDPIECE: return dt_tokenizer_open_wordpiece;
    case DT_STAGE_BPE: return dt_tokenizer_open_bpe;
    case DT_STAGE_PAD: return dt_tokenizer_open_pad;
    default: return NULL;
    }
}

void dt_tokenizer_close(dt_tokenizer *tokenizer) {
    if (tokenizer != NULL) tokenizer->close(tokenizer);
}

void dt_tokenizer_worker_free(dt_tokenizer_worker *worker) {
    dt_word_table_free(&worker->seen);
    dt_text_free(&worker->word);
    dt_release(worker->pieces);
    *worker = (dt_tokenizer_worker){0};
}

bool dt_tokenizer_worker_reserve(dt_tokenizer_worker *worker, size_t n) {
    if (n <= worker->n_pieces) return true;
    int32_t *grown = dt_reallocate(worker->pieces, n * sizeof *grown);
    if (grown == NULL) return false;
    worker->pieces = grown;
    worker->n_pieces = n;
    return true;
}

const dt_word *dt_tokenizer_worker_remember(dt_tokenizer_worker *worker, const char *word, size_t n_bytes, size_t n_pieces) {
    if (worker->seen.n >= MOST_WORDS || worker->seen.n_keys + n_bytes > MOST_BYTES_OF_KEYS) dt_word_table_clear(&worker->seen);
    return dt_word_table_add(&worker->seen, word, n_bytes, worker->pieces, n_pieces);
}
