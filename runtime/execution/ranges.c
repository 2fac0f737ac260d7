/* ranges: see ranges.h. */
#include "runtime/execution/ranges.h"

#include "base/memory.h"
#include "runtime/devices/host_memory.h"
#include "runtime/execution/session_state.h"

#include <string.h>

/* ---- who has what ---- */

dt_status *dt_ranges_layout_of(const dt_artifact *artifact, const dt_session_options *options, dt_arena *arena, dt_ranges_layout *layout) {
    *layout = (dt_ranges_layout){artifact, options, NULL};
    return options->stages > 1 ? dt_stages_of(artifact, DT_ALL_FUNCTIONS, (int)options->stages, arena, &layout->stages) : NULL;
}

static bool is_table(const dt_ranges_layout *of, const dt_artifact_variable *variable) { return of->options->by_rows && variable->row_init >= 0; }

static dt_mesh mesh_of(const dt_ranges_layout *of) {
    return dt_mesh_of(dt_processes_roles(of->options->processes), of->options->shards_over, of->options->stages);
}

/* What number `process` of those that divide the microbatches has of a variable, or of the part of each of its shards. */
static dt_byte_range share_of(const dt_ranges_layout *of, const dt_artifact_variable *variable, dt_process_roles roles, int process) {
    if (is_table(of, variable)) {
        int64_t bytes = variable->bytes / variable->tensor.dims[0];
        dt_row_range rows = dt_row_tables_rows(variable, roles, process);
        return (dt_byte_range){rows.first * bytes, (rows.end - rows.first) * bytes};
    }
    roles.process = process;
    dt_state_layout layout = dt_state_layout_of(roles, dt_sharing_of(of->options->shard_optimizer, of->options->shard_parameters));
    return dt_state_layout_share(&layout, of->artifact, variable);
}

/* Of all of it, or of a shard's part: whether that is all that there is. One of several may own all that there is. */
static bool are_shares(const dt_ranges_layout *of, const dt_artifact_variable *variable, dt_process_roles roles) {
    int64_t all = dt_artifact_shard_bytes(of->artifact, variable);
    int second = dt_process_n_owners(roles) > 1 ? 1 : 0;
    return share_of(of, variable, roles, 0).n_bytes < all || share_of(of, variable, roles, second).n_bytes < all;
}

static bool is_over_processes(const dt_ranges_layout *of, const dt_artifact_variable *variable) {
    return of->options->stages > 1 || (of->options->shards_over > 1 && variable->split.groups > 0);
}

bool dt_ranges_are_shared_out(const dt_ranges_layout *of, int variable) {
    const dt_artifact_variable *about = &of->artifact->variables[variable];
    return is_over_processes(of, about) || are_shares(of, about, mesh_of(of).axes[DT_AXIS_DATA]);
}

/* Who has byte `at` of what is in shares, which are in order. */
static int owner_of(const dt_ranges_layout *of, const dt_artifact_variable *variable, dt_process_roles roles, int64_t at) {
    int first = 0, end = dt_process_n_owners(roles);
    while (end - first > 1) {
        int middle = first + (end - first) / 2;
        if (share_of(of, variable, roles, middle).first <= at)
            first = middle;
        else
            end = middle;
    }
    return first;
}

/* What a range begins with that is in one place of one process, or of several alike: number `data` and `model` along these axes, -1: any, of the
 * first of its stages. */
typedef struct run {
    int64_t n_bytes;
    int data, model, stage;
} run;

static int stage_of(const dt_ranges_layout *of, int v) {
    return of->stages != NULL && of->stages->variables[v] != 0 ? dt_stage_first(of->stages->variables[v]) : 0;
}

static run run_at(const dt_ranges_layout *of, int v, dt_byte_range range) {
    const dt_artifact_variable *variable = &of->artifact->variables[v];
    const dt_mesh mesh = mesh_of(of);
    const bool is_split = variable->split.groups > 0;
    dt_shard_piece piece = dt_shard_piece_at(variable, of->artifact->n_shards, range);
    run found = {piece.n_bytes, -1, -1, stage_of(of, v)};
    if (is_split) found.model = piece.shard / (of->artifact->n_shards / mesh.axes[DT_AXIS_MODEL].n_processes);
    if (!are_shares(of, variable, mesh.axes[DT_AXIS_DATA])) return found;
    found.data = owner_of(of, variable, mesh.axes[DT_AXIS_DATA], piece.at);
    dt_byte_range share = share_of(of, variable, mesh.axes[DT_AXIS_DATA], found.data);
    if (found.n_bytes > share.first + share.n_bytes - piece.at) found.n_bytes = share.first + share.n_bytes - piece.at;
    return found;
}

