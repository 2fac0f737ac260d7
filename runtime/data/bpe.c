/* bpe: the byte-level byte-pair encoding of GPT-2 (Radford et al. 2019, openai/gpt-2, encoder.py), token for token what PyPI's `tokenizers` gives as
 * ByteLevelBPETokenizer. A text is cut into stretches of letters, of digits, of other characters and of white space, each with the blank before it;
 * the bytes of a stretch are tokens, of which those neighbours become one first that were merged first in training. */
#include "base/memory.h"
#include "runtime/data/input_file.h"
#include "runtime/data/tokenizer.h"

#include <cjson/cJSON.h>

#include <limits.h>
#include <string.h>
#include <utf8proc.h>

enum {
    VOCABULARY,
    MERGES,
    LENGTH,
    PAD /* arguments, as abi/pipeline.h lists them */
};

typedef struct bpe {
    dt_tokenizer tokenizer;
    int32_t pad, bytes[256];  /* their tokens */
    dt_word_table vocabulary; /* by the bytes of a token */
    dt_word_table pairs;      /* by two tokens: when they were merged, and what they become */
    int16_t byte_of[0x180];   /* of a character of the files; -1: of none */
} bpe;

/* ---- the files ---- */

/* The files write bytes as characters that can be seen: those of Latin-1 that can be are themselves, the others, in order, those from U+0100 on. */
static void number_bytes(bpe *tokenizer) {
    int other = 0x100;
    memset(tokenizer->byte_of, -1, sizeof tokenizer->byte_of);
    for (int byte = 0; byte < 256; byte++) {
        bool is_seen = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        tokenizer->byte_of[is_seen ? byte : other++] = (int16_t)byte;
    }
}

/* The bytes that `n` bytes of UTF-8 write, appended. false: they write none. */
static bool append_written(const bpe *tokenizer, const char *written, size_t n, dt_text *bytes) {
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)written + i, (utf8proc_ssize_t)(n - i), &c);
        if (length <= 0 || c >= 0x180 || tokenizer->byte_of[c] < 0) return false;
        char byte = (char)tokenizer->byte_of[c];
        dt_text_append_bytes(bytes, &byte, 1);
        i += (size_t)length;
    }
    return n > 0;
}

static dt_status *out_of_memory(const char *path) { return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "out of memory"); }

static dt_status *add_token(bpe *tokenizer, const char *path, const cJSON *item, dt_text *bytes) {
    double number = cJSON_IsNumber(item) ? item->valuedouble : -1;
    int32_t token = number >= 0 && number <= INT32_MAX ? (int32_t)number : -1;
    if (token < 0 || token != number)
        return dt_error_in(DT_DATA_LOSS, path, 0, "the token \"%s\" has no number, a whole one from 0 on", item->string);
    bytes->n = 0;
    if (!append_written(tokenizer, item->string, strlen(item->string), bytes)) return NULL; /* a special token: no text makes it */
    if (bytes->failed) return out_of_memory(path);
    if (dt_word_table_find(&tokenizer->vocabulary, bytes->data, bytes->n) != NULL)
        return dt_error_in(DT_DATA_LOSS, path, 0, "the token \"%s\" is there twice", item->string);
    return dt_word_table_add(&tokenizer->vocabulary, bytes->data, bytes->n, &token, 1) != NULL ? NULL : out_of_memory(path);
}

static dt_status *add_tokens(bpe *tokenizer, const char *path, const cJSON *root, dt_text *bytes) {
    if (!cJSON_IsObject(root)) return dt_error_in(DT_DATA_LOSS, path, 0, "is not an object of JSON, {\"token\": number, …}");
    for (const cJSON *item = root->child; item != NULL; item = item->next) DT_TRY(add_token(tokenizer, path, item, bytes));
    for (int byte = 0; byte < 256; byte++) {
        const dt_word *word = dt_word_table_find(&tokenizer->vocabulary, &(char){(char)byte}, 1);
        if (word == NULL)
            return dt_error_in(DT_DATA_LOSS, path, 0, "has no token for the byte 0x%02x: bpe() takes a byte-level vocabulary, as GPT-2's", byte);
        tokenizer->bytes[byte] = tokenizer->vocabulary.tokens[word->tokens];
    }
    return NULL;
}

