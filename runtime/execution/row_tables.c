/* row_tables: see row_tables.h. */
#include "runtime/execution/row_tables.h"

#include "base/memory.h"
#include "runtime/devices/host_memory.h"
#include "runtime/execution/example_function.h"

#include <string.h>

enum {
    PIECE_BYTES = 16 << 20 /* of each process, on the way to process 0 at a time */
};

struct dt_row_tables {
    const dt_kernels *kernels;
    const dt_artifact *program;
    dt_processes *processes;
    char **memory; /* [n_variables] this process's rows; NULL: it has none of it */
};

/* ---- who has what ---- */

static int64_t row_bytes(const dt_artifact_variable *variable) { return variable->bytes / variable->tensor.dims[0]; }

static dt_row_range range_of(const dt_artifact_variable *variable, int process, dt_process_roles roles) {
    int64_t n = variable->tensor.dims[0], n_owners = dt_process_n_owners(roles);
    return (dt_row_range){n * dt_process_bound(roles, process) / n_owners, n * dt_process_bound(roles, process + 1) / n_owners};
}

dt_row_range dt_row_tables_of_process(const dt_row_tables *tables, int variable, int process) {
    return range_of(&tables->program->variables[variable], process, dt_processes_roles(tables->processes));
}

static dt_row_range own_rows(const dt_row_tables *tables, int variable) {
    return dt_row_tables_of_process(tables, variable, dt_processes_number(tables->processes));
}

static int64_t own_bytes(const dt_artifact *program, const dt_processes *processes, int variable) {
    const dt_artifact_variable *about = &program->variables[variable];
    dt_row_range own = range_of(about, dt_processes_number(processes), dt_processes_roles(processes));
    return (own.end - own.first) * row_bytes(about);
}

int64_t dt_row_tables_bytes(const dt_artifact *program, const dt_processes *processes) {
    int64_t bytes = 0;
    for (int v = 0; v < program->n_variables; v++)
        if (program->variables[v].by_rows) bytes += own_bytes(program, processes, v);
    return bytes;
}

/* ---- creating ---- */

dt_status *dt_row_tables_create(const dt_kernels *kernels, const dt_artifact *program, dt_processes *processes, dt_row_tables **tables) {
    dt_row_tables *made = dt_allocate_zeroed(1, sizeof *made);
    *tables = NULL;
    if (made != NULL) {
        *made = (dt_row_tables){.kernels = kernels, .program = program, .processes = processes};
        made->memory = dt_allocate_zeroed((size_t)program->n_variables, sizeof *made->memory);
    }
    bool fits = made != NULL && made->memory != NULL;
    for (int v = 0; v < program->n_variables && fits; v++) {
        int64_t bytes = program->variables[v].by_rows ? own_bytes(program, processes, v) : 0;
        if (bytes > 0) made->memory[v] = dt_host_memory_allocate((size_t)bytes);
        fits = bytes == 0 || made->memory[v] != NULL;
    }
    if (fits) {
        *tables = made;
        return NULL;
    }
    dt_row_tables_destroy(made);
    return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for this process's rows of tables, %.1f MiB",
                    (double)dt_row_tables_bytes(program, processes) / (1 << 20));
}

void dt_row_tables_destroy(dt_row_tables *tables) {
    if (tables == NULL) return;
    for (int v = 0; v < tables->program->n_variables && tables->memory != NULL; v++)
        if (tables->memory[v] != NULL) dt_host_memory_release(tables->memory[v], (size_t)own_bytes(tables->program, tables->processes, v));
    dt_release(tables->memory);
    dt_release(tables);
}

/* ---- initial values ---- */

static dt_status *initialize(dt_row_tables *tables, int variable, int64_t seed) {
    const dt_artifact_variable *about = &tables->program->variables[variable];
    dt_row_range own = own_rows(tables, variable);
    dt_example_function *init;
    DT_TRY(dt_example_function_create(tables->kernels, about->row_init, &init));
    char *to = tables->memory[variable];
    for (int64_t first = own.first, n; first < own.end; first += n, to += n * row_bytes(about)) {
        n = own.end - first < tables->program->microbatch_rows ? own.end - first : tables->program->microbatch_rows;
        dt_example_function_call_rows(init, NULL, first, n, seed);
        memcpy(to, dt_example_function_result(init, 0), (size_t)(n * row_bytes(about)));
    }
    dt_example_function_destroy(init);
    return NULL;
}

