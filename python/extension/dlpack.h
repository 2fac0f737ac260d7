/* dlpack: the structs of DLPack's C interface (https://dmlc.github.io/dlpack), version 0: what a capsule named "dltensor" points to. */
#ifndef DT_PYTHON_DLPACK_H
#define DT_PYTHON_DLPACK_H

#include <stdint.h>

typedef enum dlpack_device_type {
    DLPACK_CPU = 1,
    DLPACK_CUDA_HOST = 3 /* pinned memory of the host */
} dlpack_device_type;

typedef enum dlpack_kind {
    DLPACK_INT = 0,
    DLPACK_UINT = 1,
    DLPACK_FLOAT = 2,
    DLPACK_BFLOAT = 4,
    DLPACK_BOOL = 6
} dlpack_kind;

typedef struct dlpack_tensor {
    void *data;
    struct {
        int32_t type, number;
    } device;
    int32_t n_dims;
    struct {
        uint8_t kind, bits;
        uint16_t lanes;
    } dtype;
    int64_t *dims;
    int64_t *strides; /* in elements; NULL: dense */
    uint64_t byte_offset;
} dlpack_tensor;

#endif
