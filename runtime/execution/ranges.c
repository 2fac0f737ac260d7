/* ranges: see ranges.h. */
#include "runtime/execution/ranges.h"

#include "base/memory.h"
#include "runtime/devices/host_memory.h"
#include "runtime/execution/session_state.h"
#include "runtime/execution/shard_pieces.h"

#include <string.h>

/* ---- who has what ---- */

static bool is_table(const dt_session_options *options, const dt_artifact_variable *variable) { return options->by_rows && variable->row_init >= 0; }

dt_byte_range dt_ranges_of(const dt_session_options *options, const dt_artifact_variable *variable, int process) {
    const dt_mesh mesh = dt_mesh_of(dt_processes_roles(options->processes), options->shards_over, options->stages);
    dt_process_roles roles = mesh.axes[DT_AXIS_DATA];
    if (is_table(options, variable)) {
        int64_t bytes = variable->bytes / variable->tensor.dims[0];
        dt_row_range rows = dt_row_tables_rows(variable, roles, process);
        return (dt_byte_range){rows.first * bytes, (rows.end - rows.first) * bytes};
    }
    roles.process = process;
    dt_state_layout layout = dt_state_layout_of(roles, dt_sharing_of(options->shard_optimizer, options->shard_parameters));
    return dt_state_layout_share(&layout, variable);
}

/* Whether processes of the model have it, some of its shards each or one stage all: not those that divide the microbatches. */
static bool is_over_processes(const dt_session_options *options, const dt_artifact_variable *variable) {
    return options->stages > 1 || (options->shards_over > 1 && variable->split.groups > 0);
}

bool dt_ranges_are_shared_out(const dt_session_options *options, const dt_artifact_variable *variable) {
    if (is_over_processes(options, variable)) return true;
    int n_owners = dt_process_n_owners(dt_processes_roles(options->processes)), second = n_owners > 1 ? 1 : 0; /* one may own all that there is */
    return dt_ranges_of(options, variable, 0).n_bytes < variable->bytes || dt_ranges_of(options, variable, second).n_bytes < variable->bytes;
}

dt_byte_range dt_ranges_own(const dt_session *session, int variable) {
    return dt_ranges_of(&session->options, &session->artifact->variables[variable], session->mesh.axes[DT_AXIS_DATA].process);
}

bool dt_ranges_have_all(const dt_session *session, int variable) {
    const dt_artifact_variable *about = &session->artifact->variables[variable];
    return dt_ranges_own(session, variable).n_bytes == about->bytes && !is_over_processes(&session->options, about);
}

static dt_byte_range intersection(dt_byte_range a, dt_byte_range b) {
    int64_t first = a.first > b.first ? a.first : b.first, a_end = a.first + a.n_bytes, b_end = b.first + b.n_bytes;
    int64_t end = a_end < b_end ? a_end : b_end;
    return end > first ? (dt_byte_range){first, end - first} : (dt_byte_range){a.first, 0};
}

/* ---- where it is ---- */

static char *table_of(const dt_session *session, int variable) { return dt_row_tables_memory(dt_row_steps_tables(session->rows), variable); }

/* The bytes that a range begins with, of a domain that has them: as many as lie side by side. NULL: of a shard that it does not have. */
static char *address_in(const dt_session *session, const dt_memory_domain *domain, int variable, dt_byte_range range, size_t *n_bytes) {
    const dt_artifact_variable *about = &session->artifact->variables[variable];
    dt_shard_piece piece = dt_shard_piece_at(about, session->artifact->n_shards, range);
    int held = about->split.groups > 0 ? dt_memory_domain_find_shard(domain, piece.shard) : 0;
    *n_bytes = (size_t)piece.n_bytes;
    return held < 0 ? NULL : dt_memory_domain_variable(domain, variable, held) + piece.at;
}

static dt_status *read_from(const dt_session *session, const dt_memory_domain *domain, int variable, dt_byte_range range, char *data) {
    size_t n;
    for (int64_t done = 0; done < range.n_bytes; done += (int64_t)n) {
        const char *source = address_in(session, domain, variable, (dt_byte_range){range.first + done, range.n_bytes - done}, &n);
        if (source != NULL) DT_TRY(dt_device_read(domain->device, data + done, source, n));
    }
    return NULL;
}

static dt_status *write_to(const dt_session *session, const dt_memory_domain *domain, int variable, dt_byte_range range, const char *data) {
    size_t n;
    for (int64_t done = 0; done < range.n_bytes; done += (int64_t)n) {
        char *target = address_in(session, domain, variable, (dt_byte_range){range.first + done, range.n_bytes - done}, &n);
        if (target != NULL) DT_TRY(dt_device_write(domain->device, target, data + done, n));
    }
    return NULL;
}

const void *dt_ranges_memory(const dt_session *session, int variable) {
    dt_byte_range own = dt_ranges_own(session, variable);
    if (!dt_ranges_have_all(session, variable)) return NULL;
    if (session->artifact->variables[variable].by_rows) return table_of(session, variable);
    size_t n;
    const char *first = address_in(session, &session->domains[0], variable, own, &n);
    return session->domains[0].device->kind->reads_host && n == (size_t)own.n_bytes ? first : NULL;
}

dt_status *dt_ranges_read(dt_session *session, int device, int variable, dt_byte_range range, void *data) {
    DT_TRY(dt_session_usable(session));
    dt_progress_count(dt_processes_progress(session->options.processes));
    if (range.n_bytes == 0) return NULL;
    if (session->artifact->variables[variable].by_rows) {
        memcpy(data, table_of(session, variable) + (range.first - dt_ranges_own(session, variable).first), (size_t)range.n_bytes);
        return NULL;
    }
    const dt_memory_domain *domain = session->executors[dt_session_first_executor(session, device)].domain;
    if (!dt_memory_domain_has_variable(domain, variable)) domain = &session->domains[0];
    return read_from(session, domain, variable, range, data);
}

