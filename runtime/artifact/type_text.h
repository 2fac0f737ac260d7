/* type_text: types of tensors as people write them. */
#ifndef DT_RUNTIME_ARTIFACT_TYPE_TEXT_H
#define DT_RUNTIME_ARTIFACT_TYPE_TEXT_H

#include "abi/dtype.h"
#include "base/text.h"

/* Appends "u8[60000, 28, 28]"; a negative dimension (DT_ROWS) is written as B. */
void dt_text_append_type(dt_text *text, dt_dtype dtype, int n_dims, const int64_t *dims);

#endif
