/* sources: idx, npy and csv, whole, gzipped, and wrong in every way that was thought of. */
#include "base/memory.h"
#include "runtime/data/arrays.h"
#include "runtime/data/safetensors.h"
#include "tests/support/npy_file.h"
#include "tests/unit/scratch_folder.h"

#include <unistd.h>

static dt_status *open_rows(const char *kind, int n_names, const char *const *names, bool by_row, dt_source **source) {
    dt_artifact_argument arguments[4] = {{0}};
    for (int i = 0; i < n_names; i++) arguments[i] = (dt_artifact_argument){.kind = DT_ARGUMENT_STRING, .string = names[i]};
    dt_artifact_stage stage = {.kind = kind, .n_arguments = n_names, .arguments = arguments};
    return dt_source_open(&stage, scratch, by_row, source);
}

static dt_status *open_named(const char *kind, int n_names, const char *const *names, dt_source **source) {
    return open_rows(kind, n_names, names, false, source);
}

static dt_status *open_one(const char *kind, const char *name, dt_source **source) { return open_named(kind, 1, &name, source); }

/* Opens and waits for all, as an epoch does. */
static dt_status *read_one(const char *kind, const char *name) {
    dt_source *source;
    DT_TRY(open_one(kind, name, &source));
    dt_status *status = dt_source_wait(source, source->n_examples);
    dt_source_close(source);
    return status;
}

/* An IDX file of u8[n, 2, 3]: element k is k. */
static size_t make_images(unsigned char *file, int n) {
    unsigned char header[] = {0, 0, 8, 3, 0, 0, (unsigned char)(n >> 8), (unsigned char)n, 0, 0, 0, 2, 0, 0, 0, 3};
    memcpy(file, header, sizeof header);
    for (int k = 0; k < n * 6; k++) file[sizeof header + (size_t)k] = (unsigned char)k;
    return sizeof header + (size_t)n * 6;
}

static size_t make_labels(unsigned char *file, int n) {
    unsigned char header[] = {0, 0, 8, 1, 0, 0, (unsigned char)(n >> 8), (unsigned char)n};
    memcpy(file, header, sizeof header);
    for (int k = 0; k < n; k++) file[sizeof header + (size_t)k] = (unsigned char)(k % 10);
    return sizeof header + (size_t)n;
}

static void idx_files_side_by_side(void **state) {
    (void)state;
    static unsigned char images[7000], labels[2000];
    scratch_write_gzip("images.gz", images, make_images(images, 1000));
    scratch_write("labels", labels, make_labels(labels, 1000));
    dt_source *source;
    assert_ok(open_named("idx", 2, (const char *[]){"images.gz", "labels.gz"}, &source)); /* labels lies there unpacked */
    assert_int_equal(source->n_examples, 1000);
    assert_int_equal(source->n_columns, 2);
    assert_ok(dt_source_wait(source, 1000));
    const dt_column *image = &source->columns[0], *label = &source->columns[1];
    assert_int_equal(image->tensor.n_dims, 2);
    assert_int_equal(image->tensor.dims[0], 2);
    assert_int_equal(image->tensor.dims[1], 3);
    assert_int_equal(image->tensor.row_bytes, 6);
    assert_int_equal(image->tensor.dtype, DT_U8);
    assert_memory_equal(image->bytes, images + 16, 6000);
    assert_int_equal(label->tensor.n_dims, 0);
    assert_int_equal(label->bytes[999], 9);
    dt_source_close(source);
    assert_ok(open_one("idx", "images", &source)); /* images lies there packed */
    assert_true(strstr(source->columns[0].path, "images.gz") != NULL);
    dt_source_close(source);
}

static dt_status *open_range(int n_arguments, int64_t n, dt_source **source) {
    dt_artifact_argument argument = {.name = "n", .kind = DT_ARGUMENT_INT, .integer = n};
    dt_artifact_stage stage = {.kind = "range", .n_arguments = n_arguments, .arguments = &argument};
    return dt_source_open(&stage, NULL, false, source);
}

