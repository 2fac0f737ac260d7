/* errors: statuses as exceptions. Each kind is an exception of Python's own as well, so that `except ValueError` means what it says. */
#include "python/extension/extension.h"

#include <stdio.h>
#include <string.h>

#define IN_MODULE "dt."

static const struct {
    dt_code code;
    const char *name, *documentation;
} kinds[] = {
    {DT_INVALID_ARGUMENT, IN_MODULE "InvalidArgument", "What was asked for makes no sense. A ValueError too."},
    {DT_NOT_FOUND, IN_MODULE "NotFound", "A file, a step or a variable that should exist does not. A LookupError too."},
    {DT_ALREADY_EXISTS, IN_MODULE "AlreadyExists", "Something would have to be overwritten. A FileExistsError too."},
    {DT_OUT_OF_RANGE, IN_MODULE "OutOfRange", "An index is out of range, in the call or in the data. An IndexError too."},
    {DT_DATA_LOSS, IN_MODULE "DataLoss", "A file is truncated, altered or inconsistent. A ValueError too."},
    {DT_FAILED_PRECONDITION, IN_MODULE "FailedPrecondition",
     "The right request in the wrong state: a session that is closed, or that another thread uses. A RuntimeError too."},
    {DT_RESOURCE_EXHAUSTED, IN_MODULE "ResourceExhausted", "Memory, disk, file descriptors or threads are exhausted. A MemoryError too."},
    {DT_UNIMPLEMENTED, IN_MODULE "Unimplemented", "Not on this device, or not in this version. A NotImplementedError too."},
    {DT_ABORTED, IN_MODULE "Aborted", "A device or another process ended it. A RuntimeError too."},
    {DT_IO, IN_MODULE "InputOutput", "The operating system refused. An OSError too."},
    {DT_INTERNAL, IN_MODULE "InternalError", "A bug of dt's. A RuntimeError too."},
};

static PyObject *standard_exception(dt_code code) {
    switch (code) {
    case DT_INVALID_ARGUMENT:
    case DT_DATA_LOSS: return PyExc_ValueError;
    case DT_NOT_FOUND: return PyExc_LookupError;
    case DT_ALREADY_EXISTS: return PyExc_FileExistsError;
    case DT_OUT_OF_RANGE: return PyExc_IndexError;
    case DT_RESOURCE_EXHAUSTED: return PyExc_MemoryError;
    case DT_UNIMPLEMENTED: return PyExc_NotImplementedError;
    case DT_IO: return PyExc_OSError;
    default: return PyExc_RuntimeError;
    }
}

static PyObject *create(PyObject *module, const char *name, const char *documentation, PyObject *bases) {
    PyObject *exception = bases != NULL ? PyErr_NewExceptionWithDoc(name, documentation, bases, NULL) : NULL;
    Py_XDECREF(bases);
    if (exception != NULL && PyModule_AddObjectRef(module, name + sizeof IN_MODULE - 1, exception) < 0) Py_CLEAR(exception);
    return exception;
}

int dtpy_add_errors(PyObject *module, dtpy_module *state) {
    state->error =
        create(module, IN_MODULE "Error",
               "What all errors of dt are. `file`, `line` and `column` say where in the program, or in which file, `variable` is the path of "
               "the variable that it is about; what is not known is None.\n",
               PyTuple_Pack(1, PyExc_Exception));
    if (state->error == NULL) return -1;
    static const char *const places[] = {"file", "line", "column", "variable"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (PyObject_SetAttrString(state->error, places[i], Py_None) < 0) return -1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        PyObject **exception = &state->of_code[kinds[i].code];
        *exception = create(module, kinds[i].name, kinds[i].documentation, PyTuple_Pack(2, state->error, standard_exception(kinds[i].code)));
        if (*exception == NULL) return -1;
    }
    state->compile_error = create(module, IN_MODULE "CompileError",
                                  "A program has mistakes. Its text is what the compiler says of them all, and `diagnostics` has them one by one.\n",
                                  PyTuple_Pack(1, state->of_code[DT_INVALID_ARGUMENT]));
    return state->compile_error != NULL ? 0 : -1;
}

/* Takes over `value`. */
static bool set(PyObject *exception, const char *name, PyObject *value) {
    bool is_set = value != NULL && PyObject_SetAttrString(exception, name, value) == 0;
    Py_XDECREF(value);
    return is_set;
}

