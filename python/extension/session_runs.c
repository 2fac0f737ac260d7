/* session_runs: training and evaluation over a program's own data, and the events that are told meanwhile. */
#include "python/extension/extension.h"

#include <string.h>

/* ---- events ---- */

/* dict[name] = value, which is taken over. */
static bool put(PyObject *dict, const char *name, PyObject *value) {
    bool is_put = value != NULL && PyDict_SetItemString(dict, name, value) == 0;
    Py_XDECREF(value);
    return is_put;
}

static bool put_text(PyObject *dict, const char *name, const char *text) { return text == NULL || put(dict, name, PyUnicode_DecodeFSDefault(text)); }
static bool put_integer(PyObject *dict, const char *name, int64_t number) { return put(dict, name, PyLong_FromLongLong(number)); }
static bool put_number(PyObject *dict, const char *name, double number) { return put(dict, name, PyFloat_FromDouble(number)); }

static PyObject *copy_array(const dtpy_session *self, const dtrt_report_array *array) {
    PyObject *memory = dtpy_memory_create(self->module, DTRT_F64, array->n_dims, array->dims, 0, NULL, NULL), *copy = NULL;
    if (memory == NULL) return NULL;
    memcpy(dtpy_memory_data(memory), array->values, dtpy_memory_bytes(memory));
    copy = PyObject_CallFunctionObjArgs(self->as_array, memory, NULL);
    Py_DECREF(memory);
    return copy;
}

static bool put_values(const dtpy_session *self, PyObject *dict, const dtrt_event *event) {
    PyObject *values = PyDict_New();
    for (int i = 0; values != NULL && i < event->n_values; i++)
        if (!put_number(values, event->names[i], event->values[i])) Py_CLEAR(values);
    for (int i = 0; values != NULL && i < event->n_arrays; i++)
        if (!put(values, event->arrays[i].name, copy_array(self, &event->arrays[i]))) Py_CLEAR(values);
    return put(dict, "values", values);
}

static const char *const kinds[] = {
    [DTRT_EVENT_START] = "start",           [DTRT_EVENT_STEP] = "step",     [DTRT_EVENT_PROGRESS] = "progress", [DTRT_EVENT_EPOCH] = "epoch",
    [DTRT_EVENT_CHECKPOINT] = "checkpoint", [DTRT_EVENT_RESULT] = "result", [DTRT_EVENT_REMARK] = "remark",     [DTRT_EVENT_END] = "end"};

/* What dt.training reads of an event. */
static PyObject *describe_event(const dtpy_session *self, const dtrt_event *event) {
    PyObject *dict = PyDict_New();
    if (dict == NULL) return NULL;
    bool is_whole = put_text(dict, "kind", kinds[event->kind]) && put_text(dict, "what", event->what) &&
                    (event->text == NULL || put(dict, "text", dtpy_read_message(event->text))) && put_text(dict, "step", event->step) &&
                    put_text(dict, "path", event->path) && put_integer(dict, "number", event->number) && put_integer(dict, "epoch", event->epoch) &&
                    put_integer(dict, "epochs", event->epochs) && put_integer(dict, "steps", event->steps) &&
                    put_integer(dict, "steps_per_epoch", event->steps_per_epoch) && put_integer(dict, "examples", event->examples) &&
                    put(dict, "complete", PyBool_FromLong(event->complete)) && put_number(dict, "seconds", event->seconds) &&
                    put_number(dict, "examples_per_second", event->examples_per_second) && put_number(dict, "data_wait", event->data_wait) &&
                    put_values(self, dict, event);
    if (!is_whole) Py_CLEAR(dict);
    return dict;
}

/* Calls the listener. Returns whether it wants the run to stop; -1: it, or a signal's handler, raised. */
static int tell(const dtpy_session *self, const dtrt_event *event) {
    if (PyErr_CheckSignals() < 0) return -1;
    if (self->listener == NULL || self->listener == Py_None) return 0;
    PyObject *described = describe_event(self, event);
    PyObject *answer = described != NULL ? PyObject_CallFunctionObjArgs(self->listener, described, NULL) : NULL;
    int stops = answer != NULL ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(described);
    Py_XDECREF(answer);
    return stops;
}

