/* log: see log.h. An event is turned from the runtime's form into the header's, and back where its words are wanted. */
#include "runtime/dtrt/log.h"

#include "base/memory.h"
#include "base/option_names.h"
#include "base/options.h"
#include "base/text.h"
#include "runtime/dtrt/array.h"
#include "runtime/log_lines.h"
#include "runtime/png_file.h"

#include <string.h>

/* ---- the runtime's as the header's ---- */

static void take_values(dtrt_event *event, const dt_log_values *values) {
    if (values == NULL) return;
    event->n_values = values->n;
    event->names = values->names;
    event->values = values->values;
    event->n_arrays = values->n_arrays;
    event->arrays = values->arrays;
}

static dtrt_event of_start(const dt_log_start *start) {
    return (dtrt_event){.kind = DTRT_EVENT_START,
                        .program = start->program,
                        .step = start->step,
                        .level = start->level,
                        .resumed_from = start->resumed_from,
                        .parameters = start->n_parameters,
                        .trainable = start->n_trainable,
                        .replicas = start->replicas,
                        .global_batch = start->global_batch,
                        .epochs = start->epochs,
                        .steps_per_epoch = start->steps_per_epoch,
                        .examples = start->n_examples,
                        .first_step = start->first_step,
                        .seed = start->seed,
                        .memory_bytes = start->memory_bytes,
                        .n_devices = start->n_devices,
                        .devices = start->devices};
}

static dtrt_event of_epoch(dtrt_event_kind kind, const dt_log_epoch *epoch) {
    return (dtrt_event){.kind = kind,
                        .step = epoch->step,
                        .trains = epoch->trains,
                        .epoch = epoch->epoch,
                        .epochs = epoch->epochs,
                        .number = epoch->number,
                        .steps = epoch->steps,
                        .steps_per_epoch = epoch->n_steps,
                        .examples = epoch->examples,
                        .complete = epoch->complete,
                        .seconds = epoch->seconds,
                        .examples_per_second = epoch->examples_per_second,
                        .seconds_per_step = epoch->seconds_per_step,
                        .data_wait = epoch->data_wait};
}

/* What a listener that wants no details gets. */
static dtrt_event from_log(const dt_log_event *of) {
    dtrt_event event = {0};
    switch (of->kind) {
    case DT_LOG_STARTED: event = of_start(of->start); break;
    case DT_LOG_STEPPED:
        event = (dtrt_event){
            .kind = DTRT_EVENT_STEP, .number = of->step->number, .epoch = of->step->epoch, .examples_per_second = of->step->examples_per_second};
        break;
    case DT_LOG_EPOCH_DONE: event = of_epoch(DTRT_EVENT_EPOCH, of->epoch); break;
    case DT_LOG_PROGRESS: event = of_epoch(DTRT_EVENT_PROGRESS, of->epoch); break;
    case DT_LOG_CHECKPOINT:
        event = (dtrt_event){.kind = DTRT_EVENT_CHECKPOINT, .path = of->file.path, .number = of->file.number, .seconds = of->file.seconds};
        break;
    case DT_LOG_WRITTEN: event = (dtrt_event){.kind = DTRT_EVENT_RESULT, .path = of->file.path, .text = of->file.type}; break;
    case DT_LOG_REMARK: event = (dtrt_event){.kind = DTRT_EVENT_REMARK, .what = of->remark.kind, .text = of->remark.message}; break;
    default:
        event = (dtrt_event){.kind = DTRT_EVENT_END,
                             .what = of->end->reason,
                             .number = of->end->steps,
                             .epoch = of->end->epochs,
                             .seconds = of->end->seconds,
                             .first_step_seconds = of->end->first_step_seconds};
        break;
    }
    event.size = sizeof event;
    take_values(&event, of->values);
    return event;
}

/* As a message of a status names options; NULL without memory. */
static char *name_members(const char *text) {
    char *copy = dt_allocate(dt_option_names_to_members(text, NULL));
    if (copy != NULL) dt_option_names_to_members(text, copy);
    return copy;
}

