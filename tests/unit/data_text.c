/* text as data: bytes and windows over them, whole and read where they lie; lines; tokenizers without memory, and met with many words. */
#include "base/memory.h"
#include "runtime/data/source.h"
#include "runtime/data/tokenizer.h"
#include "tests/unit/scratch_folder.h"

#include <sys/resource.h>
#include <unistd.h>

static dt_status *open_rows(const char *kind, int n_names, const char *const *names, bool by_row, dt_source **source) {
    dt_artifact_argument arguments[4] = {{0}};
    for (int i = 0; i < n_names; i++) arguments[i] = (dt_artifact_argument){.kind = DT_ARGUMENT_STRING, .string = names[i]};
    dt_artifact_stage stage = {.kind = kind, .n_arguments = n_names, .arguments = arguments};
    return dt_source_open(&stage, scratch, by_row, source);
}

static dt_status *open_one(const char *kind, const char *name, bool by_row, dt_source **source) { return open_rows(kind, 1, &name, by_row, source); }

static dt_status *window_of(dt_source *of, int64_t n, int64_t shift, dt_source **source) {
    return dt_source_window(of, &(dt_window){.most = INT64_MAX, .n = n, .shift = shift}, source);
}

static void write_text(const char *name, const char *text) { scratch_write(name, text, strlen(text)); }

/* Component 0 of example `row`, wherever it is. */
static const char *row_of(dt_source *source, int64_t row) {
    static char text[256];
    const dt_column *column = &source->columns[0];
    assert_ok(dt_source_wait(source, row + 1));
    dt_component component = {text, (size_t)column->tensor.row_bytes};
    if (column->bytes != NULL)
        component = dt_column_row(column, row);
    else
        assert_ok(dt_source_read(source, 0, row, 1, text));
    assert_true(component.n_bytes < sizeof text);
    memmove(text, component.bytes, component.n_bytes);
    text[component.n_bytes] = 0;
    return text;
}

static void bytes_of_files_one_after_the_other(void **state) {
    (void)state;
    write_text("part-2", "cd");
    write_text("part-10", "b");
    scratch_write_gzip("packed.gz", "efgh", 4);
    for (int by_row = 0; by_row < 2; by_row++) {
        dt_source *source;
        assert_ok(open_rows("bytes", 2, (const char *[]){"part-*", "part-2"}, by_row, &source)); /* sorted by bytes: part-10 comes first */
        assert_int_equal(source->n_examples, 5);
        assert_true((source->columns[0].bytes == NULL) == by_row);
        for (int i = 0; i < 5; i++) assert_int_equal(row_of(source, i)[0], "bcdcd"[i]);
        dt_source_close(source);
        assert_ok(open_rows("bytes", 2, (const char *[]){"part-2", "packed"}, by_row, &source));
        assert_int_equal(source->n_examples, 6);
        for (int i = 0; i < 6; i++) assert_int_equal(row_of(source, i)[0], "cdefgh"[i]);
        dt_source_close(source);
    }
}

