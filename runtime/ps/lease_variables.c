/* lease_variables: see the header. */
#include "runtime/ps/lease_variables.h"

#include "base/memory.h"
#include "runtime/execution/ranges.h"
#include "runtime/ps/lease_steps.h"

enum {
    PIECE_BYTES = 16 << 20 /* of a variable, in a message */
};

static void release_piece(void *owner) { dt_release(owner); }

/* ---- servers ---- */

static bool *find_wanted(const dt_artifact *artifact, int step) {
    bool *wanted = dt_allocate_zeroed((size_t)artifact->n_variables + 1, sizeof *wanted);
    if (wanted != NULL && step >= 0) dt_ps_find_own_updates(artifact, step, wanted);
    for (int v = 0; wanted != NULL && step < 0 && v < artifact->n_variables; v++)
        wanted[v] = artifact->variables[v].kind != DT_VARIABLE_SLOT && !artifact->variables[v].by_rows;
    return wanted;
}

/* What this server gives of it: what all have is server 0's to give. */
static dt_byte_range part_to_give(const dt_session *session, const dt_ps_giving *giving, int variable) {
    dt_byte_range own = dt_ranges_own(session, variable);
    return giving->leads || own.n_bytes < dt_session_artifact(session)->variables[variable].bytes ? own : (dt_byte_range){0, 0};
}

static dt_status *give_piece(dt_session *session, const dt_ps_giving *giving, int v, dt_byte_range part) {
    char *piece = dt_allocate((size_t)part.n_bytes);
    if (piece == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    dt_status *status = dt_ranges_read(session, 0, v, part, piece);
    if (status != NULL) {
        dt_release(piece);
        return status;
    }
    dt_ps_message message = {.kind = DT_PS_VARIABLE};
    message.variable = (dt_ps_variable){.plan = giving->plan, .variable = (uint32_t)v, .first = (uint64_t)part.first};
    message.payload = (dt_ps_payload){.data = piece, .bytes = (size_t)part.n_bytes, .release = release_piece, .owner = piece};
    return giving->post(giving->context, message);
}

static dt_status *give_variable(dt_session *session, const dt_ps_giving *giving, int v) {
    dt_byte_range part = part_to_give(session, giving, v);
    for (int64_t at = 0; at < part.n_bytes; at += PIECE_BYTES) {
        int64_t n = part.n_bytes - at < PIECE_BYTES ? part.n_bytes - at : PIECE_BYTES;
        DT_TRY(give_piece(session, giving, v, (dt_byte_range){part.first + at, n}));
    }
    return NULL;
}

dt_status *dt_ps_give_variables(dt_session *session, const dt_ps_giving *giving) {
    const dt_artifact *artifact = dt_session_artifact(session);
    bool *wanted = find_wanted(artifact, giving->step);
    dt_status *status = wanted == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    for (int v = 0; v < artifact->n_variables && status == NULL; v++)
        if (wanted[v]) status = give_variable(session, giving, v);
    dt_release(wanted);
    if (status != NULL) return status;
    return giving->post(giving->context, (dt_ps_message){.kind = DT_PS_PULLED, .pulled = {.plan = giving->plan}});
}

/* ---- workers ---- */

static dt_status *set_piece(dt_session *session, const dt_ps_message *piece, int64_t *n_set) {
    const dt_artifact *artifact = dt_session_artifact(session);
    uint32_t v = piece->variable.variable;
    int64_t first = (int64_t)piece->variable.first, n = (int64_t)piece->payload.bytes;
    bool is_known = v < (uint32_t)artifact->n_variables && !artifact->variables[v].by_rows && artifact->variables[v].kind != DT_VARIABLE_SLOT;
    if (!is_known || first > artifact->variables[v].bytes - n) return dt_error(DT_DATA_LOSS, "a server sent a piece of no variable");
    n_set[v] += n;
    return dt_ranges_write(session, (int)v, (dt_byte_range){first, n}, piece->payload.data);
}

dt_status *dt_ps_set_variables(dt_session *session, const dt_ps_message *pieces, size_t n) {
    const dt_artifact *artifact = dt_session_artifact(session);
    int64_t *n_set = dt_allocate_zeroed((size_t)artifact->n_variables + 1, sizeof *n_set);
    dt_status *status = n_set == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    for (size_t i = 0; i < n && status == NULL; i++) status = set_piece(session, &pieces[i], n_set);
    for (int v = 0; v < artifact->n_variables && status == NULL; v++)
        if (n_set[v] != 0 && n_set[v] != artifact->variables[v].bytes)
            status = dt_error(DT_DATA_LOSS, "servers sent %lld of the %lld bytes of %s", (long long)n_set[v], (long long)artifact->variables[v].bytes,
                              artifact->variables[v].path);
    dt_release(n_set);
    return status;
}
