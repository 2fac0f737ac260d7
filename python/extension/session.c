/* session: dt._dt.Session, the variables of a program on devices: steps, variables, files. Whole runs are in session_runs.c. */
#include "python/extension/extension.h"

#include <string.h>

/* ---- who may call ---- */

bool dtpy_is_open(dtpy_session *self) {
    if (self->session == NULL) PyErr_SetString(self->module->of_code[DT_FAILED_PRECONDITION], "the session is closed");
    return self->session != NULL;
}

bool dtpy_enter(dtpy_session *self, PyObject *listener) {
    if (!dtpy_is_open(self)) return false;
    if (self->busy) {
        PyErr_SetString(self->module->of_code[DT_FAILED_PRECONDITION], "the session is in use, by another thread or by the call whose event this is");
        return false;
    }
    self->busy = true;
    self->listener = listener;
    self->thread = PyEval_SaveThread();
    return true;
}

bool dtpy_leave(dtpy_session *self, dt_status *status) {
    PyEval_RestoreThread(self->thread);
    self->busy = false;
    self->listener = NULL;
    if (self->raised[0] == NULL) return !dtpy_raise(self->module, status);
    dtrt_status_free(status); /* it says that a callback ended the call */
    PyErr_Restore(self->raised[0], self->raised[1], self->raised[2]);
    memset(self->raised, 0, sizeof self->raised);
    return false;
}

/* ---- steps ---- */

/* The index of input `name` of a step; -1: there is none. Names of keywords are interned, as ours are. */
static int find_input(const dtpy_step *step, PyObject *name) {
    for (int i = 0; i < step->info.n_inputs; i++)
        if (step->inputs[i] == name) return i;
    for (int i = 0; i < step->info.n_inputs; i++)
        if (PyUnicode_Compare(step->inputs[i], name) == 0) return i;
    return -1;
}

static int refuse_input(const dtpy_step *step, const char *problem, PyObject *name) {
    PyObject *separator = PyUnicode_FromString(", "), *names = PyList_New(0), *joined = NULL;
    for (int i = 0; names != NULL && i < step->info.n_inputs; i++)
        if (PyList_Append(names, step->inputs[i]) < 0) Py_CLEAR(names);
    if (separator != NULL && names != NULL) joined = PyUnicode_Join(separator, names);
    if (joined != NULL && step->info.n_inputs > 0)
        PyErr_Format(PyExc_TypeError, "%U: %s %R: it takes %U", step->name, problem, name, joined);
    else if (joined != NULL)
        PyErr_Format(PyExc_TypeError, "%U: %s %R: it takes no arrays", step->name, problem, name);
    Py_XDECREF(separator);
    Py_XDECREF(names);
    Py_XDECREF(joined);
    return -1;
}

/* Arrays for the inputs of a step, to be returned one by one. */
static int borrow_inputs(const dtpy_step *step, PyObject *const *values, PyObject *names, dtpy_borrowed *borrowed) {
    Py_ssize_t n = names != NULL ? PyTuple_Size(names) : 0;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *name = PyTuple_GetItem(names, k);
        int i = find_input(step, name);
        if (i < 0) return refuse_input(step, "there is no input", name);
        if (dtpy_borrow(values[k], step->info.name, &step->input_tensors[i], &borrowed[i]) < 0) return -1;
    }
    for (int i = 0; n < step->info.n_inputs && i < step->info.n_inputs; i++)
        if (borrowed[i].array.data == NULL) return refuse_input(step, "there is no array for input", step->inputs[i]);
    return 0;
}

/* Rows of the batch: those of an input that has rows; where none has, those of a full batch. */
static int64_t count_rows(dtpy_session *self, const dtpy_step *step, const dtrt_array *arrays) {
    for (int i = 0; i < step->info.n_inputs; i++)
        if (step->input_tensors[i].n_dims > 0 && step->input_tensors[i].dims[0] == DTRT_ROWS) return arrays[i].dims[0];
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    dtrt_status_free(dtrt_session_describe(self->session, &info)); /* 0 rows where it fails, and nothing is read then */
    return info.n_rows;
}

/* dict[name] = value, which is taken over. */
static bool put(PyObject *dict, PyObject *name, PyObject *value) {
    bool is_put = value != NULL && PyDict_SetItem(dict, name, value) == 0;
    Py_XDECREF(value);
    return is_put;
}