static dt_status *read_vocabulary(bpe *tokenizer, const char *path, const char *text, size_t n_bytes) {
    dt_text bytes = {0};
    cJSON *root = cJSON_ParseWithLength(text, n_bytes);
    dt_status *status = add_tokens(tokenizer, path, root, &bytes);
    cJSON_Delete(root);
    dt_text_free(&bytes);
    return status;
}

/* The token that `n` bytes of the file write, and its bytes appended. */
static dt_status *find_token(const bpe *tokenizer, const char *path, int64_t line, const char *written, size_t n, dt_text *bytes, int32_t *token) {
    size_t before = bytes->n;
    bool is_written = append_written(tokenizer, written, n, bytes);
    if (bytes->failed) return out_of_memory(path);
    const dt_word *word = is_written ? dt_word_table_find(&tokenizer->vocabulary, bytes->data + before, bytes->n - before) : NULL;
    if (word == NULL) return dt_error_in(DT_DATA_LOSS, path, line, "%.*s is no token of the vocabulary", (int)n, written);
    *token = tokenizer->vocabulary.tokens[word->tokens];
    return NULL;
}

/* "a b": these two become one, before all pairs of later lines. */
static dt_status *add_merge(bpe *tokenizer, const char *path, int64_t line, const char *text, size_t n, dt_text *bytes) {
    const char *blank = memchr(text, ' ', n);
    if (blank == NULL || memchr(blank + 1, ' ', n - (size_t)(blank + 1 - text)) != NULL)
        return dt_error_in(DT_DATA_LOSS, path, line, "is not two tokens with a blank between them");
    size_t n_left = (size_t)(blank - text);
    int32_t pair[2], merged[2] = {(int32_t)tokenizer->pairs.n};
    bytes->n = 0;
    DT_TRY(find_token(tokenizer, path, line, text, n_left, bytes, &pair[0]));
    DT_TRY(find_token(tokenizer, path, line, blank + 1, n - n_left - 1, bytes, &pair[1]));
    const dt_word *both = dt_word_table_find(&tokenizer->vocabulary, bytes->data, bytes->n);
    if (both == NULL) return dt_error_in(DT_DATA_LOSS, path, line, "what %.*s becomes is no token of the vocabulary", (int)n, text);
    merged[1] = tokenizer->vocabulary.tokens[both->tokens];
    if (dt_word_table_find(&tokenizer->pairs, (const char *)pair, sizeof pair) != NULL)
        return dt_error_in(DT_DATA_LOSS, path, line, "%.*s is there twice", (int)n, text);
    return dt_word_table_add(&tokenizer->pairs, (const char *)pair, sizeof pair, merged, 2) != NULL ? NULL : out_of_memory(path);
}

static dt_status *read_merges(bpe *tokenizer, const char *path, const char *text, size_t n_bytes) {
    dt_text bytes = {0};
    dt_status *status = NULL;
    int64_t line = 1;
    for (const char *at = text, *end = text + n_bytes; at < end && status == NULL; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline != NULL ? newline : end;
        size_t n = (size_t)(stop - at);
        if (n > 0 && at[n - 1] == '\r') n--;
        bool is_version = n >= 8 && memcmp(at, "#version", 8) == 0;
        if (!is_version && n > 0) status = add_merge(tokenizer, path, line, at, n, &bytes);
        at = stop + 1;
    }
    dt_text_free(&bytes);
    return status;
}

static dt_status *read_file(bpe *tokenizer, const char *folder, const char *name,
                            dt_status *(*read)(bpe *tokenizer, const char *path, const char *text, size_t n_bytes)) {
    dt_input_file *file;
    char *text = NULL;
    size_t n_bytes = 0;
    DT_TRY(dt_input_file_open(folder, name, &file));
    dt_status *status = dt_input_file_read_all(file, INT32_MAX, &text, &n_bytes);
    if (status == NULL) status = read(tokenizer, dt_input_file_path(file), text, n_bytes);
    dt_input_file_close(file);
    dt_release(text);
    return status;
}

