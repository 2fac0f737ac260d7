/* event_file: see event_file.h. A record is the length of a message (8 bytes, the lowest first), the length's checksum, the message and its checksum.
 * Checksums are CRC-32C, rotated and shifted by a constant, so that records of records have others. */
#include "runtime/event_file.h"

#include "base/half.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <tensorboard.pb-c.h>
#include <unistd.h>

struct dt_event_file {
    int file;
    char *path;
};

/* ---- records ---- */

uint32_t dt_crc32c(const void *bytes, size_t n) {
    static const uint32_t POLYNOMIAL = 0x82f63b78; /* bits reversed */
    uint32_t crc = ~0U;
    for (size_t i = 0; i < n; i++) {
        crc ^= ((const unsigned char *)bytes)[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
    }
    return ~crc;
}

static void store(unsigned char *at, uint64_t number, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) at[i] = (unsigned char)(number >> 8 * i);
}

static void store_checksum(unsigned char *at, const void *bytes, size_t n) {
    uint32_t crc = dt_crc32c(bytes, n);
    store(at, (crc >> 15 | crc << 17) + 0xa282ead8U, 4);
}

static dt_status *write_all(const dt_event_file *file, const unsigned char *bytes, size_t n) {
    while (n > 0) {
        ssize_t written = write(file->file, bytes, n);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return dt_error_in(DT_IO, file->path, 0, "cannot be written: %s", written < 0 ? strerror(errno) : "no more fits");
        bytes += written;
        n -= (size_t)written;
    }
    return NULL;
}

static dt_status *write_event(const dt_event_file *file, const Tensorboard__Event *event) {
    enum {
        HEAD = 12, /* length and its checksum */
        TAIL = 4
    };
    size_t n = tensorboard__event__get_packed_size(event);
    unsigned char *record = dt_allocate(HEAD + n + TAIL);
    if (record == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, file->path, 0, "not enough memory for a record");
    store(record, n, 8);
    store_checksum(record + 8, record, 8);
    tensorboard__event__pack(event, record + HEAD);
    store_checksum(record + HEAD + n, record + HEAD, n);
    dt_status *status = write_all(file, record, HEAD + n + TAIL);
    dt_release(record);
    return status;
}

/* ---- the file ---- */

/* The two records that every file begins with. */
static dt_status *begin(const dt_event_file *file, double wall_time, int64_t first_step) {
    Tensorboard__SessionLog start = TENSORBOARD__SESSION_LOG__INIT;
    Tensorboard__Event version = TENSORBOARD__EVENT__INIT, started = TENSORBOARD__EVENT__INIT;
    static const char name[] = "brain.Event:2"; /* from this version on readers look for the start */
    version.wall_time = started.wall_time = wall_time;
    version.what_case = TENSORBOARD__EVENT__WHAT_FILE_VERSION;
    version.file_version = (char *)(uintptr_t)name; /* it is only read */
    start.status = TENSORBOARD__SESSION_LOG__SESSION_STATUS__START;
    started.step = first_step;
    started.what_case = TENSORBOARD__EVENT__WHAT_SESSION_LOG;
    started.session_log = &start;
    DT_TRY(write_event(file, &version));
    return write_event(file, &started);
}

dt_status *dt_event_file_create(const char *path, double wall_time, int64_t first_step, dt_event_file **file) {
    *file = NULL;
    dt_event_file *made = dt_allocate(sizeof *made + strlen(path) + 1);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->path = strcpy((char *)(made + 1), path);
    made->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    dt_status *status = made->file < 0 ? dt_error_in(DT_IO, path, 0, "cannot be made: %s", strerror(errno)) : begin(made, wall_time, first_step);
    if (status == NULL)
        *file = made;
    else
        dt_event_file_close(made);
    return status;
}

void dt_event_file_close(dt_event_file *file) {
    if (file == NULL) return;
    if (file->file >= 0) close(file->file);
    dt_release(file);
}

