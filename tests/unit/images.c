/* images: pixels as Pillow has them (tests/golden/images.py), folders and their classes, and files and folders that are wrong. */
#include "base/memory.h"
#include "runtime/data/image.h"
#include "runtime/data/source.h"
#include "tests/unit/scratch_folder.h"

#include <sys/stat.h>
#include <unistd.h>

enum {
    HEIGHT = 9,
    WIDTH = 13
};

/* A file of the golden folder. The caller frees it. */
static char *golden(const char *name, size_t *n_bytes) {
    char path[512], *bytes;
    snprintf(path, sizeof path, "%s/tests/golden/images/%s", getenv("DT_SOURCE"), name);
    assert_ok(dt_file_read(path, &bytes, n_bytes));
    return bytes;
}

static dt_status *decode(const char *name, const void *bytes, size_t n_bytes, int channels, dt_image *image) {
    return dt_image_decode(&(dt_image_file){.path = name, .bytes = bytes, .n_bytes = n_bytes}, channels, image);
}

static dt_status *check(const char *name, const void *bytes, size_t n_bytes) {
    dt_image image;
    dt_status *status = decode(name, bytes, n_bytes, 3, &image);
    dt_image_free(&image);
    return status;
}

static void put(const char *golden_name, const char *path) {
    size_t n_bytes;
    char *bytes = golden(golden_name, &n_bytes);
    scratch_write(path, bytes, n_bytes);
    free(bytes);
}

static void pixels_are_those_of_pillow(void **state) {
    (void)state;
    static const char *const names[] = {"cmyk.jpg",    "grey.jpg",        "grey4.png", "grey_alpha16.png", "halved.jpg",
                                        "palette.png", "progressive.jpg", "rgb.png",   "rgb16.png",        "rgba_interlaced.png"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char other[64];
        size_t n_bytes, n_wanted;
        snprintf(other, sizeof other, "%.*s.pixels", (int)strcspn(names[i], "."), names[i]);
        char *bytes = golden(names[i], &n_bytes), *pixels = golden(other, &n_wanted), *wanted = pixels;
        for (int channels = 3; channels >= 1; channels -= 2) {
            dt_image image;
            assert_ok(decode(names[i], bytes, n_bytes, channels, &image));
            assert_int_equal(image.height, HEIGHT);
            assert_int_equal(image.width, WIDTH);
            if (memcmp(image.pixels, wanted, (size_t)(HEIGHT * WIDTH * channels)) != 0) fail_msg("%s, %d channels: other pixels", names[i], channels);
            wanted += HEIGHT * WIDTH * channels;
            dt_image_free(&image);
        }
        dt_image image;
        assert_ok(decode(names[i], bytes, n_bytes, 3, &image));
        for (int fit = DT_IMAGE_STRETCH; fit <= DT_IMAGE_PAD; fit++, wanted += 6 * 8 * 3) {
            unsigned char resized[6 * 8 * 3];
            assert_ok(dt_image_resize(names[i], &image, (dt_image_fit)fit, 6, 8, resized));
            if (memcmp(resized, wanted, sizeof resized) != 0) fail_msg("%s, fit %d: other pixels", names[i], fit);
        }
        assert_ptr_equal(wanted, pixels + n_wanted);
        dt_image_free(&image);
        free(bytes);
        free(pixels);
    }
}

static void every_cut_is_noticed(void **state) {
    (void)state;
    static const char *const names[] = {"rgb.png", "palette.png", "halved.jpg", "progressive.jpg"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n_bytes;
        char *bytes = golden(names[i], &n_bytes);
        size_t n_end = strstr(names[i], "halved") != NULL ? 2 : 0; /* without the last marker all pixels are there */
        for (size_t n = 0; n < n_bytes - n_end; n++) {
            dt_status *status = check(names[i], bytes, n);
            if (dt_status_code(status) != DT_DATA_LOSS)
                fail_msg("%s, the first %zu of %zu bytes: %s", names[i], n, n_bytes, dt_status_message(status));
            dt_status_free(status);
        }
        free(bytes);
    }
}

