/* wordpiece: BERT's tokenizer (Devlin et al. 2018, google-research/bert, tokenization.py), token for token what PyPI's `tokenizers` gives as
 * BertWordPieceTokenizer: control characters out, ideographs apart, accents and case away, punctuation apart; then of each word the longest piece of
 * the vocabulary, and the longest that continues it, until nothing is left. Around it [CLS] and [SEP]; a text that spells a special token means it.
 */
#include "base/memory.h"
#include "runtime/data/input_file.h"
#include "runtime/data/tokenizer.h"

#include <string.h>
#include <utf8proc.h>

enum {
    MOST_CHARACTERS = 100 /* of a word; a longer one is [UNK] */
};

/* The special tokens; the vocabulary must have the first N_NEEDED. */
enum special {
    PAD,
    UNK,
    CLS,
    SEP,
    MASK,
    N_SPECIALS,
    N_NEEDED = MASK
};
static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

typedef struct wordpiece {
    dt_tokenizer tokenizer;
    bool lowercase;
    char *path, *text;                  /* of the vocabulary */
    dt_word_table words, continuations; /* tokens, those that begin with ## without it */
    size_t longest;                     /* bytes of any key */
    int32_t special[N_SPECIALS];        /* -1: the vocabulary has none */
} wordpiece;

/* ---- the vocabulary ---- */

static dt_status *add_token(wordpiece *vocabulary, const char *token, size_t n, int32_t id) {
    bool continues = n > 2 && token[0] == '#' && token[1] == '#';
    dt_word_table *table = continues ? &vocabulary->continuations : &vocabulary->words;
    if (continues) token += 2, n -= 2;
    const dt_word *before = dt_word_table_find(table, token, n);
    if (before != NULL)
        return dt_error_in(DT_DATA_LOSS, vocabulary->path, id + 1, "the token %s%.*s stands in line %d too", continues ? "##" : "", (int)n, token,
                           table->tokens[before->tokens] + 1);
    if (dt_word_table_add(table, token, n, &id, 1) == NULL)
        return dt_error_in(DT_RESOURCE_EXHAUSTED, vocabulary->path, 0, "no memory for its tokens");
    if (n > vocabulary->longest) vocabulary->longest = n;
    return NULL;
}

static dt_status *find_specials(wordpiece *vocabulary) {
    for (int i = 0; i < N_SPECIALS; i++) {
        const dt_word *word = dt_word_table_find(&vocabulary->words, specials[i], strlen(specials[i]));
        vocabulary->special[i] = word != NULL ? vocabulary->words.tokens[word->tokens] : -1;
        if (word == NULL && i < N_NEEDED)
            return dt_error_in(DT_DATA_LOSS, vocabulary->path, 0,
                               "has no token %s: wordpiece() takes a vocabulary of BERT's, a token a line, with [PAD], [UNK], [CLS] and [SEP]",
                               specials[i]);
    }
    return NULL;
}

static dt_status *read_vocabulary(wordpiece *vocabulary, const char *folder, const char *name) {
    dt_input_file *file;
    size_t n_bytes = 0;
    DT_TRY(dt_input_file_open(folder, name, &file));
    dt_status *status = dt_input_file_read_all(file, INT32_MAX, &vocabulary->text, &n_bytes);
    dt_text path = {0};
    dt_text_append(&path, dt_input_file_path(file));
    dt_input_file_close(file);
    vocabulary->path = dt_text_take(&path);
    if (status != NULL) return status;
    if (vocabulary->path == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, name, 0, "out of memory");
    const char *at = vocabulary->text, *end = at + n_bytes;
    for (int32_t id = 0; at < end; id++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline != NULL ? newline : end;
        size_t n = (size_t)(stop - at);
        if (n > 0 && at[n - 1] == '\r') n--;
        DT_TRY(add_token(vocabulary, at, n, id));
        at = stop + 1;
    }
    return find_specials(vocabulary);
}

/* ---- characters ---- */

enum character {
    LETTER, /* what a word is made of */
    SPACE,
    REMOVED,
    PUNCTUATION
};

static enum character class_of_ascii(unsigned char c) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return SPACE;
    if (c < ' ' || c == 0x7f) return REMOVED;
    bool is_alphanumeric = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    return is_alphanumeric ? LETTER : PUNCTUATION;
}