/* ---- stretches ---- */

enum character {
    SPACE,
    LETTER,
    DIGIT,
    OTHER
};

/* The kind of the character at `at`, and how long it is. */
static enum character character_at(const char *at, const char *end, size_t *length) {
    unsigned char byte = (unsigned char)*at;
    *length = 1;
    if (byte < 0x80) {
        if (byte == ' ' || (byte >= '\t' && byte <= '\r')) return SPACE;
        if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') return LETTER;
        return byte >= '0' && byte <= '9' ? DIGIT : OTHER;
    }
    utf8proc_int32_t c;
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)at, end - at, &c);
    if (n <= 0) return OTHER;
    *length = (size_t)n;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return DIGIT;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return SPACE;
    default: return c == 0x85 ? SPACE : OTHER;
    }
}

/* After the characters of one kind from `at` on; *last: where the last of them begins. */
static const char *end_of_run(const char *at, const char *end, enum character kind, const char **last) {
    size_t length;
    for (; at < end && character_at(at, end, &length) == kind; at += length) *last = at;
    return at;
}

/* What an apostrophe begins: 's 't 'm 'd 're 've 'll; its length, or 0. */
static size_t contraction_at(const char *at, const char *end) {
    size_t n = (size_t)(end - at);
    if (n >= 2 && *at == '\'' && strchr("stmd", at[1]) != NULL && at[1] != 0) return 2;
    bool is_two = n >= 3 && *at == '\'' && (memcmp(at + 1, "re", 2) == 0 || memcmp(at + 1, "ve", 2) == 0 || memcmp(at + 1, "ll", 2) == 0);
    return is_two ? 3 : 0;
}

/* The end of the stretch that begins at `at` < end. White space that something follows leaves it its last character. */
static const char *end_of_stretch(const char *at, const char *end) {
    size_t length = contraction_at(at, end);
    if (length > 0) return at + length;
    const char *first = *at == ' ' && at + 1 < end ? at + 1 : at, *last = at;
    enum character kind = character_at(first, end, &length);
    if (kind != SPACE) return end_of_run(first, end, kind, &last);
    const char *stop = end_of_run(at, end, SPACE, &last);
    return stop == end || last == at ? stop : last;
}

/* ---- merging ---- */

typedef struct symbol {
    int32_t token, before, after; /* neighbours, -1 for none; token -1: merged into the one before */
} symbol;

typedef struct candidate {
    int32_t rank, at, becomes;
} candidate;

typedef struct merging {
    const bpe *tokenizer;
    symbol *symbols;
    candidate *heap; /* the first to be merged is on top: the lowest rank, of equal ones the leftmost */
    size_t n_heap;
} merging;

enum {
    INTS_A_BYTE = 13 /* of a stretch: its token, a symbol, and three candidates: one at first, two of each merge */
};

static bool comes_first(candidate a, candidate b) { return a.rank != b.rank ? a.rank < b.rank : a.at < b.at; }

/* What the symbol at `at` and the one after it become. false: nothing. */
static bool find_pair(const merging *m, int32_t at, candidate *found) {
    int32_t after = at >= 0 ? m->symbols[at].after : -1;
    if (after < 0) return false;
    int32_t pair[2] = {m->symbols[at].token, m->symbols[after].token};
    const dt_word_table *pairs = &m->tokenizer->pairs;
    const dt_word *word = dt_word_table_find(pairs, (const char *)pair, sizeof pair);
    if (word == NULL) return false;
    *found = (candidate){pairs->tokens[word->tokens], at, pairs->tokens[word->tokens + 1]};
    return true;
}

