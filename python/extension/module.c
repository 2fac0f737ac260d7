/* module: dt._dt. */
#include "python/extension/extension.h"

static PyMethodDef functions[] = {
    {"compile", dtpy_compile, METH_VARARGS, NULL}, {"summarize", dtpy_summarize, METH_VARARGS, NULL}, {"graph", dtpy_graph, METH_VARARGS, NULL},
    {"check", dtpy_check, METH_VARARGS, NULL},     {"devices", dtpy_devices, METH_NOARGS, NULL},      {"report", dtpy_report, METH_VARARGS, NULL},
    {"export", dtpy_export, METH_VARARGS, NULL},   {"format", dtpy_format, METH_VARARGS, NULL},       {NULL, NULL, 0, NULL},
};

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec) {
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (type != NULL && PyModule_AddType(module, type) < 0) Py_CLEAR(type);
    return type;
}

static int fill(PyObject *module) {
    dtpy_module *state = PyModule_GetState(module);
    if (dtpy_add_errors(module, state) < 0) return -1;
    state->memory = add_type(module, &dtpy_memory_spec);
    state->processes = state->memory != NULL ? add_type(module, &dtpy_processes_spec) : NULL;
    state->program = state->processes != NULL ? add_type(module, &dtpy_program_spec) : NULL;
    state->session = state->program != NULL ? add_type(module, &dtpy_session_spec) : NULL;
    return state->session != NULL ? PyModule_AddStringConstant(module, "version", dtrt_version()) : -1;
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
    dtpy_module *state = PyModule_GetState(module);
    Py_VISIT(state->error);
    Py_VISIT(state->compile_error);
    for (int code = 0; code <= DT_INTERNAL; code++) Py_VISIT(state->of_code[code]);
    Py_VISIT(state->memory);
    Py_VISIT(state->processes);
    Py_VISIT(state->program);
    Py_VISIT(state->session);
    return 0;
}

static int clear(PyObject *module) {
    dtpy_module *state = PyModule_GetState(module);
    Py_CLEAR(state->error);
    Py_CLEAR(state->compile_error);
    for (int code = 0; code <= DT_INTERNAL; code++) Py_CLEAR(state->of_code[code]);
    Py_CLEAR(state->memory);
    Py_CLEAR(state->processes);
    Py_CLEAR(state->program);
    Py_CLEAR(state->session);
    return 0;
}

static void free_module(void *module) { clear(module); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};
static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                 .m_name = "dt._dt",
                                 .m_size = sizeof(dtpy_module),
                                 .m_methods = functions,
                                 .m_slots = slots,
                                 .m_traverse = traverse,
                                 .m_clear = clear,
                                 .m_free = free_module};

/* A subclass that Python code defines has no module of its own: the nearest base that has one is ours. */
const dtpy_module *dtpy_module_of(PyTypeObject *type) {
    for (; type != NULL; type = PyType_GetSlot(type, Py_tp_base)) {
        dtpy_module *state = PyType_GetModuleState(type);
        if (state != NULL) return state;
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_TypeError, "this type is not of dt");
    return NULL;
}

PyMODINIT_FUNC PyInit__dt(void) { return PyModuleDef_Init(&definition); }