static void every_flip_in_a_png_is_noticed(void **state) {
    (void)state;
    size_t n_bytes;
    char *bytes = golden("rgb.png", &n_bytes);
    for (size_t i = 0; i < n_bytes; i++) {
        bytes[i] ^= 4;
        dt_status *status = check("rgb.png", bytes, n_bytes);
        if (dt_status_code(status) != DT_DATA_LOSS) fail_msg("byte %zu: %s", i, dt_status_message(status));
        dt_status_free(status);
        bytes[i] ^= 4;
    }
    free(bytes);
}

static void wrong_images(void **state) {
    (void)state;
    size_t n_bytes;
    assert_fails(check("a.png", "", 0), DT_DATA_LOSS, "a.png: is an empty file");
    assert_fails(check("a.png", "GIF89a", 6), DT_DATA_LOSS, "a.png: is neither a PNG nor a JPEG file");
    char *bytes = golden("grey16.refused", &n_bytes);
    assert_fails(check("a.png", bytes, n_bytes), DT_INVALID_ARGUMENT, "a.png: is grey with 16 bits");
    free(bytes);
    bytes = golden("rgb.png", &n_bytes);
    assert_fails(check("a.png", bytes, n_bytes - 20), DT_DATA_LOSS, "a.png: the PNG file is cut or altered: the file ends early");
    memcpy(bytes + 16, "\x10\0\0\0\x10\0\0\0", 8); /* a size beyond all limits, with its checksum */
    uint32_t sum = (uint32_t)crc32(0, (Bytef *)bytes + 12, 17);
    for (int i = 0; i < 4; i++) bytes[29 + i] = (char)(sum >> (24 - 8 * i));
    assert_fails(check("a.png", bytes, n_bytes), DT_DATA_LOSS, "a.png: promises 268435456 x 268435456 pixels, more than the");
    free(bytes);
    bytes = golden("halved.jpg", &n_bytes);
    assert_fails(check("a.jpg", bytes, n_bytes - 40), DT_DATA_LOSS, "a.jpg: the JPEG file is cut or altered: ");
    free(bytes);
}

/* ---- folders ---- */

static dt_status *open_folder(const char *name, const dt_artifact_argument *options, int n_options, dt_source **source) {
    dt_artifact_argument arguments[5] = {{.kind = DT_ARGUMENT_STRING, .string = name}};
    for (int i = 0; i < n_options; i++) arguments[1 + i] = options[i];
    dt_artifact_stage stage = {.kind = "images", .n_arguments = 1 + n_options, .arguments = arguments};
    return dt_source_open(&stage, scratch, false, source);
}

static dt_status *try_folder(const char *name) {
    dt_source *source;
    dt_status *status = open_folder(name, NULL, 0, &source);
    unsigned char pixels[HEIGHT * WIDTH * 3];
    for (int64_t row = 0; status == NULL && row < source->n_examples; row++) status = dt_source_read(source, 0, row, 1, pixels);
    dt_source_close(source);
    return status;
}

static void make(const char *folder) { assert_ok(dt_file_make_folders(scratch_path(folder))); }

static void folders_are_classes(void **state) {
    (void)state;
    make("set/b/inner/deep");
    make("set/B");
    make("set/b/inner-most");
    make("set/.hidden");
    put("rgb.png", "set/b/2.png");
    put("halved.jpg", "set/b/10.JPG");
    put("palette.png", "set/b/inner/deep/0.png");
    put("grey4.png", "set/b/inner-most/0.png");
    put("cmyk.jpg", "set/B/x.jpeg");
    put("rgb.png", "set/.hidden/a.png");
    scratch_write("set/b/notes.txt", "x", 1);
    put("rgb.png", "set/above.png");
    static const char *const wanted[] = {"cmyk.pixels", "halved.pixels", "rgb.pixels", "grey4.pixels", "palette.pixels"};
    dt_source *source;
    assert_ok(open_folder("set", NULL, 0, &source));
    assert_int_equal(source->n_examples, 5);
    assert_int_equal(source->n_columns, 2);
    assert_string_equal(source->about, "2 classes: 0 B, 1 b; 2 other files passed over");
    assert_int_equal(source->columns[1].tensor.dtype, DT_I32);
    for (int64_t row = 0; row < 5; row++) {
        unsigned char pixels[HEIGHT * WIDTH * 3];
        int32_t label;
        size_t n_bytes;
        char *golden_pixels = golden(wanted[row], &n_bytes);
        assert_ok(dt_source_read(source, 0, row, 1, pixels));
        assert_memory_equal(pixels, golden_pixels, sizeof pixels);
        assert_ok(dt_source_read(source, 1, row, 1, &label));
        assert_int_equal(label, row > 0);
        free(golden_pixels);
    }
    dt_source_close(source);

    assert_ok(open_folder("set/B", NULL, 0, &source)); /* no folder in it: images alone */
    assert_int_equal(source->n_columns, 1);
    assert_null(source->about);
    dt_source_close(source);
}

