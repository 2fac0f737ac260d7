/* program: dt._dt.Program, an artifact. */
#include "python/extension/extension.h"

/* ---- reading a program ---- */

static bool intern(const char *name, PyObject **string) {
    *string = PyUnicode_InternFromString(name);
    return *string != NULL;
}

/* Names and tensors of one kind that a step has, of which `describe` gives each. */
typedef dt_status *describe_function(const dtrt_program *program, int step, int index, dtrt_tensor *tensor);

static bool read_tensors(const dtpy_module *module, const dtrt_program *program, int step, int n, describe_function *describe, PyObject ***names,
                         dtrt_tensor **tensors) {
    *names = PyMem_Calloc((size_t)n + 1, sizeof **names); /* NULL after the last */
    *tensors = PyMem_Calloc((size_t)n + 1, sizeof **tensors);
    if (*names == NULL || *tensors == NULL) return PyErr_NoMemory(), false;
    for (int i = 0; i < n; i++) {
        (*tensors)[i] = DTRT_INIT(dtrt_tensor);
        if (dtpy_raise(module, describe(program, step, i, &(*tensors)[i])) || !intern((*tensors)[i].name, &(*names)[i])) return false;
    }
    return true;
}

static bool read_step(const dtpy_module *module, const dtrt_program *program, int step, dtpy_step *read) {
    read->info = DTRT_INIT(dtrt_step_info);
    return !dtpy_raise(module, dtrt_describe_step(program, step, &read->info)) && intern(read->info.name, &read->name) &&
           read_tensors(module, program, step, read->info.n_inputs, dtrt_describe_input, &read->inputs, &read->input_tensors) &&
           read_tensors(module, program, step, read->info.n_results, dtrt_describe_result, &read->results, &read->result_tensors) &&
           read_tensors(module, program, step, read->info.n_reports, dtrt_describe_report_shape, &read->reports, &read->report_tensors);
}

static bool read_steps(dtpy_program *self) {
    dtrt_program_info info = DTRT_INIT(dtrt_program_info);
    if (dtpy_raise(self->module, dtrt_program_describe(self->program, &info))) return false;
    self->steps = PyMem_Calloc((size_t)info.n_steps + 1, sizeof *self->steps);
    if (self->steps == NULL) return PyErr_NoMemory(), false;
    for (self->n_steps = 0; self->n_steps < info.n_steps; self->n_steps++)
        if (!read_step(self->module, self->program, self->n_steps, &self->steps[self->n_steps])) return self->n_steps++, false;
    return true;
}

static void free_names(PyObject **names) {
    for (PyObject **name = names; name != NULL && *name != NULL; name++) Py_DECREF(*name);
    PyMem_Free(names);
}

/* Program(path): of a file. Program(name, bytes): of an artifact in memory. */
static PyObject *create(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"path", "artifact", NULL};
    const char *path, *bytes = NULL;
    Py_ssize_t n_bytes = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|z#", names, &path, &bytes, &n_bytes)) return NULL;
    const dtpy_module *module = dtpy_module_of(type);
    dtpy_program *self = module != NULL ? (dtpy_program *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0) : NULL;
    if (self == NULL) return NULL;
    self->module = module;
    dt_status *status;
    Py_BEGIN_ALLOW_THREADS status =
        bytes == NULL ? dtrt_open(path, NULL, &self->program) : dtrt_open_memory(path, bytes, (size_t)n_bytes, NULL, &self->program);
    Py_END_ALLOW_THREADS if (!dtpy_raise(module, status) && read_steps(self)) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void deallocate(PyObject *object) {
    dtpy_program *self = (dtpy_program *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (int i = 0; i < self->n_steps; i++) {
        dtpy_step *step = &self->steps[i];
        Py_XDECREF(step->name);
        free_names(step->inputs);
        free_names(step->results);
        free_names(step->reports);
        PyMem_Free(step->input_tensors);
        PyMem_Free(step->result_tensors);
        PyMem_Free(step->report_tensors);
    }
    PyMem_Free(self->steps);
    dtrt_close(self->program);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF((PyObject *)type);
}

int dtpy_find_step(const dtpy_program *program, PyObject *name) {
    for (int i = 0; i < program->n_steps; i++) {
        int is_equal = PyObject_RichCompareBool(program->steps[i].name, name, Py_EQ);
        if (is_equal != 0) return is_equal > 0 ? i : -1;
    }
    PyObject *names = PyList_New(0), *separator = PyUnicode_FromString(", "), *joined = NULL;
    for (int i = 0; names != NULL && i < program->n_steps; i++)
        if (PyList_Append(names, program->steps[i].name) < 0) Py_CLEAR(names);
    if (names != NULL && separator != NULL) joined = PyUnicode_Join(separator, names);
    if (joined != NULL) PyErr_Format(program->module->of_code[DT_NOT_FOUND], "there is no step %R: the program has %U", name, joined);
    Py_XDECREF(names);
    Py_XDECREF(separator);
    Py_XDECREF(joined);
    return -1;
}

/* ---- what a program says of itself ---- */

/* (name, dtype, (dims…), kind or None, trainable): dims has -1 for rows. */
static PyObject *describe_tensor(const dtrt_tensor *tensor) {
    PyObject *dims = PyTuple_New(tensor->n_dims);
    for (int i = 0; dims != NULL && i < tensor->n_dims; i++) {
        PyObject *dim = PyLong_FromLongLong(tensor->dims[i]);
        if (dim == NULL || PyTuple_SetItem(dims, i, dim) < 0) Py_CLEAR(dims);
    }
    if (dims == NULL) return NULL;
    return Py_BuildValue("(ssNzO)", tensor->name, dtrt_dtype_name(tensor->dtype), dims, tensor->kind, tensor->trainable ? Py_True : Py_False);
}

static PyObject *describe_tensors(int n, const dtrt_tensor *tensors) {
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < n; i++) {
        PyObject *tensor = describe_tensor(&tensors[i]);
        if (tensor == NULL || PyList_Append(list, tensor) < 0) Py_CLEAR(list);
        Py_XDECREF(tensor);
    }
    return list;
}

