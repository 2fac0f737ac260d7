/* image: see image.h. Which format it is, and the way from a file's channels to those that are wanted. */
#include "runtime/data/image.h"

#include "base/memory.h"

#include <stdbool.h>
#include <string.h>

dt_status *dt_image_allocate(const char *path, dt_image *image, uint64_t height, uint64_t width) {
    if (height == 0 || width == 0)
        return dt_error_in(DT_DATA_LOSS, path, 0, "an image of %llu x %llu pixels", (unsigned long long)height, (unsigned long long)width);
    if (width > DT_IMAGE_MOST_PIXELS / height)
        return dt_error_in(DT_DATA_LOSS, path, 0, "promises %llu x %llu pixels, more than the %d that an image may have", (unsigned long long)height,
                           (unsigned long long)width, DT_IMAGE_MOST_PIXELS);
    image->height = (int64_t)height;
    image->width = (int64_t)width;
    image->pixels = dt_allocate((size_t)(height * width) * (size_t)image->channels);
    if (image->pixels == NULL)
        return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "no memory for %llu x %llu pixels", (unsigned long long)height, (unsigned long long)width);
    return NULL;
}

void dt_image_free(dt_image *image) {
    dt_release(image->pixels);
    *image = (dt_image){0};
}

/* In place: there is less of it afterwards. The weights are those of ITU-R 601, in 16 bits. */
static void make_grey(dt_image *image) {
    const unsigned char *pixel = image->pixels;
    for (int64_t i = 0; i < image->height * image->width; i++, pixel += 3)
        image->pixels[i] = (unsigned char)((pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16);
    image->channels = 1;
}

static dt_status *make_coloured(const char *path, dt_image *image) {
    dt_image coloured = {.channels = 3};
    DT_TRY(dt_image_allocate(path, &coloured, (uint64_t)image->height, (uint64_t)image->width));
    for (int64_t i = 0; i < image->height * image->width; i++) memset(coloured.pixels + 3 * i, image->pixels[i], 3);
    dt_image_free(image);
    *image = coloured;
    return NULL;
}

static bool begins_with(const dt_image_file *file, const char *magic, size_t n) { return file->n_bytes >= n && memcmp(file->bytes, magic, n) == 0; }

dt_status *dt_image_decode(const dt_image_file *file, int channels, dt_image *image) {
    *image = (dt_image){0};
    dt_status *status;
    if (file->n_bytes == 0)
        status = dt_error_in(DT_DATA_LOSS, file->path, 0, "is an empty file");
    else if (begins_with(file, "\x89PNG\r\n\x1a\n", 8))
        status = dt_image_decode_png(file, image);
    else if (begins_with(file, "\xff\xd8\xff", 3))
        status = dt_image_decode_jpeg(file, image);
    else
        status = dt_error_in(DT_DATA_LOSS, file->path, 0, "is neither a PNG nor a JPEG file");
    if (status == NULL && image->channels > channels) make_grey(image);
    if (status == NULL && image->channels < channels) status = make_coloured(file->path, image);
    if (status != NULL) dt_image_free(image);
    return status;
}