typedef dt_status *report_reader(dtrt_session *session, int step, int report, double *values, size_t n);

/* A float, or an array of the report's shape. */
static PyObject *read_report(dtpy_session *self, int index, int report, report_reader *read) {
    const dtrt_tensor *shape = &self->program->steps[index].report_tensors[report];
    double number;
    if (shape->n_dims == 0) return dtpy_raise(self->module, read(self->session, index, report, &number, 1)) ? NULL : PyFloat_FromDouble(number);
    PyObject *memory = dtpy_memory_create(self->module, shape->dtype, shape->n_dims, shape->dims, 0, NULL, NULL), *array = NULL;
    if (memory == NULL) return NULL;
    dt_status *status = read(self->session, index, report, dtpy_memory_data(memory), dtpy_memory_bytes(memory) / sizeof(double));
    if (!dtpy_raise(self->module, status)) array = PyObject_CallFunctionObjArgs(self->as_array, memory, NULL);
    Py_DECREF(memory);
    return array;
}

/* Its reports, of the last step or in total, as a dict. */
static PyObject *read_reports(dtpy_session *self, int index, report_reader *read) {
    const dtpy_step *step = &self->program->steps[index];
    PyObject *dict = PyDict_New();
    for (int i = 0; dict != NULL && i < step->info.n_reports; i++)
        if (!put(dict, step->reports[i], read_report(self, index, i, read))) Py_CLEAR(dict);
    return dict;
}

static PyObject *read_result(dtpy_session *self, int index, int result, int64_t rows) {
    const dtrt_tensor *tensor = &self->program->steps[index].result_tensors[result];
    PyObject *memory = dtpy_memory_create(self->module, tensor->dtype, tensor->n_dims, tensor->dims, rows, NULL, NULL);
    if (memory == NULL) return NULL;
    dt_status *status = dtrt_result(self->session, index, result, dtpy_memory_data(memory), dtpy_memory_bytes(memory), NULL);
    PyObject *array = dtpy_raise(self->module, status) ? NULL : PyObject_CallFunctionObjArgs(self->as_array, memory, NULL);
    Py_DECREF(memory);
    return array;
}

/* What the step reports and returns. */
static PyObject *collect(dtpy_session *self, int index, int64_t rows) {
    const dtpy_step *step = &self->program->steps[index];
    PyObject *dict = read_reports(self, index, dtrt_report_values);
    for (int i = 0; dict != NULL && i < step->info.n_results; i++)
        if (!put(dict, step->results[i], read_result(self, index, i, rows))) Py_CLEAR(dict);
    return dict;
}

static PyObject *run_step(dtpy_session *self, int index, PyObject *const *values, PyObject *names) {
    const dtpy_step *step = &self->program->steps[index];
    size_t n = (size_t)step->info.n_inputs;
    dtpy_borrowed *borrowed = PyMem_Calloc(n + 1, sizeof *borrowed);
    dtrt_array *arrays = PyMem_Malloc((n + 1) * sizeof *arrays);
    PyObject *result = NULL;
    if (borrowed == NULL || arrays == NULL)
        PyErr_NoMemory();
    else if (borrow_inputs(step, values, names, borrowed) == 0) {
        for (size_t i = 0; i < n; i++) arrays[i] = borrowed[i].array;
        if (dtpy_enter(self, NULL) && dtpy_leave(self, dtrt_step(self->session, index, arrays, 0))) {
            self->busy = true; /* what is read is this step's, though as_array may let another thread run */
            int64_t rows = count_rows(self, step, arrays);
            self->n_examples[index] += rows;
            result = collect(self, index, rows);
            self->busy = false;
        }
    }
    for (size_t i = 0; borrowed != NULL && i < n; i++) dtpy_return(&borrowed[i]);
    PyMem_Free(borrowed);
    PyMem_Free(arrays);
    return result;
}