static void hear(dt_log_listener *listener, const dt_log_event *of) {
    dt_api_log *log = (dt_api_log *)listener;
    dtrt_session *session = log->session;
    dtrt_event event = from_log(of);
    char *text = event.kind == DTRT_EVENT_REMARK ? name_members(event.text) : NULL;
    if (text != NULL) event.text = text;
    if (event.kind == DTRT_EVENT_STEP || (event.kind == DTRT_EVENT_EPOCH && event.number > 0)) session->run_number = event.number;
    session->is_between_steps = event.kind == DTRT_EVENT_STEP || event.kind == DTRT_EVENT_EPOCH || event.kind == DTRT_EVENT_CHECKPOINT;
    dt_api_begin_callback(session);
    if (session->options.event(session->options.context, session, &event) != 0) atomic_store(&log->stop, 1);
    dt_api_end_callback(session);
    session->is_between_steps = false;
    dt_release(text);
}

dt_status *dt_api_open_log(dtrt_session *session, dt_api_log *log) {
    *log = (dt_api_log){.session = session, .listener = {.hear = hear, .wants_progress = true}};
    DT_TRY(dt_log_create(&log->log));
    if (session->options.event != NULL) dt_log_add_listener(log->log, &log->listener);
    return NULL;
}

void dt_api_close_log(dt_api_log *log) { dt_log_destroy(log->log); }

/* ---- what the application says ---- */

static dt_status *check_logged(const dtrt_session *session, const char *name) {
    if (session->run_log == NULL)
        return dt_error(DT_FAILED_PRECONDITION, "%s: there is nowhere to write it: in a callback of a training with `log_dir` there is", name);
    return *name != 0 ? NULL : dt_error(DT_INVALID_ARGUMENT, "what is logged has a name");
}

dt_status *dtrt_log_scalar(dtrt_session *session, const char *name, double value) {
    DT_TRY(dt_api_need(name, "name"));
    DT_TRY(dt_api_enter_to_read(session));
    dt_status *status = check_logged(session, name);
    dt_log_scalar scalar = {name, session->run_number, value};
    if (status == NULL) dt_log_detail(session->run_log, &(dt_log_event){.kind = DT_LOG_SCALAR, .scalar = &scalar});
    return dt_api_leave(session, status);
}