/* ---- summaries ---- */

static dt_status *write_value(const dt_event_file *file, double wall_time, int64_t step, const char *tag, Tensorboard__Value *value) {
    Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    value->tag = (char *)(uintptr_t)tag; /* it is only read */
    summary.n_value = 1;
    summary.value = &value;
    event.wall_time = wall_time;
    event.step = step;
    event.what_case = TENSORBOARD__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return write_event(file, &event);
}

dt_status *dt_event_file_add_scalar(dt_event_file *file, double wall_time, int64_t step, const char *tag, double value) {
    Tensorboard__Value scalar = TENSORBOARD__VALUE__INIT;
    scalar.value_case = TENSORBOARD__VALUE__VALUE_SIMPLE_VALUE;
    scalar.simple_value = (float)value;
    return write_value(file, wall_time, step, tag, &scalar);
}

static double number_at(dt_dtype dtype, const void *values, int64_t i) {
    switch (dtype) {
    case DT_F64: return ((const double *)values)[i];
    case DT_F32: return ((const float *)values)[i];
    case DT_F16: return dt_f32_from_f16(((const uint16_t *)values)[i]);
    default: return dt_f32_from_bf16(((const uint16_t *)values)[i]);
    }
}

dt_status *dt_event_file_add_histogram(dt_event_file *file, double wall_time, int64_t step, const char *tag, dt_dtype dtype, int64_t n,
                                       const void *values) {
    enum {
        BUCKETS = 30 /* what TensorBoard shows of any number */
    };
    double limits[BUCKETS], counts[BUCKETS] = {0};
    Tensorboard__Histogram histogram = TENSORBOARD__HISTOGRAM__INIT;
    Tensorboard__Value value = TENSORBOARD__VALUE__INIT;
    histogram.min = INFINITY;
    histogram.max = -INFINITY;
    for (int64_t i = 0; i < n && dt_dtype_is_float(dtype); i++) {
        double number = number_at(dtype, values, i);
        if (!isfinite(number)) continue;
        histogram.min = fmin(histogram.min, number);
        histogram.max = fmax(histogram.max, number);
        histogram.num++;
        histogram.sum += number;
        histogram.sum_squares += number * number;
    }
    if (histogram.num == 0) return NULL;
    double width = (histogram.max - histogram.min) / BUCKETS;
    for (int b = 0; b < BUCKETS; b++) limits[b] = b + 1 < BUCKETS ? histogram.min + width * (b + 1) : histogram.max;
    for (int64_t i = 0; i < n; i++) {
        double number = number_at(dtype, values, i);
        if (!isfinite(number)) continue;
        int bucket = width > 0 && isfinite(width) ? (int)((number - histogram.min) / width) : BUCKETS - 1;
        counts[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    }
    histogram.n_bucket_limit = histogram.n_bucket = BUCKETS;
    histogram.bucket_limit = limits;
    histogram.bucket = counts;
    value.value_case = TENSORBOARD__VALUE__VALUE_HISTO;
    value.histo = &histogram;
    return write_value(file, wall_time, step, tag, &value);
}

dt_status *dt_event_file_add_png(dt_event_file *file, double wall_time, int64_t step, const char *tag, int64_t width, int64_t height, int channels,
                                 const void *png, size_t n_bytes) {
    Tensorboard__Image image = TENSORBOARD__IMAGE__INIT;
    Tensorboard__Value value = TENSORBOARD__VALUE__INIT;
    image.width = (int32_t)width;
    image.height = (int32_t)height;
    image.colorspace = channels;
    image.encoded_image_string = (ProtobufCBinaryData){.len = n_bytes, .data = (uint8_t *)(uintptr_t)png};
    value.value_case = TENSORBOARD__VALUE__VALUE_IMAGE;
    value.image = &image;
    return write_value(file, wall_time, step, tag, &value);
}
