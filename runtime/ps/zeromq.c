/* zeromq: see the header. */
#include "runtime/ps/zeromq.h"

#include "base/shared_library.h"

#include <dlfcn.h>
#include <stdint.h>

dt_status *dt_zeromq_open(dt_zeromq *zeromq) {
    static const char *const names[] = {"libzmq.so.5", NULL};
    void *library;
    int major, minor, patch;
    DT_TRY(dt_shared_library_open("DT_ZEROMQ", names, &library));
    if (library == NULL)
        return dt_error(DT_NOT_FOUND, "parameter servers need ZeroMQ, and there is no %s: apt-get install libzmq5, or name the file in DT_ZEROMQ",
                        names[0]);
#define X(function)                                                                                                                                  \
    zeromq->function = (__typeof__(zmq_##function) *)(uintptr_t)dlsym(library, "zmq_" #function);                                                    \
    if (zeromq->function == NULL)                                                                                                                    \
        return dt_error(DT_FAILED_PRECONDITION, "parameter servers need ZeroMQ 4.3 or later: the one that is installed has no zmq_%s", #function);
    DT_ZEROMQ_FUNCTIONS(X)
#undef X
    zeromq->version(&major, &minor, &patch);
    if (major > 4 || (major == 4 && minor >= 3)) return NULL;
    return dt_error(DT_FAILED_PRECONDITION, "parameter servers need ZeroMQ 4.3 or later, and %d.%d.%d is installed", major, minor, patch);
}

dt_status *dt_zeromq_has_curve(const dt_zeromq *zeromq) {
    if (zeromq->has("curve") == 1) return NULL;
    return dt_error(DT_FAILED_PRECONDITION,
                    "the ZeroMQ that is installed was built without CURVE, by which connections are encrypted: Debian's libzmq5 has it");
}
