/* processes: dt._dt.Processes, those that a launcher started together with this one. */
#include "python/extension/extension.h"

dtrt_processes *dtpy_processes_of(PyObject *object) { return ((dtpy_processes *)object)->processes; }

/* Processes(deadline) */
static PyObject *create(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"deadline", NULL};
    const dtpy_module *module = dtpy_module_of(type);
    dtrt_processes_options options = DTRT_INIT(dtrt_processes_options);
    if (module == NULL || !PyArg_ParseTupleAndKeywords(arguments, keywords, "|d", names, &options.deadline_seconds)) return NULL;
    dtpy_processes *self = (dtpy_processes *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) return NULL;
    self->module = module;
    dt_status *status;
    Py_BEGIN_ALLOW_THREADS status = dtrt_processes_open(&options, &self->processes);
    Py_END_ALLOW_THREADS if (!dtpy_raise(module, status)) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static dt_status *destroy(dtpy_processes *self) {
    dtrt_processes *processes = self->processes;
    dt_status *status;
    self->processes = NULL;
    Py_BEGIN_ALLOW_THREADS status = dtrt_processes_close(processes);
    Py_END_ALLOW_THREADS if (status != NULL && status->code == DT_FAILED_PRECONDITION) self->processes = processes; /* it is still open */
    return status;
}

static PyObject *close_processes(PyObject *object, PyObject *none) {
    (void)none;
    dtpy_processes *self = (dtpy_processes *)object;
    return dtpy_raise(self->module, destroy(self)) ? NULL : Py_NewRef(Py_None);
}

static PyObject *abort_processes(PyObject *object, PyObject *arguments) {
    dtpy_processes *self = (dtpy_processes *)object;
    const char *reason;
    if (!PyArg_ParseTuple(arguments, "s", &reason)) return NULL;
    return self->processes != NULL && dtpy_raise(self->module, dtrt_processes_abort(self->processes, reason)) ? NULL : Py_NewRef(Py_None);
}

/* (number, count, note) */
static PyObject *describe(PyObject *object, PyObject *none) {
    (void)none;
    dtpy_processes *self = (dtpy_processes *)object;
    dtrt_processes_info info = DTRT_INIT(dtrt_processes_info);
    if (self->processes == NULL) return PyErr_SetString(self->module->of_code[DT_FAILED_PRECONDITION], "the processes are closed"), NULL;
    if (dtpy_raise(self->module, dtrt_processes_describe(self->processes, &info))) return NULL;
    return Py_BuildValue("(iiz)", info.number, info.n_processes, info.note);
}

/* A script that ends without closing has met an error, or has none to wait for: others are told, and do not wait. */
static void deallocate(PyObject *object) {
    dtpy_processes *self = (dtpy_processes *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->processes != NULL) dtrt_status_free(dtrt_processes_abort(self->processes, "it has ended without closing its processes"));
    dtrt_status_free(destroy(self));
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF((PyObject *)type);
}

static const char close_text[] = "close($self, /)\n--\n\n"
                                 "Leave the others, when the sessions are closed: all processes do. An error of the run is raised here too.\n";
static const char abort_text[] = "abort($self, reason, /)\n--\n\n"
                                 "This process cannot go on: what the others call, or wait in, raises dt.Aborted with the reason.\n";

static PyMethodDef methods[] = {{"close", close_processes, METH_NOARGS, close_text},
                                {"abort", abort_processes, METH_VARARGS, abort_text},
                                {"_describe", describe, METH_NOARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {
    {Py_tp_doc, (char *)"The processes of a run."}, {Py_tp_new, create}, {Py_tp_dealloc, deallocate}, {Py_tp_methods, methods}, {0, NULL}};
PyType_Spec dtpy_processes_spec = {
    .name = "dt._dt.Processes", .basicsize = sizeof(dtpy_processes), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots};