/* A mapping of arrays by name as the names and values of a call, both to be given back; NULL, with an exception. */
static PyObject *list_inputs(PyObject *mapping, PyObject **names) {
    PyObject *keys = PyMapping_Keys(mapping), *values = PyMapping_Values(mapping);
    *names = keys != NULL ? PyList_AsTuple(keys) : NULL;
    Py_XDECREF(keys);
    for (Py_ssize_t i = 0; values != NULL && *names != NULL && i < PyTuple_Size(*names); i++)
        if (!PyUnicode_Check(PyTuple_GetItem(*names, i))) {
            PyErr_Format(PyExc_TypeError, "the inputs of a step have names, not %R", PyTuple_GetItem(*names, i));
            Py_CLEAR(values);
        }
    PyObject *given = values != NULL && *names != NULL ? PyList_AsTuple(values) : NULL;
    Py_XDECREF(values);
    if (given == NULL) Py_CLEAR(*names);
    return given;
}

static PyObject *run_step_on(dtpy_session *self, int index, PyObject *mapping) {
    PyObject *names, *values = list_inputs(mapping, &names), *result = NULL;
    if (values == NULL) return NULL;
    Py_ssize_t n = PyTuple_Size(values);
    PyObject **array = PyMem_Malloc(((size_t)n + 1) * sizeof *array);
    for (Py_ssize_t i = 0; array != NULL && i < n; i++) array[i] = PyTuple_GetItem(values, i);
    if (array == NULL)
        PyErr_NoMemory();
    else
        result = run_step(self, index, array, names);
    PyMem_Free(array);
    Py_DECREF(values);
    Py_DECREF(names);
    return result;
}

static const char step_text[] = "step($self, name, arrays=None, /, **inputs)\n--\n\n"
                                "Run a step on one batch of arrays, and return what it reports and returns.\n\n"
                                "Each input of the step is a keyword, or all of them are a mapping of arrays by name. An array is anything with the "
                                "buffer protocol or DLPack: of NumPy, PyTorch, "
                                "TensorFlow, JAX. It is read where\n"
                                "it is, unless it is not contiguous. Its element type and shape are those of the program; nothing is cast. The "
                                "result is a dict: a float for each\n"
                                "report, of this batch alone, or a NumPy array where it has a shape, and a NumPy array for each result.\n";

static PyObject *step(PyObject *object, PyObject *const *values, Py_ssize_t n_values, PyObject *names) {
    dtpy_session *self = (dtpy_session *)object;
    PyObject *mapping = n_values == 2 && values[1] != Py_None ? values[1] : NULL;
    bool has_names = names != NULL && PyTuple_Size(names) > 0;
    if (n_values < 1 || n_values > 2 || (mapping != NULL && (has_names || !PyObject_HasAttrString(mapping, "keys")))) {
        PyErr_SetString(PyExc_TypeError, "step() takes the name of a step, then its inputs, by name or as one mapping: step(\"train\", image=array)");
        return NULL;
    }
    int index = dtpy_is_open(self) ? dtpy_find_step(self->program, values[0]) : -1;
    if (index < 0) return NULL;
    return mapping != NULL ? run_step_on(self, index, mapping) : run_step(self, index, values + n_values, names);
}

static PyObject *totals(PyObject *object, PyObject *name) {
    dtpy_session *self = (dtpy_session *)object;
    int index = dtpy_is_open(self) ? dtpy_find_step(self->program, name) : -1;
    return index >= 0 ? read_reports(self, index, dtrt_total_values) : NULL;
}

static PyObject *reset_totals(PyObject *object, PyObject *name) {
    dtpy_session *self = (dtpy_session *)object;
    int index = dtpy_is_open(self) ? dtpy_find_step(self->program, name) : -1;
    if (index < 0 || dtpy_raise(self->module, dtrt_reset_totals(self->session, index))) return NULL;
    self->n_examples[index] = 0;
    return Py_NewRef(Py_None);
}

static PyObject *n_examples(PyObject *object, PyObject *name) {
    dtpy_session *self = (dtpy_session *)object;
    int index = dtpy_is_open(self) ? dtpy_find_step(self->program, name) : -1;
    return index >= 0 ? PyLong_FromLongLong(self->n_examples[index]) : NULL;
}

/* ---- variables ---- */

static int find_variable(dtpy_session *self, PyObject *path, dtrt_tensor *tensor) {
    if (!dtpy_is_open(self)) return -1;
    PyObject *text = PyUnicode_AsUTF8String(path);
    if (text == NULL) return -1;
    int variable = dtrt_find_variable(self->program->program, PyBytes_AsString(text));
    Py_DECREF(text);
    if (variable < 0) return PyErr_Format(self->module->of_code[DT_NOT_FOUND], "there is no variable %R", path), -1;
    return dtpy_raise(self->module, dtrt_describe_variable(self->program->program, variable, tensor)) ? -1 : variable;
}

