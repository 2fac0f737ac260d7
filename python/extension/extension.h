/* extension: what the files of the Python module dt._dt share. It is the libraries' C interface (include/dtc.h, include/dtrt.h) as Python objects;
 * all that need not be in C is in python/dt/.
 *
 * The limited API of 3.11, so that one file serves every later Python. What runs long (steps, runs, compilations, files) releases the GIL. A session
 * is entered by one thread at a time (dtpy_enter); dtrt checks the same once more, for reads in callbacks and for children after fork. */
#ifndef DT_PYTHON_EXTENSION_H
#define DT_PYTHON_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "include/dtc.h"
#include "include/dtrt.h"
#include <stdbool.h>

/* What the module holds on to; there is one for each interpreter that imports it. */
typedef struct dtpy_module {
    PyObject *error;         /* dt.Error */
    PyObject *compile_error; /* dt.CompileError */
    PyObject *of_code[DT_INTERNAL + 1];
    PyTypeObject *memory, *processes, *program, *session;
} dtpy_module;

/* Of one of its types, or of a subclass; NULL, with an exception. Objects remember it: the search is slow. */
const dtpy_module *dtpy_module_of(PyTypeObject *type);

/* ---- errors.c ---- */

/* Creates dt.Error and its subclasses. */
int dtpy_add_errors(PyObject *module, dtpy_module *state);
/* Sets the exception for a status. */
void dtpy_set_error(const dtpy_module *module, const dt_status *status);
/* The same for one of dtrt's, which it frees; false for NULL, where there is nothing to raise. */
bool dtpy_raise(const dtpy_module *module, dt_status *status);

/* ---- memory.c ---- */

extern PyType_Spec dtpy_memory_spec;

/* An object with the buffer protocol. data NULL: it gets memory of its own, writable; else it shows the memory of `session`, read-only, and keeps
 * that. dims are copied; the first is `rows` where it is DTRT_ROWS. */
PyObject *dtpy_memory_create(const dtpy_module *module, dtrt_dtype dtype, int n_dims, const int64_t *dims, int64_t rows, const void *data,
                             PyObject *session);
void *dtpy_memory_data(PyObject *memory);
size_t dtpy_memory_bytes(PyObject *memory);

/* ---- compiler.c ---- */

/* A text of the libraries' as a str: what it quotes of a program may be no UTF-8. */
PyObject *dtpy_read_text(const char *text);
/* The same of a sentence of libdtrt's or libdtc's: what it calls by a name of the headers is called as it is here. */
PyObject *dtpy_read_message(const char *text);

/* dt._dt.compile, format, summarize, graph, check. */
PyObject *dtpy_compile(PyObject *module, PyObject *arguments);
PyObject *dtpy_format(PyObject *module, PyObject *arguments);
PyObject *dtpy_summarize(PyObject *module, PyObject *arguments);
PyObject *dtpy_graph(PyObject *module, PyObject *arguments);
PyObject *dtpy_check(PyObject *module, PyObject *arguments);

/* ---- arrays.c ---- */

/* An array of Python's for the time of a call. */
typedef struct dtpy_borrowed {
    dtrt_array array;
    Py_buffer buffer;  /* obj NULL: not held */
    PyObject *capsule; /* of DLPack; or NULL */
    int64_t *strides;  /* of DLPack, in bytes; or NULL */
} dtpy_borrowed;

/* Lends `object`, without a copy, by the buffer protocol or else by DLPack. It must have the element type of `tensor`. `what` begins a message: "step
 * train". */
int dtpy_borrow(PyObject *object, const char *what, const dtrt_tensor *tensor, dtpy_borrowed *borrowed);
void dtpy_return(dtpy_borrowed *borrowed);

/* ---- program.c ---- */

extern PyType_Spec dtpy_program_spec;

/* A step, read once. */
typedef struct dtpy_step {
    PyObject *name;
    dtrt_step_info info;
    PyObject **inputs, **results, **reports; /* their names */
    dtrt_tensor *input_tensors, *result_tensors, *report_tensors;
} dtpy_step;