dt_status *dt_ranges_write(dt_session *session, int variable, dt_byte_range range, const void *data) {
    DT_TRY(dt_session_usable(session));
    dt_progress_count(dt_processes_progress(session->options.processes));
    dt_byte_range own = dt_ranges_own(session, variable), here = intersection(range, own);
    const char *from = (const char *)data + (here.first - range.first);
    if (here.n_bytes == 0) return NULL;
    if (session->artifact->variables[variable].by_rows) {
        memcpy(table_of(session, variable) + (here.first - own.first), from, (size_t)here.n_bytes);
        return NULL;
    }
    for (int d = 0; d < session->n_domains; d++) {
        const dt_memory_domain *domain = &session->domains[d];
        if (!dt_memory_domain_has_variable(domain, variable)) continue;
        DT_TRY(write_to(session, domain, variable, here, from));
    }
    return NULL;
}

/* ---- from all processes ---- */

/* How many bytes of a range are of the shards of each of `over` processes, and which are this one's. */
typedef struct shard_bytes {
    int64_t n[DT_MOST_SHARDS];
} shard_bytes;

static int n_over(const dt_session *session) { return session->mesh.axes[DT_AXIS_MODEL].n_processes; }

static int part_of_shard(const dt_session *session, int shard) { return shard / (session->artifact->n_shards / n_over(session)); }

/* Copies pieces of a range between its place and those where each process's follow one another. */
static shard_bytes copy_pieces(const dt_session *session, int variable, dt_byte_range range, char *data, const char *const *parts) {
    shard_bytes bytes = {{0}};
    dt_shard_piece piece;
    for (int64_t done = 0; done < range.n_bytes; done += piece.n_bytes) {
        piece = dt_shard_piece_at(&session->artifact->variables[variable], session->artifact->n_shards,
                                  (dt_byte_range){range.first + done, range.n_bytes - done});
        int part = part_of_shard(session, piece.shard);
        if (data != NULL) memcpy(data + done, parts[part] + bytes.n[part], (size_t)piece.n_bytes);
        bytes.n[part] += piece.n_bytes;
    }
    return bytes;
}

/* What this process has of the range, one piece after another. */
static dt_status *read_pieces(const dt_session *session, int variable, dt_byte_range range, char *to) {
    const dt_memory_domain *domain = &session->domains[0];
    size_t n;
    for (int64_t done = 0; done < range.n_bytes; done += (int64_t)n) {
        const char *source = address_in(session, domain, variable, (dt_byte_range){range.first + done, range.n_bytes - done}, &n);
        if (source == NULL) continue;
        DT_TRY(dt_device_read(domain->device, to, source, n));
        to += n;
    }
    return NULL;
}

/* What this process gives of a range: as a process of the first stage that has the variable its share, or, of what all have alike, as the first of
 * those that divide the microbatches all. */
static dt_byte_range given(const dt_session *session, int variable, dt_byte_range range) {
    const dt_byte_range own = dt_ranges_own(session, variable);
    int stage = session->stages != NULL ? dt_stage_first(session->stages->variables[variable]) : 0;
    bool is_shared_out = own.n_bytes < session->artifact->variables[variable].bytes || own.first > 0;
    bool gives = session->mesh.axes[DT_AXIS_STAGES].process == stage && (is_shared_out || session->mesh.axes[DT_AXIS_DATA].process == 0);
    return gives ? intersection(range, own) : (dt_byte_range){range.first, 0};
}

/* To the first process, from all in the order of their ranges: of each its pieces, which it copies to where they belong. */
static dt_status *collect_parts(dt_session *session, int variable, dt_byte_range range, const dt_step_context *context, void *data) {
    const dt_artifact_variable *about = &session->artifact->variables[variable];
    shard_bytes bytes = copy_pieces(session, variable, range, NULL, NULL);
    dt_byte_range here = given(session, variable, range);
    size_t own = (size_t)copy_pieces(session, variable, here, NULL, NULL).n[session->mesh.axes[DT_AXIS_MODEL].process];
    char *pieces = dt_host_memory_allocate(own + 1);
    dt_text all = {0};
    dt_status *status = pieces == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for a piece of %s", about->path) : NULL;
    if (status == NULL && own > 0)
        status = about->split.groups > 0 ? read_pieces(session, variable, here, pieces) : dt_ranges_read(session, 0, variable, here, pieces);
    if (status == NULL) status = dt_processes_gatherv(session->options.processes, pieces, own, context, &all);
    if (status == NULL && dt_session_leads(session)) {
        const char *parts[DT_MOST_SHARDS] = {all.data};
        for (int p = 1; p < n_over(session); p++) parts[p] = parts[p - 1] + bytes.n[p - 1];
        copy_pieces(session, variable, range, data, parts);
    }
    dt_text_free(&all);
    if (pieces != NULL) dt_processes_release(session->options.processes, dt_host_memory_release, pieces, own + 1);
    return status;
}

dt_status *dt_ranges_collect(dt_session *session, int variable, dt_byte_range range, const dt_step_context *context, void *data) {
    DT_TRY(dt_session_usable(session));
    if (dt_ranges_are_shared_out(&session->options, &session->artifact->variables[variable]))
        return collect_parts(session, variable, range, context, data);
    return dt_session_leads(session) ? dt_ranges_read(session, 0, variable, range, data) : NULL;
}
