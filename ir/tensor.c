/* tensor: dense row-major tensors and the variables of a module, see interpret.h. */
#include "ir/interpret.h"
#include "ir/scalar.h"

size_t dt_tensor_elements(const dt_tensor *tensor) { return (size_t)dt_shape_elements(tensor->shape, 0, 0); }

size_t dt_tensor_bytes(const dt_tensor *tensor) { return dt_tensor_elements(tensor) * dt_dtype_bytes(tensor->dtype); }

dt_tensor dt_tensor_make(dt_arena *arena, dt_dtype dtype, dt_shape shape) {
    dt_tensor tensor = {.dtype = dtype, .shape = dt_shape_make(arena, shape.rank, shape.dims)};
    tensor.data = dt_arena_new(arena, dt_tensor_bytes(&tensor));
    return tensor;
}

double dt_tensor_get(const dt_tensor *tensor, size_t element) {
    dt_scalar scalar = dt_scalar_load((const char *)tensor->data + element * dt_dtype_bytes(tensor->dtype), tensor->dtype);
    return dt_dtype_is_float(tensor->dtype) ? scalar.f : (double)scalar.i;
}

void dt_tensor_set(dt_tensor *tensor, size_t element, double value) {
    dt_scalar scalar = dt_scalar_convert((dt_scalar){.f = value}, DT_F64, tensor->dtype);
    dt_scalar_store((char *)tensor->data + element * dt_dtype_bytes(tensor->dtype), tensor->dtype, scalar);
}

dt_memory dt_memory_create(dt_arena *arena, const dt_module *module) {
    dt_memory memory = {DT_NEW_ARRAY(arena, dt_tensor, module->variables.n)};
    for (size_t i = 0; i < module->variables.n; i++)
        memory.variables[i] = dt_tensor_make(arena, module->variables.items[i].dtype, module->variables.items[i].shape);
    return memory;
}
