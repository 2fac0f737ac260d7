/* safetensors: what is written is read; nothing of a foreign header is believed. */
#include "runtime/data/safetensors.h"
#include "base/memory.h"
#include "tests/unit/scratch_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const float weights[6] = {1, 2, 3, 4, 5, 6};
static const unsigned char flags[3] = {1, 0, 1};
static const double scale = 0.5;
static const int64_t weight_dims[2] = {2, 3}, flag_dims[1] = {3};

static const dt_safetensor tensors[] = {
    {.name = "Net/flags", .dtype = DT_BOOL, .n_dims = 1, .dims = flag_dims, .n_bytes = 3, .data = flags},
    {.name = "Net/kernel", .dtype = DT_F32, .n_dims = 2, .dims = weight_dims, .n_bytes = 24, .data = weights},
    {.name = "a \"quoted\"\\name\n", .dtype = DT_F64, .n_dims = 0, .n_bytes = 8, .data = &scale},
};

static void what_is_written_is_read(void **state) {
    (void)state;
    unsigned char sum[DT_SHA256_BYTES];
    dt_safetensors *file;
    assert_ok(dt_safetensors_write(scratch_path("a"), 3, tensors, sum));
    assert_ok(dt_safetensors_read(scratch_path("a"), &file));
    assert_memory_equal(file->sha256, sum, sizeof sum);
    assert_int_equal(file->n, 3);
    for (int i = 0; i < 3; i++) {
        const dt_safetensor *found = dt_safetensors_find(file, tensors[i].name);
        assert_non_null(found);
        assert_int_equal(found->dtype, tensors[i].dtype);
        assert_int_equal(found->n_dims, tensors[i].n_dims);
        const void *data;
        assert_ok(dt_safetensors_load(file, found, &data));
        assert_memory_equal(data, tensors[i].data, (size_t)tensors[i].n_bytes);
        assert_int_equal((uintptr_t)data % dt_dtype_bytes(found->dtype), 0);
    }
    assert_int_equal(dt_safetensors_find(file, "Net/kernel")->dims[1], 3);
    assert_null(dt_safetensors_find(file, "Net"));
    dt_safetensors_free(file);

    assert_ok(dt_safetensors_write(scratch_path("empty"), 0, NULL, sum));
    assert_ok(dt_safetensors_read(scratch_path("empty"), &file));
    assert_int_equal(file->n, 0);
    assert_null(dt_safetensors_find(file, "Net"));
    dt_safetensors_free(file);
}

enum {
    LARGE = DT_FILE_PIECE_BYTES + 24
};

static unsigned char byte_at(int64_t i) { return (unsigned char)(i * 7 + i / 251); }

/* In any order, by whoever has them: the file is that of one who writes all, and what was altered is named. */
static void ranges_of_a_file_are_written_and_checked_one_by_one(void **state) {
    (void)state;
    static const int64_t dims[1] = {LARGE / 4};
    static unsigned char large[LARGE];
    for (int i = 0; i < LARGE; i++) large[i] = byte_at(i);
    dt_safetensor of[] = {tensors[0], {.name = "Net/table", .dtype = DT_F32, .n_dims = 1, .dims = dims, .n_bytes = LARGE, .data = large}, tensors[2]};
    unsigned char sum[DT_SHA256_BYTES], part[20];
    dt_safetensors *file;
    assert_ok(dt_safetensors_write(scratch_path("whole"), 3, of, sum));
    char *bytes;
    size_t n;
    assert_ok(dt_file_read(scratch_path("whole"), &bytes, &n));
    dt_text head = {0};
    assert_int_equal(dt_safetensors_lay_out(3, of, &head), n);
    assert_memory_equal(head.data, bytes, head.n);
    dt_text_free(&head);

    const int64_t ends[] = {0, 100, of[1].offset + 8, of[1].offset + LARGE, (int64_t)n};
    dt_file_range items[4];
    for (int r = 0; r < 4; r++) items[r] = (dt_file_range){.first = ends[r], .n_bytes = ends[r + 1] - ends[r], .times = 1};
    const dt_file_ranges ranges = {4, items};
    for (int r = 3; r >= 0; r--) {
        dt_piece_file to;
        assert_ok(dt_piece_file_open(scratch_path("pieces"), (int64_t)n, NULL, &to));
        assert_ok(dt_piece_file_put(&to, items[r].first, bytes + items[r].first, (size_t)items[r].n_bytes));
        assert_ok(dt_piece_file_close(&to, NULL));
        dt_piece_file_sum(&to, items[r].sha256);
    }
    assert_ok(dt_safetensors_read(scratch_path("pieces"), &file));
    assert_memory_equal(file->sha256, sum, sizeof sum);
    dt_safetensors_free(file);
    assert_ok(dt_safetensors_read_ranges(scratch_path("pieces"), &ranges, &file));
    const dt_safetensor *table = dt_safetensors_find(file, "Net/table");
    assert_ok(dt_safetensors_load_part(file, table, LARGE - 40, sizeof part, part));
    for (int i = 0; i < (int)sizeof part; i++) assert_int_equal(part[i], byte_at(LARGE - 40 + i));
    assert_ok(dt_safetensors_load_part(file, dt_safetensors_find(file, "Net/flags"), 1, 2, part));
    assert_memory_equal(part, flags + 1, 2);
    dt_safetensors_free(file);

    static const char *const named[] = {"bytes 0 to 99, of no tensor", "of Net/table,", "of Net/table,", "of Net/flags"};
    for (int r = 1; r < 4; r++) { /* the head's are no header then */
        bytes[items[r].first + items[r].n_bytes - 1] ^= 1;
        scratch_write("pieces", bytes, n);
        assert_fails(dt_safetensors_read_ranges(scratch_path("pieces"), &ranges, &file), DT_DATA_LOSS, named[r]);
        bytes[items[r].first + items[r].n_bytes - 1] ^= 1;
    }
    items[0].sha256[0] ^= 1;
    scratch_write("pieces", bytes, n);
    assert_fails(dt_safetensors_read_ranges(scratch_path("pieces"), &ranges, &file), DT_DATA_LOSS, named[0]);
    items[0].sha256[0] ^= 1;
    items[3].n_bytes++;
    assert_fails(dt_safetensors_read_ranges(scratch_path("pieces"), &ranges, &file), DT_DATA_LOSS, "bytes, and ");
    dt_release(bytes);
}

