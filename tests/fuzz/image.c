/* Image files that come from anywhere: the first byte says how many channels are wanted and what becomes of the size, the rest is the file. Nothing
 * may crash, hang, or read what is not there. */
#include "runtime/data/image.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static volatile unsigned char sink;

enum {
    MOST_PIXELS = 1 << 20 /* larger ones only take longer */
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n == 0) return 0;
    int channels = (bytes[0] & 1) != 0 ? 3 : 1;
    dt_image_file file = {.path = "file", .bytes = bytes + 1, .n_bytes = n - 1};
    dt_image image;
    dt_status *status = dt_image_decode(&file, channels, &image);
    if (status == NULL && image.height * image.width <= MOST_PIXELS) {
        int64_t height = 1 + (bytes[0] >> 4), width = 1 + (bytes[0] >> 3 & 15);
        unsigned char *pixels = malloc((size_t)(height * width * channels));
        if (pixels == NULL) abort();
        status = dt_image_resize("file", &image, (dt_image_fit)(bytes[0] % 3), height, width, pixels);
        for (int64_t i = 0; status == NULL && i < height * width * channels; i++) sink ^= pixels[i];
        free(pixels);
    }
    dt_status_free(status);
    dt_image_free(&image);
    return 0;
}
