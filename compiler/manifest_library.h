/* manifest_library: what a library can do in place of a call, as JSON. The reader is runtime/artifact/artifact_library.c. */
#ifndef DT_COMPILER_MANIFEST_LIBRARY_H
#define DT_COMPILER_MANIFEST_LIBRARY_H

#include "abi/library.h"

#include <cjson/cJSON.h>

void dt_manifest_add_library(cJSON *call, const dt_library_call *library);

#endif
