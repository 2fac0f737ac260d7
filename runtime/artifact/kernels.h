/* kernels: the compiled kernels of an artifact, loaded for this machine's processor.
 *
 * Of the artifact's objects the one of the highest level that processor and operating system support is loaded, each kernel of the plans looked up
 * by name. Shared by sessions and pipelines; read-only once loaded, so any thread may call what it holds. */
#ifndef DT_RUNTIME_ARTIFACT_KERNELS_H
#define DT_RUNTIME_ARTIFACT_KERNELS_H

#include "abi/launch.h"
#include "runtime/artifact/artifact.h"

typedef struct dt_kernels dt_kernels;

typedef struct dt_kernels_options {
    const char *level; /* "x86-64-v3": this one and no other; NULL: the best one that runs here */
    bool perf_map;     /* names the kernels for `perf`, in /tmp/perf-PID.map */
} dt_kernels_options;

/* `options` may be NULL. The artifact must outlive the kernels. DT_FAILED_PRECONDITION when no object of the artifact runs on this machine. */
dt_status *dt_kernels_load(const dt_artifact *artifact, const dt_kernels_options *options, dt_kernels **kernels);
/* Of the code that would be loaded here without a level: 1 to 4 as in base/cpu.h, more for code of this very processor; 0: none runs. */
int dt_kernels_best_level(const dt_artifact *artifact);
void dt_kernels_free(dt_kernels *kernels); /* NULL is allowed; no session or function may still use it */

const dt_artifact *dt_kernels_artifact(const dt_kernels *kernels);
const char *dt_kernels_level(const dt_kernels *kernels); /* of the object in use */
dt_kernel_entry dt_kernels_entry(const dt_kernels *kernels, int function, int kernel);

#endif
