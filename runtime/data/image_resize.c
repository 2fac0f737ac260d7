/* image_resize: bilinear with antialiasing, as Pillow computes it.
 *
 * Each pixel of the result is a weighted mean of those under a triangle as wide as two pixels of the coarser grid. Weights are whole numbers of
 * 2^-22, so sums are exact and their order is free. Rows get their new width, rounded to 8 bits, then columns their new height, or the other way
 * round where that leaves clearly less to do: the rule is Pillow 13's, found by trying it on all sizes up to 100 (tests/e2e/images_pillow_full.py).
 */
#include "runtime/data/image.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
    WEIGHT_BITS = 32 - 8 - 2
};

/* Along one dimension: pixel i of the result is the sum of weights[i * n_most + k] * pixel first[i] + k. */
typedef struct weights {
    int64_t n, n_most;
    int64_t *first, *count; /* [n] */
    int32_t *weights;       /* [n][n_most] */
} weights;

/* The part of the image that is resized. Pillow has it in f32. */
typedef struct window {
    float left, top, right, bottom;
} window;

static void free_weights(weights *w) {
    dt_release(w->first);
    dt_release(w->count);
    dt_release(w->weights);
}

/* From [begin, end) of n_in pixels to n_out. */
static bool make_weights(int64_t n_in, float begin, float end, int64_t n_out, weights *w) {
    double scale = (double)(end - begin) / (double)n_out, support = scale < 1 ? 1 : scale;
    w->n = n_out;
    w->n_most = (int64_t)ceil(support) * 2 + 1;
    w->first = dt_allocate_zeroed((size_t)n_out, sizeof *w->first);
    w->count = dt_allocate_zeroed((size_t)n_out, sizeof *w->count);
    w->weights = dt_allocate_zeroed((size_t)(n_out * w->n_most), sizeof *w->weights);
    double *triangle = dt_allocate((size_t)w->n_most * sizeof *triangle);
    bool allocated = w->first != NULL && w->count != NULL && w->weights != NULL && triangle != NULL;
    for (int64_t i = 0; allocated && i < n_out; i++) {
        double centre = begin + ((double)i + 0.5) * scale, sum = 0, narrowness = 1 / support;
        int64_t first = (int64_t)(centre - support + 0.5), last = (int64_t)(centre + support + 0.5);
        if (first < 0) first = 0;
        if (last > n_in) last = n_in;
        w->first[i] = first;
        w->count[i] = last - first;
        for (int64_t k = 0; k < last - first; k++) {
            double distance = fabs(((double)(k + first) - centre + 0.5) * narrowness);
            triangle[k] = distance < 1 ? 1 - distance : 0;
            sum += triangle[k];
        }
        for (int64_t k = 0; k < last - first; k++) {
            double share = sum != 0 ? triangle[k] / sum : triangle[k];
            w->weights[i * w->n_most + k] = (int32_t)(0.5 + share * (1 << WEIGHT_BITS));
        }
    }
    dt_release(triangle);
    return allocated;
}

static unsigned char rounded(int32_t sum) {
    int32_t value = sum >> WEIGHT_BITS;
    return (unsigned char)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void resize_row(const unsigned char *from, int channels, const weights *w, unsigned char *to) {
    assert(channels == 1 || channels == 3);
    for (int64_t x = 0; x < w->n; x++) {
        const unsigned char *pixel = from + w->first[x] * channels;
        const int32_t *weight = w->weights + x * w->n_most;
        int32_t sums[3] = {1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1)};
        if (channels == 3)
            for (int64_t k = 0; k < w->count[x]; k++, pixel += 3) {
                sums[0] += pixel[0] * weight[k];
                sums[1] += pixel[1] * weight[k];
                sums[2] += pixel[2] * weight[k];
            }
        else
            for (int64_t k = 0; k < w->count[x]; k++) sums[0] += pixel[k] * weight[k];
        for (int c = 0; c < channels; c++) to[x * channels + c] = rounded(sums[c]);
    }
}

/* Row y of the result, out of whole rows, of which `from` is number `first`. sums: [row_bytes]. */
static void resize_column(const unsigned char *from, int64_t first, size_t row_bytes, const weights *w, int64_t y, int32_t *sums, unsigned char *to) {
    for (size_t i = 0; i < row_bytes; i++) sums[i] = 1 << (WEIGHT_BITS - 1);
    for (int64_t k = 0; k < w->count[y]; k++) {
        const unsigned char *row = from + (size_t)(w->first[y] - first + k) * row_bytes;
        int32_t weight = w->weights[y * w->n_most + k];
        for (size_t i = 0; i < row_bytes; i++) sums[i] += row[i] * weight;
    }
    for (size_t i = 0; i < row_bytes; i++) to[i] = rounded(sums[i]);
}

