/* plugin: what dtrun and a plugin for one family of MPIs agree on.
 *
 * dtrun links no MPI: it runs where there is none, and one dtrun runs with any. What depends on an MPI's header is a shared object for each family of
 * MPIs that are one for a linker (runtime/comm/mpi/plugin.c, compiled once for each), which dtrun loads when a launcher started it. A plugin names no
 * library either: dtrun loads that before, under whichever name the machine has it. */
#ifndef DT_RUNTIME_COMM_MPI_PLUGIN_H
#define DT_RUNTIME_COMM_MPI_PLUGIN_H

#include "runtime/comm/transport.h"

/* Counted up whenever this header or transport.h changes. */
enum {
    DT_MPI_PLUGIN_VERSION = 4
};

/* What a plugin has from dtrun, as it links nothing: base/status.h, base/memory.h. */
typedef struct dt_mpi_host {
    dt_status *(*error)(dt_code code, const char *format, ...) __attribute__((format(printf, 2, 3)));
    void (*forget)(dt_status *status);
    void *(*reallocate)(void *memory, size_t bytes);
    void (*release)(void *memory);
} dt_mpi_host;

/* The one symbol of a plugin, a constant of this type, is dt_mpi_plugin_entry. */
typedef struct dt_mpi_plugin {
    int version; /* DT_MPI_PLUGIN_VERSION: of another one no more is read */
    /* MPI is initialized by the calling thread, which makes all calls then. Once in a process. `host` outlives the transport. */
    dt_status *(*open)(const dt_mpi_host *host, dt_transport **transport);
} dt_mpi_plugin;

#endif
