/* compiler: the calls of dtc.h as functions of dt._dt. Each begins with a program, (path, source or None, folder or None, [(name, value), …], batch,
 * precision or None), and gives a pair: its result, None for a program with mistakes, and the list of what the compiler says of the program. */
#include "python/extension/extension.h"

#include <string.h>

/* A call while it is under way. What its callbacks raise stays set, and is what the call raises when it ends. */
typedef struct call {
    PyObject *module;
    dtc_program program;
    dtc_define *defines;
    PyObject *diagnostics, *findings; /* lists */
    PyObject *stops;                  /* a list, which has an item when a check is to stop; or NULL */
    PyThreadState *thread;            /* while the compiler runs */
} call;

PyObject *dtpy_read_text(const char *text) { return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"); }

/* ---- what is told ---- */

/* list.append(item), which is taken over; 0, or 1 with an exception. */
static int append(PyObject *list, PyObject *item) {
    int is_wrong = item == NULL || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return is_wrong;
}

/* (is_error, file or None, line, column, message, [(is_help, text), …], text, json, name) */
static PyObject *describe_diagnostic(const dtc_diagnostic *diagnostic) {
    PyObject *remarks = PyList_New(0);
    for (size_t i = 0; remarks != NULL && i < diagnostic->n_remarks; i++) {
        const dtc_remark *remark = &diagnostic->remarks[i];
        if (append(remarks, Py_BuildValue("(ON)", remark->is_help ? Py_True : Py_False, dtpy_read_text(remark->text)))) Py_CLEAR(remarks);
    }
    if (remarks == NULL) return NULL;
    return Py_BuildValue("(OziiNNNNs)", diagnostic->severity == DTC_ERROR ? Py_True : Py_False, diagnostic->line > 0 ? diagnostic->file : NULL,
                         diagnostic->line, diagnostic->column, dtpy_read_text(diagnostic->message), remarks, dtpy_read_text(diagnostic->text),
                         dtpy_read_text(diagnostic->json), diagnostic->name);
}

static int on_diagnostic(void *context, const dtc_diagnostic *diagnostic) {
    call *call = context;
    if (diagnostic->severity == DTC_REPORT) return 0;
    PyEval_RestoreThread(call->thread);
    int stop = append(call->diagnostics, describe_diagnostic(diagnostic));
    call->thread = PyEval_SaveThread();
    return stop;
}

/* (kind, verdict, step or None, compared, difference, where or None, file or None, line, text) */
static PyObject *describe_finding(const dtc_finding *finding) {
    static const char *const kinds[] = {[DTC_CHECK_PROGRAM] = "program",
                                        [DTC_CHECK_GRADIENTS] = "gradients",
                                        [DTC_CHECK_REPLICAS] = "replicas",
                                        [DTC_CHECK_PASSES] = "passes",
                                        [DTC_CHECK_BATCH] = "batch"};
    static const char *const verdicts[] = {[DTC_HOLDS] = "holds", [DTC_WRONG] = "wrong", [DTC_UNKNOWN] = "unknown"};
    return Py_BuildValue("(sszidzziN)", kinds[finding->kind], verdicts[finding->verdict], finding->step, finding->n_compared, finding->difference,
                         finding->where, finding->line > 0 ? finding->file : NULL, finding->line, dtpy_read_text(finding->text));
}

static int on_finding(void *context, const dtc_finding *finding) {
    call *call = context;
    PyEval_RestoreThread(call->thread);
    int stop = append(call->findings, describe_finding(finding));
    call->thread = PyEval_SaveThread();
    return stop;
}

static int on_progress(void *context, double done) {
    (void)done;
    call *call = context;
    PyEval_RestoreThread(call->thread);
    int stop = PyErr_CheckSignals() < 0 || PyList_Size(call->stops) > 0;
    call->thread = PyEval_SaveThread();
    return stop;
}

/* ---- a call ---- */

/* From a list of (name, value), whose strings are the list's. */
static bool read_defines(PyObject *list, call *call) {
    Py_ssize_t size = PyList_Size(list);
    call->defines = size >= 0 ? PyMem_Calloc((size_t)size + 1, sizeof *call->defines) : NULL;
    if (call->defines == NULL) return size >= 0 ? PyErr_NoMemory(), false : false;
    call->program.defines = call->defines;
    for (; call->program.n_defines < (size_t)size; call->program.n_defines++) {
        dtc_define *define = &call->defines[call->program.n_defines];
        if (!PyArg_ParseTuple(PyList_GetItem(list, (Py_ssize_t)call->program.n_defines), "ss", &define->name, &define->value)) return false;
    }
    return true;
}

/* The call runs between begin and end, without the GIL. */
static bool begin(call *call, PyObject *module, PyObject *program) {
    PyObject *defines;
    long long batch;
    dtc_program *read = &call->program;
    *call = (struct call){.module = module, .program = {.size = sizeof *read, .diagnostic = on_diagnostic, .context = call}};
    if (!PyArg_ParseTuple(program, "szzO!Lz", &read->path, &read->source, &read->folder, &PyList_Type, &defines, &batch, &read->precision) ||
        !read_defines(defines, call))
        return false;
    read->batch = batch;
    call->diagnostics = PyList_New(0);
    call->findings = PyList_New(0);
    if (call->diagnostics == NULL || call->findings == NULL) return false;
    call->thread = PyEval_SaveThread();
    return true;
}

/* Whether the call has a result; if not, a program with mistakes raises nothing. */
static bool end(call *call, dt_status *status) {
    PyEval_RestoreThread(call->thread);
    bool has_mistakes = status != NULL && status->code == DT_INVALID_ARGUMENT && PyList_Size(call->diagnostics) > 0;
    if (status != NULL && !has_mistakes && !PyErr_Occurred()) dtpy_set_error(PyModule_GetState(call->module), status);
    bool has_result = status == NULL && !PyErr_Occurred();
    dtc_status_free(status);
    return has_result;
}

/* The pair that the call gives, of its result, which is taken over, or of NULL. */
static PyObject *finish(call *call, PyObject *result) {
    PyObject *pair = PyErr_Occurred() ? NULL : Py_BuildValue("(OO)", result != NULL ? result : Py_None, call->diagnostics);
    Py_XDECREF(result);
    Py_XDECREF(call->diagnostics);
    Py_XDECREF(call->findings);
    PyMem_Free(call->defines);
    return pair;
}

/* ---- the functions ---- */

/* compile(program, target, cpu, optimize, output, emit, step, weights): bytes */
PyObject *dtpy_compile(PyObject *module, PyObject *arguments) {
    dtc_compile_options options = {.size = sizeof options};
    dtc_bytes bytes = {0};
    PyObject *program, *artifact = NULL;
    call call;
    if (!PyArg_ParseTuple(arguments, "O!zzzzzzz", &PyTuple_Type, &program, &options.target, &options.cpu, &options.optimize, &options.output,
                          &options.emit, &options.step, &options.weights))
        return NULL;
    if (begin(&call, module, program) && end(&call, dtc_compile(&call.program, &options, &bytes)))
        artifact = PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.n_bytes);
    dtc_free(bytes.data);
    return finish(&call, artifact);
}