/* Part `i` of n of what several have alike, as even as cache lines can be. */
static dt_byte_range divide(dt_byte_range alike, int i, int n) {
    enum {
        LINE = 64
    };
    int64_t first = i == 0 ? 0 : (int64_t)((__int128)alike.n_bytes * i / n) / LINE * LINE;
    int64_t end = i + 1 == n ? alike.n_bytes : (int64_t)((__int128)alike.n_bytes * (i + 1) / n) / LINE * LINE;
    return (dt_byte_range){alike.first + first, end - first};
}

void dt_ranges_give(const dt_ranges_layout *of, int v, int process, dt_arena *arena, dt_strided_ranges *given) {
    const dt_artifact_variable *variable = &of->artifact->variables[v];
    dt_process_roles all = dt_processes_roles(of->options->processes);
    all.process = process;
    const dt_mesh mesh = dt_mesh_of(all, of->options->shards_over, of->options->stages);
    const dt_process_roles data = mesh.axes[DT_AXIS_DATA], model = mesh.axes[DT_AXIS_MODEL];
    bool is_in_shares = are_shares(of, variable, data), is_in_parts = variable->split.groups > 0 && (is_in_shares || model.n_processes > 1);
    if (mesh.axes[DT_AXIS_STAGES].process != stage_of(of, v) || !dt_process_owns(data, data.process)) return;
    dt_byte_range own = {0, is_in_parts ? dt_artifact_shard_bytes(of->artifact, variable) : variable->bytes};
    own = is_in_shares ? share_of(of, variable, data, data.process) : divide(own, data.process, dt_process_n_owners(data));
    if (!is_in_parts) {
        own = divide(own, model.process, model.n_processes);
        if (own.n_bytes > 0) dt_list_push(arena, given, ((dt_strided_range){own.first, own.n_bytes, 0, 1}));
        return;
    }
    int n_held = of->artifact->n_shards / model.n_processes;
    for (int shard = model.process * n_held; shard < (model.process + 1) * n_held; shard++) {
        dt_strided_range found[DT_SHARD_RANGES];
        int n = dt_shard_ranges(variable, of->artifact->n_shards, shard, own, found);
        for (int i = 0; i < n; i++) dt_list_push(arena, given, found[i]);
    }
}

static dt_ranges_layout layout_of(const dt_session *session) { return (dt_ranges_layout){session->artifact, &session->options, session->stages}; }

/* What this process has of a variable, or of the part of each of its shards. */
static dt_byte_range own_share(const dt_session *session, const dt_artifact_variable *variable) {
    const dt_ranges_layout layout = layout_of(session);
    return share_of(&layout, variable, session->mesh.axes[DT_AXIS_DATA], session->mesh.axes[DT_AXIS_DATA].process);
}

dt_byte_range dt_ranges_own(const dt_session *session, int v) {
    const dt_artifact_variable *variable = &session->artifact->variables[v];
    return variable->split.groups > 0 ? (dt_byte_range){0, variable->bytes} : own_share(session, variable);
}

bool dt_ranges_have_all(const dt_session *session, int v) {
    const dt_artifact_variable *variable = &session->artifact->variables[v];
    const dt_ranges_layout layout = layout_of(session);
    return own_share(session, variable).n_bytes == dt_artifact_shard_bytes(session->artifact, variable) && !is_over_processes(&layout, variable);
}

static dt_byte_range intersection(dt_byte_range a, dt_byte_range b) {
    int64_t first = a.first > b.first ? a.first : b.first, a_end = a.first + a.n_bytes, b_end = b.first + b.n_bytes;
    int64_t end = a_end < b_end ? a_end : b_end;
    return end > first ? (dt_byte_range){first, end - first} : (dt_byte_range){a.first, 0};
}

/* ---- where it is ---- */

static char *table_of(const dt_session *session, int variable) { return dt_row_tables_memory(dt_row_steps_tables(session->rows), variable); }