static bool is_punctuation(utf8proc_int32_t c) {
    utf8proc_category_t category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

static bool is_removed(utf8proc_int32_t c) {
    utf8proc_category_t category = utf8proc_category(c);
    return c == 0xfffd || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

static bool is_space(utf8proc_int32_t c) {
    utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/* What tokenization.py calls Chinese: ideographs, not kana or hangul, which are written with spaces or are words already. 2b920 is what `tokenizers`
 * has. */
static bool is_ideograph(utf8proc_int32_t c) {
    static const utf8proc_int32_t ranges[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
                                                 {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    return false;
}

/* ---- words ---- */

typedef struct encoding {
    const wordpiece *vocabulary;
    dt_tokenizer_worker *worker;
    int32_t *tokens;
    int64_t n, most;
    bool failed; /* out of memory */
} encoding;

static void add_piece(encoding *e, int32_t token) {
    if (e->n < e->most) e->tokens[e->n++] = token;
}

static size_t count_characters(const char *text, size_t n) {
    size_t n_characters = 0;
    for (size_t i = 0; i < n; i++) n_characters += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n_characters;
}

/* The longest piece that `text` begins with; its length, or 0. */
static size_t longest_piece(const wordpiece *vocabulary, const dt_word_table *table, const char *text, size_t n, int32_t *piece) {
    size_t length = n < vocabulary->longest ? n : vocabulary->longest;
    for (; length > 0; length--) {
        if (length < n && ((unsigned char)text[length] & 0xc0) == 0x80) continue; /* within a character */
        const dt_word *word = dt_word_table_find(table, text, length);
        if (word == NULL) continue;
        *piece = table->tokens[word->tokens];
        return length;
    }
    return 0;
}

/* Pieces of a word; one that is not made of pieces is [UNK]. */
static size_t split_word(const encoding *e, const char *text, size_t n) {
    const wordpiece *vocabulary = e->vocabulary;
    int32_t *pieces = e->worker->pieces;
    size_t n_pieces = 0, length;
    bool is_whole = count_characters(text, n) <= MOST_CHARACTERS;
    for (size_t at = 0; at < n && is_whole; at += length) {
        length = longest_piece(vocabulary, at == 0 ? &vocabulary->words : &vocabulary->continuations, text + at, n - at, &pieces[n_pieces]);
        n_pieces++;
        is_whole = length > 0;
    }
    if (is_whole) return n_pieces;
    pieces[0] = vocabulary->special[UNK];
    return 1;
}

static void add_word(encoding *e, const char *text, size_t n) {
    if (n == 0 || e->n == e->most) return;
    const dt_word *word = dt_word_table_find(&e->worker->seen, text, n);
    if (word == NULL) {
        e->failed |= !dt_tokenizer_worker_reserve(e->worker, n);
        if (e->failed) return;
        word = dt_tokenizer_worker_remember(e->worker, text, n, split_word(e, text, n));
        e->failed |= word == NULL;
        if (e->failed) return;
    }
    for (uint32_t i = 0; i < word->n_tokens; i++) add_piece(e, e->worker->seen.tokens[word->tokens + i]);
}

static void end_word(encoding *e) {
    dt_text *word = &e->worker->word;
    add_word(e, word->data, word->n);
    word->n = 0;
}

static void add_alone(encoding *e, const char *text, size_t n) {
    end_word(e);
    add_word(e, text, n);
}

/* A character as it is after accents and case are gone. */
static void add_plain_character(encoding *e, utf8proc_int32_t c) {
    char bytes[4];
    if (e->vocabulary->lowercase) c = utf8proc_tolower(c);
    size_t n = (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)bytes);
    if (c < 0x80 ? class_of_ascii((unsigned char)c) == PUNCTUATION : is_punctuation(c))
        add_alone(e, bytes, n);
    else
        dt_text_append_bytes(&e->worker->word, bytes, n);
}

static void add_character(encoding *e, utf8proc_int32_t c) {
    enum {
        MOST_DECOMPOSED = 8 /* canonical: four at most */
    };
    if (is_removed(c)) return;
    bool is_apart = is_ideograph(c);
    if (is_apart || is_space(c)) end_word(e);
    if (is_space(c)) return;
    utf8proc_int32_t parts[MOST_DECOMPOSED] = {c};
    utf8proc_ssize_t n = 1;
    int boundary = 0;
    if (e->vocabulary->lowercase) n = utf8proc_decompose_char(c, parts, MOST_DECOMPOSED, UTF8PROC_DECOMPOSE, &boundary);
    for (utf8proc_ssize_t i = 0; i < n && i < MOST_DECOMPOSED; i++)
        if (!e->vocabulary->lowercase || utf8proc_category(parts[i]) != UTF8PROC_CATEGORY_MN) add_plain_character(e, parts[i]);
    if (is_apart) end_word(e);
}

/* The run of ASCII letters and digits at `text`, which ends before `end`. */
static const char *add_run(encoding *e, const char *text, const char *end) {
    char run[64];
    size_t n = 0;
    bool lowercase = e->vocabulary->lowercase;
    for (; text < end && n < sizeof run && (unsigned char)*text < 0x80 && class_of_ascii((unsigned char)*text) == LETTER; text++)
        run[n++] = lowercase && *text >= 'A' && *text <= 'Z' ? (char)(*text + ('a' - 'A')) : *text;
    bool is_word = n < sizeof run && e->worker->word.n == 0 && (text == end || (unsigned char)*text < 0x80);
    if (is_word && (text == end || class_of_ascii((unsigned char)*text) != REMOVED))
        add_word(e, run, n);
    else
        dt_text_append_bytes(&e->worker->word, run, n);
    return text;
}

/* A stretch of text without special tokens. */
static void add_stretch(encoding *e, const char *text, const char *end) {
    while (text < end && e->n < e->most && !e->failed) {
        unsigned char byte = (unsigned char)*text;
        if (byte >= 0x80) {
            utf8proc_int32_t c;
            utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text, end - text, &c);
            if (n > 0) add_character(e, c); /* lines have checked that it is UTF-8 */
            text += n > 0 ? n : 1;
            continue;
        }
        switch (class_of_ascii(byte)) {
        case LETTER: text = add_run(e, text, end); break;
        case SPACE: end_word(e), text++; break;
        case PUNCTUATION: add_alone(e, text, 1), text++; break;
        case REMOVED: text++; break;
        }
    }
    end_word(e);
}

/* The special token that the text at `at` spells; N_SPECIALS for none. */
static int special_at(const wordpiece *vocabulary, const char *at, const char *end) {
    int i = 0;
    for (; i < N_SPECIALS; i++) {
        size_t n = strlen(specials[i]);
        if (vocabulary->special[i] >= 0 && (size_t)(end - at) >= n && memcmp(at, specials[i], n) == 0) break;
    }
    return i;
}

static dt_status *encode(const dt_tokenizer *tokenizer, dt_tokenizer_worker *worker, const char *text, size_t n_bytes, int32_t *tokens) {
    const wordpiece *vocabulary = (const wordpiece *)tokenizer;
    encoding e = {.vocabulary = vocabulary, .worker = worker, .tokens = tokens, .most = tokenizer->length - 1};
    const char *end = text + n_bytes, *begun = text, *bracket = text;
    worker->word.n = 0;
    add_piece(&e, vocabulary->special[CLS]);
    while (bracket < end && (bracket = memchr(bracket, '[', (size_t)(end - bracket))) != NULL) {
        int special = special_at(vocabulary, bracket, end);
        if (special == N_SPECIALS) {
            bracket++;
            continue;
        }
        add_stretch(&e, begun, bracket);
        add_piece(&e, vocabulary->special[special]);
        begun = bracket += strlen(specials[special]);
    }
    add_stretch(&e, begun, end);
    if (e.failed || worker->word.failed) return dt_error(DT_RESOURCE_EXHAUSTED, "wordpiece(): out of memory");
    tokens[e.n++] = vocabulary->special[SEP];
    while (e.n < tokenizer->length) tokens[e.n++] = vocabulary->special[PAD];
    return NULL;
}

static void wordpiece_close(dt_tokenizer *tokenizer) {
    wordpiece *vocabulary = (wordpiece *)tokenizer;
    dt_word_table_free(&vocabulary->words);
    dt_word_table_free(&vocabulary->continuations);
    dt_release(vocabulary->path);
    dt_release(vocabulary->text);
    dt_release(vocabulary);
}

dt_status *dt_tokenizer_open_wordpiece(const dt_artifact_argument *arguments, const char *folder, dt_tokenizer **tokenizer) {
    *tokenizer = NULL;
    wordpiece *opened = dt_allocate_zeroed(1, sizeof *opened);
    if (opened == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    opened->tokenizer = (dt_tokenizer){.length = arguments[1].integer, .encode = encode, .close = wordpiece_close};
    opened->lowercase = arguments[2].integer != 0;
    dt_status *status = read_vocabulary(opened, folder, arguments[0].string);
    if (status != NULL) {
        wordpiece_close(&opened->tokenizer);
        return status;
    }
    *tokenizer = &opened->tokenizer;
    return NULL;
}
