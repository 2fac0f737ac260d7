/* shared_variable: see the header. */
#include "runtime/execution/shared_variable.h"

#include "runtime/devices/host_memory.h"

#include <string.h>

enum {
    PIECE_BYTES = 16 << 20 /* of each process, on the way at a time */
};

/* How many bytes there are of a share from byte `at` on, at most those of a piece. */
static size_t bytes_from(dt_byte_range share, int64_t at) {
    int64_t n = share.n_bytes - at;
    return n <= 0 ? 0 : n < PIECE_BYTES ? (size_t)n : PIECE_BYTES;
}

/* A piece of each process's share, to where they belong in `data`. */
static void place(const dt_artifact_variable *variable, int64_t at, int n_owners, const char *pieces, char *data) {
    for (int p = 0; p < n_owners; p++) {
        dt_byte_range share = dt_memory_share(variable, p, n_owners);
        size_t n = bytes_from(share, at);
        if (n > 0) memcpy(data + share.first + at, pieces, n);
        pieces += n;
    }
}

dt_status *dt_shared_variable_collect(const dt_artifact *artifact, const dt_memory_domain *domain, int variable, dt_processes *processes,
                                      void *data) {
    const dt_artifact_variable *about = &artifact->variables[variable];
    int n_owners = dt_process_n_owners(dt_processes_roles(processes));
    dt_byte_range own = dt_memory_share(about, domain->share, domain->n_shares);
    const char *memory = domain->memory + domain->variables[variable] + own.first;
    int64_t most = 0;
    for (int p = 0; p < n_owners; p++) {
        int64_t n = dt_memory_share(about, p, n_owners).n_bytes;
        if (n > most) most = n;
    }
    size_t bytes = bytes_from((dt_byte_range){0, most}, 0);
    char *piece = dt_host_memory_allocate(bytes);
    dt_status *status = piece == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for a piece of %s", about->path) : NULL;
    for (int64_t at = 0; at < most && status == NULL; at += PIECE_BYTES) {
        size_t n = bytes_from(own, at);
        dt_text pieces = {0};
        if (n > 0) status = dt_device_read(domain->device, piece, memory + at, n);
        if (status == NULL) status = dt_processes_gather_bytes(processes, piece, n, &pieces);
        if (status == NULL && dt_processes_number(processes) == 0) place(about, at, n_owners, pieces.data, data);
        dt_text_free(&pieces);
    }
    if (piece != NULL) dt_processes_release(processes, dt_host_memory_release, piece, bytes);
    return status;
}

dt_status *dt_shared_variable_collect_part(const dt_artifact *artifact, const dt_memory_domain *domain, int variable, dt_processes *processes,
                                           dt_byte_range part, void *data) {
    dt_byte_range own = dt_memory_share(&artifact->variables[variable], domain->share, domain->n_shares);
    int64_t end = part.first + part.n_bytes, own_end = own.first + own.n_bytes;
    int64_t first = part.first > own.first ? part.first : own.first, n = (end < own_end ? end : own_end) - first;
    size_t bytes = n > 0 ? (size_t)n : 0;
    char *piece = dt_host_memory_allocate(bytes + 1);
    dt_text all = {0}; /* in the order of processes, which is that of shares */
    dt_status *status =
        piece == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for a piece of %s", artifact->variables[variable].path) : NULL;
    if (status == NULL && bytes > 0) status = dt_device_read(domain->device, piece, domain->memory + domain->variables[variable] + first, bytes);
    if (status == NULL) status = dt_processes_gather_bytes(processes, piece, bytes, &all);
    if (status == NULL && dt_processes_number(processes) == 0) memcpy(data, all.data, (size_t)part.n_bytes);
    dt_text_free(&all);
    if (piece != NULL) dt_processes_release(processes, dt_host_memory_release, piece, bytes + 1);
    return status;
}
