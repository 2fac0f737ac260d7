/* session_runs: training and evaluation over a program's own data, and the events that are told meanwhile. */
#include "python/extension/extension.h"

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

static bool put_values(PyObject *dict, const dtrt_event *event) {
    PyObject *values = PyDict_New();
    for (int i = 0; values != NULL && i < event->n_values; i++)
        if (!put_number(values, event->names[i], event->values[i])) Py_CLEAR(values);
    return put(dict, "values", values);
}

static const char *const kinds[] = {
    [DTRT_EVENT_START] = "start",           [DTRT_EVENT_STEP] = "step",     [DTRT_EVENT_PROGRESS] = "progress", [DTRT_EVENT_EPOCH] = "epoch",
    [DTRT_EVENT_CHECKPOINT] = "checkpoint", [DTRT_EVENT_RESULT] = "result", [DTRT_EVENT_REMARK] = "remark",     [DTRT_EVENT_END] = "end"};

/* What dt.training reads of an event. */
static PyObject *describe_event(const dtrt_event *event) {
    PyObject *dict = PyDict_New();
    if (dict == NULL) return NULL;
    bool is_whole = put_text(dict, "kind", kinds[event->kind]) && put_text(dict, "what", event->what) && put_text(dict, "text", event->text) &&
                    put_text(dict, "step", event->step) && put_text(dict, "path", event->path) && put_integer(dict, "number", event->number) &&
                    put_integer(dict, "epoch", event->epoch) && put_integer(dict, "epochs", event->epochs) &&
                    put_integer(dict, "steps", event->steps) && put_integer(dict, "steps_per_epoch", event->steps_per_epoch) &&
                    put_integer(dict, "examples", event->examples) && put(dict, "complete", PyBool_FromLong(event->complete)) &&
                    put_number(dict, "seconds", event->seconds) && put_number(dict, "examples_per_second", event->examples_per_second) &&
                    put_number(dict, "data_wait", event->data_wait) && put_values(dict, event);
    if (!is_whole) Py_CLEAR(dict);
    return dict;
}

/* Calls the listener; false where it, or a signal's handler, raised. */
static bool tell(const dtpy_session *self, const dtrt_event *event) {
    if (PyErr_CheckSignals() < 0) return false;
    if (self->listener == NULL || self->listener == Py_None) return true;
    PyObject *described = describe_event(event);
    PyObject *answer = described != NULL ? PyObject_CallFunctionObjArgs(self->listener, described, NULL) : NULL;
    Py_XDECREF(described);
    Py_XDECREF(answer);
    return answer != NULL;
}

int dtpy_on_event(void *context, dtrt_session *session, const dtrt_event *event) {
    (void)session;
    dtpy_session *self = context;
    PyEval_RestoreThread(self->thread);
    if (self->raised[0] == NULL && !tell(self, event)) PyErr_Fetch(&self->raised[0], &self->raised[1], &self->raised[2]);
    bool is_over = self->raised[0] != NULL;
    self->thread = PyEval_SaveThread();
    return is_over;
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
                            NULL};
    dtpy_session *self = (dtpy_session *)object;
    dtrt_train_options options = DTRT_INIT(dtrt_train_options);
    dtrt_run_result result = DTRT_INIT(dtrt_run_result);
    PyObject *listener;
    long long epochs, pause, max_steps, every, keep, no_gain;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OzzLLLzLLzLp", names, &listener, &options.step, &options.from, &epochs, &pause, &max_steps,
                                     &options.checkpoint_dir, &every, &keep, &options.keep_best, &no_gain, &options.resume))
        return NULL;
    options.epochs = epochs;
    options.pause_after_epochs = pause;
    options.max_steps = max_steps;
    options.checkpoint_every = every;
    options.keep = keep;
    options.stop_after_no_gain = no_gain;
    if (!dtpy_enter(self, listener) || !dtpy_leave(self, dtrt_train(self->session, &options, &result))) return NULL;
    return describe_run(&result);
}

PyObject *dtpy_session_evaluate(PyObject *object, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"listener", "step", "source", NULL};
    dtpy_session *self = (dtpy_session *)object;
    dtrt_evaluate_options options = DTRT_INIT(dtrt_evaluate_options);
    dtrt_run_result result = DTRT_INIT(dtrt_run_result);
    PyObject *listener;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "Ozz", names, &listener, &options.step, &options.from)) return NULL;
    if (!dtpy_enter(self, listener) || !dtpy_leave(self, dtrt_evaluate(self->session, &options, &result))) return NULL;
    return describe_run(&result);
}