static void a_range_counts(void **state) {
    (void)state;
    dt_source *source;
    int64_t rows[3];
    assert_ok(open_range(1, INT64_MAX, &source));
    assert_true(source->n_examples == INT64_MAX && source->n_columns == 1);
    assert_true(source->columns[0].tensor.dtype == DT_I64 && source->columns[0].tensor.n_dims == 0);
    assert_ok(dt_source_read(source, 0, INT64_MAX - 3, 3, rows));
    for (int i = 0; i < 3; i++) assert_true(rows[i] == INT64_MAX - 3 + i);
    dt_source_close(source);
    assert_fails(open_range(1, 0, &source), DT_INVALID_ARGUMENT, "range(): n cannot be that");
    assert_fails(open_range(0, 0, &source), DT_INVALID_ARGUMENT, "range() takes a whole number, 1 or more");
}

static void idx_is_big_endian(void **state) {
    (void)state;
    const unsigned char file[] = {0, 0, 0x0c, 1, 0, 0, 0, 2, 0, 0, 1, 2, 0xff, 0xff, 0xff, 0xfe};
    scratch_write("numbers", file, sizeof file);
    dt_source *source;
    assert_ok(open_one("idx", "numbers", &source));
    assert_ok(dt_source_wait(source, 2));
    int32_t numbers[2];
    memcpy(numbers, source->columns[0].bytes, sizeof numbers);
    assert_int_equal(numbers[0], 258);
    assert_int_equal(numbers[1], -2);
    dt_source_close(source);
}

static void gzip_members_join(void **state) {
    (void)state;
    unsigned char file[100], packed[400];
    size_t n = make_labels(file, 20), n_first = scratch_gzip(file, 11, packed, 200);
    n_first += scratch_gzip(file + 11, n - 11, packed + n_first, 200);
    scratch_write("joined.gz", packed, n_first);
    assert_ok(read_one("idx", "joined.gz"));
}