static void options_choose_the_shape(void **state) {
    (void)state;
    make("options");
    put("rgb.png", "options/a.png");
    const dt_artifact_argument options[] = {{.name = "height", .kind = DT_ARGUMENT_INT, .integer = 6},
                                            {.name = "width", .kind = DT_ARGUMENT_INT, .integer = 8},
                                            {.name = "fit", .kind = DT_ARGUMENT_STRING, .string = "pad"},
                                            {.name = "channels", .kind = DT_ARGUMENT_INT, .integer = 1}};
    dt_source *source;
    unsigned char pixels[6 * 8 * 3];
    size_t n_bytes;
    char *wanted = golden("rgb.pixels", &n_bytes);
    assert_ok(open_folder("options", options, 3, &source));
    assert_ok(dt_source_read(source, 0, 0, 1, pixels));
    assert_memory_equal(pixels, wanted + n_bytes - sizeof pixels, sizeof pixels);
    dt_source_close(source);
    assert_ok(open_folder("options", options, 4, &source));
    assert_int_equal(source->columns[0].tensor.row_bytes, 6 * 8);
    dt_source_close(source);
    free(wanted);

    assert_fails(open_folder("options", options, 1, &source), DT_INVALID_ARGUMENT, "takes a height and a width, or neither");
    const dt_artifact_argument two = {.name = "channels", .kind = DT_ARGUMENT_INT, .integer = 2};
    assert_fails(open_folder("options", &two, 1, &source), DT_INVALID_ARGUMENT, "1 channel or 3");
    const dt_artifact_argument unknown = {.name = "fit", .kind = DT_ARGUMENT_STRING, .string = "cro"};
    assert_fails(open_folder("options", &unknown, 1, &source), DT_INVALID_ARGUMENT, "fit cannot be that");
    const dt_artifact_argument none = {.name = "heigth", .kind = DT_ARGUMENT_INT, .integer = 2};
    assert_fails(open_folder("options", &none, 1, &source), DT_INVALID_ARGUMENT, "images() has no argument heigth");
}

static void wrong_folders(void **state) {
    (void)state;
    assert_fails(try_folder("none"), DT_NOT_FOUND, "none: no such folder; name the folder that holds it with --data");
    make("empty");
    assert_fails(try_folder("empty"), DT_DATA_LOSS, "empty: holds no images: no name in it ends in .png, .jpg or .jpeg");
    make("sizes/a");
    make("sizes/b");
    put("rgb.png", "sizes/a/0.png");
    assert_fails(try_folder("sizes"), DT_DATA_LOSS, "sizes/b: a class without images");
    assert_fails(try_folder("sizes/a/0.png"), DT_NOT_FOUND, "0.png: is not a folder");

    size_t n_bytes;
    char *bytes = golden("rgb.png", &n_bytes);
    scratch_write("sizes/b/cut.png", bytes, n_bytes / 2);
    free(bytes);
    assert_fails(try_folder("sizes"), DT_DATA_LOSS, "sizes/b/cut.png: the PNG file is cut or altered");
    scratch_write("sizes/b/cut.png", "", 0);
    assert_fails(try_folder("sizes"), DT_DATA_LOSS, "sizes/b/cut.png: is an empty file");

    make("loop/a");
    put("rgb.png", "loop/a/0.png");
    assert_int_equal(symlink("..", scratch_path("loop/a/back")), 0);
    assert_fails(try_folder("loop"), DT_INVALID_ARGUMENT, "loop/a/back: is a link to a folder that it lies in");
    assert_int_equal(unlink(scratch_path("loop/a/back")), 0);
    assert_int_equal(symlink("nowhere", scratch_path("loop/a/1.png")), 0);
    assert_fails(try_folder("loop"), DT_IO, "loop/a/1.png: cannot read: ");
}

