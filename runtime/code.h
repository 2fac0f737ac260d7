/* code: the compiled kernels of an artifact, loaded for this machine's processor.
 *
 * Of the artifact's objects the one of the highest level that processor and operating system support is loaded, each kernel of the plans looked up
 * by name. Shared by sessions and pipelines; read-only once loaded, so any thread may call what it holds. */
#ifndef DT_RUNTIME_CODE_H
#define DT_RUNTIME_CODE_H

#include "abi/launch.h"
#include "runtime/artifact.h"

typedef struct dt_code dt_code;

typedef struct dt_code_options {
    const char *level; /* "x86-64-v3": this one and no other; NULL: the best one that runs here */
    bool perf_map;     /* names the kernels for `perf`, in /tmp/perf-PID.map */
} dt_code_options;

/* `options` may be NULL. The artifact must outlive the code. DT_FAILED_PRECONDITION when no object of the artifact runs on this machine. */
dt_status *dt_code_load(const dt_artifact *artifact, const dt_code_options *options, dt_code **code);
void dt_code_free(dt_code *code); /* NULL is allowed; no session or function may still use it */

const dt_artifact *dt_code_artifact(const dt_code *code);
const char *dt_code_level(const dt_code *code); /* of the object in use */
dt_kernel_entry dt_code_entry(const dt_code *code, int function, int kernel);

#endif
