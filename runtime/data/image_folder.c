/* image_folder: see image_folder.h. */
#include "runtime/data/image_folder.h"

#include "base/memory.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef struct names {
    int64_t n, capacity;
    char **items;
} names;

/* The folders that the one being read lies in, as a file system knows them: a link that leads to one of them has no end. */
typedef struct level {
    dev_t device;
    ino_t inode;
    const struct level *above;
} level;

static dt_status *no_memory(const char *path) { return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "no memory for the names in it"); }

/* Takes ownership of `name`. */
static bool append(names *list, char *name) {
    if (list->n == list->capacity) {
        int64_t capacity = list->capacity != 0 ? list->capacity * 2 : 64;
        char **grown = name != NULL ? dt_reallocate(list->items, (size_t)capacity * sizeof *grown) : NULL;
        if (grown != NULL) list->items = grown, list->capacity = capacity;
    }
    if (name == NULL || list->n == list->capacity) return dt_release(name), false;
    list->items[list->n++] = name;
    return true;
}

static void free_names(names *list) {
    for (int64_t i = 0; i < list->n; i++) dt_release(list->items[i]);
    dt_release(list->items);
    *list = (names){0};
}

/* a/b, or b where a is empty. */
static char *join(const char *a, const char *b) {
    dt_text text = {0};
    dt_text_format(&text, *a != 0 ? "%s/%s" : "%s%s", a, b);
    return dt_text_take(&text);
}

static bool is_image(const char *name) {
    const char *suffix = strrchr(name, '.');
    return suffix != NULL && (strcasecmp(suffix, ".png") == 0 || strcasecmp(suffix, ".jpg") == 0 || strcasecmp(suffix, ".jpeg") == 0);
}

/* By folder, then by name. */
static int compare_files(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b, *x_name = strrchr(x, '/'), *y_name = strrchr(y, '/');
    size_t x_bytes = x_name != NULL ? (size_t)(x_name - x) : 0, y_bytes = y_name != NULL ? (size_t)(y_name - y) : 0;
    int order = memcmp(x, y, x_bytes < y_bytes ? x_bytes : y_bytes);
    if (order == 0) order = (x_bytes > y_bytes) - (x_bytes < y_bytes);
    return order != 0 ? order : strcmp(x + x_bytes, y + y_bytes);
}

static int compare_names(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Puts an entry of the folder `below` into `files` or `folders`, each with its path below the top. */
static dt_status *add_entry(const char *top, const char *below, const char *name, names *files, names *folders, int64_t *n_passed_over) {
    char *path = join(below, name), *whole = path != NULL ? join(top, path) : NULL;
    struct stat about;
    bool known = whole != NULL && stat(whole, &about) == 0;
    dt_status *status = NULL;
    if (whole == NULL)
        status = no_memory(top);
    else if (!known && is_image(name))
        status = dt_error_in(DT_IO, whole, 0, "cannot read: %s", strerror(errno));
    names *list = known && S_ISDIR(about.st_mode) ? folders : known && S_ISREG(about.st_mode) && is_image(name) ? files : NULL;
    *n_passed_over += list == NULL;
    dt_release(whole);
    if (status != NULL || list == NULL)
        dt_release(path);
    else if (!append(list, path))
        status = no_memory(top);
    return status;
}

static dt_status *read_folder(const char *top, const char *below, names *files, names *folders, int64_t *n_passed_over) {
    char *path = *below != 0 ? join(top, below) : join("", top);
    if (path == NULL) return no_memory(top);
    dt_status *status = NULL;
    DIR *folder = opendir(path);
    if (folder == NULL) status = dt_error_in(DT_IO, path, 0, "cannot read the folder: %s", strerror(errno));
    while (status == NULL) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (entry == NULL && errno != 0) status = dt_error_in(DT_IO, path, 0, "cannot read the folder: %s", strerror(errno));
        if (entry == NULL) break;
        if (entry->d_name[0] != '.') status = add_entry(top, below, entry->d_name, files, folders, n_passed_over);
    }
    if (folder != NULL) closedir(folder);
    dt_release(path);
    return status;
}

