/* zip_memory: a zip file that minizip writes into memory instead of a file. */
#ifndef DT_COMPILER_ZIP_MEMORY_H
#define DT_COMPILER_ZIP_MEMORY_H

#include "base/text.h"

#include <minizip/zip.h>

typedef struct dt_zip_memory {
    dt_text *bytes; /* on the heap and empty at first; whoever closes the zip looks whether it has failed */
    size_t at;      /* where minizip writes next: it goes back to the head of a member to complete it */
} dt_zip_memory;

/* NULL when memory is out. `memory` must last until zipClose. */
zipFile dt_zip_open(dt_zip_memory *memory);

#endif
