/* arrays: arrays of NumPy, PyTorch, TensorFlow, JAX and others, lent to dtrt without a copy. */
#include "python/extension/dlpack.h"
#include "python/extension/extension.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "shapes of the buffer protocol are read as they are");

enum {
    NO_DTYPE = -1
};

/* The element type of the buffer protocol's format, which is native and of one element; NO_DTYPE where dt has none. */
static int dtype_of_format(const char *format, Py_ssize_t item_bytes) {
    if (format == NULL) return DTRT_U8;
    if (*format == '@' || *format == '=' || *format == '<') format++; /* '<' is native: x86-64 */
    if (*format == '\0' || format[1] != '\0') return NO_DTYPE;
    static const struct {
        char letters[6];
        int n_bytes;
        dtrt_dtype dtype;
    } formats[] = {{"f", 4, DTRT_F32}, {"e", 2, DTRT_F16},   {"d", 8, DTRT_F64},   {"b", 1, DTRT_I8},
                   {"B", 1, DTRT_U8},  {"ilq", 4, DTRT_I32}, {"ilq", 8, DTRT_I64}, {"?", 1, DTRT_BOOL}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strchr(formats[i].letters, *format) != NULL && item_bytes == formats[i].n_bytes) return (int)formats[i].dtype;
    return NO_DTYPE;
}

