/* library: see the header. */
#include "runtime/comm/nccl/library.h"

#include "base/shared_library.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

dt_status *dt_nccl_library_open(dt_nccl_library *library) {
    static const char *const names[] = {"libnccl.so.2", NULL};
    *library = (dt_nccl_library){0};
    DT_TRY(dt_shared_library_open("DT_NCCL", names, &library->handle));
    if (library->handle == NULL)
        return dt_error(DT_UNIMPLEMENTED, "NCCL is not installed: %s is in no place where such libraries lie; DT_NCCL names one elsewhere", names[0]);
#define X(result, symbol, arguments)                                                                                                                 \
    library->symbol = (result(*) arguments)(uintptr_t)dlsym(library->handle, #symbol);                                                               \
    if (library->symbol == NULL) return dt_error(DT_UNIMPLEMENTED, "NCCL has no %s: it is older than 2.18", #symbol);
    DT_NCCL_SYMBOLS(X)
#undef X
    DT_TRY(dt_nccl_error(library, NULL, "ncclGetVersion", library->ncclGetVersion(&library->version)));
    dt_nccl_name(library->version, library->name, sizeof library->name);
    return NULL;
}

void dt_nccl_name(int version, char *name, size_t bytes) {
    snprintf(name, bytes, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

dt_status *dt_nccl_error(const dt_nccl_library *library, void *communicator, const char *call, int error) {
    if (error == DT_NCCL_SUCCESS || error == DT_NCCL_IN_PROGRESS) return NULL;
    const char *text = library->ncclGetErrorString(error), *last = library->ncclGetLastError(communicator);
    bool has_last = last != NULL && *last != 0;
    int n = has_last ? (int)strcspn(last, "\n") : 0;
    return dt_error(DT_INTERNAL, "%s, %s: %s, %d%s%.*s", library->name, call, text != NULL ? text : "no explanation", error, has_last ? ": " : "", n,
                    has_last ? last : "");
}
