/* data: data of the caller's own for a run, as dt.data has it: arrays, or an object that is asked for batches. */
#include "python/extension/extension.h"

/* Calls a method of the object, which is the session's business meanwhile: with the GIL, and unless something was raised before. NULL: it, or what
 * was before, has raised, and the run is to stop. Arguments are taken over. */
static PyObject *call(dtpy_given *given, PyObject *method, PyObject *arguments) {
    PyObject *answer =
        arguments != NULL && given->session->raised[0] == NULL && PyErr_CheckSignals() == 0 ? PyObject_Call(method, arguments, NULL) : NULL;
    Py_XDECREF(arguments);
    return answer;
}

/* Leaves the GIL again; what was raised is kept for the end of the run. Returns whether that is now. */
static int leave(dtpy_session *session) {
    if (session->raised[0] == NULL && PyErr_Occurred() != NULL) PyErr_Fetch(&session->raised[0], &session->raised[1], &session->raised[2]);
    PyErr_Clear(); /* of two the first */
    int stops = session->raised[0] != NULL;
    session->thread = PyEval_SaveThread();
    return stops;
}

static void return_arrays(dtpy_given *given) {
    for (int i = 0; given->borrowed != NULL && i < given->step->info.n_inputs; i++) dtpy_return(&given->borrowed[i]);
}

/* Lends a tuple of arrays, in the order of the inputs. */
static int borrow_arrays(dtpy_given *given, PyObject *arrays) {
    const dtpy_step *step = given->step;
    if (!PyTuple_Check(arrays) || PyTuple_Size(arrays) != step->info.n_inputs) {
        PyErr_Format(PyExc_TypeError, "%s takes a tuple of %d arrays", step->info.name, step->info.n_inputs);
        return -1;
    }
    for (int i = 0; i < step->info.n_inputs; i++)
        if (dtpy_borrow(PyTuple_GetItem(arrays, i), step->info.name, &step->input_tensors[i], &given->borrowed[i]) < 0) return -1;
    return 0;
}

static int64_t rows_of(const dtpy_given *given) {
    for (int i = 0; i < given->step->info.n_inputs; i++) {
        const dtrt_tensor *input = &given->step->input_tensors[i];
        const dtrt_array *array = &given->borrowed[i].array;
        if (input->n_dims > 0 && input->dims[0] == DTRT_ROWS && array->n_dims > 0) return array->dims[0];
    }
    return 0;
}

static int next_batch(void *context, dtrt_session *session, dtrt_array *arrays, int64_t *rows) {
    (void)session;
    dtpy_given *given = context;
    PyEval_RestoreThread(given->session->thread);
    return_arrays(given);
    PyObject *batch = call(given, given->next, PyTuple_New(0));
    if (batch != NULL && batch != Py_None && borrow_arrays(given, batch) == 0) {
        for (int i = 0; i < given->step->info.n_inputs; i++) arrays[i] = given->borrowed[i].array;
        *rows = rows_of(given);
    }
    Py_XDECREF(given->batch);
    given->batch = batch;
    return leave(given->session);
}

static int begin_epoch(void *context, dtrt_session *session, int64_t epoch, int64_t examples, const char *place, int64_t *begun) {
    (void)session;
    dtpy_given *given = context;
    PyEval_RestoreThread(given->session->thread);
    PyObject *answer = call(given, given->begin, Py_BuildValue("(LLz)", (long long)epoch, (long long)examples, place));
    if (answer != NULL) *begun = PyLong_AsLongLong(answer);
    Py_XDECREF(answer);
    return leave(given->session);
}

static int tell_place(void *context, dtrt_session *session, const char **place) {
    (void)session;
    dtpy_given *given = context;
    PyEval_RestoreThread(given->session->thread);
    PyObject *answer = PyObject_CallNoArgs(given->place); /* also of a run that ends because something was raised */
    Py_CLEAR(given->told);
    if (answer != NULL && answer != Py_None) given->told = PyUnicode_AsUTF8String(answer);
    if (given->told != NULL) *place = PyBytes_AsString(given->told);
    bool has_failed = PyErr_Occurred() != NULL;
    Py_XDECREF(answer);
    leave(given->session);
    return has_failed;
}

/* Members of the object. */
static bool get_integer(PyObject *object, const char *name, int64_t *number) {
    PyObject *member = PyObject_GetAttrString(object, name);
    *number = member != NULL ? PyLong_AsLongLong(member) : 0;
    Py_XDECREF(member);
    return member != NULL && PyErr_Occurred() == NULL;
}

static bool take_arrays(dtpy_given *given, PyObject *object, PyObject *arrays) {
    int64_t shuffle;
    if (borrow_arrays(given, arrays) < 0 || !get_integer(object, "batch", &given->callers.batch) || !get_integer(object, "shuffle", &shuffle))
        return false;
    for (int i = 0; i < given->step->info.n_inputs; i++) given->arrays[i] = given->borrowed[i].array;
    given->callers.arrays = given->arrays;
    given->callers.shuffle = shuffle != 0;
    return true;
}

static bool take_batches(dtpy_given *given, PyObject *object) {
    given->callers.next = next_batch;
    given->callers.begin = begin_epoch;
    given->callers.place = tell_place;
    given->callers.context = given;
    given->next = PyObject_GetAttrString(object, "next");
    given->begin = PyObject_GetAttrString(object, "begin");
    given->place = PyObject_GetAttrString(object, "place");
    return given->next != NULL && given->begin != NULL && given->place != NULL && get_integer(object, "n_batches", &given->callers.n_batches);
}

bool dtpy_take_given(dtpy_session *session, const char *step_name, PyObject *object, dtpy_given *given) {
    *given = (dtpy_given){.session = session, .callers = DTRT_INIT(dtrt_given)};
    if (object == Py_None) return true;
    PyObject *name = PyUnicode_FromString(step_name), *arrays = NULL;
    int index = name != NULL ? dtpy_find_step(session->program, name) : -1;
    Py_XDECREF(name);
    if (index < 0) return false;
    given->step = &session->program->steps[index];
    size_t n = (size_t)given->step->info.n_inputs + 1;
    given->borrowed = PyMem_Calloc(n, sizeof *given->borrowed);
    given->arrays = PyMem_Calloc(n, sizeof *given->arrays);
    if (given->borrowed == NULL || given->arrays == NULL) return PyErr_NoMemory(), false;
    arrays = PyObject_GetAttrString(object, "arrays");
    bool is_taken = arrays != NULL && (arrays != Py_None ? take_arrays(given, object, arrays) : take_batches(given, object));
    Py_XDECREF(arrays);
    given->is_given = is_taken;
    return is_taken;
}

const dtrt_given *dtpy_given_data(const dtpy_given *given) { return given->is_given ? &given->callers : NULL; }

void dtpy_free_given(dtpy_given *given) {
    return_arrays(given);
    PyMem_Free(given->borrowed);
    PyMem_Free(given->arrays);
    Py_XDECREF(given->batch);
    Py_XDECREF(given->told);
    Py_XDECREF(given->next);
    Py_XDECREF(given->begin);
    Py_XDECREF(given->place);
    *given = (dtpy_given){0};
}