/* What the host cannot read where it is is copied. */
static PyObject *get_variable(PyObject *object, PyObject *path) {
    dtpy_session *self = (dtpy_session *)object;
    dtrt_tensor tensor = DTRT_INIT(dtrt_tensor);
    int variable = find_variable(self, path, &tensor);
    if (variable < 0) return NULL;
    dtrt_array view;
    dt_status *status = dtrt_view(self->session, variable, &view);
    if (status == NULL || status->code != DT_UNIMPLEMENTED)
        return dtpy_raise(self->module, status) ? NULL
                                                : dtpy_memory_create(self->module, tensor.dtype, tensor.n_dims, tensor.dims, 0, view.data, object);
    dtrt_status_free(status);
    PyObject *memory = dtpy_memory_create(self->module, tensor.dtype, tensor.n_dims, tensor.dims, 0, NULL, NULL);
    if (memory != NULL && dtpy_raise(self->module, dtrt_read(self->session, variable, dtpy_memory_data(memory), dtpy_memory_bytes(memory))))
        Py_CLEAR(memory);
    return memory;
}

static int set_variable(PyObject *object, PyObject *path, PyObject *value) {
    dtpy_session *self = (dtpy_session *)object;
    dtrt_tensor tensor = DTRT_INIT(dtrt_tensor);
    int variable = find_variable(self, path, &tensor);
    if (variable < 0) return -1;
    if (value == NULL) return PyErr_SetString(PyExc_TypeError, "a variable cannot be deleted"), -1;
    dtpy_borrowed borrowed;
    if (dtpy_borrow(value, "session", &tensor, &borrowed) < 0) return -1;
    bool is_set = dtpy_enter(self, NULL) && dtpy_leave(self, dtrt_write(self->session, variable, &borrowed.array));
    dtpy_return(&borrowed);
    return is_set ? 0 : -1;
}

/* ---- launch values ---- */

static PyObject *get_launch(PyObject *object, PyObject *name) {
    dtpy_session *self = (dtpy_session *)object;
    PyObject *text = dtpy_is_open(self) ? PyUnicode_AsUTF8String(name) : NULL;
    double value;
    PyObject *result = NULL;
    if (text != NULL && !dtpy_raise(self->module, dtrt_get_launch(self->session, PyBytes_AsString(text), &value))) result = PyFloat_FromDouble(value);
    Py_XDECREF(text);
    return result;
}

static PyObject *set_launch(PyObject *object, PyObject *arguments) {
    dtpy_session *self = (dtpy_session *)object;
    const char *name;
    double value;
    if (!dtpy_is_open(self) || !PyArg_ParseTuple(arguments, "sd", &name, &value)) return NULL;
    return dtpy_raise(self->module, dtrt_set_launch(self->session, name, value)) ? NULL : Py_NewRef(Py_None);
}

/* ---- files ---- */

static PyObject *save(PyObject *object, PyObject *arguments) {
    dtpy_session *self = (dtpy_session *)object;
    const char *folder;
    char *path = NULL;
    if (!PyArg_ParseTuple(arguments, "s", &folder)) return NULL;
    PyObject *result = NULL;
    if (dtpy_enter(self, NULL) && dtpy_leave(self, dtrt_save(self->session, folder, &path))) result = PyUnicode_DecodeFSDefault(path);
    dtrt_free(path);
    return result;
}