static void wrong_idx_files(void **state) {
    (void)state;
    unsigned char file[200] = {0}, packed[400];
    size_t n = make_images(file, 10);
    assert_fails(read_one("idx", "missing"), DT_NOT_FOUND, "missing: no such file, with .gz or without; name the folder that holds it with --data");
    scratch_write("short", file, n - 1);
    assert_fails(read_one("idx", "short"), DT_DATA_LOSS, "promises u8[10, 2, 3], 60 bytes, but it ends after 59");
    scratch_write("head", file, 10);
    assert_fails(read_one("idx", "head"), DT_DATA_LOSS, "ends within the header");
    scratch_write("long", file, n + 1);
    assert_fails(read_one("idx", "long"), DT_DATA_LOSS, "goes on after the 60 bytes");
    scratch_write("text", "hello, world", 12);
    assert_fails(read_one("idx", "text"), DT_DATA_LOSS, "is not an IDX file");
    scratch_write("type", "\0\0\x0b\1\0\0\0\1\0\0", 10);
    assert_fails(read_one("idx", "type"), DT_DATA_LOSS, "0x0b");
    scratch_write("scalar", "\0\0\x08\0\0", 5);
    assert_fails(read_one("idx", "scalar"), DT_DATA_LOSS, "single number");
    scratch_write("empty", "\0\0\x08\1\0\0\0\0", 8);
    assert_fails(read_one("idx", "empty"), DT_DATA_LOSS, "holds no elements");
    scratch_write("huge", "\0\0\x0e\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
    assert_fails(read_one("idx", "huge"), DT_DATA_LOSS, "more than it can hold");

    scratch_write_gzip("cut.gz", file, n - 5);
    assert_fails(read_one("idx", "cut.gz"), DT_DATA_LOSS, "promises u8[10, 2, 3], 60 bytes, but it ends after 55");
    scratch_write_gzip("more.gz", file, n + 5);
    assert_fails(read_one("idx", "more.gz"), DT_DATA_LOSS, "goes on after");
    size_t n_packed = scratch_gzip(file, n, packed, sizeof packed);
    scratch_write("truncated.gz", packed, n_packed - 9);
    assert_fails(read_one("idx", "truncated.gz"), DT_DATA_LOSS, "the file is truncated: the gzip data ends early");
    scratch_write("packed", packed, n_packed);
    assert_fails(read_one("idx", "packed"), DT_DATA_LOSS, "but a gzip file: its name must end in .gz");
    packed[n_packed] = 'x';
    scratch_write("trailing.gz", packed, n_packed + 1);
    assert_fails(read_one("idx", "trailing.gz"), DT_DATA_LOSS, "something follows the gzip data");
    packed[n_packed - 8] ^= 1; /* of the checksum */
    scratch_write("altered.gz", packed, n_packed);
    assert_fails(read_one("idx", "altered.gz"), DT_DATA_LOSS, "altered or is damaged");
    scratch_write("foreign.gz", file, n);
    assert_fails(read_one("idx", "foreign.gz"), DT_DATA_LOSS, "is not a gzip file, as its name says");
}

static void every_cut_and_every_flip_is_noticed(void **state) {
    (void)state;
    unsigned char file[100], packed[300];
    size_t n_packed = scratch_gzip(file, make_images(file, 10), packed, sizeof packed);
    for (size_t n = 0; n < n_packed; n++) {
        scratch_write("cut.gz", packed, n);
        dt_status *status = read_one("idx", "cut.gz");
        assert_int_equal(dt_status_code(status), DT_DATA_LOSS);
        dt_status_free(status);
    }
    for (size_t i = 10; i < n_packed; i++) { /* after the fixed part of gzip's header, most of which means nothing */
        if (i == n_packed - 9) continue;     /* the last byte of the deflate stream holds bits that mean nothing either */
        packed[i] ^= 0x10;
        scratch_write("flip.gz", packed, n_packed);
        dt_status *status = read_one("idx", "flip.gz");
        assert_int_equal(dt_status_code(status), DT_DATA_LOSS);
        dt_status_free(status);
        packed[i] ^= 0x10;
    }
}

static void files_that_disagree(void **state) {
    (void)state;
    unsigned char file[200];
    scratch_write("ten", file, make_images(file, 10));
    scratch_write("nine", file, make_labels(file, 9));
    dt_source *source;
    assert_fails(open_named("idx", 2, (const char *[]){"ten", "nine"}, &source), DT_DATA_LOSS, "disagree");
    assert_fails(open_named("idx", 0, NULL, &source), DT_INVALID_ARGUMENT, "takes the name of a file");
}

/* A file of 2 GiB that takes no place on the disk: reading it takes longer than asking for its last row. */
static void a_cancelled_source_lets_nobody_wait(void **state) {
    (void)state;
    enum {
        N_ROWS = 1 << 20,
        ROW_BYTES = 2048
    };
    const unsigned char header[] = {0, 0, 8, 2, 0, N_ROWS >> 16, 0, 0, 0, 0, ROW_BYTES >> 8, 0};
    scratch_write("large", header, sizeof header);
    assert_int_equal(truncate(scratch_path("large"), (off_t)N_ROWS * ROW_BYTES + (off_t)sizeof header), 0);
    dt_source *source;
    assert_ok(open_one("idx", "large", &source));
    dt_source_cancel(source);
    assert_fails(dt_source_wait(source, N_ROWS), DT_ABORTED, "large: is not read any further");
    dt_source_close(source);
    dt_source_cancel(NULL);
}

/* Each row of `by_row` is the one of `whole`. */
static void assert_same_rows(dt_source *by_row, dt_source *whole) {
    unsigned char row[64];
    assert_ok(dt_source_wait(whole, whole->n_examples));
    assert_ok(dt_source_wait(by_row, by_row->n_examples));
    assert_int_equal(by_row->n_examples, whole->n_examples);
    for (int i = 0; i < whole->n_columns; i++)
        for (int64_t k = whole->n_examples - 1; k >= 0 && by_row->columns[i].bytes == NULL; k--) {
            size_t row_bytes = (size_t)whole->columns[i].tensor.row_bytes;
            assert_ok(dt_source_read(by_row, i, k, 1, row));
            assert_memory_equal(row, whole->columns[i].bytes + (size_t)k * row_bytes, row_bytes);
        }
}

static void rows_are_read_one_at_a_time(void **state) {
    (void)state;
    unsigned char file[7000];
    const unsigned char big_endian[] = {0, 0, 0x0c, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 1, 2, 0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4, 5, 6, 7, 8};
    scratch_write("images", file, make_images(file, 1000));
    scratch_write_gzip("labels.gz", file, make_labels(file, 1000));
    scratch_write("numbers", big_endian, sizeof big_endian);
    assert_ok(dt_array_write(scratch_path("d.npy"), DT_F64, 2, (int64_t[]){3, 2}, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL"));
    static const struct {
        const char *kind, *names[2];
        int n;
        bool by_row[2];
    } cases[] = {{"idx", {"images", "labels.gz"}, 2, {true, false}}, {"idx", {"numbers"}, 1, {true}}, {"npy", {"d.npy"}, 1, {true}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        dt_source *whole, *by_row;
        assert_ok(open_rows(cases[c].kind, cases[c].n, cases[c].names, false, &whole));
        assert_ok(open_rows(cases[c].kind, cases[c].n, cases[c].names, true, &by_row));
        for (int i = 0; i < cases[c].n; i++) assert_true((by_row->columns[i].bytes == NULL) == cases[c].by_row[i]);
        assert_same_rows(by_row, whole);
        dt_source_close(by_row);
        dt_source_close(whole);
    }
}

static void a_row_that_is_gone_is_named(void **state) {
    (void)state;
    unsigned char file[200] = {0}, row[6];
    size_t n = make_images(file, 10);
    scratch_write("images", file, n);
    dt_source *source;
    assert_ok(open_rows("idx", 1, (const char *[]){"images"}, true, &source));
    assert_int_equal(truncate(scratch_path("images"), (off_t)n - 13), 0); /* the last two rows, and a byte of the one before */
    assert_ok(dt_source_read(source, 0, 6, 1, row));
    for (int k = 7; k < 10; k++) {
        char part[100];
        snprintf(part, sizeof part, "images: the file was truncated while it was in use: it ends before the end of row %d", k);
        assert_fails(dt_source_read(source, 0, k, 1, row), DT_DATA_LOSS, part);
    }
    dt_source_close(source);
    assert_fails(open_rows("idx", 1, (const char *[]){"images"}, true, &source), DT_DATA_LOSS, "60 bytes, but it ends after 47");
    scratch_write("images", file, n + 1);
    assert_fails(open_rows("idx", 1, (const char *[]){"images"}, true, &source), DT_DATA_LOSS, "goes on after the 60 bytes");
}

static void missing_folders_are_named(void **state) {
    (void)state;
    dt_artifact_argument argument = {.kind = DT_ARGUMENT_STRING, .string = "images.gz"};
    dt_artifact_stage stage = {.kind = "idx", .n_arguments = 1, .arguments = &argument};
    dt_source *source;
    assert_fails(dt_source_open(&stage, scratch_path("nowhere"), false, &source), DT_NOT_FOUND,
                 "nowhere: cannot open the data folder: No such file or directory; name");
    scratch_write("file", "x", 1);
    assert_fails(dt_source_open(&stage, scratch_path("file"), false, &source), DT_NOT_FOUND, "file: is not a folder");
    stage.kind = "tape";
    assert_fails(dt_source_open(&stage, scratch, false, &source), DT_UNIMPLEMENTED,
                 "there is no source tape; this dtrun has: idx, npy, csv, lines, bytes, safetensors, images, range, files");
}

static void npy_comes_back(void **state) {
    (void)state;
    const float numbers[6] = {1, 2.5f, -3, 4, 5, 6};
    const int64_t dims[2] = {3, 2};
    assert_ok(dt_array_write(scratch_path("a.npy"), DT_F32, 2, dims, numbers));
    dt_source *source;
    assert_ok(open_one("npy", "a.npy", &source));
    assert_ok(dt_source_wait(source, 3));
    assert_int_equal(source->n_examples, 3);
    assert_int_equal(source->columns[0].tensor.dtype, DT_F32);
    assert_int_equal(source->columns[0].tensor.dims[0], 2);
    assert_memory_equal(source->columns[0].bytes, numbers, sizeof numbers);
    dt_source_close(source);

    for (int dtype = 0; dtype < DT_N_DTYPES; dtype++) {
        const unsigned char elements[16] = {1, 0, 0x80, 0x3f};
        assert_ok(dt_array_write(scratch_path("b.npy"), (dt_dtype)dtype, 1, (int64_t[]){2}, elements));
        assert_ok(open_one("npy", "b.npy", &source));
        assert_int_equal(source->columns[0].tensor.dtype, dtype == DT_BF16 ? DT_F32 : dtype);
        dt_source_close(source);
    }
}

static void write_npy(const char *header, const void *data, size_t n_bytes) {
    char file[400];
    scratch_write("c.npy", file, npy_file_make(file, header, data, n_bytes));
}

static void wrong_npy_files(void **state) {
    (void)state;
    write_npy("{'descr': '>i4', 'fortran_order': False, 'shape': (1,), }", "\0\0\1\2", 4);
    dt_source *source;
    assert_ok(open_one("npy", "c.npy", &source));
    assert_ok(dt_source_wait(source, 1));
    assert_int_equal(source->columns[0].bytes[0], 2);
    dt_source_close(source);
    write_npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "1234", 4);
    assert_fails(read_one("npy", "c.npy"), DT_DATA_LOSS, "numpy.ascontiguousarray");
    write_npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "12345678", 8);
    assert_fails(read_one("npy", "c.npy"), DT_DATA_LOSS, "type <c8 cannot be read; convert the array with .astype()");
    write_npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234", 4);
    assert_fails(read_one("npy", "c.npy"), DT_DATA_LOSS, "no simple 'descr'");
    write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "1234", 4);
    assert_fails(read_one("npy", "c.npy"), DT_DATA_LOSS, "shape");
    write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }", "1234", 4);
    assert_fails(read_one("npy", "c.npy"), DT_DATA_LOSS, "shape");
    write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "1234", 4);
    assert_fails(read_one("npy", "c.npy"), DT_DATA_LOSS, "single number");
    write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234", 4);
    assert_fails(read_one("npy", "c.npy"), DT_DATA_LOSS, "truncated");
    scratch_write("c.npy", "\x93NUMPY\1\0\xff\0{", 11);
    assert_fails(read_one("npy", "c.npy"), DT_DATA_LOSS, "truncated or altered");
    scratch_write("c.npy", "\x93NUMPY\7\0\0\0", 10);
    assert_fails(read_one("npy", "c.npy"), DT_DATA_LOSS, "version 7");
    scratch_write("c.npy", "PK", 2);
    assert_fails(read_one("npy", "c.npy"), DT_DATA_LOSS, "is not a .npy file");
}