static void files_may_be_more_than_can_be_open(void **state) {
    (void)state;
    enum {
        N_FILES = 200
    };
    struct rlimit before, few;
    for (int i = 0; i < N_FILES; i++) {
        char name[32], text[2] = {(char)('a' + i % 26), '\n'};
        snprintf(name, sizeof name, "many-%03d%s", i, i % 9 == 4 ? ".gz" : "");
        (i % 9 == 4 ? scratch_write_gzip : scratch_write)(name, text, 2);
        snprintf(name, sizeof name, "plain-%03d", i);
        scratch_write(name, text, 2);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 100;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    static const char *const patterns[] = {"many-*", "plain-*"};
    for (int p = 0; p < 2; p++)
        for (int by_row = 0; by_row < 2; by_row++) {
            dt_source *source;
            assert_ok(open_one("bytes", patterns[p], by_row, &source));
            assert_int_equal(source->n_examples, 2 * N_FILES);
            for (int i = 0; i < N_FILES; i++) assert_int_equal(row_of(source, 2 * i)[0], 'a' + i % 26);
            dt_source_close(source);
        }
    dt_source *source;
    assert_ok(open_one("lines", "many-*", false, &source));
    assert_int_equal(source->n_examples, N_FILES);
    assert_int_equal(row_of(source, N_FILES - 1)[0], 'a' + (N_FILES - 1) % 26);
    dt_source_close(source);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void a_window_is_a_slice(void **state) {
    (void)state;
    static const struct {
        int64_t n, shift;
        const char *windows;
    } cases[] = {{3, 3, "abc def ghi "}, {4, 3, "abcd defg ghij "}, {2, 5, "ab fg "}, {10, 1, "abcdefghij "}, {1, 4, "a e i "}};
    write_text("a", "abcde");
    write_text("b", "fghij");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int by_row = 0; by_row < 2; by_row++) {
            dt_source *bytes, *source;
            char text[200] = "";
            assert_ok(open_rows("bytes", 2, (const char *[]){"a", "b"}, by_row, &bytes));
            const unsigned char *first = bytes->columns[0].bytes;
            assert_ok(window_of(bytes, cases[c].n, cases[c].shift, &source));
            for (int64_t i = 0; i < source->n_examples; i++) strcat(strcat(text, row_of(source, i)), " ");
            assert_string_equal(text, cases[c].windows);
            assert_ptr_equal(source->columns[0].bytes, first); /* no copy of the files */
            assert_int_equal(source->columns[0].tensor.n_dims, 1);
            assert_int_equal(source->columns[0].tensor.dims[0], cases[c].n);
            dt_source_close(source);
        }
}

static void a_window_is_a_slice_of_a_part(void **state) {
    (void)state;
    write_text("a", "abcdefghij");
    const dt_window part = {.first = 2, .most = 5, .n = 2, .shift = 2};
    for (int by_row = 0; by_row < 2; by_row++) {
        dt_source *source;
        assert_ok(open_one("bytes", "a", by_row, &source));
        assert_ok(dt_source_window(source, &part, &source));
        assert_int_equal(source->n_examples, 2);
        assert_string_equal(row_of(source, 0), "cd");
        assert_string_equal(row_of(source, 1), "ef");
        dt_source_close(source);
        assert_ok(open_one("bytes", "a", by_row, &source));
        assert_fails(dt_source_window(source, &(dt_window){.first = 8, .most = 5, .n = 4, .shift = 1}, &source), DT_INVALID_ARGUMENT,
                     "a: holds 2 examples that skip() and take() leave, fewer than the 4 of a window");
    }
}

static void what_is_wrong_with_files_is_named(void **state) {
    (void)state;
    dt_source *source;
    write_text("empty", "");
    write_text("short", "abcd");
    for (int by_row = 0; by_row < 2; by_row++) {
        assert_fails(open_one("bytes", "empty", by_row, &source), DT_DATA_LOSS, "empty: is empty");
        assert_fails(open_one("bytes", "no-*.txt", by_row, &source), DT_NOT_FOUND, "no-*.txt: matches no file; name the folder");
        assert_fails(open_one("bytes", "missing", by_row, &source), DT_NOT_FOUND, "missing: no such file");
    }
    assert_ok(open_one("bytes", "short", false, &source));
    assert_fails(window_of(source, 5, 5, &source), DT_INVALID_ARGUMENT, "short: holds 4 examples, fewer than the 5 of a window");
    assert_ok(open_one("bytes", "short", true, &source));
    assert_int_equal(truncate(scratch_path("short"), 2), 0);
    char row;
    assert_fails(dt_source_read(source, 0, 2, 1, &row), DT_DATA_LOSS, "short: the file was truncated while it was in use: it ends before byte 3");
    dt_source_close(source);
}

static void lines_end_in_different_ways(void **state) {
    (void)state;
    static const char *const wanted[] = {"one", "", "two\r", "three", "\xc3\xa9t\xc3\xa9", "last", "five", ""};
    write_text("a", "one\n\ntwo\r\r\nthree");
    scratch_write_gzip("d.gz", "\xc3\xa9t\xc3\xa9\r\nlast\n", 12);
    write_text("c", "five\n\n");
    for (int by_row = 0; by_row < 2; by_row++) {
        dt_source *source;
        assert_ok(open_rows("lines", 3, (const char *[]){"a", "d", "c"}, by_row, &source));
        assert_int_equal(source->n_examples, 8);
        assert_true(source->columns[0].is_text);
        for (int i = 0; i < 8; i++) assert_string_equal(row_of(source, i), wanted[i]);
        dt_source_close(source);
    }
}

static void what_is_no_utf8_is_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {{"fine\nna\xefve", "bad:2: is not UTF-8: byte 3 of the line is 0xef"},
                 {"\xc3", "bad:1: is not UTF-8: byte 1 of the line is 0xc3"},                /* cut */
                 {"a\n\nlong enough \xc0\x80", "bad:3: is not UTF-8: byte 13"},              /* overlong */
                 {"\xed\xa0\x80", "bad:1: is not UTF-8: byte 1 of the line is 0xed"},        /* a surrogate */
                 {"\xf4\x90\x80\x80\n", "bad:1: is not UTF-8: byte 1 of the line is 0xf4"}}; /* beyond U+10FFFF */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_source *source;
        write_text("bad", cases[i].text);
        assert_fails(open_one("lines", "bad", false, &source), DT_DATA_LOSS, cases[i].part);
    }
}

