/* scalar: one element of a tensor: rounding to a dtype, conversion between dtypes, memory. */
#ifndef DT_IR_SCALAR_H
#define DT_IR_SCALAR_H

#include "abi/dtype.h"
#include "abi/precision.h"

/* An element: `f` of float dtypes, `i` of integers and bool, as its dtype would hold it (a u8 is 0 .. 255). */
typedef union dt_scalar {
    double f;
    int64_t i;
} dt_scalar;

/* What a value becomes when stored as `dtype`: floats rounded to f32, f16, bf16 (half to even); integers wrapped. */
dt_scalar dt_scalar_round(dt_scalar value, dt_dtype dtype);
void dt_scalars_round(dt_scalar *values, size_t n, dt_dtype dtype); /* each of them, in place */
/* What is left of a factor of f32. */
double dt_factor_round(double factor, dt_precision precision);
/* The value conversion from(…) to to(…): float to integer truncates and saturates, NaN becomes 0; integer to f16 and bf16 goes by way of f32, as
 * machines and NumPy have it; to bool: is it not 0? */
dt_scalar dt_scalar_convert(dt_scalar value, dt_dtype from, dt_dtype to);
/* An element in memory, and back. */
dt_scalar dt_scalar_load(const void *memory, dt_dtype dtype);
void dt_scalar_store(void *memory, dt_dtype dtype, dt_scalar value); /* rounds */

#endif