/* Read, and then: cut, written into, removed. */
static void a_file_that_changes_while_it_is_read_is_an_error(void **state) {
    (void)state;
    unsigned char sum[DT_SHA256_BYTES];
    dt_safetensors *file;
    const void *data;
    const char *path = scratch_path("changes");
    assert_ok(dt_safetensors_write(path, 3, tensors, sum));
    assert_ok(dt_safetensors_read(path, &file));
    assert_int_equal(truncate(path, 8), 0);
    assert_fails(dt_safetensors_load(file, &file->tensors[0], &data), DT_DATA_LOSS, "changes: was changed while it was read");
    dt_safetensors_free(file);

    assert_ok(dt_safetensors_write(path, 3, tensors, sum));
    assert_ok(dt_safetensors_read(path, &file));
    assert_ok(dt_safetensors_load(file, &file->tensors[0], &data));
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){{.tv_sec = 1}, {.tv_sec = 1}}, 0), 0);
    assert_fails(dt_safetensors_load(file, &file->tensors[1], &data), DT_DATA_LOSS, "changes: was changed while it was read");
    dt_safetensors_free(file);

    assert_ok(dt_safetensors_write(path, 3, tensors, sum));
    assert_ok(dt_safetensors_read(path, &file));
    assert_int_equal(unlink(path), 0);
    for (int i = 0; i < 3; i++) assert_ok(dt_safetensors_load(file, &file->tensors[i], &data));
    dt_safetensors_free(file);
}

static dt_status *parse(const char *header, size_t n_body) {
    char bytes[1000] = {(char)strlen(header), (char)(strlen(header) >> 8)};
    memcpy(bytes + 8, header, strlen(header));
    dt_safetensors *file;
    dt_status *status = dt_safetensors_parse("w", bytes, 8 + strlen(header) + n_body, &file);
    if (status == NULL) dt_safetensors_free(file);
    return status;
}

static void foreign_headers(void **state) {
    (void)state;
    assert_ok(parse("{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[7],\"data_offsets\":[0,7]}}", 7));
    assert_ok(
        parse("{\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[2,3]},\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 3));
    assert_ok(
        parse("{\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2));
    const struct {
        const char *header;
        size_t n_body;
        const char *part;
    } wrong[] = {
        {"", 0, "not JSON"},
        {"[]", 0, "not a JSON object"},
        {"{\"a\":1}", 0, "w: a: expected an object"},
        {"{}", 1, "belong to no tensor"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "a begin and an end"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "ends before it begins"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,5]}}", 4, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "not what its shape and type need"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4503599627370496,4503599627370496],\"data_offsets\":[0,4]}}", 4, "too large"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}", 5, "does not begin where"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "belong to no tensor"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "does not begin where"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2,
         "a is there twice"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_fails(parse(wrong[i].header, wrong[i].n_body), DT_DATA_LOSS, wrong[i].part);
}

static void every_cut_is_noticed(void **state) {
    (void)state;
    unsigned char sum[DT_SHA256_BYTES];
    char *bytes;
    size_t n_bytes;
    assert_ok(dt_safetensors_write(scratch_path("a"), 3, tensors, sum));
    assert_ok(dt_file_read(scratch_path("a"), &bytes, &n_bytes));
    for (size_t n = 0; n < n_bytes; n++) {
        dt_safetensors *file;
        char *exact = malloc(n != 0 ? n : 1); /* so that the address sanitizer sees a step too far */
        memcpy(exact, bytes, n);
        assert_fails(dt_safetensors_parse("cut", exact, n, &file), DT_DATA_LOSS, "cut: ");
        free(exact);
    }
    dt_release(bytes);
}

static void without_memory(void **state) {
    (void)state;
    unsigned char sum[DT_SHA256_BYTES];
    for (int n = 0;; n++) {
        dt_safetensors *file;
        dt_memory_fail_after(n);
        dt_status *status = dt_safetensors_write(scratch_path("a"), 3, tensors, sum);
        bool is_read = status == NULL && (status = dt_safetensors_read(scratch_path("a"), &file)) == NULL;
        for (int i = 0; status == NULL && i < file->n; i++) {
            const void *data;
            status = dt_safetensors_load(file, &file->tensors[i], &data);
        }
        dt_memory_fail_after(-1);
        if (is_read) dt_safetensors_free(file);
        if (status == NULL) {
            assert_true(n > 4);
            return;
        }
        assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(ranges_of_a_file_are_written_and_checked_one_by_one),
        cmocka_unit_test(a_file_that_changes_while_it_is_read_is_an_error),
        cmocka_unit_test(foreign_headers),
        cmocka_unit_test(every_cut_is_noticed),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