int dtpy_on_event(void *context, dtrt_session *session, const dtrt_event *event) {
    (void)session;
    dtpy_session *self = context;
    PyEval_RestoreThread(self->thread);
    int stops = self->raised[0] == NULL ? tell(self, event) : 1;
    if (stops < 0) PyErr_Fetch(&self->raised[0], &self->raised[1], &self->raised[2]);
    self->thread = PyEval_SaveThread();
    return stops != 0;
}

/* ---- runs ---- */

/* (steps, epochs, stopped, reason) */
static PyObject *describe_run(const dtrt_run_result *result) {
    return Py_BuildValue("(LLOs)", (long long)result->n_steps, (long long)result->n_epochs, result->stopped ? Py_True : Py_False, result->reason);
}

PyObject *dtpy_session_train(PyObject *object, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"listener",
                            "step",
                            "source",
                            "epochs",
                            "pause_after_epochs",
                            "max_steps",
                            "checkpoint_dir",
                            "checkpoint_every",
                            "keep",
                            "keep_best",
                            "stop_after_no_gain",
                            "resume",
                            "reduce_on_plateau",
                            "log_dir",
                            "log_every",
                            "log_histograms",
                            "given",
                            "validation",
                            "tell_every",
                            NULL};
    dtpy_session *self = (dtpy_session *)object;
    dtrt_train_options options = DTRT_INIT(dtrt_train_options);
    dtrt_run_result result = DTRT_INIT(dtrt_run_result);
    PyObject *listener, *own, *own_validation, *answer = NULL;
    dtpy_given given = {0}, validation = {0};
    long long epochs, pause, max_steps, every, keep, no_gain, log_every, histograms, tell_every;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OszLLLzLLzLpzzLLOOL", names, &listener, &options.step, &options.from, &epochs, &pause,
                                     &max_steps, &options.checkpoint_dir, &every, &keep, &options.keep_best, &no_gain, &options.resume,
                                     &options.reduce_on_plateau, &options.log_dir, &log_every, &histograms, &own, &own_validation, &tell_every))
        return NULL;
    options.epochs = epochs;
    options.pause_after_epochs = pause;
    options.max_steps = max_steps;
    options.checkpoint_every = every;
    options.keep = keep;
    options.stop_after_no_gain = no_gain;
    options.log_every = log_every;
    options.log_histograms = histograms;
    options.tell_every = tell_every;
    if (dtpy_is_open(self) && dtpy_take_given(self, options.step, own, &given) && dtpy_take_given(self, "evaluate", own_validation, &validation)) {
        options.given = dtpy_given_data(&given);
        options.validation = dtpy_given_data(&validation);
        if (dtpy_enter(self, listener) && dtpy_leave(self, dtrt_train(self->session, &options, &result))) answer = describe_run(&result);
    }
    dtpy_free_given(&given);
    dtpy_free_given(&validation);
    return answer;
}

PyObject *dtpy_session_evaluate(PyObject *object, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"listener", "step", "source", "given", NULL};
    dtpy_session *self = (dtpy_session *)object;
    dtrt_evaluate_options options = DTRT_INIT(dtrt_evaluate_options);
    dtrt_run_result result = DTRT_INIT(dtrt_run_result);
    PyObject *listener, *own, *answer = NULL;
    dtpy_given given = {0};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OszO", names, &listener, &options.step, &options.from, &own)) return NULL;
    if (dtpy_is_open(self) && dtpy_take_given(self, options.step, own, &given)) {
        options.given = dtpy_given_data(&given);
        if (dtpy_enter(self, listener) && dtpy_leave(self, dtrt_evaluate(self->session, &options, &result))) answer = describe_run(&result);
    }
    dtpy_free_given(&given);
    return answer;
}

/* ---- text ---- */

/* Calls the listener with the bytes; false where it, or a signal's handler, raised. */
static bool tell_bytes(const dtpy_session *self, const char *bytes, size_t n_bytes) {
    if (PyErr_CheckSignals() < 0) return false;
    if (self->listener == NULL || self->listener == Py_None) return true;
    PyObject *given = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)n_bytes);
    PyObject *answer = given != NULL ? PyObject_CallFunctionObjArgs(self->listener, given, NULL) : NULL;
    Py_XDECREF(given);
    Py_XDECREF(answer);
    return answer != NULL;
}

