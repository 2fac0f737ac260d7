/* mpi: see the header. */
#include "runtime/comm/mpi/mpi.h"
#include "base/memory.h"
#include "runtime/comm/launcher.h"
#include "runtime/comm/mpi/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* MPIs that are one for a linker. */
typedef struct family {
    const char *name, *plugin, *libraries[3], *packages;
} family;

static const family open_mpi = {"Open MPI", "libdt_mpi_openmpi.so", {"libmpi.so.40"}, "openmpi-bin libopenmpi3"};
static const family mpich = {"MPICH", "libdt_mpi_mpich.so", {"libmpi.so.12", "libmpich.so.12"}, "mpich libmpich12"};

static const dt_mpi_host host = {dt_error, dt_status_free, dt_reallocate, dt_release};

/* PATH becomes the plugin's file; false where there is none, and then PATH is where it was looked for. */
static bool find_plugin(const char *name, char *path, size_t bytes) {
    static const char *const folders[] = {"", "../lib/"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *last = strrchr(self, '/');
    if (last != NULL) last[1] = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, bytes, "%s%s%s", self, folders[i], name);
        if (access(path, R_OK) == 0) return true;
    }
    snprintf(path, bytes, "%s and %s../lib", self, self);
    return false;
}

static dt_status *load_library(const family *family) {
    const char *const *name = family->libraries;
    while (*name != NULL && dlopen(*name, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) == NULL) name++;
    if (*name != NULL) return NULL;
    return dt_error(DT_NOT_FOUND,
                    "%s's library cannot be loaded (%s): install %s (Debian: apt-get install %s), or set LD_LIBRARY_PATH to where it is",
                    family->name, dlerror(), family->name, family->packages);
}

static dt_status *load_plugin(const family *family, const dt_mpi_plugin **plugin) {
    char found[2 * PATH_MAX + 32];
    const char *given = getenv("DT_MPI_PLUGIN"), *path = given;
    if (given == NULL || *given == 0) {
        if (!find_plugin(family->plugin, found, sizeof found))
            return dt_error(DT_NOT_FOUND, "there is no %s in %s: build where %s is installed, or name the file in DT_MPI_PLUGIN", family->plugin,
                            found, family->name);
        path = found;
    }
    DT_TRY(load_library(family));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) return dt_error(DT_NOT_FOUND, "%s cannot be loaded: %s", path, dlerror());
    *plugin = dlsym(library, "dt_mpi_plugin_entry");
    if (*plugin == NULL) return dt_error(DT_FAILED_PRECONDITION, "%s is no plugin for MPI: it has no dt_mpi_plugin_entry", path);
    if ((*plugin)->version != DT_MPI_PLUGIN_VERSION)
        return dt_error(DT_FAILED_PRECONDITION, "%s is of another build: its interface has number %d, this program's %d", path, (*plugin)->version,
                        DT_MPI_PLUGIN_VERSION);
    return NULL;
}

dt_status *dt_transport_open(dt_transport **transport) {
    dt_launcher launcher;
    const dt_mpi_plugin *plugin = NULL;
    *transport = NULL;
    DT_TRY(dt_launcher_find(&launcher));
    if (launcher.kind == DT_LAUNCHER_NONE) return NULL;
    const family *family = launcher.kind == DT_LAUNCHER_PMI ? &mpich : &open_mpi;
    DT_TRY(dt_status_annotate(load_plugin(family, &plugin), "%s started this process as %d of %d", dt_launcher_name(&launcher), launcher.process,
                              launcher.n_processes));
    DT_TRY(plugin->open(&host, transport));
    if ((*transport)->n_processes == launcher.n_processes) return NULL;
    dt_status *status = dt_error(DT_FAILED_PRECONDITION, "%s started %d processes, of which %s sees %d: it is the launcher of another MPI",
                                 dt_launcher_name(&launcher), launcher.n_processes, (*transport)->version, (*transport)->n_processes);
    dt_transport_close(*transport);
    *transport = NULL;
    return status;
}