/* A picture is the only row of a result. */
static dt_status *encode_image(const char *name, const dtrt_array *image, dt_log_picture *picture, char **png) {
    if (image->n_dims < 2 || image->n_dims > 3 || image->dims == NULL)
        return dt_error(DT_INVALID_ARGUMENT, "%s: an image is [H, W] or [H, W, C], not of %d dimensions", name, image->n_dims);
    int64_t dims[] = {-1, image->dims[0], image->dims[1], image->n_dims == 3 ? image->dims[2] : 1}, n = 1;
    for (int d = 0; d < image->n_dims; d++)
        if (image->dims[d] < 1 || __builtin_mul_overflow(n, image->dims[d], &n) || n > INT64_MAX / 8)
            return dt_error(DT_INVALID_ARGUMENT, "%s: an image with a dimension of %lld", name, (long long)image->dims[d]);
    dt_artifact_tensor tensor = {.name = name, .dtype = (dt_dtype)image->dtype, .n_dims = image->n_dims + 1, .dims = dims, .has_rows = true};
    int64_t rows;
    const char *objection = (unsigned)image->dtype < DT_N_DTYPES ? dt_png_objection(&tensor) : "is of no type";
    if (objection != NULL) return dt_error(DT_INVALID_ARGUMENT, "%s: an image %s", name, objection);
    tensor.row_bytes = n * (int64_t)dt_dtype_bytes(tensor.dtype);
    dt_artifact_tensor shape = {.name = name, .dtype = tensor.dtype, .n_dims = image->n_dims, .dims = image->dims};
    DT_TRY(dt_api_need(image->data, "image.data"));
    DT_TRY(dt_array_check(image, &shape, "dtrt_log_image", name, &rows));
    void *dense = dt_allocate((size_t)tensor.row_bytes);
    if (dense == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    dt_array_copy(dense, image);
    dt_status *status = dt_png_encode_row(&tensor, 1, dense, 0, png, &picture->n_bytes);
    dt_release(dense);
    picture->height = dims[1];
    picture->width = dims[2];
    picture->channels = (int)dims[3];
    return status;
}

dt_status *dtrt_log_image(dtrt_session *session, const char *name, const dtrt_array *image) {
    DT_TRY(dt_api_need(name, "name"));
    DT_TRY(dt_api_need(image, "image"));
    DT_TRY(dt_api_enter_to_read(session));
    char *png = NULL;
    dt_log_picture picture = {.name = name, .number = session->run_number};
    dt_status *status = check_logged(session, name);
    if (status == NULL) status = encode_image(name, image, &picture, &png);
    picture.png = png;
    if (status == NULL) dt_log_detail(session->run_log, &(dt_log_event){.kind = DT_LOG_PICTURE, .picture = &picture});
    dt_release(png);
    return dt_api_leave(session, status);
}

/* ---- in words ---- */

/* The structs that an event of the runtime points to. */
typedef struct parts {
    dt_log_start start;
    dt_log_step step;
    dt_log_epoch epoch;
    dt_log_end end;
    dt_log_values values;
} parts;

static const char *or_empty(const char *text) { return text != NULL ? text : ""; }

static dt_log_event to_log(const dtrt_event *event, parts *of) {
    of->values = (dt_log_values){event->n_values, event->names, event->values, event->n_arrays, event->arrays};
    of->start = (dt_log_start){.program = or_empty(event->program),
                               .step = or_empty(event->step),
                               .level = or_empty(event->level),
                               .resumed_from = event->resumed_from,
                               .n_parameters = event->parameters,
                               .n_trainable = event->trainable,
                               .replicas = event->replicas,
                               .global_batch = event->global_batch,
                               .epochs = event->epochs,
                               .steps_per_epoch = event->steps_per_epoch,
                               .n_examples = event->examples,
                               .first_step = event->first_step,
                               .seed = event->seed,
                               .memory_bytes = event->memory_bytes,
                               .n_devices = event->n_devices,
                               .devices = event->devices};
    of->step = (dt_log_step){.number = event->number, .epoch = event->epoch, .examples_per_second = event->examples_per_second};
    of->epoch = (dt_log_epoch){.step = or_empty(event->step),
                               .trains = event->trains != 0,
                               .epoch = event->epoch,
                               .epochs = event->epochs,
                               .number = event->number,
                               .steps = event->steps,
                               .n_steps = event->steps_per_epoch,
                               .examples = event->examples,
                               .complete = event->complete != 0,
                               .seconds = event->seconds,
                               .examples_per_second = event->examples_per_second,
                               .seconds_per_step = event->seconds_per_step,
                               .data_wait = event->data_wait};
    of->end = (dt_log_end){or_empty(event->what), event->number, event->epoch, event->seconds, event->first_step_seconds, 0};
    switch (event->kind) {
    case DTRT_EVENT_START: return (dt_log_event){.kind = DT_LOG_STARTED, .start = &of->start};
    case DTRT_EVENT_STEP: return (dt_log_event){.kind = DT_LOG_STEPPED, .step = &of->step, .values = &of->values};
    case DTRT_EVENT_PROGRESS: return (dt_log_event){.kind = DT_LOG_PROGRESS, .epoch = &of->epoch, .values = &of->values};
    case DTRT_EVENT_EPOCH: return (dt_log_event){.kind = DT_LOG_EPOCH_DONE, .epoch = &of->epoch, .values = &of->values};
    case DTRT_EVENT_CHECKPOINT:
        return (dt_log_event){.kind = DT_LOG_CHECKPOINT, .file = {.path = or_empty(event->path), .number = event->number, .seconds = event->seconds}};
    case DTRT_EVENT_RESULT: return (dt_log_event){.kind = DT_LOG_WRITTEN, .file = {.path = or_empty(event->path), .type = or_empty(event->text)}};
    case DTRT_EVENT_REMARK: return (dt_log_event){.kind = DT_LOG_REMARK, .remark = {.kind = or_empty(event->what), .message = or_empty(event->text)}};
    case DTRT_EVENT_END: break;
    }
    return (dt_log_event){.kind = DT_LOG_ENDED, .end = &of->end};
}

static dt_status *check_array(const dtrt_report_array *array) {
    DT_TRY(dt_api_need(array->name, "dtrt_event.arrays[i].name"));
    if (array->n_dims < 1 || array->n_dims > DT_MOST_CALLERS_DIMS)
        return dt_error(DT_INVALID_ARGUMENT, "dtrt_event: %s has %d dimensions", array->name, array->n_dims);
    DT_TRY(dt_api_need(array->dims, "dtrt_event.arrays[i].dims"));
    int64_t n = 1;
    for (int d = 0; d < array->n_dims; d++)
        if (array->dims[d] < 0 || __builtin_mul_overflow(n, array->dims[d], &n))
            return dt_error(DT_INVALID_ARGUMENT, "dtrt_event: %s has a dimension of %lld", array->name, (long long)array->dims[d]);
    return dt_api_need(array->values, "dtrt_event.arrays[i].values");
}

/* What an event of the caller's making may lack. */
static dt_status *check_lists(const dtrt_event *event) {
    if (event->n_values < 0 || event->n_devices < 0 || event->n_arrays < 0)
        return dt_error(DT_INVALID_ARGUMENT, "dtrt_event: %d values, %d arrays, %d devices", event->n_values, event->n_arrays, event->n_devices);
    if (event->n_values > 0) DT_TRY(dt_api_need(event->names, "dtrt_event.names"));
    if (event->n_values > 0) DT_TRY(dt_api_need(event->values, "dtrt_event.values"));
    if (event->n_devices > 0) DT_TRY(dt_api_need(event->devices, "dtrt_event.devices"));
    for (int i = 0; i < event->n_values; i++) DT_TRY(dt_api_need(event->names[i], "dtrt_event.names[i]"));
    if (event->n_arrays > 0) DT_TRY(dt_api_need(event->arrays, "dtrt_event.arrays"));
    for (int i = 0; i < event->n_arrays; i++) DT_TRY(check_array(&event->arrays[i]));
    for (int i = 0; i < event->n_devices; i++) DT_TRY(dt_api_need(event->devices[i], "dtrt_event.devices[i]"));
    return NULL;
}

dt_status *dtrt_event_text(const dtrt_event *given, dtrt_text_format format, char **text) {
    dtrt_event event;
    parts of;
    dt_text line = {0};
    DT_TRY(dt_api_need(text, "text"));
    *text = NULL;
    DT_TRY(dt_api_need(given, "event"));
    DT_TRY(dt_options_read(given, &event, sizeof event, "dtrt_event"));
    if ((unsigned)event.kind > DTRT_EVENT_END || (unsigned)format > DTRT_JSON)
        return dt_error(DT_INVALID_ARGUMENT, "there is no event of kind %d in format %d", (int)event.kind, (int)format);
    DT_TRY(check_lists(&event));
    dt_log_event log = to_log(&event, &of);
    dt_text_append(&line, "");
    if (format == DTRT_JSON) {
        dt_text_append(&line, "{");
        dt_log_append_members(&log, &line);
        dt_text_append(&line, "}");
    } else if (event.kind == DTRT_EVENT_PROGRESS) {
        dt_log_append_progress(&of.epoch, &of.values, &line);
    } else {
        dt_log_append_line(&log, &line);
    }
    *text = dt_text_take(&line);
    return *text != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
}