static void push_pair(merging *m, int32_t at) {
    candidate new;
    if (!find_pair(m, at, &new)) return;
    size_t i = m->n_heap++;
    for (; i > 0 && comes_first(new, m->heap[(i - 1) / 2]); i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = new;
}

static candidate pop(merging *m) {
    candidate top = m->heap[0], moved = m->heap[--m->n_heap];
    size_t i = 0;
    for (size_t child = 1; child < m->n_heap; child = 2 * i + 1) {
        if (child + 1 < m->n_heap && comes_first(m->heap[child + 1], m->heap[child])) child++;
        if (!comes_first(m->heap[child], moved)) break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = moved;
    return top;
}

/* The tokens of a stretch, in worker->pieces, which has room. */
static size_t merge(const bpe *tokenizer, dt_tokenizer_worker *worker, const char *text, size_t n) {
    merging m = {.tokenizer = tokenizer, .symbols = (symbol *)(worker->pieces + n), .heap = (candidate *)(worker->pieces + 4 * n)};
    for (size_t i = 0; i < n; i++) m.symbols[i] = (symbol){tokenizer->bytes[(unsigned char)text[i]], (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1};
    for (size_t i = 0; i + 1 < n; i++) push_pair(&m, (int32_t)i);
    while (m.n_heap > 0) {
        candidate first = pop(&m), now;
        if (m.symbols[first.at].token < 0 || !find_pair(&m, first.at, &now) || now.becomes != first.becomes) continue; /* one of them was merged */
        symbol *left = &m.symbols[first.at], *right = &m.symbols[left->after];
        left->token = first.becomes;
        left->after = right->after;
        right->token = -1;
        if (left->after >= 0) m.symbols[left->after].before = first.at;
        push_pair(&m, left->before);
        push_pair(&m, first.at);
    }
    size_t n_tokens = 0;
    for (int32_t i = 0; i >= 0; i = m.symbols[i].after) worker->pieces[n_tokens++] = m.symbols[i].token;
    return n_tokens;
}

static dt_status *encode(const dt_tokenizer *base, dt_tokenizer_worker *worker, const char *text, size_t n_bytes, int32_t *tokens) {
    const bpe *tokenizer = (const bpe *)base;
    const char *end = text + n_bytes;
    int64_t n = 0;
    for (const char *stop; text < end && n < base->length; text = stop) {
        stop = end_of_stretch(text, end);
        size_t length = (size_t)(stop - text);
        const dt_word *word = dt_word_table_find(&worker->seen, text, length);
        if (word == NULL) {
            bool fits = length <= INT32_MAX / INTS_A_BYTE && dt_tokenizer_worker_reserve(worker, length * INTS_A_BYTE);
            if (fits) word = dt_tokenizer_worker_remember(worker, text, length, merge(tokenizer, worker, text, length));
            if (word == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "bpe(): out of memory");
        }
        for (uint32_t i = 0; i < word->n_tokens && n < base->length; i++) tokens[n++] = worker->seen.tokens[word->tokens + i];
    }
    while (n < base->length) tokens[n++] = tokenizer->pad;
    return NULL;
}

static void bpe_close(dt_tokenizer *base) {
    bpe *tokenizer = (bpe *)base;
    dt_word_table_free(&tokenizer->vocabulary);
    dt_word_table_free(&tokenizer->pairs);
    dt_release(tokenizer);
}

dt_status *dt_tokenizer_open_bpe(const dt_artifact_argument *arguments, const char *folder, dt_tokenizer **tokenizer) {
    *tokenizer = NULL;
    bpe *opened = dt_allocate_zeroed(1, sizeof *opened);
    if (opened == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    opened->tokenizer = (dt_tokenizer){.length = arguments[LENGTH].integer, .encode = encode, .close = bpe_close};
    opened->pad = (int32_t)arguments[PAD].integer;
    number_bytes(opened);
    dt_status *status = read_file(opened, folder, arguments[VOCABULARY].string, read_vocabulary);
    if (status == NULL) status = read_file(opened, folder, arguments[MERGES].string, read_merges);
    if (status != NULL) {
        bpe_close(&opened->tokenizer);
        return status;
    }
    *tokenizer = &opened->tokenizer;
    return NULL;
}