typedef struct dtpy_program {
    PyObject_HEAD const dtpy_module *module;
    dtrt_program *program;
    int n_steps;
    dtpy_step *steps;
} dtpy_program;

/* Index of a step by its name; -1, with an exception. */
int dtpy_find_step(const dtpy_program *program, PyObject *name);

/* ---- texts.c ---- */

PyObject *dtpy_devices(PyObject *module, PyObject *none);
PyObject *dtpy_report(PyObject *module, PyObject *arguments);
PyObject *dtpy_export(PyObject *module, PyObject *arguments);
PyObject *dtpy_program_info(PyObject *program, PyObject *none);
PyObject *dtpy_program_bench(PyObject *program, PyObject *arguments, PyObject *keywords);

/* ---- processes.c ---- */

extern PyType_Spec dtpy_processes_spec;

typedef struct dtpy_processes {
    PyObject_HEAD const dtpy_module *module;
    dtrt_processes *processes; /* NULL: closed */
} dtpy_processes;

dtrt_processes *dtpy_processes_of(PyObject *object);

/* ---- session.c ---- */

extern PyType_Spec dtpy_session_spec;

typedef struct dtpy_session {
    PyObject_HEAD const dtpy_module *module;
    dtpy_program *program;
    PyObject *processes;   /* that train it together; or NULL */
    dtrt_session *session; /* NULL: closed */
    Py_ssize_t n_views;    /* of its memory that live */
    int64_t *n_examples;   /* [n_steps of the program] that step() has run since their totals were reset */
    bool busy;             /* a thread is in a call that releases the GIL, or reads what that left */
    PyThreadState *thread; /* of that call */
    PyObject *listener;    /* called with each event of that call; or NULL */
    PyObject *raised[3];   /* by the listener, or by a signal: what the call raises when it ends */
    PyObject *as_array;    /* numpy.asarray, or what else makes an array of Memory */
} dtpy_session;

/* Before and after a call that releases the GIL: dtpy_enter fails, with an exception, where the session is closed or in use. dtpy_leave takes the
 * status of the call, and raises what it says, or what was raised in a callback: false then. */
bool dtpy_enter(dtpy_session *self, PyObject *listener);
bool dtpy_leave(dtpy_session *self, dt_status *status);
/* Whether the session is open; an exception if not. */
bool dtpy_is_open(dtpy_session *self);

/* The callback of dtrt_session_options: `context` is the dtpy_session. */
int dtpy_on_event(void *context, dtrt_session *session, const dtrt_event *event);

/* ---- data.c ---- */

/* Data of the caller's own for a run: an object of dt.data. */
typedef struct dtpy_given {
    dtpy_session *session;
    const dtpy_step *step;
    bool is_given;
    dtrt_given callers;
    dtpy_borrowed *borrowed;        /* [n_inputs] of the arrays, or of the batch that was given last */
    dtrt_array *arrays;             /* [n_inputs] the first */
    PyObject *next, *begin, *place; /* methods */
    PyObject *batch, *told;         /* what they gave last */
} dtpy_given;

/* Takes `object` for the step, None: nothing is given. false: with an exception. To be freed in any case, after the run. */
bool dtpy_take_given(dtpy_session *session, const char *step_name, PyObject *object, dtpy_given *given);
const dtrt_given *dtpy_given_data(const dtpy_given *given);
void dtpy_free_given(dtpy_given *given);

/* ---- session_runs.c ---- */

PyObject *dtpy_session_train(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *dtpy_session_evaluate(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *dtpy_session_generate(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *dtpy_session_log_scalar(PyObject *self, PyObject *arguments);
PyObject *dtpy_session_log_image(PyObject *self, PyObject *arguments);
PyObject *dtpy_session_write_data(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *dtpy_session_write_timeline(PyObject *self, PyObject *arguments);

#endif