/* What the headers call otherwise: members of structs, which messages have in backquotes, and functions. Other functions are methods of a session. */
static const struct {
    const char *c, *python;
} other_names[] = {{"checkpoint_dir", "checkpoints"},
                   {"defines", "options"},
                   {"dtrt_load_weights", "session.load()"},
                   {"dtrt_read", "session[path]"},
                   {"dtrt_session_rows", "session.rows"},
                   {"dtrt_set_launch", "session.launch"},
                   {"fast_sums", "fast_sums=True"},
                   {"from", "data"},
                   {"ignore_bad_index", "ignore_bad_index=True"},
                   {"n_batches", "batches"},
                   {"n_steps", "steps"},
                   {"no_libraries", "libraries=False"},
                   {"resume", "session.load()"}};

#define FUNCTION "dtrt_"
#define OPTIONS "_options"
#define METHOD "session."

static const char *find_name(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strlen(other_names[i].c) == n && strncmp(other_names[i].c, name, n) == 0) return other_names[i].python;
    return NULL;
}

/* Writes what the n bytes of a name are called here to *to, and moves *to behind it. Returns what follows the name. */
static const char *put_name(const char *name, size_t n, bool is_quoted, char **to) {
    bool is_function = strncmp(name, FUNCTION, strlen(FUNCTION)) == 0;
    bool is_struct = is_function && n > strlen(OPTIONS) && strncmp(name + n - strlen(OPTIONS), OPTIONS ".", strlen(OPTIONS ".")) == 0;
    const char *python = is_quoted || is_function ? find_name(name, n) : NULL;
    if (is_struct) return name + n + 1; /* the member follows */
    if (python != NULL)
        *to += sprintf(*to, "%s", python);
    else if (is_function)
        *to += sprintf(*to, METHOD "%.*s", (int)(n - strlen(FUNCTION)), name + strlen(FUNCTION));
    else
        *to += sprintf(*to, "%.*s", (int)n, name);
    return name + n;
}

/* A command at the end that compiles the program for other batches, which is called here: writes the call to *to. */
static bool put_command(const char *text, char **to) {
    const char *batch = strncmp(text, "dtc compile ", strlen("dtc compile ")) == 0 ? strstr(text, " --batch ") : NULL;
    if (batch == NULL) return false;
    batch += strlen(" --batch ");
    *to += sprintf(*to, "dt.compile(..., batch=%.*s)", (int)strcspn(batch, " "), batch);
    return true;
}

PyObject *dtpy_read_message(const char *text) {
    enum {
        MOST_GROWTH = 4 /* of a name */
    };
    char *renamed = PyMem_Malloc(MOST_GROWTH * strlen(text) + 1), *to = renamed;
    if (renamed == NULL) return PyErr_NoMemory();
    for (const char *from = text; *from != '\0' && !put_command(from, &to);) {
        size_t n = strspn(from, "abcdefghijklmnopqrstuvwxyz_");
        if (n > 0)
            from = put_name(from, n, from != text && from[-1] == '`' && from[n] == '`', &to);
        else
            *to++ = *from++;
    }
    *to = '\0';
    PyObject *message = dtpy_read_text(renamed);
    PyMem_Free(renamed);
    return message;
}

void dtpy_set_error(const dtpy_module *module, const dt_status *status) {
    PyObject *type = module->of_code[status->code];
    if (type == NULL) type = module->error;
    PyObject *message = dtpy_read_message(status->message);
    PyObject *exception = message != NULL ? PyObject_CallFunctionObjArgs(type, message, NULL) : NULL;
    Py_XDECREF(message);
    bool is_whole = exception != NULL;
    if (is_whole && *status->file != '\0') is_whole = set(exception, "file", PyUnicode_DecodeFSDefault(status->file));
    if (is_whole && *status->variable != '\0') is_whole = set(exception, "variable", dtpy_read_text(status->variable));
    if (is_whole && status->line > 0) is_whole = set(exception, "line", PyLong_FromLong(status->line));
    if (is_whole && status->column > 0) is_whole = set(exception, "column", PyLong_FromLong(status->column));
    if (is_whole) PyErr_SetObject(type, exception);
    Py_XDECREF(exception);
}

bool dtpy_raise(const dtpy_module *module, dt_status *status) {
    if (status == NULL) return false;
    dtpy_set_error(module, status);
    dtrt_status_free(status);
    return true;
}
