/* image_folder: the names of the images in a folder and their classes, in the order of torchvision's ImageFolder.
 *
 * The folders in it are the classes, sorted by the bytes of their names; a folder without folders holds images alone. An image is a file whose name
 * ends in .png, .jpg or .jpeg, of any case; those of a class are sorted by folder, then by name. Names that begin with a dot are no part of it.
 * Links are followed. */
#ifndef DT_RUNTIME_DATA_IMAGE_FOLDER_H
#define DT_RUNTIME_DATA_IMAGE_FOLDER_H

#include "base/status.h"

#include <stdint.h>

typedef struct dt_image_folder {
    char *path;
    int64_t n_files, n_passed_over; /* images; other files */
    char **files;                   /* [n_files], below `path` */
    int n_classes;                  /* 0: images alone */
    char **classes;                 /* [n_classes] */
    int64_t *ends;                  /* [n_classes]: of its files; they begin where those of the class before end */
} dt_image_folder;

/* `name` in `folder`, as files of data are named (input_file.h). There is at least one image, and one in each class. DT_NOT_FOUND, DT_DATA_LOSS. */
dt_status *dt_image_folder_list(const char *folder, const char *name, dt_image_folder *listed);
void dt_image_folder_free(dt_image_folder *listed); /* of zeros or after an error, too */

int dt_image_folder_class(const dt_image_folder *listed, int64_t file);

#endif