static PyObject *describe_names(int n, PyObject *const *names) {
    PyObject *list = PyList_New(n);
    for (int i = 0; list != NULL && i < n; i++) PyList_SetItem(list, i, Py_NewRef(names[i]));
    return list;
}

/* [(name, trains, pipeline or None, inputs, results, reports), …] */
static PyObject *describe_steps(PyObject *object, PyObject *none) {
    (void)none;
    const dtpy_program *self = (dtpy_program *)object;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < self->n_steps; i++) {
        const dtpy_step *step = &self->steps[i];
        PyObject *described =
            Py_BuildValue("(OOzNNN)", step->name, step->info.trains ? Py_True : Py_False, step->info.pipeline,
                          describe_tensors(step->info.n_inputs, step->input_tensors), describe_tensors(step->info.n_results, step->result_tensors),
                          describe_names(step->info.n_reports, step->reports));
        if (described == NULL || PyList_Append(list, described) < 0) Py_CLEAR(list);
        Py_XDECREF(described);
    }
    return list;
}

static PyObject *describe_variables(PyObject *object, PyObject *none) {
    (void)none;
    const dtpy_program *self = (dtpy_program *)object;
    dtrt_program_info info = DTRT_INIT(dtrt_program_info);
    if (dtpy_raise(self->module, dtrt_program_describe(self->program, &info))) return NULL;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < info.n_variables; i++) {
        dtrt_tensor tensor = DTRT_INIT(dtrt_tensor);
        PyObject *described = dtpy_raise(self->module, dtrt_describe_variable(self->program, i, &tensor)) ? NULL : describe_tensor(&tensor);
        if (described == NULL || PyList_Append(list, described) < 0) Py_CLEAR(list);
        Py_XDECREF(described);
    }
    return list;
}

/* (name, path, compiler, hash, capacity, parameters, trainable) */
static PyObject *describe(PyObject *object, PyObject *none) {
    (void)none;
    dtrt_program_info info = DTRT_INIT(dtrt_program_info);
    if (dtpy_raise(((dtpy_program *)object)->module, dtrt_program_describe(((dtpy_program *)object)->program, &info))) return NULL;
    return Py_BuildValue("(ssssLLL)", info.name, info.path, info.compiler, info.hash, (long long)info.capacity, (long long)info.n_parameters,
                         (long long)info.n_trainable);
}

static PyObject *describe_launch_values(PyObject *object, PyObject *none) {
    (void)none;
    const dtpy_program *self = (dtpy_program *)object;
    dtrt_program_info info = DTRT_INIT(dtrt_program_info);
    if (dtpy_raise(self->module, dtrt_program_describe(self->program, &info))) return NULL;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < info.n_launch_values; i++) {
        const char *name;
        PyObject *string = dtpy_raise(self->module, dtrt_describe_launch_value(self->program, i, &name)) ? NULL : PyUnicode_FromString(name);
        if (string == NULL || PyList_Append(list, string) < 0) Py_CLEAR(list);
        Py_XDECREF(string);
    }
    return list;
}

static PyObject *read_text(PyObject *object, PyObject *member) {
    PyObject *name = PyUnicode_AsUTF8String(member);
    char *text = NULL;
    PyObject *string = NULL;
    if (name != NULL &&
        !dtpy_raise(((dtpy_program *)object)->module, dtrt_program_text(((dtpy_program *)object)->program, PyBytes_AsString(name), &text)))
        string = dtpy_read_text(text);
    dtrt_free(text);
    Py_XDECREF(name);
    return string;
}

static PyMethodDef methods[] = {
    {"_describe", describe, METH_NOARGS, NULL},
    {"_steps", describe_steps, METH_NOARGS, NULL},
    {"_variables", describe_variables, METH_NOARGS, NULL},
    {"_launch_values", describe_launch_values, METH_NOARGS, NULL},
    {"_text", read_text, METH_O, NULL},
    {"_info", dtpy_program_info, METH_NOARGS, NULL},
    {"_bench", (PyCFunction)(void (*)(void))dtpy_program_bench, METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, (char *)"An artifact, opened."}, {Py_tp_new, create}, {Py_tp_dealloc, deallocate}, {Py_tp_methods, methods}, {0, NULL},
};
PyType_Spec dtpy_program_spec = {
    .name = "dt._dt.Program", .basicsize = sizeof(dtpy_program), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots};