/* All images below the folder `below`, in no order. */
static dt_status *walk(const char *top, const char *below, const level *above, names *files, int64_t *n_passed_over) {
    struct stat about;
    char *path = join(top, below);
    if (path == NULL) return no_memory(top);
    bool known = stat(path, &about) == 0;
    dt_status *status = known ? NULL : dt_error_in(DT_IO, path, 0, "cannot read the folder: %s", strerror(errno));
    level here = {.above = above};
    if (known) here.device = about.st_dev, here.inode = about.st_ino;
    for (const level *outer = above; known && outer != NULL && status == NULL; outer = outer->above)
        if (outer->device == here.device && outer->inode == here.inode)
            status = dt_error_in(DT_INVALID_ARGUMENT, path, 0, "is a link to a folder that it lies in: remove it");
    dt_release(path);
    names folders = {0};
    if (status == NULL) status = read_folder(top, below, files, &folders, n_passed_over);
    for (int64_t i = 0; i < folders.n && status == NULL; i++) status = walk(top, folders.items[i], &here, files, n_passed_over);
    free_names(&folders);
    return status;
}

/* The images of each class, one class after the other. */
static dt_status *list_classes(dt_image_folder *listed, const level *top, names *files) {
    listed->ends = dt_allocate_zeroed((size_t)listed->n_classes, sizeof *listed->ends);
    if (listed->ends == NULL) return no_memory(listed->path);
    for (int i = 0; i < listed->n_classes; i++) {
        int64_t first = files->n;
        DT_TRY(walk(listed->path, listed->classes[i], top, files, &listed->n_passed_over));
        if (files->n == first)
            return dt_error(DT_DATA_LOSS, "%s/%s: a class without images: no name in it ends in .png, .jpg or .jpeg", listed->path,
                            listed->classes[i]);
        qsort(files->items + first, (size_t)(files->n - first), sizeof *files->items, compare_files);
        listed->ends[i] = files->n;
    }
    return NULL;
}

static dt_status *list(dt_image_folder *listed, const level *top, names *files) {
    names folders = {0};
    dt_status *status = read_folder(listed->path, "", files, &folders, &listed->n_passed_over);
    listed->n_classes = (int)folders.n;
    listed->classes = folders.items;
    DT_TRY(status);
    if (folders.n > 0) {
        qsort(folders.items, (size_t)folders.n, sizeof *folders.items, compare_names);
        listed->n_passed_over += files->n;
        free_names(files);
        return list_classes(listed, top, files);
    }
    if (files->n == 0) return dt_error_in(DT_DATA_LOSS, listed->path, 0, "holds no images: no name in it ends in .png, .jpg or .jpeg");
    qsort(files->items, (size_t)files->n, sizeof *files->items, compare_files);
    return NULL;
}

dt_status *dt_image_folder_list(const char *folder, const char *name, dt_image_folder *listed) {
    *listed = (dt_image_folder){.path = join(name[0] != '/' && folder != NULL ? folder : "", name)};
    if (listed->path == NULL) return no_memory(name);
    struct stat about;
    if (stat(listed->path, &about) != 0)
        return dt_error_in(DT_NOT_FOUND, listed->path, 0, "no such folder; name the folder that holds it with --data");
    if (!S_ISDIR(about.st_mode)) return dt_error_in(DT_NOT_FOUND, listed->path, 0, "is not a folder: images() takes a folder of images");
    level top = {.device = about.st_dev, .inode = about.st_ino};
    names files = {0};
    dt_status *status = list(listed, &top, &files);
    listed->n_files = files.n;
    listed->files = files.items;
    return status;
}

void dt_image_folder_free(dt_image_folder *listed) {
    for (int64_t i = 0; i < listed->n_files; i++) dt_release(listed->files[i]);
    for (int i = 0; i < listed->n_classes; i++) dt_release(listed->classes[i]);
    dt_release(listed->files);
    dt_release(listed->classes);
    dt_release(listed->ends);
    dt_release(listed->path);
    *listed = (dt_image_folder){0};
}

int dt_image_folder_class(const dt_image_folder *listed, int64_t file) {
    int first = 0, end = listed->n_classes; /* the class is in [first, end) */
    while (end - first > 1) {
        int middle = first + (end - first) / 2;
        if (listed->ends[middle - 1] <= file)
            first = middle;
        else
            end = middle;
    }
    return first;
}