static dt_status *open_csv(int64_t target, dt_source **source) {
    dt_artifact_argument arguments[2] = {{.kind = DT_ARGUMENT_STRING, .string = "numbers.csv"},
                                         {.name = "target", .kind = DT_ARGUMENT_INT, .integer = target}};
    dt_artifact_stage stage = {.kind = "csv", .n_arguments = target == 99 ? 1 : 2, .arguments = arguments};
    return dt_source_open(&stage, scratch, false, source);
}

static void csv_cells_may_be_quoted(void **state) {
    (void)state;
    const char text[] = "\xef\xbb\xbf\"a, \"\"b\"\"\", c\r\n\r\n \"1\" ,\"2.5 \"\r\n nan,-inf\r\n  \r\n3,4";
    scratch_write("numbers.csv", text, strlen(text));
    dt_source *source;
    assert_ok(open_csv(99, &source));
    assert_int_equal(source->n_examples, 3);
    const float *numbers = (const float *)(const void *)source->columns[0].bytes;
    assert_memory_equal(numbers, ((const float[]){1, 2.5f}), 8);
    assert_true(numbers[2] != numbers[2] && numbers[3] < -3e38f);
    assert_memory_equal(numbers + 4, ((const float[]){3, 4}), 8);
    dt_source_close(source);
}