/* Rows of `n_bytes` are written `stride` apart. */
typedef struct canvas {
    unsigned char *pixels;
    size_t stride;
    int64_t height, width;
} canvas;

/* First across, for all rows that are read, then down. */
static bool across_then_down(const dt_image *image, const weights *across, const weights *down, canvas to) {
    size_t old_bytes = (size_t)(image->width * image->channels), new_bytes = (size_t)(to.width * image->channels);
    int64_t first = down->first[0], end = down->first[to.height - 1] + down->count[to.height - 1];
    unsigned char *rows = dt_allocate((size_t)(end - first) * new_bytes);
    int32_t *sums = dt_allocate(new_bytes * sizeof *sums);
    bool allocated = rows != NULL && sums != NULL;
    for (int64_t y = first; allocated && y < end; y++)
        resize_row(image->pixels + (size_t)y * old_bytes, image->channels, across, rows + (size_t)(y - first) * new_bytes);
    for (int64_t y = 0; allocated && y < to.height; y++) resize_column(rows, first, new_bytes, down, y, sums, to.pixels + (size_t)y * to.stride);
    dt_release(rows);
    dt_release(sums);
    return allocated;
}

static bool down_then_across(const dt_image *image, const weights *across, const weights *down, canvas to) {
    size_t old_bytes = (size_t)(image->width * image->channels);
    unsigned char *row = dt_allocate(old_bytes);
    int32_t *sums = dt_allocate(old_bytes * sizeof *sums);
    bool allocated = row != NULL && sums != NULL;
    for (int64_t y = 0; allocated && y < to.height; y++) {
        resize_column(image->pixels, 0, old_bytes, down, y, sums, row);
        resize_row(row, image->channels, across, to.pixels + (size_t)y * to.stride);
    }
    dt_release(row);
    dt_release(sums);
    return allocated;
}

/* A dimension that stays as it is has weights that change nothing. */
static dt_status *resize_window(const char *path, const dt_image *image, window from, canvas to) {
    weights across = {0}, down = {0};
    bool done =
        make_weights(image->width, from.left, from.right, to.width, &across) && make_weights(image->height, from.top, from.bottom, to.height, &down);
    int64_t fewer_rows = image->height - to.height, fewer_columns = image->width - to.width;
    if (done) done = (fewer_rows > 0 && fewer_rows > 2 * fewer_columns ? down_then_across : across_then_down)(image, &across, &down, to);
    free_weights(&across);
    free_weights(&down);
    return done ? NULL : dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "no memory to resize it");
}

/* The largest part in the middle that has the shape of the result. */
static window crop(const dt_image *image, int64_t height, int64_t width) {
    double is_width = (double)image->width, is_height = (double)image->height;
    double is = is_width / is_height, wanted = (double)width / (double)height;
    double cropped_width = is > wanted ? wanted * is_height : is_width, cropped_height = is < wanted ? is_width / wanted : is_height;
    double left = (is_width - cropped_width) * 0.5, top = (is_height - cropped_height) * 0.5;
    return (window){(float)left, (float)top, (float)(left + cropped_width), (float)(top + cropped_height)};
}

/* The largest place in the middle of the result that has the shape of the image; the rest is black. */
static canvas pad(const dt_image *image, canvas whole) {
    canvas part = whole;
    double is_width = (double)image->width, is_height = (double)image->height;
    double is = is_width / is_height, wanted = (double)whole.width / (double)whole.height;
    if (is > wanted) part.height = (int64_t)nearbyint(is_height / is_width * (double)whole.width);
    if (is < wanted) part.width = (int64_t)nearbyint(is_width / is_height * (double)whole.height);
    if (part.height < 1) part.height = 1;
    if (part.width < 1) part.width = 1;
    int64_t top = (int64_t)nearbyint((double)(whole.height - part.height) * 0.5), left = (int64_t)nearbyint((double)(whole.width - part.width) * 0.5);
    memset(whole.pixels, 0, (size_t)whole.height * whole.stride);
    part.pixels += (size_t)top * whole.stride + (size_t)(left * image->channels);
    return part;
}

dt_status *dt_image_resize(const char *path, const dt_image *image, dt_image_fit fit, int64_t height, int64_t width, unsigned char *pixels) {
    window all = {0, 0, (float)image->width, (float)image->height};
    canvas whole = {pixels, (size_t)width * (size_t)image->channels, height, width};
    if (image->height == height && image->width == width) {
        memcpy(pixels, image->pixels, (size_t)height * whole.stride);
        return NULL;
    }
    switch (fit) {
    case DT_IMAGE_CROP: return resize_window(path, image, crop(image, height, width), whole);
    case DT_IMAGE_PAD: return resize_window(path, image, all, pad(image, whole));
    default: return resize_window(path, image, all, whole);
    }
}
