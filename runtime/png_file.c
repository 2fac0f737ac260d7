/* png_file: see png_file.h. libpng's simplified interface makes the files; here values become bytes. */
#include "runtime/png_file.h"

#include "base/file.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <png.h>

/* Rows, height, width and perhaps channels. */
const char *dt_png_objection(const dt_artifact_tensor *tensor) {
    static const int64_t MOST_PIXELS = 1 << 20; /* a side: what readers of PNG take */
    if (!tensor->has_rows || tensor->n_dims < 3 || tensor->n_dims > 4) return "is no row of pictures: [B, H, W] or [B, H, W, C]";
    if (tensor->n_dims == 4 && tensor->dims[3] != 1 && tensor->dims[3] != 3) return "has neither one channel nor three";
    if (tensor->dtype != DT_U8 && tensor->dtype != DT_F32) return "is neither of u8 nor of f32: convert it, f32(x)";
    if (tensor->dims[1] < 1 || tensor->dims[2] < 1 || tensor->dims[1] > MOST_PIXELS || tensor->dims[2] > MOST_PIXELS)
        return "has pictures that are empty, or too large";
    return NULL;
}

/* What is black: 0, or -1 where any value is below 0. */
static dt_status *find_black(const char *name, const float *values, int64_t n_rows, int64_t n_of_row, float *black) {
    *black = 0;
    for (int64_t i = 0; i < n_rows * n_of_row; i++) {
        if (values[i] < 0) *black = -1;
        if (values[i] >= -1 && values[i] <= 1) continue; /* not true of NaN */
        return dt_error(DT_OUT_OF_RANGE, "result %s: %g in row %" PRId64 " is no brightness: pictures are from 0 to 1, or from -1 to 1", name,
                        (double)values[i], i / n_of_row);
    }
    return NULL;
}

static void fill_pixels(const float *values, int64_t n, float black, unsigned char *pixels) {
    for (int64_t i = 0; i < n; i++) pixels[i] = (unsigned char)lrintf((values[i] - black) / (1 - black) * 255);
}

static dt_status *no_memory(void) { return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory"); }

/* `pixels`: [height, width, channels]. */
static dt_status *encode(const dt_artifact_tensor *tensor, const unsigned char *pixels, char **bytes, size_t *n_bytes) {
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .height = (png_uint_32)tensor->dims[1],
                       .width = (png_uint_32)tensor->dims[2],
                       .format = tensor->n_dims == 4 && tensor->dims[3] == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY};
    png_alloc_size_t n = PNG_IMAGE_PNG_SIZE_MAX(image);
    *bytes = dt_allocate(n);
    if (*bytes == NULL) return no_memory();
    bool made = png_image_write_to_memory(&image, *bytes, &n, 0, pixels, 0, NULL) != 0;
    *n_bytes = n;
    if (made) return NULL;
    dt_release(*bytes);
    *bytes = NULL;
    return dt_error(DT_INTERNAL, "result %s: libpng: %s", tensor->name, image.message);
}

static dt_status *write_picture(const char *path, const dt_artifact_tensor *tensor, const unsigned char *pixels) {
    char *bytes;
    size_t n_bytes;
    DT_TRY(dt_status_annotate(encode(tensor, pixels, &bytes, &n_bytes), "%s", path));
    dt_status *status = dt_file_write_atomic(path, bytes, n_bytes);
    dt_release(bytes);
    return status;
}

static int digits(int64_t number) {
    int n = 1;
    for (; number > 9; number /= 10) n++;
    return n;
}

static dt_status *write_rows(const char *folder, const dt_artifact_tensor *tensor, int64_t n_rows, const void *rows, unsigned char *pixels) {
    int64_t n_values = tensor->row_bytes / (int64_t)dt_dtype_bytes(tensor->dtype);
    float black = 0;
    if (pixels != NULL) DT_TRY(find_black(tensor->name, rows, n_rows, n_values, &black));
    for (int64_t row = 0; row < n_rows; row++) {
        dt_text path = {0};
        dt_text_format(&path, "%s/%s-%0*" PRId64 ".png", folder, tensor->name, digits(n_rows - 1), row);
        if (pixels != NULL) fill_pixels((const float *)rows + row * n_values, n_values, black, pixels);
        const unsigned char *bytes = pixels != NULL ? pixels : (const unsigned char *)rows + row * n_values;
        dt_status *status = path.failed ? no_memory() : write_picture(path.data, tensor, bytes);
        dt_text_free(&path);
        DT_TRY(status);
    }
    return NULL;
}

dt_status *dt_png_write_rows(const char *folder, const dt_artifact_tensor *tensor, int64_t n_rows, const void *rows, dt_text *files) {
    bool converts = tensor->dtype == DT_F32;
    unsigned char *pixels = converts ? dt_allocate((size_t)tensor->row_bytes) : NULL;
    dt_status *status = converts && pixels == NULL ? no_memory() : write_rows(folder, tensor, n_rows, rows, pixels);
    dt_release(pixels);
    if (status == NULL) dt_text_format(files, "%s/%s-*.png", folder, tensor->name);
    return status;
}

dt_status *dt_png_encode_row(const dt_artifact_tensor *tensor, int64_t n_rows, const void *rows, int64_t row, char **bytes, size_t *n_bytes) {
    int64_t n_values = tensor->row_bytes / (int64_t)dt_dtype_bytes(tensor->dtype);
    float black;
    if (tensor->dtype != DT_F32) return encode(tensor, (const unsigned char *)rows + row * n_values, bytes, n_bytes);
    DT_TRY(find_black(tensor->name, rows, n_rows, n_values, &black));
    unsigned char *pixels = dt_allocate((size_t)tensor->row_bytes);
    if (pixels == NULL) return no_memory();
    fill_pixels((const float *)rows + row * n_values, n_values, black, pixels);
    dt_status *status = encode(tensor, pixels, bytes, n_bytes);
    dt_release(pixels);
    return status;
}