static void images_of_other_sizes_are_named(void **state) {
    (void)state;
    make("mixed");
    put("rgb.png", "mixed/a.png");
    dt_image image;
    unsigned char tall[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0,   0,   1,   0,
                            0,    0,   2,   8,   0,    0,    0,    0,    0, 0, 0, 0,  0,   0,   0,   0,   0, 'I', 'D', 'A', 'T'};
    unsigned char file[200];
    uLongf n_packed = 100;
    size_t n = 33;
    memcpy(file, tall, n);
    assert_int_equal(compress(file + n + 8, &n_packed, (const Bytef *)"\0\x10\0\x20", 4), Z_OK);
    memcpy(file + n, (unsigned char[]){0, 0, 0, (unsigned char)n_packed, 'I', 'D', 'A', 'T'}, 8);
    memcpy(file + n + 12 + n_packed, "\0\0\0\0IEND", 8);
    const size_t chunks[][2] = {{12, 17}, {n + 4, 4 + n_packed}, {n + 12 + n_packed + 4, 4}};
    for (int c = 0; c < 3; c++) {
        uint32_t sum = (uint32_t)crc32(0, file + chunks[c][0], (uInt)chunks[c][1]);
        for (int i = 0; i < 4; i++) file[chunks[c][0] + chunks[c][1] + (size_t)i] = (unsigned char)(sum >> (24 - 8 * i));
    }
    n += 12 + n_packed + 12;
    assert_ok(decode("tall", file, n, 1, &image));
    assert_int_equal(image.pixels[1], 0x20);
    dt_image_free(&image);
    scratch_write("mixed/b.png", file, n);
    assert_fails(try_folder("mixed"), DT_DATA_LOSS, "mixed/b.png: has 2 x 1 pixels, but ");
}

static void memory_may_be_out_anywhere(void **state) {
    (void)state;
    make("memory/a");
    make("memory/b");
    put("rgb.png", "memory/a/0.png");
    put("cmyk.jpg", "memory/b/0.jpg");
    const dt_artifact_argument options[] = {{.name = "height", .kind = DT_ARGUMENT_INT, .integer = 6},
                                            {.name = "width", .kind = DT_ARGUMENT_INT, .integer = 8}};
    dt_status *status;
    int64_t n = 0;
    do {
        unsigned char pixels[6 * 8 * 3];
        dt_source *source;
        dt_memory_fail_after(n++);
        status = open_folder("memory", options, 2, &source);
        for (int64_t row = 0; status == NULL && row < 2; row++) status = dt_source_read(source, 0, row, 1, pixels);
        dt_memory_fail_after(-1);
        dt_source_close(source);
        assert_true(status == NULL || dt_status_code(status) == DT_RESOURCE_EXHAUSTED);
        dt_status_free(status);
    } while (status != NULL);
    assert_true(n > 10);
}

/* One allocation that fails, as that of a row too long for memory does: the file is not to blame. */
static void a_lack_of_memory_is_no_damage(void **state) {
    (void)state;
    static const char *const names[] = {"palette.png", "rgba_interlaced.png", "progressive.jpg"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n_bytes;
        char *bytes = golden(names[i], &n_bytes);
        dt_status *status = NULL;
        for (int64_t n = 0; n < 20; n++) {
            dt_memory_fail_once(n);
            status = check(names[i], bytes, n_bytes);
            dt_memory_fail_once(-1);
            if (status != NULL) assert_fails(status, DT_RESOURCE_EXHAUSTED, "memory");
        }
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_those_of_pillow),
        cmocka_unit_test(every_cut_is_noticed),
        cmocka_unit_test(every_flip_in_a_png_is_noticed),
        cmocka_unit_test(wrong_images),
        cmocka_unit_test(folders_are_classes),
        cmocka_unit_test(options_choose_the_shape),
        cmocka_unit_test(wrong_folders),
        cmocka_unit_test(images_of_other_sizes_are_named),
        cmocka_unit_test(memory_may_be_out_anywhere),
        cmocka_unit_test(a_lack_of_memory_is_no_damage),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
