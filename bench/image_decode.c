/* image_decode SECONDS HEIGHT WIDTH FILE…: how long images() takes for each file, as dtrun's threads make it: read, decoded, and resized where HEIGHT is not 0.
 * Prints microseconds a file, a line each, the least of rounds that take SECONDS together. bench/images.py runs it beside Pillow. */
#include "base/file.h"
#include "base/memory.h"
#include "runtime/data/image.h"
#include "runtime/threads/clock.h"

#include <stdio.h>
#include <stdlib.h>

static dt_status *make(const char *path, int64_t height, int64_t width, unsigned char *pixels) {
    char *bytes;
    dt_image_file file = {.path = path};
    dt_image image;
    DT_TRY(dt_file_read(path, &bytes, &file.n_bytes));
    file.bytes = (const unsigned char *)bytes;
    dt_status *status = dt_image_decode(&file, 3, &image);
    dt_release(bytes);
    if (status == NULL && height != 0) status = dt_image_resize(path, &image, DT_IMAGE_STRETCH, height, width, pixels);
    dt_image_free(&image);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    double seconds = atof(argv[1]);
    int64_t height = atoll(argv[2]), width = atoll(argv[3]);
    unsigned char *pixels = malloc((size_t)(height * width * 3) + 1);
    for (int i = 4; i < argc && pixels != NULL; i++) {
        double least = 1e9, began = dt_seconds_now(), now = began;
        while (now - began < seconds) {
            dt_status *status = make(argv[i], height, width, pixels);
            if (status != NULL) {
                fprintf(stderr, "%s\n", dt_status_message(status));
                return 1;
            }
            double then = now;
            now = dt_seconds_now();
            if (now - then < least) least = now - then;
        }
        printf("%.3f\n", least * 1e6);
    }
    free(pixels);
    return 0;
}