static PyObject *load(PyObject *object, PyObject *arguments) {
    dtpy_session *self = (dtpy_session *)object;
    const char *path;
    if (!PyArg_ParseTuple(arguments, "s", &path)) return NULL;
    return dtpy_enter(self, NULL) && dtpy_leave(self, dtrt_load(self->session, path)) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *load_weights(PyObject *object, PyObject *arguments) {
    dtpy_session *self = (dtpy_session *)object;
    const char *path;
    PyObject *listener;
    dtrt_weights_options options = DTRT_INIT(dtrt_weights_options);
    if (!PyArg_ParseTuple(arguments, "szpO", &path, &options.map, &options.allow_missing, &listener)) return NULL;
    return dtpy_enter(self, listener) && dtpy_leave(self, dtrt_load_weights(self->session, path, &options)) ? Py_NewRef(Py_None) : NULL;
}

/* ---- beginning and end ---- */

/* Session(program, as_array, listener, and the options of dtrt_session_options) */
static PyObject *create(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"program",
                            "as_array",
                            "listener",
                            "devices",
                            "threads",
                            "replicas",
                            "global_batch",
                            "seed",
                            "forward_only",
                            "ignore_bad_index",
                            "no_libraries",
                            "deadline",
                            "data",
                            "check_numerics",
                            "measure_kernels",
                            "timeline_steps",
                            "processes",
                            "shard_optimizer",
                            "shard_parameters",
                            "gather_rounds",
                            "shards_over",
                            "stages",
                            "fast_sums",
                            "placement",
                            "by_rows",
                            "no_data_check",
                            NULL};
    const dtpy_module *module = dtpy_module_of(type);
    if (module == NULL) return NULL;
    dtrt_session_options options = DTRT_INIT(dtrt_session_options);
    PyObject *program, *as_array, *listener, *processes;
    long long threads, replicas, global_batch, seed, timeline_steps, gather_rounds, shards_over, stages;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!OOzLLLLpppdzppLOppLLLpzzp", names, module->program, &program, &as_array, &listener,
                                     &options.devices, &threads, &replicas, &global_batch, &seed, &options.forward_only, &options.ignore_bad_index,
                                     &options.no_libraries, &options.deadline_seconds, &options.data, &options.check_numerics,
                                     &options.measure_kernels, &timeline_steps, &processes, &options.shard_optimizer, &options.shard_parameters,
                                     &gather_rounds, &shards_over, &stages, &options.fast_sums, &options.placement, &options.by_rows,
                                     &options.no_data_check))
        return NULL;
    if (processes != Py_None && !PyObject_TypeCheck(processes, module->processes))
        return PyErr_SetString(PyExc_TypeError, "processes: dt.Processes() are, or None"), NULL;
    if (processes != Py_None && dtpy_processes_of(processes) == NULL) /* without the others it would train on its own */
        return PyErr_SetString(module->of_code[DT_FAILED_PRECONDITION], "the processes are closed"), NULL;
    dtpy_session *self = (dtpy_session *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) return NULL;
    self->module = module;
    self->program = (dtpy_program *)Py_NewRef(program);
    self->as_array = Py_NewRef(as_array);
    self->n_examples = PyMem_Calloc((size_t)self->program->n_steps + 1, sizeof *self->n_examples);
    if (self->n_examples == NULL) return Py_DECREF(self), PyErr_NoMemory();
    if (processes != Py_None) self->processes = Py_NewRef(processes);
    if (self->processes != NULL) options.processes = dtpy_processes_of(processes);
    options.threads = threads;
    options.replicas = replicas;
    options.global_batch = global_batch;
    options.seed = seed;
    options.timeline_steps = timeline_steps;
    options.gather_rounds = gather_rounds;
    options.shards_over = shards_over;
    options.stages = stages;
    options.event = dtpy_on_event;
    options.context = self;
    self->listener = listener;
    self->busy = true;
    self->thread = PyEval_SaveThread();
    dt_status *status = dtrt_session_create(self->program->program, &options, &self->session);
    if (status == NULL) status = dtrt_initialize(self->session);
    if (dtpy_leave(self, status)) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

/* While it releases the GIL the session is closed for every other thread. In a child after fork it fails, and the session is as it was. */
static dt_status *destroy(dtpy_session *self) {
    dtrt_session *session = self->session;
    dt_status *status;
    self->session = NULL;
    Py_BEGIN_ALLOW_THREADS status = dtrt_session_destroy(session);
    Py_END_ALLOW_THREADS if (status != NULL) self->session = session;
    return status;
}

static PyObject *close_session(PyObject *object, PyObject *none) {
    (void)none;
    dtpy_session *self = (dtpy_session *)object;
    if (self->session == NULL) return Py_NewRef(Py_None);
    if (self->n_views > 0) {
        PyErr_Format(PyExc_BufferError, "%zd views of the session's variables are alive: delete them first, or copy what they show", self->n_views);
        return NULL;
    }
    if (self->busy) return dtpy_enter(self, NULL), NULL; /* which says so */
    return dtpy_raise(self->module, destroy(self)) ? NULL : Py_NewRef(Py_None);
}

