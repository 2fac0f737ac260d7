/* image_png: by libpng, which jumps out of whatever it does when something is wrong: so what is allocated lies in a struct that outlives the jump. */
#include "runtime/data/image.h"

#include "base/memory.h"

#include <png.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct png_reader {
    const dt_image_file *file;
    size_t n_taken;
    png_structp png;
    png_infop info;
    dt_image *image;
    dt_status *refused;
    bool lacks_memory; /* libpng has no error of its own for that */
    char message[128];
} png_reader;

static void fail(png_structp png, png_const_charp message) {
    png_reader *reader = png_get_error_ptr(png);
    snprintf(reader->message, sizeof reader->message, "%s", message);
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp message) { (void)png, (void)message; }

static void take(png_structp png, png_bytep bytes, size_t n) {
    png_reader *reader = png_get_io_ptr(png);
    if (n > reader->file->n_bytes - reader->n_taken) png_error(png, "the file ends early");
    memcpy(bytes, reader->file->bytes + reader->n_taken, n);
    reader->n_taken += n;
}

static png_voidp allocate(png_structp png, png_alloc_size_t n) {
    png_reader *reader = png_get_mem_ptr(png);
    void *memory = dt_allocate(n);
    if (memory == NULL) reader->lacks_memory = true;
    return memory;
}

static void release(png_structp png, png_voidp memory) {
    (void)png;
    dt_release(memory);
}

/* Whatever the file holds becomes 8 bits, grey or red, green, blue. */
static void choose_transformations(png_reader *reader) {
    int colour = png_get_color_type(reader->png, reader->info), depth = png_get_bit_depth(reader->png, reader->info);
    if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(reader->png);
    if (colour == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(reader->png);
    if (depth == 16) png_set_strip_16(reader->png);
    png_set_strip_alpha(reader->png);
    reader->image->channels = (colour & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
}

/* Between here and png_error nothing is held but what `reader` knows of. */
static void read_image(png_reader *reader) {
    png_structp png = reader->png;
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);                   /* the number of pixels is checked below */
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* what is no part of the pixels is not looked into */
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_read_fn(png, reader, take);
    png_read_info(png, reader->info);
    bool is_deep_grey = png_get_color_type(png, reader->info) == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, reader->info) == 16;
    if (is_deep_grey) {
        reader->refused = dt_error_in(DT_INVALID_ARGUMENT, reader->file->path, 0, "is grey with 16 bits, which u8 cannot hold: save it with 8 bits");
        return;
    }
    choose_transformations(reader);
    reader->refused = /* before libpng makes room for rows */
        dt_image_allocate(reader->file->path, reader->image, png_get_image_height(png, reader->info), png_get_image_width(png, reader->info));
    if (reader->refused != NULL) return;
    int n_passes = png_set_interlace_handling(png);
    png_read_update_info(png, reader->info);
    size_t row_bytes = (size_t)reader->image->width * (size_t)reader->image->channels;
    if (png_get_rowbytes(png, reader->info) != row_bytes) png_error(png, "rows of an unexpected length");
    for (int pass = 0; pass < n_passes; pass++)
        for (size_t y = 0; y < (size_t)reader->image->height; y++) png_read_row(png, reader->image->pixels + y * row_bytes, NULL);
    png_read_end(png, NULL);
}

dt_status *dt_image_decode_png(const dt_image_file *file, dt_image *image) {
    png_reader reader = {.file = file, .image = image};
    reader.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &reader, fail, ignore, &reader, allocate, release);
    if (reader.png != NULL) reader.info = png_create_info_struct(reader.png);
    dt_status *status = NULL;
    if (reader.info == NULL)
        status = dt_error_in(DT_RESOURCE_EXHAUSTED, file->path, 0, "out of memory");
    else if (setjmp(png_jmpbuf(reader.png)) == 0)
        read_image(&reader);
    else if (reader.lacks_memory)
        status = dt_error_in(DT_RESOURCE_EXHAUSTED, file->path, 0, "no memory to decode it");
    else
        status = dt_error_in(DT_DATA_LOSS, file->path, 0, "the PNG file is cut or altered: %s", reader.message);
    png_destroy_read_struct(&reader.png, &reader.info, NULL);
    return dt_status_first(status, reader.refused);
}
