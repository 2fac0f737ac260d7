/* tokenizer: turns a text into a fixed number of tokens: the stages wordpiece, bpe and pad.
 *
 * A dt_tokenizer is read only once it is open, and shared by threads; each has a dt_tokenizer_worker, which remembers words. A new tokenizer is a
 * file with a function of type dt_tokenizer_opener, and a row in abi/pipeline.h and in tokenizer.c. */
#ifndef DT_RUNTIME_DATA_TOKENIZER_H
#define DT_RUNTIME_DATA_TOKENIZER_H

#include "abi/pipeline.h"
#include "base/text.h"
#include "runtime/artifact/artifact.h"
#include "runtime/data/word_table.h"

typedef struct dt_tokenizer dt_tokenizer;

typedef struct dt_tokenizer_worker {
    dt_word_table seen;
    dt_text word;    /* as it is looked up */
    int32_t *pieces; /* [n_pieces] of a word */
    size_t n_pieces;
} dt_tokenizer_worker;

struct dt_tokenizer {
    int64_t length;
    /* Writes the text's tokens, at most `length` of them, then padding. DT_RESOURCE_EXHAUSTED. */
    dt_status *(*encode)(const dt_tokenizer *tokenizer, dt_tokenizer_worker *worker, const char *text, size_t n_bytes, int32_t *tokens);
    void (*close)(dt_tokenizer *tokenizer);
};

/* `arguments` are those that abi/pipeline.h lists for the stage. */
typedef dt_status *dt_tokenizer_opener(const dt_artifact_argument *arguments, const char *folder, dt_tokenizer **tokenizer);
dt_tokenizer_opener dt_tokenizer_open_wordpiece, dt_tokenizer_open_bpe, dt_tokenizer_open_pad;

dt_tokenizer_opener *dt_tokenizer_opener_of(dt_stage_kind kind); /* NULL: the stage is none */

void dt_tokenizer_close(dt_tokenizer *tokenizer); /* NULL is allowed */
void dt_tokenizer_worker_free(dt_tokenizer_worker *worker);

/* Room for `n` pieces of a word. false: memory is out. */
bool dt_tokenizer_worker_reserve(dt_tokenizer_worker *worker, size_t n);
/* What a worker remembers of a word, or NULL where memory is out. It forgets others when they become too many. */
const dt_word *dt_tokenizer_worker_remember(dt_tokenizer_worker *worker, const char *word, size_t n_bytes, size_t n_pieces);

#endif
