/* launch: values that a program reads at each step, by name. */
#include "runtime/dtrt/processes.h"
#include "runtime/execution/launch_values.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Those that every program may read. */
typedef enum built_in {
    SEED,
    EPOCHS,
    STEPS_PER_EPOCH,
    COUNTER,
    N_BUILT_IN
} built_in;

static const char *const names[N_BUILT_IN] = {"seed", "epochs", "steps_per_epoch", "counter"};

/* N_BUILT_IN: it is none of them. */
static built_in find(const char *name) {
    int i = 0;
    while (i < N_BUILT_IN && strcmp(names[i], name) != 0) i++;
    return (built_in)i;
}

/* They go before what a program declares. */
static bool is_built_in(const char *name) { return find(name) != N_BUILT_IN; }

static dt_status *set_integer(dtrt_session *session, const char *name, int64_t value) {
    built_in which = find(name);
    const dt_session_options *now = dt_session_get_options(session->session);
    if (which != SEED && (value < 0 || value > DT_MOST_COUNT))
        return dt_error(DT_INVALID_ARGUMENT, "launch value %s cannot be %" PRId64, name, value);
    switch (which) {
    case SEED:
        session->options.seed = value;
        dt_session_set_seed(session->session, value);
        break;
    case EPOCHS: dt_session_set_length(session->session, value, now->steps_per_epoch); break;
    case STEPS_PER_EPOCH: dt_session_set_length(session->session, now->epochs, value); break;
    default: session->progress.step = value; break;
    }
    return NULL;
}

static int64_t get_integer(const dtrt_session *session, const char *name) {
    const dt_session_options *now = dt_session_get_options(session->session);
    switch (find(name)) {
    case SEED: return now->seed;
    case EPOCHS: return now->epochs;
    case STEPS_PER_EPOCH: return now->steps_per_epoch;
    default: return session->progress.step;
    }
}

static bool is_whole(double value) { return value == floor(value) && fabs(value) <= 0x1p53; }

static dt_status *set_number(dtrt_session *session, const char *name, double value) {
    int variable;
    if (is_built_in(name))
        return is_whole(value) ? set_integer(session, name, (int64_t)value)
                               : dt_error(DT_INVALID_ARGUMENT, "launch value %s is a whole number, which %g is not", name, value);
    DT_TRY(dt_launch_find(session->artifact, name, &variable));
    return dt_session_set_launch(session->session, variable, value);
}

static dt_status *get_number(dtrt_session *session, const char *name, double *value) {
    int variable;
    if (is_built_in(name)) {
        *value = (double)get_integer(session, name);
        return NULL;
    }
    DT_TRY(dt_launch_find(session->artifact, name, &variable));
    return dt_session_get_launch(session->session, variable, value);
}

/* A declared value holds whole numbers within 2^53, which a double has all of. */
static dt_status *set_declared_integer(dtrt_session *session, const char *name, int64_t value) {
    int variable;
    DT_TRY(dt_launch_find(session->artifact, name, &variable));
    if (value > DT_MOST_COUNT || value < -DT_MOST_COUNT)
        return dt_error(DT_INVALID_ARGUMENT, "launch value %s cannot be %" PRId64 ": whole numbers of a program's own are within 2^53", name, value);
    return dt_session_set_launch(session->session, variable, (double)value);
}

/* The run has the others. */
static dt_status *set_in_callback(dtrt_session *session, const char *name, double value) {
    if (is_built_in(name))
        return dt_error(DT_FAILED_PRECONDITION, "launch value %s is the run's while it trains: a callback sets those that the program declares",
                        name);
    return set_number(session, name, value);
}

dt_status *dtrt_set_launch(dtrt_session *session, const char *name, double value) {
    DT_TRY(dt_api_need(name, "name"));
    DT_TRY(dt_api_enter_to_set(session));
    if (session->n_readers > 0) return dt_api_leave(session, set_in_callback(session, name, value));
    dt_api_call call = {.name = "dtrt_set_launch", .hash = dt_hash_bytes(&value, sizeof value, dt_api_mix_text(DT_HASH_SEED, name))};
    dt_status *status = dt_api_agree(session, &call, NULL);
    return dt_api_leave(session, status != NULL ? status : set_number(session, name, value));
}

dt_status *dtrt_get_launch(dtrt_session *session, const char *name, double *value) {
    DT_TRY(dt_api_need(name, "name"));
    DT_TRY(dt_api_need(value, "value"));
    *value = 0;
    DT_TRY(dt_api_enter_to_read(session));
    return dt_api_leave(session, get_number(session, name, value));
}

dt_status *dtrt_set_launch_integer(dtrt_session *session, const char *name, int64_t value) {
    DT_TRY(dt_api_need(name, "name"));
    DT_TRY(dt_api_enter(session));
    dt_api_call call = {.name = "dtrt_set_launch_integer", .hash = dt_api_mix_integer(dt_api_mix_text(DT_HASH_SEED, name), value)};
    dt_status *status = dt_api_agree(session, &call, NULL);
    if (status != NULL) return dt_api_leave(session, status);
    return dt_api_leave(session, is_built_in(name) ? set_integer(session, name, value) : set_declared_integer(session, name, value));
}

dt_status *dtrt_get_launch_integer(dtrt_session *session, const char *name, int64_t *value) {
    double number = 0;
    DT_TRY(dt_api_need(name, "name"));
    DT_TRY(dt_api_need(value, "value"));
    *value = 0;
    DT_TRY(dt_api_enter_to_read(session));
    if (is_built_in(name)) {
        *value = get_integer(session, name);
        return dt_api_leave(session, NULL);
    }
    dt_status *status = get_number(session, name, &number);
    if (status == NULL && !is_whole(number)) status = dt_error(DT_INVALID_ARGUMENT, "launch value %s is %g, no whole number", name, number);
    if (status == NULL) *value = (int64_t)number;
    return dt_api_leave(session, status);
}

/* ---- which there are ---- */

/* The variable of the program's launch value `number`, from 0; -1: it has not so many. */
static int declared(const dt_artifact *artifact, int number) {
    for (int v = 0; v < artifact->n_variables; v++)
        if (artifact->variables[v].kind == DT_VARIABLE_LAUNCH && number-- == 0) return v;
    return -1;
}

int dt_api_n_launch_values(const dt_artifact *artifact) {
    int n = 0;
    while (declared(artifact, n) >= 0) n++;
    return N_BUILT_IN + n;
}

dt_status *dtrt_describe_launch_value(const dtrt_program *program, int value, const char **name) {
    DT_TRY(dt_api_need(name, "name"));
    *name = NULL;
    DT_TRY(dt_api_need(program, "program"));
    const dt_artifact *artifact = dt_program_artifact(program);
    DT_TRY(dt_api_check_index(value, dt_api_n_launch_values(artifact), "launch value"));
    *name = value < N_BUILT_IN ? names[value] : artifact->variables[declared(artifact, value - N_BUILT_IN)].path;
    return NULL;
}