PyObject *dtpy_format(PyObject *module, PyObject *arguments) {
    dtc_bytes bytes = {0};
    PyObject *program, *formatted = NULL;
    call call;
    if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &program)) return NULL;
    if (begin(&call, module, program) && end(&call, dtc_format(&call.program, NULL, &bytes))) formatted = dtpy_read_text(bytes.data);
    dtc_free(bytes.data);
    return finish(&call, formatted);
}

/* (text, [(path, kind, output, depth, parameters, trainable), …]) */
static PyObject *describe_summary(const dtc_summary *summary) {
    PyObject *layers = PyList_New(0);
    for (size_t i = 0; layers != NULL && i < summary->n_layers; i++) {
        const dtc_layer *layer = summary->layers[i];
        if (append(layers, Py_BuildValue("(sssiLL)", layer->path, layer->kind, layer->output, layer->depth, (long long)layer->n_parameters,
                                         (long long)layer->n_trainable)))
            Py_CLEAR(layers);
    }
    return layers != NULL ? Py_BuildValue("(NN)", dtpy_read_text(summary->text), layers) : NULL;
}

PyObject *dtpy_summarize(PyObject *module, PyObject *arguments) {
    dtc_summary *summary = NULL;
    PyObject *program, *described = NULL;
    call call;
    if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &program)) return NULL;
    if (begin(&call, module, program) && end(&call, dtc_summarize(&call.program, &summary))) described = describe_summary(summary);
    dtc_summary_free(summary);
    return finish(&call, described);
}

/* graph(program, step, n_levels, format): bytes */
PyObject *dtpy_graph(PyObject *module, PyObject *arguments) {
    dtc_graph_options options = {.size = sizeof options};
    dtc_bytes bytes = {0};
    PyObject *program, *picture = NULL;
    call call;
    if (!PyArg_ParseTuple(arguments, "O!ziz", &PyTuple_Type, &program, &options.step, &options.n_levels, &options.format)) return NULL;
    if (begin(&call, module, program) && end(&call, dtc_graph(&call.program, &options, &bytes)))
        picture = PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.n_bytes);
    dtc_free(bytes.data);
    return finish(&call, picture);
}

/* check(program, step, rows, stops): a list of findings */
PyObject *dtpy_check(PyObject *module, PyObject *arguments) {
    dtc_check_program_options options = {.size = sizeof options, .finding = on_finding, .progress = on_progress};
    PyObject *program, *stops, *findings = NULL;
    long long rows;
    call call;
    if (!PyArg_ParseTuple(arguments, "O!zLO!", &PyTuple_Type, &program, &options.step, &rows, &PyList_Type, &stops)) return NULL;
    options.rows = rows;
    options.context = &call;
    bool has_begun = begin(&call, module, program);
    call.stops = stops;
    if (has_begun && end(&call, dtc_check_program(&call.program, &options, NULL))) findings = Py_NewRef(call.findings);
    return finish(&call, findings);
}
