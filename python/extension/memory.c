/* memory: memory with the buffer protocol. Results have their own; variables are shown where the session has them. */
#include "python/extension/extension.h"

#include <string.h>

typedef struct memory {
    PyObject_HEAD void *data;
    dtpy_session *session; /* whose memory it is; NULL: `data` is its own */
    dtrt_dtype dtype;
    Py_ssize_t item_bytes, n_bytes;
    int n_dims;
    Py_ssize_t *dims, *strides; /* one allocation, of dims */
} memory;

/* Names an element type for the buffer protocol; bf16, for which it has no name, is lent as u16. */
static const char *format_of(dtrt_dtype dtype) {
    switch (dtype) {
    case DTRT_F32: return "f";
    case DTRT_F16: return "e";
    case DTRT_BF16: return "H";
    case DTRT_F64: return "d";
    case DTRT_I8: return "b";
    case DTRT_U8: return "B";
    case DTRT_I32: return "i";
    case DTRT_I64: return "q";
    case DTRT_BOOL: return "?";
    }
    return NULL;
}

PyObject *dtpy_memory_create(const dtpy_module *module, dtrt_dtype dtype, int n_dims, const int64_t *dims, int64_t rows, const void *data,
                             PyObject *session) {
    allocfunc allocate = (allocfunc)PyType_GetSlot(module->memory, Py_tp_alloc);
    memory *self = (memory *)allocate(module->memory, 0);
    if (self == NULL) return NULL;
    self->dtype = dtype;
    self->item_bytes = (Py_ssize_t)dtrt_dtype_bytes(dtype);
    self->n_dims = n_dims;
    self->dims = PyMem_Malloc(sizeof(Py_ssize_t) * (2 * (size_t)n_dims + 1));
    if (self->dims == NULL) goto out_of_memory;
    self->strides = self->dims + n_dims;
    self->n_bytes = self->item_bytes;
    for (int i = n_dims - 1; i >= 0; i--) {
        self->dims[i] = dims[i] == DTRT_ROWS ? rows : dims[i];
        self->strides[i] = self->n_bytes;
        self->n_bytes *= self->dims[i];
    }
    if (data == NULL) {
        self->data = PyMem_Malloc((size_t)self->n_bytes);
        if (self->data == NULL) goto out_of_memory;
    } else {
        self->data = (void *)(uintptr_t)data;
        self->session = (dtpy_session *)Py_NewRef(session);
        self->session->n_views++;
    }
    return (PyObject *)self;
out_of_memory:
    Py_DECREF(self);
    return PyErr_NoMemory();
}

void *dtpy_memory_data(PyObject *object) { return ((memory *)object)->data; }
size_t dtpy_memory_bytes(PyObject *object) { return (size_t)((memory *)object)->n_bytes; }

static void deallocate(PyObject *object) {
    memory *self = (memory *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->session == NULL)
        PyMem_Free(self->data);
    else
        self->session->n_views--;
    Py_XDECREF((PyObject *)self->session);
    PyMem_Free(self->dims);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF((PyObject *)type);
}

/* Whether the elements lie in Fortran's order too: what they do of at most one dimension that has several. */
static bool is_in_fortran_order(const memory *self) {
    int n_long = 0;
    for (int i = 0; i < self->n_dims; i++) n_long += self->dims[i] > 1;
    return n_long <= 1 || self->n_bytes == 0;
}

static int refuse_buffer(Py_buffer *view, const char *message) {
    PyErr_SetString(PyExc_BufferError, message);
    view->obj = NULL;
    return -1;
}

static int get_buffer(PyObject *object, Py_buffer *view, int flags) {
    memory *self = (memory *)object;
    bool is_readonly = self->session != NULL;
    if (is_readonly && (flags & PyBUF_WRITABLE) != 0)
        return refuse_buffer(view, "a view of a variable is read-only: write it with session[path] = array");
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !is_in_fortran_order(self))
        return refuse_buffer(view, "the elements lie in C's order, and Fortran's is asked for: copy them, as numpy.asfortranarray does");
    *view = (Py_buffer){.buf = self->data,
                        .obj = Py_NewRef(object),
                        .len = self->n_bytes,
                        .itemsize = self->item_bytes,
                        .readonly = is_readonly,
                        .ndim = self->n_dims,
                        .format = (flags & PyBUF_FORMAT) != 0 ? (char *)(uintptr_t)format_of(self->dtype) : NULL,
                        .shape = (flags & PyBUF_ND) != 0 ? self->dims : NULL,
                        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL};
    return 0;
}

static PyObject *get_dtype(PyObject *object, void *none) {
    (void)none;
    return PyUnicode_FromString(dtrt_dtype_name(((memory *)object)->dtype));
}

static PyGetSetDef attributes[] = {
    {"dtype", get_dtype, NULL, "As the language names it.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, (char *)"Memory of a result or of a variable, for the buffer protocol."},
    {Py_tp_dealloc, deallocate},
    {Py_tp_getset, attributes},
    {Py_bf_getbuffer, get_buffer},
    {0, NULL},
};
PyType_Spec dtpy_memory_spec = {
    .name = "dt._dt.Memory", .basicsize = sizeof(memory), .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, .slots = slots};