dt_status *dt_row_tables_initialize(dt_row_tables *tables, int64_t seed) {
    for (int v = 0; v < tables->program->n_variables; v++)
        if (tables->memory[v] != NULL) DT_TRY(initialize(tables, v, seed));
    return NULL;
}

/* ---- all rows ---- */

void dt_row_tables_get(const dt_row_tables *tables, int variable, void *data) {
    int64_t bytes = row_bytes(&tables->program->variables[variable]);
    dt_row_range own = own_rows(tables, variable);
    if (own.end > own.first) memcpy((char *)data + own.first * bytes, tables->memory[variable], (size_t)((own.end - own.first) * bytes));
}

void dt_row_tables_set(dt_row_tables *tables, int variable, const void *data) {
    int64_t bytes = row_bytes(&tables->program->variables[variable]);
    dt_row_range own = own_rows(tables, variable);
    if (own.end > own.first) memcpy(tables->memory[variable], (const char *)data + own.first * bytes, (size_t)((own.end - own.first) * bytes));
}

const void *dt_row_tables_memory(const dt_row_tables *tables, int variable) {
    dt_row_range own = own_rows(tables, variable);
    return own.end - own.first == tables->program->variables[variable].tensor.dims[0] ? tables->memory[variable] : NULL;
}

/* Bytes of a process's rows from byte `at` on, at most those of a piece. */
static size_t piece_bytes(const dt_row_tables *tables, int variable, int process, int64_t at) {
    dt_row_range rows = dt_row_tables_of_process(tables, variable, process);
    int64_t n = (rows.end - rows.first) * row_bytes(&tables->program->variables[variable]) - at;
    return n <= 0 ? 0 : n < PIECE_BYTES ? (size_t)n : PIECE_BYTES;
}

static void place(const dt_row_tables *tables, int variable, int64_t at, const char *pieces, char *data) {
    for (int p = 0; p < dt_processes_count(tables->processes); p++) {
        size_t n = piece_bytes(tables, variable, p, at);
        int64_t first = dt_row_tables_of_process(tables, variable, p).first * row_bytes(&tables->program->variables[variable]);
        if (n > 0) memcpy(data + first + at, pieces, n);
        pieces += n;
    }
}

dt_status *dt_row_tables_collect(const dt_row_tables *tables, int variable, void *data) {
    int n_processes = dt_processes_count(tables->processes), here = dt_processes_number(tables->processes);
    int64_t most = 0;
    for (int p = 0; p < n_processes; p++) {
        dt_row_range rows = dt_row_tables_of_process(tables, variable, p);
        int64_t n = (rows.end - rows.first) * row_bytes(&tables->program->variables[variable]);
        if (n > most) most = n;
    }
    dt_status *status = NULL;
    for (int64_t at = 0; at < most && status == NULL; at += PIECE_BYTES) {
        dt_text pieces = {0};
        size_t n = piece_bytes(tables, variable, here, at);
        status = dt_processes_gather_bytes(tables->processes, n > 0 ? tables->memory[variable] + at : "", n, &pieces);
        if (status == NULL && here == 0) place(tables, variable, at, pieces.data, data);
        dt_text_free(&pieces);
    }
    return status;
}

/* ---- some rows ---- */

void dt_row_tables_take(const dt_row_tables *tables, int variable, const int64_t *rows, int64_t n, float *values) {
    int64_t bytes = row_bytes(&tables->program->variables[variable]), first = own_rows(tables, variable).first;
    for (int64_t i = 0; i < n; i++) memcpy((char *)values + i * bytes, tables->memory[variable] + (rows[i] - first) * bytes, (size_t)bytes);
}

void dt_row_tables_put(dt_row_tables *tables, int variable, const int64_t *rows, int64_t n, const float *values) {
    int64_t bytes = row_bytes(&tables->program->variables[variable]), first = own_rows(tables, variable).first;
    for (int64_t i = 0; i < n; i++) memcpy(tables->memory[variable] + (rows[i] - first) * bytes, (const char *)values + i * bytes, (size_t)bytes);
}
