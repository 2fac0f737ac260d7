/* image_pixels CHANNELS FIT HEIGHT WIDTH FILE…: what the source images() makes of each file, for tests that compare it with something else.
 *
 * Writes, for each, three i64, height, width and channels, then the pixels; for one that is refused three zeros, and its message on stderr. FIT is
 * 0 stretch, 1 crop, 2 pad; HEIGHT 0: no image is resized. */
#include "base/file.h"
#include "base/memory.h"
#include "runtime/data/image.h"

#include <stdio.h>
#include <stdlib.h>

static dt_status *make(const char *path, int channels, dt_image_fit fit, int64_t height, int64_t width, dt_image *image) {
    char *bytes;
    dt_image_file file = {.path = path};
    DT_TRY(dt_file_read(path, &bytes, &file.n_bytes));
    file.bytes = (const unsigned char *)bytes;
    dt_status *status = dt_image_decode(&file, channels, image);
    dt_release(bytes);
    if (status != NULL || height == 0) return status;
    dt_image resized = {.channels = channels};
    status = dt_image_allocate(path, &resized, (uint64_t)height, (uint64_t)width);
    if (status == NULL) status = dt_image_resize(path, image, fit, height, width, resized.pixels);
    dt_image_free(image);
    *image = resized;
    return status;
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    for (int i = 5; i < argc; i++) {
        dt_image image = {0};
        dt_status *status = make(argv[i], atoi(argv[1]), (dt_image_fit)atoi(argv[2]), atoll(argv[3]), atoll(argv[4]), &image);
        if (status != NULL) {
            fprintf(stderr, "%s\n", dt_status_message(status));
            dt_status_free(status);
            dt_image_free(&image);
        }
        int64_t shape[3] = {image.height, image.width, image.pixels != NULL ? image.channels : 0};
        fwrite(shape, sizeof shape, 1, stdout);
        if (image.pixels != NULL) fwrite(image.pixels, (size_t)image.channels, (size_t)(image.height * image.width), stdout);
        dt_image_free(&image);
    }
    return 0;
}
