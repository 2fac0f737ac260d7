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

#define OF(kind) (1 << DT_LAUNCHER_##kind)

/* MPIs that are one for a linker, and the launchers under which they are tried. A library has another name in each distribution. */
typedef struct family {
    const char *name, *plugin;
    int launchers;
    const char *libraries[3], *package; /* how to install one */
} family;

static const family families[] = {
    {"Open MPI", "libdt_mpi_openmpi.so", OF(OPEN_MPI) | OF(PMIX), {"libmpi.so.40"}, "apt-get install openmpi-bin"},
    {"MPICH", "libdt_mpi_mpich.so", OF(PMI) | OF(PMIX), {"libmpi.so.12", "libmpich.so.12"}, "apt-get install mpich"},
    {"the ABI of MPI 5", "libdt_mpi_abi.so", OF(OPEN_MPI) | OF(PMI) | OF(PMIX), {"libmpi_abi.so.1"}, "pip install mpich"},
};

static const dt_mpi_host host = {dt_error, dt_status_free, dt_reallocate, dt_release};

static dt_status *load_library(const family *family) {
    const char *const *name = family->libraries;
    while (*name != NULL && dlopen(*name, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE) == NULL) name++;
    if (*name != NULL) return NULL;
    return dt_error(DT_NOT_FOUND, "the library of %s cannot be loaded (%s): install it (%s), or set LD_LIBRARY_PATH to where it is", family->name,
                    dlerror(), family->package);
}

static dt_status *load_plugin(const char *path, const dt_mpi_plugin **plugin) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) return dt_error(DT_NOT_FOUND, "%s cannot be loaded: %s", path, dlerror());
    *plugin = dlsym(library, "dt_mpi_plugin_entry");
    if (*plugin == NULL) return dt_error(DT_FAILED_PRECONDITION, "%s is no plugin for MPI: it has no dt_mpi_plugin_entry", path);
    if ((*plugin)->version != DT_MPI_PLUGIN_VERSION)
        return dt_error(DT_FAILED_PRECONDITION, "%s is of another build: its interface has number %d, this program's %d", path, (*plugin)->version,
                        DT_MPI_PLUGIN_VERSION);
    return NULL;
}

/* The folder of the library or program that this code is in, and that of the program. */
static void find_folders(char folders[2][PATH_MAX]) {
    Dl_info here;
    if (dladdr(&families, &here) == 0 || realpath(here.dli_fname, folders[0]) == NULL) folders[0][0] = 0;
    ssize_t n = readlink("/proc/self/exe", folders[1], PATH_MAX - 1);
    folders[1][n > 0 ? n : 0] = 0;
    for (int i = 0; i < 2; i++) {
        char *last = strrchr(folders[i], '/');
        if (last != NULL) *last = 0;
    }
}

/* The family's plugin where this code lies, in ../lib from there, or so with the program. Debian's packages have it in /usr/lib/dt, and libraries in
 * a folder beside that. */
static dt_status *load_plugin_of(const family *family, const dt_mpi_plugin **plugin) {
    static const char *const below[] = {"", "/../lib", "/../lib/dt", "/../dt"};
    enum {
        n_below = sizeof below / sizeof *below
    };
    char folders[2][PATH_MAX], path[PATH_MAX + 64];
    find_folders(folders);
    for (int i = 0; i < 2 * n_below; i++) {
        snprintf(path, sizeof path, "%s%s/%s", folders[i / n_below], below[i % n_below], family->plugin);
        if (access(path, F_OK) != 0) continue;
        DT_TRY(load_library(family));
        return load_plugin(path, plugin);
    }
    const char *where = folders[0][0] != 0 ? folders[0] : folders[1];
    return dt_error(DT_NOT_FOUND,
                    "there is no %s in %s and %s/../lib: build where the headers of %s are installed, or name the file in DT_MPI_PLUGIN",
                    family->plugin, where, where, family->name);
}

/* What DT_MPI_PLUGIN names is loaded after the library of the family that its name is of; of no family's name, it has to know its library. */
static dt_status *load_given(const char *path, const dt_mpi_plugin **plugin) {
    const char *last = strrchr(path, '/'), *name = last != NULL ? last + 1 : path;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(name, families[i].plugin) == 0) DT_TRY(load_library(&families[i]));
    return load_plugin(path, plugin);
}

/* The first family that is there, of those that the launcher may be of; what the first one lacks, where none is. */
static dt_status *load(const dt_launcher *launcher, const dt_mpi_plugin **plugin) {
    const char *given = getenv("DT_MPI_PLUGIN");
    dt_status *first = NULL;
    if (given != NULL && *given != 0) return load_given(given, plugin);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if ((families[i].launchers & 1 << launcher->kind) == 0) continue;
        dt_status *status = load_plugin_of(&families[i], plugin);
        if (status == NULL) {
            dt_status_free(first);
            return NULL;
        }
        first = dt_status_first(first, status);
    }
    return first;
}

dt_status *dt_transport_open(dt_transport **transport) {
    dt_launcher launcher;
    const dt_mpi_plugin *plugin = NULL;
    *transport = NULL;
    DT_TRY(dt_launcher_find(&launcher));
    if (launcher.kind == DT_LAUNCHER_NONE) return NULL;
    const char *name = dt_launcher_name(&launcher);
    DT_TRY(dt_status_annotate(load(&launcher, &plugin), "%s started this process as %d of %d", name, launcher.process, launcher.n_processes));
    DT_TRY(plugin->open(&host, transport));
    if ((*transport)->n_processes == launcher.n_processes) return NULL;
    dt_status *status = dt_error(DT_FAILED_PRECONDITION, "%s started %d processes, of which %s sees %d: it is the launcher of another MPI", name,
                                 launcher.n_processes, (*transport)->version, (*transport)->n_processes);
    dt_transport_close(*transport);
    *transport = NULL;
    return status;
}