static void csv_without_a_header(void **state) {
    (void)state;
    scratch_write_gzip("plain.csv.gz", "1,2\n3,4\n", 8);
    dt_artifact_argument arguments[2] = {{.kind = DT_ARGUMENT_STRING, .string = "plain.csv"},
                                         {.name = "header", .kind = DT_ARGUMENT_STRING, .string = "no"}};
    dt_artifact_stage stage = {.kind = "csv", .n_arguments = 2, .arguments = arguments};
    dt_source *source;
    assert_ok(dt_source_open(&stage, scratch, false, &source));
    assert_int_equal(source->n_examples, 2);
    assert_null(source->about);
    assert_memory_equal(source->columns[0].bytes, ((const float[]){1, 2, 3, 4}), 16);
    dt_source_close(source);
    assert_ok(open_one("csv", "plain.csv", &source));
    assert_int_equal(source->n_examples, 1);
    assert_non_null(strstr(source->about, "the first line holds numbers alone"));
    dt_source_close(source);
    scratch_write_gzip("plain.csv.gz", "1,2\n3\n", 6);
    assert_fails(dt_source_open(&stage, scratch, false, &source), DT_DATA_LOSS, "plain.csv.gz:2: column 2 is missing");
}

/* Tensors of one file, of which a row is read when it is wanted. */
static void rows_of_safetensors(void **state) {
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, 6};
    const int64_t y[] = {7, 8, 9}, z = 5;
    const dt_safetensor tensors[] = {
        {.name = "x", .dtype = DT_F32, .n_dims = 2, .dims = (int64_t[]){3, 2}, .n_bytes = sizeof x, .data = x},
        {.name = "y", .dtype = DT_I64, .n_dims = 1, .dims = (int64_t[]){3}, .n_bytes = sizeof y, .data = y},
        {.name = "z", .dtype = DT_I64, .n_dims = 1, .dims = (int64_t[]){1}, .n_bytes = sizeof z, .data = &z},
        {.name = "one", .dtype = DT_I64, .n_dims = 0, .n_bytes = sizeof z, .data = &z},
    };
    unsigned char sum[DT_SHA256_BYTES];
    unlink(scratch_path("t.safetensors"));
    assert_ok(dt_safetensors_write(scratch_path("t.safetensors"), 4, tensors, sum));
    dt_source *source;
    assert_ok(open_named("safetensors", 3, (const char *[]){"t.safetensors", "y", "x"}, &source));
    assert_int_equal(source->n_examples, 3);
    assert_int_equal(source->n_columns, 2);
    assert_int_equal(source->columns[1].tensor.dims[0], 2);
    int64_t labels[2];
    float row[2];
    assert_ok(dt_source_read(source, 0, 1, 2, labels));
    assert_memory_equal(labels, y + 1, sizeof labels);
    assert_ok(dt_source_read(source, 1, 2, 1, row));
    assert_memory_equal(row, x + 4, sizeof row);
    assert_int_equal(truncate(scratch_path("t.safetensors"), 100), 0);
    dt_status *status = NULL;
    for (int column = 0; column < 2 && status == NULL; column++) status = dt_source_read(source, column, 2, 1, labels);
    assert_fails(status, DT_DATA_LOSS, "t.safetensors: the file was truncated while it was in use");
    dt_source_close(source);

    assert_fails(open_one("safetensors", "t.safetensors", &source), DT_DATA_LOSS, "t.safetensors");
    unlink(scratch_path("t.safetensors"));
    assert_ok(dt_safetensors_write(scratch_path("t.safetensors"), 4, tensors, sum));
    assert_fails(open_one("safetensors", "t.safetensors", &source), DT_INVALID_ARGUMENT, "then names of its tensors; it has: one, x, y, z");
    const struct {
        const char *first, *second, *part;
    } wrong[] = {{"x", "w", "t.safetensors: has no tensor w; it has: one, x, y, z"},
                 {"x", "z", "the tensors disagree: x holds 3 examples, z 1"},
                 {"one", "x", "one is a single number, not rows"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        status = open_named("safetensors", 3, (const char *[]){"t.safetensors", wrong[i].first, wrong[i].second}, &source);
        assert_int_not_equal(dt_status_code(status), DT_OK);
        if (strstr(dt_status_message(status), wrong[i].part) == NULL) fail_msg("%s", dt_status_message(status));
        dt_status_free(status);
    }
    scratch_write("no.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    assert_fails(open_named("safetensors", 2, (const char *[]){"no.safetensors", "x"}, &source), DT_DATA_LOSS, "is not a safetensors file");
    scratch_write("no.safetensors", "abc", 3);
    assert_fails(open_named("safetensors", 2, (const char *[]){"no.safetensors", "x"}, &source), DT_DATA_LOSS, "it has 3 bytes");
}

/* zip(idx("labels"), npy("a.npy")): as many as the shorter one has, in memory or by row. */
static void sources_stand_side_by_side(void **state) {
    (void)state;
    unsigned char file[200];
    scratch_write("labels", file, make_labels(file, 9));
    assert_ok(dt_array_write(scratch_path("a.npy"), DT_F32, 1, (int64_t[]){4}, "0123456789abcdef"));
    const dt_artifact_argument first[] = {{.kind = DT_ARGUMENT_STRING, .string = "labels"}};
    dt_artifact_argument second[] = {{.name = "source", .kind = DT_ARGUMENT_STRING, .string = "npy"},
                                     {.kind = DT_ARGUMENT_STRING, .string = "a.npy"}};
    const dt_artifact_stage stages[] = {{.kind = "idx", .n_arguments = 1, .arguments = first},
                                        {.kind = "zip", .n_arguments = 2, .arguments = second},
                                        {.kind = "zip", .n_arguments = 2, .arguments = second},
                                        {.kind = "batch"}};
    const dt_artifact_pipeline pipeline = {.name = "test", .n_stages = 4, .stages = stages};
    for (int by_row = 0; by_row < 2; by_row++) {
        dt_source *source;
        assert_ok(dt_source_open_pipeline(&pipeline, scratch, by_row, &source));
        assert_int_equal(source->n_examples, 4);
        assert_int_equal(source->n_columns, 3);
        assert_int_equal(source->columns[2].tensor.dtype, DT_F32);
        assert_ok(dt_source_wait(source, 4));
        char row[5] = {0};
        if (by_row)
            assert_ok(dt_source_read(source, 2, 3, 1, row));
        else
            memcpy(row, dt_column_row(&source->columns[2], 3).bytes, 4);
        assert_string_equal(row, "cdef");
        dt_source_close(source);
    }
    dt_source *source;
    second[1].string = "missing.npy";
    assert_fails(dt_source_open_pipeline(&pipeline, scratch, false, &source), DT_NOT_FOUND, "missing.npy: no such file");
    second[0].string = "tape";
    assert_fails(dt_source_open_pipeline(&pipeline, scratch, false, &source), DT_UNIMPLEMENTED, "there is no source tape");
    second[0].kind = DT_ARGUMENT_INT;
    assert_fails(dt_source_open_pipeline(&pipeline, scratch, false, &source), DT_INVALID_ARGUMENT, "zip() takes a source");
}

static void files_are_read_as_their_names_say(void **state) {
    (void)state;
    unsigned char file[200];
    scratch_write("labels", file, make_labels(file, 2));
    assert_ok(dt_array_write(scratch_path("a.npy"), DT_F32, 1, (int64_t[]){2}, "12345678"));
    dt_source *source;
    assert_ok(open_named("files", 2, (const char *[]){scratch_path("a.npy"), "labels"}, &source));
    assert_int_equal(source->columns[0].tensor.dtype, DT_F32);
    assert_int_equal(source->columns[1].tensor.dtype, DT_U8);
    dt_source_close(source);
}

static void csv_lines(void **state) {
    (void)state;
    const char text[] = "a,b,target\r\n1, 2.5 ,3\r\n\r\n-4e1,5,6";
    scratch_write("numbers.csv", text, strlen(text));
    dt_source *source;
    for (int64_t target = -1; target <= 2; target += 3) {
        assert_ok(open_csv(target, &source));
        assert_int_equal(source->n_examples, 2);
        assert_int_equal(source->n_columns, 2);
        assert_int_equal(source->columns[0].tensor.dims[0], 2);
        assert_memory_equal(source->columns[0].bytes, ((const float[]){1, 2.5f, -40, 5}), 16);
        assert_memory_equal(source->columns[1].bytes, ((const float[]){3, 6}), 8);
        dt_source_close(source);
    }
    assert_ok(open_csv(99, &source));
    assert_int_equal(source->n_columns, 1);
    assert_int_equal(source->columns[0].tensor.dims[0], 3);
    dt_source_close(source);
    assert_fails(open_csv(3, &source), DT_INVALID_ARGUMENT, "column 3 cannot be the target");
    assert_fails(open_csv(-4, &source), DT_INVALID_ARGUMENT, "has 3 columns");

    const struct {
        const char *text, *part;
    } wrong[] = {
        {"a,b\n1,x\n", "numbers.csv:2: column 2 (b) is not a number: x"},
        {"a,b\n1,\n2,3\n", "numbers.csv:2: column 2 (b) is empty"},
        {"a,b\n,1\n2,3\n", "numbers.csv:2: column 1 (a) is empty"},
        {"a,b\n1,2\n\n1\n", "numbers.csv:4: column 2 (b) is missing"},
        {"a,b\n1,2,3\n", "numbers.csv:2: more cells than the 2 columns"},
        {"a,b\n1,2,\n", "numbers.csv:2: more cells than the 2 columns"},
        {"\"the\nfirst\",b\n1,2\nx,2\n", "numbers.csv:4: column 1 (the\nfirst) is not a number: x"},
        {"a,b\n1,0x10\n", "column 2 (b) is not a number: 0x10"},
        {"a,b\n1,1e40\n", "column 2 (b) is too large for f32: 1e40"},
        {"a,b\n1,-1e40\n", "column 2 (b) is too large for f32: -1e40"},
        {"a,b\n\"\n1\",2\n", "column 1 (a) is not a number"},
        {"a,b\n1,2 3\n", "column 2 (b) is not a number: 2 3"},
        {"a,b\n1,\"2\n", "numbers.csv:2: a quote is not closed"},
        {"a,b\n1,\"2\"3\n", "numbers.csv:2: something follows the quote that closes a cell: 3"},
        {"a,b\n", "no examples"},
        {"\n \n", "no examples"},
        {"", "no examples"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        scratch_write("numbers.csv", wrong[i].text, strlen(wrong[i].text));
        assert_fails(open_csv(99, &source), DT_DATA_LOSS, wrong[i].part);
    }
    scratch_write("numbers.csv", "a\n1\0\n", 5);
    assert_fails(open_csv(99, &source), DT_DATA_LOSS, "is not a text file");
}

static void without_memory_opening_fails(void **state) {
    (void)state;
    unsigned char file[200];
    size_t n_bytes = make_images(file, 10);
    scratch_write_gzip("images.gz", file, n_bytes);
    assert_ok(dt_array_write(scratch_path("a.npy"), DT_F32, 1, (int64_t[]){2}, "12345678"));
    scratch_write("numbers.csv", "a,b\n1,2\n", 8);
    unsigned char sum[DT_SHA256_BYTES];
    unlink(scratch_path("t.safetensors"));
    const dt_safetensor tensor = {.name = "x", .dtype = DT_U8, .n_dims = 1, .dims = (int64_t[]){2}, .n_bytes = 2, .data = "12"};
    assert_ok(dt_safetensors_write(scratch_path("t.safetensors"), 1, &tensor, sum));
    const char *const files[][3] = {{"idx", "images.gz"}, {"npy", "a.npy"}, {"csv", "numbers.csv"}, {"safetensors", "t.safetensors", "x"}};
    for (int i = 0; i < 4; i++)
        for (int n = 0;; n++) {
            dt_source *source;
            dt_memory_fail_after(n);
            dt_status *status = open_named(files[i][0], files[i][2] != NULL ? 2 : 1, files[i] + 1, &source);
            dt_memory_fail_after(-1);
            if (status == NULL) {
                dt_source_close(source);
                assert_true(n > 3);
                break;
            }
            assert_null(source);
            assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_files_side_by_side),
        cmocka_unit_test(a_range_counts),
        cmocka_unit_test(idx_is_big_endian),
        cmocka_unit_test(gzip_members_join),
        cmocka_unit_test(wrong_idx_files),
        cmocka_unit_test(every_cut_and_every_flip_is_noticed),
        cmocka_unit_test(files_that_disagree),
        cmocka_unit_test(a_cancelled_source_lets_nobody_wait),
        cmocka_unit_test(rows_are_read_one_at_a_time),
        cmocka_unit_test(a_row_that_is_gone_is_named),
        cmocka_unit_test(missing_folders_are_named),
        cmocka_unit_test(npy_comes_back),
        cmocka_unit_test(wrong_npy_files),
        cmocka_unit_test(files_are_read_as_their_names_say),
        cmocka_unit_test(csv_lines),
        cmocka_unit_test(csv_cells_may_be_quoted),
        cmocka_unit_test(csv_without_a_header),
        cmocka_unit_test(rows_of_safetensors),
        cmocka_unit_test(sources_stand_side_by_side),
        cmocka_unit_test(without_memory_opening_fails),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
