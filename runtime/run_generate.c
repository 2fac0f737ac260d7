/* run_generate: text, byte by byte, from a step that says what comes next:
 *
 *   step sample(text: u8[B, T], length: i32[B], temperature: f32[B]) { … return next: … }       next: u8[B]; the temperature may be left out
 *
 * It gets a window of T bytes: the last ones of the text so far, from the window's beginning on, `length` of them, then zeros. What it draws at
 * random is drawn anew for each byte, by the language's own generator: the same seed gives the same text. */
#include "base/memory.h"
#include "base/text.h"
#include "runtime/artifact/type_text.h"
#include "runtime/run.h"

#include <inttypes.h>
#include <string.h>

typedef struct generation {
    const dt_artifact_step *about;
    const dt_artifact_function *function;
    dt_session *session;
    int step;
    int64_t window;      /* T */
    char *memory;        /* of the inputs, one row each */
    unsigned char *text; /* [T], of which `length` are there */
    int32_t *length;
    const void *inputs[3];
} generation;

static bool is_input(const dt_artifact_function *function, int i, dt_dtype dtype, int n_dims) {
    const dt_artifact_tensor *tensor = &function->inputs[i];
    return tensor->dtype == dtype && tensor->has_rows && tensor->n_dims == n_dims;
}

static dt_status *not_a_step(const generation *all) {
    dt_text has = {0};
    for (int i = 0; i < all->function->n_inputs; i++) {
        const dt_artifact_tensor *input = &all->function->inputs[i];
        dt_text_format(&has, "%s%s: ", i > 0 ? ", " : "", input->name);
        dt_text_append_type(&has, input->dtype, input->n_dims, input->dims);
    }
    dt_text_append(&has, ") returns (");
    for (int i = all->about->n_aggregates; i < all->function->n_results; i++) {
        const dt_artifact_tensor *result = &all->function->results[i].tensor;
        dt_text_format(&has, "%s%s: ", i > all->about->n_aggregates ? ", " : "", result->name);
        dt_text_append_type(&has, result->dtype, result->n_dims, result->dims);
    }
    dt_status *status = dt_error(DT_INVALID_ARGUMENT,
                                 "step %s(%s): text comes from a step of (text: u8[B, T], length: i32[B]), or of (text: u8[B, T], length: i32[B], "
                                 "temperature: f32[B]), that returns the next byte, u8[B]",
                                 all->about->name, has.data != NULL ? has.data : "");
    dt_text_free(&has);
    return status;
}

static dt_status *check_step(generation *all, const dt_run_options *options) {
    const dt_artifact_function *function = all->function;
    if (all->about->trains) return dt_error(DT_INVALID_ARGUMENT, "step %s trains: run it with `dtrun train`", all->about->name);
    bool takes = (function->n_inputs == 2 || (function->n_inputs == 3 && is_input(function, 2, DT_F32, 1))) && is_input(function, 0, DT_U8, 2) &&
                 is_input(function, 1, DT_I32, 1) && function->inputs[0].dims[1] > 0;
    if (!takes || function->n_results != all->about->n_aggregates + 1) return not_a_step(all);
    const dt_artifact_tensor *next = &function->results[all->about->n_aggregates].tensor;
    if (next->dtype != DT_U8 || !next->has_rows || next->n_dims != 1) return not_a_step(all);
    if (options->has_temperature && function->n_inputs < 3)
        return dt_error(DT_INVALID_ARGUMENT, "step %s takes no temperature: give it a third input, temperature: f32[B]", all->about->name);
    all->window = function->inputs[0].dims[1];
    return NULL;
}

/* The inputs, each with what vector code may read after it. The window is filled with the end of the prompt. */
static dt_status *make_inputs(generation *all, const dt_run_options *options, dt_log *log) {
    size_t n_text = ((size_t)all->window + DT_SLACK_BYTES + DT_BUFFER_ALIGNMENT - 1) / DT_BUFFER_ALIGNMENT * DT_BUFFER_ALIGNMENT;
    size_t n_scalar = (sizeof(int32_t) + DT_SLACK_BYTES + DT_BUFFER_ALIGNMENT - 1) / DT_BUFFER_ALIGNMENT * DT_BUFFER_ALIGNMENT;
    size_t n_prompt = strlen(options->prompt), n_seen = n_prompt < (size_t)all->window ? n_prompt : (size_t)all->window;
    all->memory = dt_allocate_zeroed(1, n_text + 2 * n_scalar + DT_BUFFER_ALIGNMENT);
    if (all->memory == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    char *at = (char *)(((uintptr_t)all->memory + DT_BUFFER_ALIGNMENT - 1) / DT_BUFFER_ALIGNMENT * DT_BUFFER_ALIGNMENT);
    all->text = (unsigned char *)at;
    all->length = (int32_t *)(void *)(at + n_text);
    float *temperature = (float *)(void *)(at + n_text + n_scalar);
    all->inputs[0] = all->text;
    all->inputs[1] = all->length;
    all->inputs[2] = temperature;
    memcpy(all->text, options->prompt + (n_prompt - n_seen), n_seen);
    *all->length = (int32_t)n_seen;
    *temperature = (float)options->temperature;
    if (n_seen < n_prompt)
        dt_log_remark(log, "note", "the prompt has %zu bytes: step %s sees the last %" PRId64, n_prompt, all->about->name, all->window);
    return NULL;
}

static void append(generation *all, unsigned char byte) {
    if (*all->length == all->window) memmove(all->text, all->text + 1, (size_t)-- * all->length);
    all->text[(*all->length)++] = byte;
}

/* Each byte is given at once: text is read while it is made. */
static dt_status *generate_bytes(generation *all, const dt_run_options *options) {
    DT_TRY(options->made(options->made_context, options->prompt, strlen(options->prompt)));
    for (int64_t number = 0; number < options->length && atomic_load(options->stop) == 0; number++) {
        dt_batch batch = {.inputs = all->inputs, .rows = 1, .counter = number};
        unsigned char next;
        DT_TRY(dt_session_run(all->session, all->step, &batch, NULL));
        DT_TRY(dt_session_bad_index_status(all->session));
        DT_TRY(dt_session_result(all->session, all->step, all->about->n_aggregates, &next));
        append(all, next);
        DT_TRY(options->made(options->made_context, (const char *)&next, 1));
    }
    return NULL;
}

static dt_status *generate(generation *all, const dt_run_options *options, dt_log *log) {
    int64_t epoch;
    DT_TRY(make_inputs(all, options, log));
    DT_TRY(dt_run_prepare_weights(all->session, options, log, &epoch));
    if (options->catch_signals != NULL) options->catch_signals();
    return generate_bytes(all, options);
}

dt_status *dt_run_generate(const dt_kernels *kernels, const dt_run_options *options, dt_log *log) {
    const dt_artifact *artifact = dt_kernels_artifact(kernels);
    generation all = {0};
    DT_TRY(dt_run_find_step(artifact, options, "sample", &all.step));
    all.about = &artifact->steps[all.step];
    all.function = &artifact->functions[all.about->function];
    DT_TRY(check_step(&all, options));
    DT_TRY(dt_run_need_computation(options, "there is no text to write"));
    dt_session_options about;
    DT_TRY(dt_run_describe_session(options, &about));
    about.rows = 1;
    dt_status *status = dt_run_open_session(kernels, options, &about, &all.session);
    if (status == NULL) status = generate(&all, options, log);
    dt_run_free_session(options, all.session);
    dt_release(all.memory);
    return status;
}
