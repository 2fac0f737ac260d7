/* images: a folder of PNG and JPEG files as a source. Only their names are kept: a row is read, decoded and resized by the thread that wants it, so
 * a process decodes its own rows alone. */
#include "runtime/data/image.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/source.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#include <string.h>

enum {
    MOST_NAMED = 20 /* classes */
};

typedef struct images {
    dt_source source;
    dt_image_folder folder;
    dt_image_fit fit;
    bool resizes;
    int64_t shape[3]; /* height, width, channels */
    dt_column columns[2];
    char *about;
} images;

static char *path_of(const images *source, int64_t row) {
    dt_text path = {0};
    dt_text_format(&path, "%s/%s", source->folder.path, source->folder.files[row]);
    return dt_text_take(&path);
}

/* The image of `row`, of whatever size it has. *path, which the caller releases, is set after an error, too. */
static dt_status *decode(const images *source, int64_t row, char **path, dt_image *image) {
    *image = (dt_image){0};
    *path = path_of(source, row);
    if (*path == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, source->folder.path, 0, "out of memory");
    char *bytes;
    dt_image_file file = {.path = *path};
    DT_TRY(dt_file_read(*path, &bytes, &file.n_bytes));
    file.bytes = (const unsigned char *)bytes;
    dt_status *status = dt_image_decode(&file, (int)source->shape[2], image);
    dt_release(bytes);
    return status;
}

static dt_status *other_size(const images *source, const char *path, const dt_image *image) {
    char *first = path_of(source, 0);
    dt_status *status =
        dt_error_in(DT_DATA_LOSS, path, 0, "has %lld x %lld pixels, but %s has %lld x %lld: say images(…, height: …, width: …), to resize them",
                    (long long)image->height, (long long)image->width, first != NULL ? first : "the first", (long long)source->shape[0],
                    (long long)source->shape[1]);
    dt_release(first);
    return status;
}

static dt_status *read_image(const images *source, int64_t row, unsigned char *pixels) {
    char *path;
    dt_image image;
    dt_status *status = decode(source, row, &path, &image);
    bool fits = image.height == source->shape[0] && image.width == source->shape[1];
    if (status == NULL && !fits && !source->resizes) status = other_size(source, path, &image);
    if (status == NULL) status = dt_image_resize(path, &image, source->fit, source->shape[0], source->shape[1], pixels);
    dt_image_free(&image);
    dt_release(path);
    return status;
}

static dt_status *images_read(const dt_source *base, int column, int64_t row, int64_t n_rows, void *bytes) {
    const images *source = (const images *)base;
    size_t row_bytes = (size_t)source->columns[column].tensor.row_bytes;
    for (int64_t i = 0; i < n_rows; i++) {
        unsigned char *to = (unsigned char *)bytes + (size_t)i * row_bytes;
        int32_t label = dt_image_folder_class(&source->folder, row + i);
        if (column == 0)
            DT_TRY(read_image(source, row + i, to));
        else
            memcpy(to, &label, sizeof label);
    }
    return NULL;
}

static void images_name_row(const dt_source *base, int64_t row, dt_text *text) {
    const images *source = (const images *)base;
    dt_text_format(text, "%s/%s", source->folder.path, source->folder.files[row]);
}

static void images_close(dt_source *base) {
    images *source = (images *)base;
    dt_image_folder_free(&source->folder);
    dt_release(source->about);
    dt_release(source);
}

/* "3 classes: 0 bag, 1 coat, 2 shirt". false: out of memory. */
static bool describe_classes(images *source) {
    const dt_image_folder *folder = &source->folder;
    dt_text about = {0};
    if (folder->n_classes > 0) dt_text_format(&about, "%d class%s: ", folder->n_classes, folder->n_classes == 1 ? "" : "es");
    for (int i = 0; i < folder->n_classes && i < MOST_NAMED; i++) dt_text_format(&about, "%s%d %s", i > 0 ? ", " : "", i, folder->classes[i]);
    if (folder->n_classes > MOST_NAMED) dt_text_append(&about, ", …");
    if (folder->n_passed_over > 0)
        dt_text_format(&about, "%s%lld other file%s passed over", about.n > 0 ? "; " : "", (long long)folder->n_passed_over,
                       dt_plural(folder->n_passed_over));
    if (about.n == 0 && !about.failed) return true;
    source->about = dt_text_take(&about);
    source->source.about = source->about;
    return source->about != NULL;
}

/* Without a height and a width, those of the first image. */
static dt_status *find_shape(images *source, const dt_artifact_stage *stage) {
    source->shape[0] = dt_source_option_int(stage, "height", 0);
    source->shape[1] = dt_source_option_int(stage, "width", 0);
    source->shape[2] = dt_source_option_int(stage, "channels", 3);
    if (source->shape[2] == 2) return dt_error(DT_INVALID_ARGUMENT, "images() gives 1 channel or 3, not 2");
    if ((source->shape[0] == 0) != (source->shape[1] == 0)) return dt_error(DT_INVALID_ARGUMENT, "images() takes a height and a width, or neither");
    source->resizes = source->shape[0] != 0;
    if (source->resizes) return NULL;
    char *path;
    dt_image image;
    dt_status *status = decode(source, 0, &path, &image);
    source->shape[0] = image.height;
    source->shape[1] = image.width;
    dt_image_free(&image);
    dt_release(path);
    return status;
}

static dt_status *open_images(images *source, const dt_artifact_stage *stage, const char *folder) {
    static const struct {
        const char *name;
        dt_image_fit fit;
    } fits[] = {{"stretch", DT_IMAGE_STRETCH}, {"crop", DT_IMAGE_CROP}, {"pad", DT_IMAGE_PAD}};
    const char *fit = dt_source_option_choice(stage, "fit", "stretch");
    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++)
        if (strcmp(fits[i].name, fit) == 0) source->fit = fits[i].fit;
    DT_TRY(dt_image_folder_list(folder, stage->arguments[0].string, &source->folder));
    DT_TRY(find_shape(source, stage));
    if (!describe_classes(source)) return dt_error_in(DT_RESOURCE_EXHAUSTED, source->folder.path, 0, "out of memory");
    int64_t row_bytes = source->shape[0] * source->shape[1] * source->shape[2];
    source->columns[0] =
        (dt_column){.path = source->folder.path, .tensor = {.name = "", .dtype = DT_U8, .n_dims = 3, .dims = source->shape, .row_bytes = row_bytes}};
    source->columns[1] = (dt_column){.path = source->folder.path, .tensor = {.name = "", .dtype = DT_I32, .row_bytes = sizeof(int32_t)}};
    source->source.n_examples = source->folder.n_files;
    source->source.n_columns = source->folder.n_classes > 0 ? 2 : 1;
    source->source.n_files = source->folder.n_classes; /* a class after the other */
    source->source.file_ends = source->folder.ends;
    source->source.columns = source->columns;
    return NULL;
}

dt_status *dt_source_open_images(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source) {
    (void)by_row; /* always */
    *source = NULL;
    images *opened = dt_allocate_zeroed(1, sizeof *opened);
    if (opened == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    opened->source.computes = true;
    opened->source.read = images_read;
    opened->source.name_row = images_name_row;
    opened->source.close = images_close;
    dt_status *status = open_images(opened, stage, folder);
    if (status != NULL) {
        images_close(&opened->source);
        return status;
    }
    *source = &opened->source;
    return NULL;
}
