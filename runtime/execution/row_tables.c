/* row_tables: see row_tables.h. */
#include "runtime/execution/row_tables.h"

#include "base/memory.h"
#include "runtime/devices/host_memory.h"
#include "runtime/execution/example_function.h"

#include <string.h>

struct dt_row_tables {
    const dt_kernels *kernels;
    const dt_artifact *program;
    dt_processes *processes;
    char **memory; /* [n_variables] this process's rows; NULL: it has none of it */
};

/* ---- who has what ---- */

static int64_t row_bytes(const dt_artifact_variable *variable) { return variable->bytes / variable->tensor.dims[0]; }

dt_row_range dt_row_tables_rows(const dt_artifact_variable *variable, dt_process_roles roles, int process) {
    int64_t n = variable->tensor.dims[0], n_owners = dt_process_n_owners(roles);
    return (dt_row_range){n * dt_process_bound(roles, process) / n_owners, n * dt_process_bound(roles, process + 1) / n_owners};
}

dt_row_range dt_row_tables_of_process(const dt_row_tables *tables, int variable, int process) {
    return dt_row_tables_rows(&tables->program->variables[variable], dt_processes_roles(tables->processes), process);
}

static dt_row_range own_rows(const dt_row_tables *tables, int variable) {
    return dt_row_tables_of_process(tables, variable, dt_processes_roles(tables->processes).process);
}

int64_t dt_row_tables_variable_bytes(const dt_artifact *program, const dt_processes *processes, int variable) {
    const dt_artifact_variable *about = &program->variables[variable];
    dt_process_roles roles = dt_processes_roles(processes);
    dt_row_range own = dt_row_tables_rows(about, roles, roles.process);
    return (own.end - own.first) * row_bytes(about);
}

int64_t dt_row_tables_bytes(const dt_artifact *program, const dt_processes *processes) {
    int64_t bytes = 0;
    for (int v = 0; v < program->n_variables; v++)
        if (program->variables[v].by_rows) bytes += dt_row_tables_variable_bytes(program, processes, v);
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
        int64_t bytes = program->variables[v].by_rows ? dt_row_tables_variable_bytes(program, processes, v) : 0;
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
        if (tables->memory[v] != NULL)
            dt_host_memory_release(tables->memory[v], (size_t)dt_row_tables_variable_bytes(tables->program, tables->processes, v));
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

char *dt_row_tables_memory(const dt_row_tables *tables, int variable) { return tables->memory[variable]; }

/* ---- some rows ---- */

void dt_row_tables_take(const dt_row_tables *tables, int variable, const int64_t *rows, int64_t n, float *values) {
    int64_t bytes = row_bytes(&tables->program->variables[variable]), first = own_rows(tables, variable).first;
    for (int64_t i = 0; i < n; i++) memcpy((char *)values + i * bytes, tables->memory[variable] + (rows[i] - first) * bytes, (size_t)bytes);
}

dt_status *dt_row_tables_copy(const dt_row_tables *tables, int variable, const int64_t *rows, int64_t n, char **values, size_t *bytes) {
    dt_row_range own = own_rows(tables, variable);
    for (int64_t i = 0; i < n; i++)
        if (rows[i] < own.first || rows[i] >= own.end || (i > 0 && rows[i] <= rows[i - 1]))
            return dt_error(DT_DATA_LOSS, "row %lld of %s is asked for, where this process has rows %lld to %lld, in order", (long long)rows[i],
                            tables->program->variables[variable].path, (long long)own.first, (long long)own.end - 1);
    *bytes = (size_t)(n * row_bytes(&tables->program->variables[variable]));
    *values = dt_allocate(*bytes + 1);
    if (*values == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for %lld rows", (long long)n);
    dt_row_tables_take(tables, variable, rows, n, (float *)(void *)*values);
    return NULL;
}

void dt_row_tables_put(dt_row_tables *tables, int variable, const int64_t *rows, int64_t n, const float *values) {
    int64_t bytes = row_bytes(&tables->program->variables[variable]), first = own_rows(tables, variable).first;
    for (int64_t i = 0; i < n; i++) memcpy(tables->memory[variable] + (rows[i] - first) * bytes, (const char *)values + i * bytes, (size_t)bytes);
}