static dt_status *open_sources(void) {
    dt_source *source;
    DT_TRY(open_rows("lines", 2, (const char *[]){"pl*n", "packed"}, false, &source));
    dt_source_close(source);
    DT_TRY(open_rows("bytes", 2, (const char *[]){"pl*n", "packed"}, false, &source));
    DT_TRY(window_of(source, 3, 1, &source));
    dt_source_close(source);
    return NULL;
}

static dt_tokenizer *tokenizer;
static dt_status *open_tokenizer(dt_tokenizer_opener *open) {
    const dt_artifact_argument wordpiece[] = {{.string = "vocab.txt"}, {.integer = 8}, {.integer = 1}};
    const dt_artifact_argument bpe[] = {{.string = "vocab.json"}, {.string = "merges.txt"}, {.integer = 8}, {.integer = 0}};
    tokenizer = NULL;
    return open(open == dt_tokenizer_open_bpe ? bpe : wordpiece, scratch, &tokenizer);
}

/* Opens one, and tokenizes a line by it. */
static dt_status *use_tokenizer(dt_tokenizer_opener *open) {
    static const char line[] = "thethe th\xc3\xa9 THE \xe6\xbc\xa2 [SEP]";
    int32_t tokens[8];
    dt_tokenizer_worker worker = {0};
    dt_status *status = open_tokenizer(open);
    if (status == NULL) status = tokenizer->encode(tokenizer, &worker, line, sizeof line - 1, tokens);
    dt_tokenizer_worker_free(&worker);
    dt_tokenizer_close(tokenizer);
    return status;
}
static dt_status *use_wordpiece(void) { return use_tokenizer(dt_tokenizer_open_wordpiece); }
static dt_status *use_bpe(void) { return use_tokenizer(dt_tokenizer_open_bpe); }

static void write_vocabularies(void) {
    dt_text json = {0};
    for (int c = '!', n = 0; n < 256; c++) /* of the characters that stand for bytes */
        if (c <= '~' || (c >= 0xa1 && c != 0xad)) dt_text_format(&json, "%c\"\\u%04x\":%d", n == 0 ? '{' : ',', (unsigned)c, n), n++;
    dt_text_append(&json, ",\"th\":256,\"the\":257}");
    write_text("vocab.json", json.data);
    dt_text_free(&json);
    write_text("merges.txt", "#version: 0.2\nt h\nth e\n");
    write_text("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n##the\n");
}

static void allocations_may_fail(void **state) {
    (void)state;
    write_text("plain", "abcdefgh");
    scratch_write_gzip("packed.gz", "abcdefgh", 8);
    write_vocabularies();
    static dt_status *(*const uses[])(void) = {open_sources, use_wordpiece, use_bpe};
    for (size_t u = 0; u < sizeof uses / sizeof *uses; u++) {
        int n = 0;
        for (bool failed = true; failed && n < 1000; n++) {
            dt_memory_fail_after(n);
            dt_status *status = uses[u]();
            dt_memory_fail_after(-1);
            failed = status != NULL;
            if (failed) assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
            dt_status_free(status);
        }
        assert_true(n > 5 && n < 1000);
    }
}

/* More words than a worker remembers: it forgets, and gives the same tokens again. */
static void many_words_are_forgotten(void **state) {
    (void)state;
    write_vocabularies();
    dt_tokenizer_opener *const openers[] = {dt_tokenizer_open_wordpiece, dt_tokenizer_open_bpe};
    for (int o = 0; o < 2; o++) {
        dt_tokenizer_worker worker = {0};
        int32_t first[8], tokens[8];
        assert_ok(open_tokenizer(openers[o]));
        for (int i = 0; i < 300000; i++) {
            char word[32];
            int n = snprintf(word, sizeof word, "the%dthe", i);
            assert_ok(tokenizer->encode(tokenizer, &worker, word, (size_t)n, tokens));
            assert_ok(tokenizer->encode(tokenizer, &worker, "the", 3, tokens));
            if (i == 0) memcpy(first, tokens, sizeof first);
            assert_memory_equal(tokens, first, sizeof first);
        }
        assert_true(worker.seen.n < 200000);
        dt_tokenizer_worker_free(&worker);
        dt_tokenizer_close(tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_files_one_after_the_other),
        cmocka_unit_test(files_may_be_more_than_can_be_open),
        cmocka_unit_test(a_window_is_a_slice),
        cmocka_unit_test(a_window_is_a_slice_of_a_part),
        cmocka_unit_test(what_is_wrong_with_files_is_named),
        cmocka_unit_test(lines_end_in_different_ways),
        cmocka_unit_test(what_is_no_utf8_is_named),
        cmocka_unit_test(allocations_may_fail),
        cmocka_unit_test(many_words_are_forgotten),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