static int on_bytes(void *context, dtrt_session *session, const char *bytes, size_t n_bytes) {
    (void)session;
    dtpy_session *self = context;
    PyEval_RestoreThread(self->thread);
    if (self->raised[0] == NULL && !tell_bytes(self, bytes, n_bytes)) PyErr_Fetch(&self->raised[0], &self->raised[1], &self->raised[2]);
    bool is_over = self->raised[0] != NULL;
    self->thread = PyEval_SaveThread();
    return is_over;
}

/* _generate(listener, step, prompt, length, temperature or None): bytes */
PyObject *dtpy_session_generate(PyObject *object, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"listener", "step", "prompt", "length", "temperature", NULL};
    dtpy_session *self = (dtpy_session *)object;
    dtrt_generate_options options = DTRT_INIT(dtrt_generate_options);
    PyObject *listener, *temperature;
    long long length;
    char *text = NULL;
    size_t n = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OzyLO", names, &listener, &options.step, &options.prompt, &length, &temperature))
        return NULL;
    options.length = length;
    options.has_temperature = temperature != Py_None;
    if (options.has_temperature) options.temperature = PyFloat_AsDouble(temperature);
    if (PyErr_Occurred() != NULL) return NULL;
    options.made = on_bytes;
    options.context = self;
    PyObject *result = NULL;
    if (dtpy_enter(self, listener) && dtpy_leave(self, dtrt_generate(self->session, &options, &text, &n)))
        result = PyBytes_FromStringAndSize(text, (Py_ssize_t)n);
    dtrt_free(text);
    return result;
}

/* ---- what a callback logs ---- */

/* _log_scalar(name, value) */
PyObject *dtpy_session_log_scalar(PyObject *object, PyObject *arguments) {
    dtpy_session *self = (dtpy_session *)object;
    const char *name;
    double value;
    if (!dtpy_is_open(self) || !PyArg_ParseTuple(arguments, "sd", &name, &value)) return NULL;
    return dtpy_raise(self->module, dtrt_log_scalar(self->session, name, value)) ? NULL : Py_NewRef(Py_None);
}

/* _log_image(name, array, is_float): of f32, or else u8 */
PyObject *dtpy_session_log_image(PyObject *object, PyObject *arguments) {
    dtpy_session *self = (dtpy_session *)object;
    dtrt_tensor tensor = {.name = "image"};
    dtpy_borrowed borrowed;
    const char *name;
    PyObject *array;
    int is_float;
    if (!dtpy_is_open(self) || !PyArg_ParseTuple(arguments, "sOp", &name, &array, &is_float)) return NULL;
    tensor.dtype = is_float ? DTRT_F32 : DTRT_U8;
    if (dtpy_borrow(array, name, &tensor, &borrowed) < 0) return NULL;
    bool has_failed = dtpy_raise(self->module, dtrt_log_image(self->session, name, &borrowed.array));
    dtpy_return(&borrowed);
    return has_failed ? NULL : Py_NewRef(Py_None);
}

/* ---- files ---- */

PyObject *dtpy_session_write_data(PyObject *object, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"listener", "step", "source", "epoch", "n_batches", "output", NULL};
    dtpy_session *self = (dtpy_session *)object;
    dtrt_data_options options = DTRT_INIT(dtrt_data_options);
    PyObject *listener;
    long long epoch, n_batches;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OzzLLs", names, &listener, &options.step, &options.from, &epoch, &n_batches,
                                     &options.output))
        return NULL;
    options.epoch = epoch;
    options.n_batches = n_batches;
    return dtpy_enter(self, listener) && dtpy_leave(self, dtrt_write_data(self->session, &options)) ? Py_NewRef(Py_None) : NULL;
}

PyObject *dtpy_session_write_timeline(PyObject *object, PyObject *arguments) {
    dtpy_session *self = (dtpy_session *)object;
    PyObject *listener;
    const char *path;
    if (!PyArg_ParseTuple(arguments, "Os", &listener, &path)) return NULL;
    return dtpy_enter(self, listener) && dtpy_leave(self, dtrt_write_timeline(self->session, path)) ? Py_NewRef(Py_None) : NULL;
}
