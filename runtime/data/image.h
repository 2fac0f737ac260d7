/* image: a picture, out of the bytes of a PNG or JPEG file.
 *
 * Pixels are those that Pillow's Image.open(path).convert("L") or .convert("RGB") gives, bit for bit: alpha is dropped, a palette looked up, CMYK
 * taken for Adobe's, which is inverted; of 16 bits the upper 8 count; the orientation that EXIF notes is not applied. Refused is what would lose
 * something unseen: a file that is cut or altered, and grey of 16 bits, which Pillow cuts off at 255. Any thread. */
#ifndef DT_RUNTIME_DATA_IMAGE_H
#define DT_RUNTIME_DATA_IMAGE_H

#include "base/status.h"

#include <stdint.h>

/* As many as Pillow takes for an attack: what a header promises beyond it is refused. */
#define DT_IMAGE_MOST_PIXELS 178956970

typedef struct dt_image_file {
    const char *path; /* for messages */
    const unsigned char *bytes;
    size_t n_bytes;
} dt_image_file;

typedef struct dt_image {
    int64_t height, width;
    int channels;          /* 1: grey; 3: red, green, blue */
    unsigned char *pixels; /* [height][width][channels] */
} dt_image;

/* What the first bytes of the file say, not its name, decides about the format. `channels` is 1 or 3. */
dt_status *dt_image_decode(const dt_image_file *file, int channels, dt_image *image);
void dt_image_free(dt_image *image); /* of zeros or of a decoder that failed, too */

/* The two formats. Their pixels have the channels of the file, 1 or 3, not those that are wanted. */
dt_status *dt_image_decode_png(const dt_image_file *file, dt_image *image);
dt_status *dt_image_decode_jpeg(const dt_image_file *file, dt_image *image);

/* Memory for height x width pixels, of as many channels as the image says. */
dt_status *dt_image_allocate(const char *path, dt_image *image, uint64_t height, uint64_t width);

/* What becomes of an image that has another size: */
typedef enum dt_image_fit {
    DT_IMAGE_STRETCH, /* Image.resize */
    DT_IMAGE_CROP,    /* ImageOps.fit: what is too long at two sides is left out */
    DT_IMAGE_PAD      /* ImageOps.pad: black where it is too short; of the image at least one pixel stays */
} dt_image_fit;

/* Writes the image as [height][width][channels] to `pixels`: bilinear with antialiasing, in the fixed-point numbers of Pillow 13, bit for bit. */
dt_status *dt_image_resize(const char *path, const dt_image *image, dt_image_fit fit, int64_t height, int64_t width, unsigned char *pixels);

#endif
