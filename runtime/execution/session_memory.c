/* session_memory: what a session takes of its devices' memory, and whether that fits. All of it is known before anything is allocated. */
#include "runtime/devices/host_memory.h"
#include "runtime/execution/operations.h"
#include "runtime/execution/session_state.h"

#include <inttypes.h>
#include <stdio.h>

static bool in_domain(const dt_session *session, int executor, int domain) {
    return session->executors[executor].domain == &session->domains[domain];
}

/* What the caller takes of the memory of domain d. */
int64_t dt_session_caller_bytes(const dt_session *session, int d) { return session->spec.kind->is_gpu || d > 0 ? 0 : session->options.host_bytes; }

static int64_t sum_of(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* Tables of which steps take rows: they are beside the first domain. */
static int64_t tables_bytes(const dt_session *session, int d) {
    return d == 0 && session->options.by_rows && !session->options.initial_only ? dt_row_tables_bytes(session->artifact, session->options.processes)
                                                                                : 0;
}

/* What is there once, tables among it, and the caller's beside it. */
static int64_t once_bytes(const dt_session *session, int d) {
    const dt_memory_domain *domain = &session->domains[d];
    int64_t domain_bytes = dt_device_taken_bytes(domain->device, domain->bytes);
    return sum_of(tables_bytes(session, d), sum_of(domain_bytes, dt_session_caller_bytes(session, d)));
}

static int64_t executor_bytes(const dt_executor *executor) {
    return sum_of(dt_device_taken_bytes(executor->device, executor->memory.bytes), executor->prepare_bytes);
}

/* What a domain takes of its device's memory, and the caller beside it. */
int64_t dt_session_domain_bytes(const dt_session *session, int d) {
    int64_t bytes = once_bytes(session, d);
    for (int e = 0; e < session->n_executors; e++)
        if (in_domain(session, e, d)) bytes = sum_of(bytes, executor_bytes(&session->executors[e]));
    return bytes;
}

static double in_mib(int64_t bytes) { return (double)bytes / (double)(1 << 20); }

/* What the first of n processes would take, of as many cores and the same replicas, that share out so; or, of `over` processes that hold the shards
 * of the model, and all microbatches each. */
static int64_t bytes_over(const dt_session *session, int n, dt_sharing sharing, int over) {
    int n_all = session->n_all_microbatches, n_own = dt_microbatches_first_of_rank(1, n, n_all);
    int n_executors = session->n_executors < n_own ? session->n_executors : n_own;
    dt_process_roles roles = {.n_processes = n};
    dt_memory_domain domain = {.n_executors = n_executors,
                               .n_parts = n_executors,
                               .n_rounds = 1,
                               .n_shards = session->artifact->n_shards / over,
                               .layout = dt_state_layout_of(roles, sharing)};
    dt_memory_domain_lay_out(&domain, session->artifact, n_all, DT_ALL_FUNCTIONS, session->arena);
    int64_t bytes = domain.bytes;
    for (int e = 0; e < n_executors; e++) {
        dt_executor_memory memory = session->executors[0].memory;
        memory.domain = &domain;
        memory.first_microbatch = dt_microbatches_first_of_rank(e, n_executors, n_own);
        memory.n_microbatches = dt_microbatches_first_of_rank(e + 1, n_executors, n_own) - memory.first_microbatch;
        memory.n_together = 1;
        dt_executor_memory_lay_out(&memory, session->spec.kind, DT_ALL_FUNCTIONS, session->arena);
        bytes = sum_of(bytes, memory.bytes);
    }
    return bytes;
}

/* Over how many processes its shards would fit: "; with --shards-over 4 each of 4 processes needs 2378.7 MiB". */
static void print_what_shards_fit(const dt_session *session, int64_t available, dt_text *text) {
    for (int over = 2; over <= session->artifact->n_shards; over *= 2) {
        int64_t bytes = bytes_over(session, 1, DT_SHARES_NOTHING, over);
        if (bytes > available) continue;
        dt_text_format(text, "; with --shards-over %d each of %d processes needs %.1f MiB", over, over, in_mib(bytes));
        return;
    }
}

/* On how many processes it would fit: "; with --shard-parameters over 4 processes each needs 2378.7 MiB". */
static void print_what_fits(const dt_session *session, int64_t available, dt_text *text) {
    static const struct {
        const char *option;
        dt_sharing sharing;
    } kinds[] = {{"--shard-optimizer", DT_SHARES_OPTIMIZER}, {"--shard-parameters", DT_SHARES_PARAMETERS}};
    enum {
        MOST_PROCESSES = 64
    };
    bool is_one = session->n_processes == 1 && session->spec.kind->reads_host && !session->options.forward_only && !session->options.by_rows;
    if (is_one) print_what_shards_fit(session, available, text);
    for (int k = 0; k < 2 && is_one; k++)
        for (int n = 2; n <= session->options.replicas && n <= MOST_PROCESSES; n *= 2) {
            int64_t bytes = bytes_over(session, n, kinds[k].sharing, 1);
            if (bytes > available) continue;
            dt_text_format(text, "; with %s over %d processes each needs %.1f MiB", kinds[k].option, n, in_mib(bytes));
            break;
        }
}

static dt_status *does_not_fit(const dt_session *session, int d, int64_t needed, int64_t available) {
    const dt_memory_domain *domain = &session->domains[d];
    int64_t replica_bytes = dt_artifact_memory(session->artifact).replica;
    int64_t gathered_bytes = dt_artifact_gathered_memory(session->artifact).replica; /* more for each of all replicas */
    const dt_executor_memory *memory = &session->executors[d].memory;
    int64_t replicas = session->options.replicas;
    bool shared = session->spec.kind->shares_memory;
    const char *bound = "";
    char tables[80] = "", copy[80] = "";
    if (shared) dt_host_memory_find_free("", &bound);
    if (tables_bytes(session, d) > 0)
        snprintf(tables, sizeof tables, "; %.1f MiB for the rows of tables that this process has", in_mib(tables_bytes(session, d)));
    if (dt_session_caller_bytes(session, d) > 0)
        snprintf(copy, sizeof copy, "; %.1f MiB for the copy that checkpoints are written from", in_mib(dt_session_caller_bytes(session, d)));
    dt_text fits = {0};
    print_what_fits(session, available, &fits);
    dt_status *status =
        dt_error(DT_RESOURCE_EXHAUSTED,
                 "the plan needs %.1f MiB of %s%s memory (%.1f MiB for the weights and what else is stored once, %.1f MiB for each of "
                 "%d executor%s, and %.1f MiB for each of its replicas; %" PRId64 " replica%s in all%s%s), and %.1f MiB are free%s%s; use "
                 "fewer replicas, a smaller --global-batch%s, or compile for fewer rows",
                 in_mib(needed), shared ? "the machine" : domain->device->name, "'s", in_mib(domain->bytes),
                 in_mib(memory->microbatch_space.start + memory->slot_bytes * memory->slots), domain->n_executors, dt_plural(domain->n_executors),
                 in_mib(replica_bytes) + in_mib(gathered_bytes) * (double)replicas, replicas, dt_plural(replicas), tables, copy, in_mib(available),
                 bound, fits.data != NULL ? fits.data : "", shared ? ", fewer cores" : "");
    dt_text_free(&fits);
    return dt_artifact_suggest(status, session->artifact, "--batch", "N");
}

/* Lists of what is done for each microbatch, beside the plan. */
static dt_status *check_lists(const dt_session *session) {
    int64_t needed = 0, planned = 0, available = dt_host_memory_free_bytes();
    for (int e = 0; e < session->n_executors; e++)
        needed = sum_of(needed, dt_operations_bytes(session->artifact, session->executors[e].memory.n_microbatches));
    for (int d = 0; d < session->n_domains && session->spec.kind->shares_memory; d++) planned = sum_of(planned, dt_session_domain_bytes(session, d));
    if (sum_of(needed, planned) <= available) return NULL;
    return dt_error(DT_RESOURCE_EXHAUSTED,
                    "what is to be done for each microbatch of %" PRId64
                    " replica%s takes %.1f MiB of the machine's memory, and what is computed %.1f "
                    "MiB, of which %.1f MiB are free; use fewer replicas, with more rows each",
                    session->options.replicas, dt_plural(session->options.replicas), in_mib(needed), in_mib(planned), in_mib(available));
}

/* Before anything is allocated: does the plan fit? */
dt_status *dt_session_check_memory(const dt_session *session) {
    for (int d = 0; d < session->n_domains; d++) {
        int64_t needed = dt_session_domain_bytes(session, d), available = dt_device_free_bytes(session->domains[d].device);
        if (needed > available) return does_not_fit(session, d, needed, available);
    }
    DT_TRY(check_lists(session));
    int64_t host_bytes = session->spec.kind->is_gpu ? session->options.host_bytes : 0, available = host_bytes > 0 ? dt_host_memory_free_bytes() : 0;
    if (host_bytes <= available) return NULL;
    return dt_error(DT_RESOURCE_EXHAUSTED, "the copy that checkpoints are written from needs %.1f MiB of the machine's memory, and %.1f MiB are free",
                    in_mib(host_bytes), in_mib(available));
}

/* ---- asking ---- */

int64_t dt_session_memory_bytes(const dt_session *session) {
    int64_t bytes = 0;
    for (int d = 0; d < session->n_domains; d++) bytes = sum_of(bytes, dt_session_domain_bytes(session, d));
    return bytes;
}

static int64_t variable_bytes(const dt_session *session, int d, int v) {
    const dt_memory_domain *domain = &session->domains[d];
    if (session->artifact->variables[v].by_rows) return d == 0 ? dt_row_tables_variable_bytes(session->artifact, session->options.processes, v) : 0;
    bool has = dt_session_has_variable(session, v) && dt_memory_domain_has_variable(domain, v);
    const dt_artifact_variable *variable = &session->artifact->variables[v];
    int64_t bytes = has ? dt_state_layout_share(&domain->layout, session->artifact, variable).n_bytes : 0;
    return variable->split.groups > 0 ? bytes * domain->n_shards : bytes;
}

int64_t dt_session_variable_bytes(const dt_session *session, int variable) {
    int64_t bytes = 0;
    for (int d = 0; d < session->n_domains; d++) bytes += variable_bytes(session, d, variable);
    return bytes;
}

dt_session_device_bytes dt_session_bytes_of_device(const dt_session *session, int device) {
    dt_session_device_bytes bytes = {0};
    for (int d = 0; d < session->n_domains; d++) { /* domain d is the first one that executor d is in */
        if (dt_session_device_of_executor(session, d) != device) continue;
        bytes.all = sum_of(bytes.all, once_bytes(session, d));
        for (int v = 0; v < session->artifact->n_variables; v++) {
            bool is_slot = session->artifact->variables[v].kind == DT_VARIABLE_SLOT;
            *(is_slot ? &bytes.slots : &bytes.weights) += variable_bytes(session, d, v);
        }
    }
    for (int e = 0; e < session->n_executors; e++)
        if (dt_session_device_of_executor(session, e) == device) bytes.all = sum_of(bytes.all, executor_bytes(&session->executors[e]));
    return bytes;
}

/* "cuda:1, cuda:2 and cuda:3" */
static void print_computing(const dt_session *session, dt_text *text) {
    int n = dt_session_n_devices(session);
    for (int d = 1; d < n; d++) dt_text_format(text, "%s%s", d == 1 ? "" : d == n - 1 ? " and " : ", ", dt_session_device_name(session, d));
}

void dt_session_print_placement(const dt_session *session, dt_text *text) {
    int n = dt_session_n_devices(session);
    if (!session->options.central) return;
    if (n == 1) {
        dt_text_format(text, "central storage: there is one device, %s, which has the variables and computes too\n",
                       dt_session_device_name(session, 0));
    } else {
        bool shared = session->spec.kind->shares_memory;
        dt_text_format(text, "central storage: %s has the variables and updates them; ", dt_session_device_name(session, 0));
        print_computing(session, text);
        dt_text_format(text, " compute%s%s\n", n == 2 ? "s" : "",
                       !shared  ? ""
                       : n == 2 ? ", and reads them where they are"
                                : ", and read them where they are");
    }
    for (int d = 0; d < n; d++) {
        dt_session_device_bytes bytes = dt_session_bytes_of_device(session, d);
        dt_text_format(text, "memory of %s: %.3f MiB, of which %.3f MiB variables, %.3f MiB optimizer's states\n", dt_session_device_name(session, d),
                       in_mib(bytes.all), in_mib(bytes.weights), in_mib(bytes.slots));
    }
}