/* In a child after fork nothing is destroyed: the threads are the parent's. */
static void deallocate(PyObject *object) {
    dtpy_session *self = (dtpy_session *)object;
    PyTypeObject *type = Py_TYPE(object);
    dtrt_status_free(destroy(self));
    Py_XDECREF((PyObject *)self->program);
    Py_XDECREF(self->as_array);
    Py_XDECREF(self->processes);
    PyMem_Free(self->n_examples);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF((PyObject *)type);
}

/* (replicas, global_batch, seed, memory_bytes, n_devices, n_threads, level, steps, epoch, examples, first_row, n_rows) */
static PyObject *describe(PyObject *object, PyObject *none) {
    (void)none;
    dtpy_session *self = (dtpy_session *)object;
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    int64_t first, n_rows;
    if (!dtpy_is_open(self) || dtpy_raise(self->module, dtrt_session_describe(self->session, &info))) return NULL;
    if (dtpy_raise(self->module, dtrt_session_rows(self->session, info.global_batch, &first, &n_rows))) return NULL;
    return Py_BuildValue("(LLLLiisLLLLL)", (long long)info.replicas, (long long)info.global_batch, (long long)info.seed, (long long)info.memory_bytes,
                         info.n_devices, info.n_threads, info.level, (long long)info.n_steps, (long long)info.epoch, (long long)info.examples,
                         (long long)first, (long long)n_rows);
}

/* [(name, memory, variables, optimizer's slots)] */
static PyObject *describe_devices(PyObject *object, PyObject *none) {
    (void)none;
    dtpy_session *self = (dtpy_session *)object;
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    if (!dtpy_is_open(self) || dtpy_raise(self->module, dtrt_session_describe(self->session, &info))) return NULL;
    PyObject *list = PyList_New(0);
    for (int d = 0; list != NULL && d < info.n_devices; d++) {
        dtrt_device_info device = DTRT_INIT(dtrt_device_info);
        bool failed = dtpy_raise(self->module, dtrt_session_describe_device(self->session, d, &device));
        PyObject *one = failed ? NULL
                               : Py_BuildValue("(sLLL)", device.name, (long long)device.memory_bytes, (long long)device.variable_bytes,
                                               (long long)device.optimizer_bytes);
        if (one == NULL || PyList_Append(list, one) != 0) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *is_closed(PyObject *object, void *none) {
    (void)none;
    return PyBool_FromLong(((dtpy_session *)object)->session == NULL);
}

static const char close_text[] =
    "close($self, /)\n--\n\n"
    "Give back the memory and the devices. A session that is garbage does so too. While views of its variables live this is a BufferError.\n";

static PyMethodDef methods[] = {
    {"step", (PyCFunction)(void (*)(void))step, METH_FASTCALL | METH_KEYWORDS, step_text},
    {"close", close_session, METH_NOARGS, close_text},
    {"_devices", describe_devices, METH_NOARGS, NULL},
    {"_totals", totals, METH_O, NULL},
    {"_n_examples", n_examples, METH_O, NULL},
    {"_reset_totals", reset_totals, METH_O, NULL},
    {"_get_launch", get_launch, METH_O, NULL},
    {"_set_launch", set_launch, METH_VARARGS, NULL},
    {"_save", save, METH_VARARGS, NULL},
    {"_load", load, METH_VARARGS, NULL},
    {"_load_weights", load_weights, METH_VARARGS, NULL},
    {"_describe", describe, METH_NOARGS, NULL},
    {"_train", (PyCFunction)(void (*)(void))dtpy_session_train, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_evaluate", (PyCFunction)(void (*)(void))dtpy_session_evaluate, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_generate", (PyCFunction)(void (*)(void))dtpy_session_generate, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_log_scalar", dtpy_session_log_scalar, METH_VARARGS, NULL},
    {"_log_image", dtpy_session_log_image, METH_VARARGS, NULL},
    {"_write_data", (PyCFunction)(void (*)(void))dtpy_session_write_data, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_write_timeline", dtpy_session_write_timeline, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef attributes[] = {
    {"closed", is_closed, NULL, "Whether close() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, (char *)"The variables of a program on devices."},
    {Py_tp_new, create},
    {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_mp_subscript, get_variable},
    {Py_mp_ass_subscript, set_variable},
    {0, NULL},
};
PyType_Spec dtpy_session_spec = {
    .name = "dt._dt.Session", .basicsize = sizeof(dtpy_session), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots};
