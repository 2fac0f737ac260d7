/* texts: what needs no session: dt._dt.devices, report and export; of a program, info and bench. */
#include "python/extension/extension.h"

#include <string.h>

/* A text of the library's, which is freed. It may quote what is no UTF-8. */
static PyObject *take_text(char *text) {
    PyObject *string = text != NULL ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace") : NULL;
    dtrt_free(text);
    return string;
}

PyObject *dtpy_devices(PyObject *module, PyObject *none) {
    (void)none;
    char *text = NULL;
    return dtpy_raise(PyModule_GetState(module), dtrt_devices(&text)) ? NULL : take_text(text);
}

/* report(folders, path): folders are bytes. */
PyObject *dtpy_report(PyObject *module, PyObject *arguments) {
    PyObject *list;
    const char *path;
    if (!PyArg_ParseTuple(arguments, "O!s", &PyList_Type, &list, &path)) return NULL;
    Py_ssize_t n = PyList_Size(list);
    const char **folders = PyMem_Calloc((size_t)n + 1, sizeof *folders);
    if (folders == NULL) return PyErr_NoMemory();
    bool is_whole = true;
    for (Py_ssize_t i = 0; i < n && is_whole; i++) is_whole = (folders[i] = PyBytes_AsString(PyList_GetItem(list, i))) != NULL;
    bool is_written = false;
    if (is_whole) {
        dt_status *status;
        Py_BEGIN_ALLOW_THREADS status = dtrt_write_report(folders, (int)n, path);
        Py_END_ALLOW_THREADS is_written = !dtpy_raise(PyModule_GetState(module), status);
    }
    PyMem_Free(folders);
    return is_written ? Py_NewRef(Py_None) : NULL;
}

/* export(weights, path, map or None, allow_missing): (text, warnings) */
PyObject *dtpy_export(PyObject *module, PyObject *arguments) {
    const char *weights, *path;
    char *text = NULL, *warnings = NULL;
    dtrt_weights_options options = DTRT_INIT(dtrt_weights_options);
    dt_status *status;
    if (!PyArg_ParseTuple(arguments, "sszp", &weights, &path, &options.map, &options.allow_missing)) return NULL;
    Py_BEGIN_ALLOW_THREADS status = dtrt_export_weights(weights, path, &options, &text, &warnings);
    Py_END_ALLOW_THREADS if (dtpy_raise(PyModule_GetState(module), status)) return NULL;
    return Py_BuildValue("(NN)", take_text(text), take_text(warnings));
}

PyObject *dtpy_program_info(PyObject *object, PyObject *none) {
    (void)none;
    const dtpy_program *self = (dtpy_program *)object;
    char *text = NULL;
    return dtpy_raise(self->module, dtrt_info(self->program, NULL, &text)) ? NULL : take_text(text);
}

/* Whether a list has an item, which says stop. */
static int on_progress(void *context, double done) {
    (void)done;
    PyGILState_STATE state = PyGILState_Ensure();
    int stop = PyErr_CheckSignals() < 0 || PyList_Size(context) > 0;
    PyGILState_Release(state);
    return stop;
}

PyObject *dtpy_program_bench(PyObject *object, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"step", "source", "steps", "devices", "threads", "replicas", "global_batch", "seed", "data", "stops", NULL};
    const dtpy_program *self = (dtpy_program *)object;
    dtrt_session_options shape = DTRT_INIT(dtrt_session_options);
    dtrt_bench_options options = DTRT_INIT(dtrt_bench_options);
    long long steps, threads, replicas, global_batch, seed;
    char *text = NULL;
    dt_status *status;
    PyObject *stops;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "zzLsLLLLzO!", names, &options.step, &options.from, &steps, &shape.devices, &threads,
                                     &replicas, &global_batch, &seed, &shape.data, &PyList_Type, &stops))
        return NULL;
    options.progress = on_progress;
    options.context = stops;
    options.n_steps = steps;
    options.format = DTRT_JSON;
    shape.threads = threads;
    shape.replicas = replicas;
    shape.global_batch = global_batch;
    shape.seed = seed;
    Py_BEGIN_ALLOW_THREADS status = dtrt_bench(self->program, &shape, &options, &text);
    Py_END_ALLOW_THREADS if (PyErr_Occurred() != NULL) return dtrt_status_free(status), NULL; /* by a signal */
    return dtpy_raise(self->module, status) ? NULL : take_text(text);
}