/* The bytes that a range begins with, of a domain that has them: as many as lie side by side. NULL: another process has them. */
static char *address_in(const dt_session *session, const dt_memory_domain *domain, int variable, dt_byte_range range, size_t *n_bytes) {
    const dt_artifact_variable *about = &session->artifact->variables[variable];
    bool is_own;
    dt_shard_piece piece = dt_shard_piece_of(about, session->artifact->n_shards, range, own_share(session, about), &is_own);
    int held = about->split.groups > 0 ? dt_memory_domain_find_shard(domain, piece.shard) : 0;
    *n_bytes = (size_t)piece.n_bytes;
    return held < 0 || !is_own ? NULL : dt_memory_domain_variable(domain, variable, held) + piece.at;
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

/* Which process gives a run: the first one that has it. */
static int giver_of(const dt_session *session, const run *run) {
    const dt_process_roles *axes = session->mesh.axes;
    int data = run->data > 0 ? run->data : 0, model = run->model > 0 ? run->model : 0;
    return (run->stage * axes[DT_AXIS_DATA].n_processes + data) * axes[DT_AXIS_MODEL].n_processes + model;
}

/* Of a range, run by run: how many bytes each process gives, [processes]. From `to` on what this one gives, one run after another, unless that is
 * NULL; or to their places in `all` what all give, of whom each one's begin at `parts`, which are moved. */
static dt_status *go_through(dt_session *session, int variable, dt_byte_range range, int64_t *n_bytes, char *to, char *all, const char **parts) {
    const dt_ranges_layout layout = layout_of(session);
    run one;
    for (int64_t done = 0; done < range.n_bytes; done += one.n_bytes) {
        one = run_at(&layout, variable, (dt_byte_range){range.first + done, range.n_bytes - done});
        int giver = giver_of(session, &one);
        if (n_bytes != NULL) n_bytes[giver] += one.n_bytes;
        if (to != NULL && giver == session->process) {
            DT_TRY(dt_ranges_read(session, 0, variable, (dt_byte_range){range.first + done, one.n_bytes}, to));
            to += one.n_bytes;
        }
        if (all == NULL) continue;
        memcpy(all + done, parts[giver], (size_t)one.n_bytes);
        parts[giver] += one.n_bytes;
    }
    return NULL;
}

static dt_status *collect_parts(dt_session *session, int variable, dt_byte_range range, const dt_step_context *context, void *data) {
    const char *path = session->artifact->variables[variable].path;
    int64_t *n_bytes = dt_allocate_zeroed((size_t)session->n_processes, sizeof *n_bytes);
    const char **parts = dt_allocate_zeroed((size_t)session->n_processes, sizeof *parts);
    char *pieces = NULL;
    size_t own = 0;
    dt_text all = {0};
    dt_status *status = n_bytes == NULL || parts == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for a piece of %s", path) : NULL;
    if (status == NULL) status = go_through(session, variable, range, n_bytes, NULL, NULL, NULL);
    if (status == NULL) {
        own = (size_t)n_bytes[session->process];
        pieces = dt_host_memory_allocate(own + 1);
        if (pieces == NULL) status = dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for a piece of %s", path);
    }
    if (status == NULL) status = go_through(session, variable, range, NULL, pieces, NULL, NULL);
    if (status == NULL) status = dt_processes_gatherv(session->options.processes, pieces, own, context, &all);
    if (status == NULL && dt_session_leads(session)) {
        parts[0] = all.data;
        for (int p = 1; p < session->n_processes; p++) parts[p] = parts[p - 1] + n_bytes[p - 1];
        status = go_through(session, variable, range, NULL, NULL, data, parts);
    }
    dt_text_free(&all);
    dt_release(n_bytes);
    dt_release(parts);
    if (pieces != NULL) dt_processes_release(session->options.processes, dt_host_memory_release, pieces, own + 1);
    return status;
}

dt_status *dt_ranges_collect(dt_session *session, int variable, dt_byte_range range, const dt_step_context *context, void *data) {
    const dt_ranges_layout layout = layout_of(session);
    DT_TRY(dt_session_usable(session));
    if (dt_ranges_are_shared_out(&layout, variable)) return collect_parts(session, variable, range, context, data);
    return dt_session_leads(session) ? dt_ranges_read(session, 0, variable, range, data) : NULL;
}
