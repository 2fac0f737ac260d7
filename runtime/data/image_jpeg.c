/* image_jpeg: by libjpeg-turbo, with the settings that it comes with. What it only warns of is accepted, as Pillow does, unless pixels are missing.
 */
#include "runtime/data/image.h"

#include <stdio.h> /* jpeglib.h needs it, and FILE */

#include <jerror.h>
#include <jpeglib.h>
#include <setjmp.h>

typedef struct jpeg_reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf out;
    const dt_image_file *file;
    dt_image *image;
    dt_status *refused;
    unsigned char *inks; /* [width][4], a row of CMYK; the decoder's own memory */
} jpeg_reader;

enum {
    MOST_SCANS = 500 /* of a progressive file: each may go over all pixels for a few bytes */
};

static void leave(j_common_ptr jpeg) { longjmp(((jpeg_reader *)jpeg->client_data)->out, 1); }

static void notice(j_common_ptr jpeg, int level) {
    bool is_cut = jpeg->err->msg_code == JWRN_JPEG_EOF || jpeg->err->msg_code == JWRN_HIT_MARKER;
    if (level < 0 && is_cut) leave(jpeg);
}

static void count_scans(j_common_ptr jpeg) {
    if (((j_decompress_ptr)jpeg)->input_scan_number <= MOST_SCANS) return;
    jpeg_reader *reader = jpeg->client_data;
    reader->refused = dt_error_in(DT_DATA_LOSS, reader->file->path, 0, "a JPEG file of more than %d scans", MOST_SCANS);
    leave(jpeg);
}

/* One row of inks, inverted as Adobe writes them. */
static void mix_inks(const unsigned char *inks, int64_t n, unsigned char *pixels) {
    for (int64_t i = 0; i < n; i++, inks += 4, pixels += 3)
        for (int c = 0; c < 3; c++) {
            int product = (255 - inks[c]) * inks[3] + 128;
            pixels[c] = (unsigned char)(inks[3] - (((product >> 8) + product) >> 8));
        }
}

/* Between here and leave() nothing is held but what `reader` knows of. */
static void read_image(jpeg_reader *reader) {
    j_decompress_ptr jpeg = &reader->jpeg;
    jpeg_mem_src(jpeg, reader->file->bytes, reader->file->n_bytes);
    jpeg_read_header(jpeg, TRUE);
    int n_components = jpeg->num_components;
    if (n_components != 1 && n_components != 3 && n_components != 4) {
        reader->refused = dt_error_in(DT_DATA_LOSS, reader->file->path, 0, "a JPEG file of %d components; 1, 3 and 4 can be read", n_components);
        return;
    }
    reader->image->channels = n_components == 1 ? 1 : 3;
    reader->refused = dt_image_allocate(reader->file->path, reader->image, jpeg->image_height, jpeg->image_width);
    if (reader->refused != NULL) return;
    reader->progress.progress_monitor = count_scans;
    jpeg->progress = &reader->progress;
    jpeg_start_decompress(jpeg);
    size_t row_bytes = (size_t)reader->image->width * (size_t)reader->image->channels;
    bool has_inks = n_components == 4;
    if (has_inks) reader->inks = jpeg->mem->alloc_small((j_common_ptr)jpeg, JPOOL_IMAGE, (size_t)reader->image->width * 4);
    while (jpeg->output_scanline < jpeg->output_height) {
        unsigned char *pixels = reader->image->pixels + jpeg->output_scanline * row_bytes, *row = has_inks ? reader->inks : pixels;
        if (jpeg_read_scanlines(jpeg, &row, 1) == 1 && has_inks) mix_inks(row, reader->image->width, pixels);
    }
}

dt_status *dt_image_decode_jpeg(const dt_image_file *file, dt_image *image) {
    jpeg_reader reader = {.file = file, .image = image};
    reader.jpeg.err = jpeg_std_error(&reader.errors);
    reader.jpeg.client_data = &reader;
    reader.errors.error_exit = leave;
    reader.errors.emit_message = notice;
    if (setjmp(reader.out) == 0) {
        jpeg_create_decompress(&reader.jpeg);
        read_image(&reader);
    } else if (reader.refused == NULL) {
        char message[JMSG_LENGTH_MAX];
        reader.errors.format_message((j_common_ptr)&reader.jpeg, message);
        bool is_memory = reader.errors.msg_code == JERR_OUT_OF_MEMORY;
        reader.refused = is_memory ? dt_error_in(DT_RESOURCE_EXHAUSTED, file->path, 0, "out of memory")
                                   : dt_error_in(DT_DATA_LOSS, file->path, 0, "the JPEG file is cut or altered: %s", message);
    }
    jpeg_destroy_decompress(&reader.jpeg);
    return reader.refused;
}