static int dtype_of_dlpack(const dlpack_tensor *tensor) {
    static const struct {
        dlpack_kind kind;
        int bits;
        dtrt_dtype dtype;
    } kinds[] = {{DLPACK_FLOAT, 32, DTRT_F32}, {DLPACK_FLOAT, 16, DTRT_F16}, {DLPACK_BFLOAT, 16, DTRT_BF16},
                 {DLPACK_FLOAT, 64, DTRT_F64}, {DLPACK_INT, 8, DTRT_I8},     {DLPACK_UINT, 8, DTRT_U8},
                 {DLPACK_INT, 32, DTRT_I32},   {DLPACK_INT, 64, DTRT_I64},   {DLPACK_BOOL, 8, DTRT_BOOL}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (tensor->dtype.kind == kinds[i].kind && tensor->dtype.bits == kinds[i].bits && tensor->dtype.lanes == 1) return (int)kinds[i].dtype;
    return NO_DTYPE;
}

/* The name that NumPy has for a type; bf16 is that of the package ml_dtypes. */
static const char *name_in_numpy(dtrt_dtype dtype) {
    static const char *const names[] = {
        [DTRT_F32] = "float32", [DTRT_F16] = "float16", [DTRT_BF16] = "bfloat16", [DTRT_F64] = "float64", [DTRT_I8] = "int8",
        [DTRT_U8] = "uint8",    [DTRT_I32] = "int32",   [DTRT_I64] = "int64",     [DTRT_BOOL] = "bool"};
    return names[dtype];
}

static int refuse_type(const char *what, const dtrt_tensor *tensor, const char *given) {
    const char *wanted = name_in_numpy(tensor->dtype);
    PyErr_Format(PyExc_TypeError, "%s: %s takes %s, not %s, and nothing is cast: give it as array.astype(\"%s\")", what, tensor->name, wanted, given,
                 wanted);
    return -1;
}

static int check_type(const char *what, const dtrt_tensor *tensor, int dtype, const char *format) {
    if (dtype == (int)tensor->dtype) return 0;
    if (dtype != NO_DTYPE) return refuse_type(what, tensor, name_in_numpy((dtrt_dtype)dtype));
    char text[64];
    snprintf(text, sizeof text, "elements of format \"%.32s\"", format);
    return refuse_type(what, tensor, text);
}

static int borrow_buffer(PyObject *object, const char *what, const dtrt_tensor *tensor, dtpy_borrowed *borrowed) {
    Py_buffer *buffer = &borrowed->buffer;
    if (PyObject_GetBuffer(object, buffer, PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0) {
        buffer->obj = NULL;
        return -1;
    }
    if (check_type(what, tensor, dtype_of_format(buffer->format, buffer->itemsize), buffer->format) < 0) {
        dtpy_return(borrowed);
        return -1;
    }
    borrowed->array = (dtrt_array){.data = buffer->buf,
                                   .dtype = tensor->dtype,
                                   .n_dims = buffer->ndim,
                                   .dims = (const int64_t *)buffer->shape,
                                   .strides = (const int64_t *)buffer->strides};
    return 0;
}

/* Whether the host can read what lies on the device that `object` names. */
static int check_device(PyObject *object, const char *what, const dtrt_tensor *tensor) {
    PyObject *device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    int type, number;
    bool is_pair = device != NULL && PyArg_ParseTuple(device, "ii;__dlpack_device__ gives no pair of numbers", &type, &number);
    Py_XDECREF(device);
    if (!is_pair) return -1;
    if (type == DLPACK_CPU || type == DLPACK_CUDA_HOST) return 0;
    PyErr_Format(PyExc_TypeError, "%s: %s lies on a device (DLPack's type %d): give a copy in the memory of the host", what, tensor->name, type);
    return -1;
}

static int borrow_dlpack(PyObject *object, const char *what, const dtrt_tensor *tensor, dtpy_borrowed *borrowed) {
    if (check_device(object, what, tensor) < 0) return -1;
    borrowed->capsule = PyObject_CallMethod(object, "__dlpack__", NULL); /* frees the tensor with itself, as long as nobody renames it */
    const dlpack_tensor *given = borrowed->capsule != NULL ? PyCapsule_GetPointer(borrowed->capsule, "dltensor") : NULL;
    char format[32];
    if (given == NULL) goto failed;
    snprintf(format, sizeof format, "DLPack's %d, %d bits", given->dtype.kind, given->dtype.bits);
    if (check_type(what, tensor, dtype_of_dlpack(given), format) < 0) goto failed;
    if (given->strides != NULL) {
        borrowed->strides = PyMem_Malloc(sizeof(int64_t) * ((size_t)given->n_dims + 1));
        if (borrowed->strides == NULL) {
            PyErr_NoMemory();
            goto failed;
        }
        for (int i = 0; i < given->n_dims; i++) borrowed->strides[i] = given->strides[i] * (int64_t)dtrt_dtype_bytes(tensor->dtype);
    }
    borrowed->array = (dtrt_array){.data = given->data != NULL ? (const char *)given->data + given->byte_offset : "", /* nothing in it */
                                   .dtype = tensor->dtype,
                                   .n_dims = given->n_dims,
                                   .dims = given->dims,
                                   .strides = borrowed->strides};
    return 0;
failed:
    dtpy_return(borrowed);
    return -1;
}

int dtpy_borrow(PyObject *object, const char *what, const dtrt_tensor *tensor, dtpy_borrowed *borrowed) {
    *borrowed = (dtpy_borrowed){0};
    if (PyObject_CheckBuffer(object)) {
        if (borrow_buffer(object, what, tensor, borrowed) == 0) return 0;
        if (PyErr_ExceptionMatches(PyExc_TypeError)) return -1; /* the type is wrong; else the buffer protocol cannot say it, as of NumPy's bf16 */
        PyErr_Clear();
    }
    if (PyObject_HasAttrString(object, "__dlpack__")) return borrow_dlpack(object, what, tensor, borrowed);
    PyObject *type = PyType_GetName(Py_TYPE(object));
    if (type != NULL)
        PyErr_Format(PyExc_TypeError, "%s: %s takes an array of %s: %U has neither the buffer protocol nor DLPack; numpy.asarray makes an array",
                     what, tensor->name, name_in_numpy(tensor->dtype), type);
    Py_XDECREF(type);
    return -1;
}

void dtpy_return(dtpy_borrowed *borrowed) {
    PyBuffer_Release(&borrowed->buffer);
    Py_CLEAR(borrowed->capsule);
    PyMem_Free(borrowed->strides);
    *borrowed = (dtpy_borrowed){0};
}
