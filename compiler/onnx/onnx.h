/* onnx: a step as a file that other runtimes for inference read.
 *
 * A step that updates nothing is rendered from its graph over the global batch, so B stays a symbol of the file. Elementwise ops are made of the
 * formulas of their rows (ir/ops.def); the others have a function each in operators.def. A loop becomes a Scan. Values have the meaning that they
 * have here:
 *
 *  - Integers of 8 bits are kept in i32 between nodes and wrapped around, halves in f32 and rounded, since runtimes compute in few types.
 *  - An index out of range reads 0 and writes nothing; a conversion to integers is cut to their range.
 *  - What is repeated along a dimension is kept once for as long as only elementwise nodes read it, which repeat it themselves.
 *
 * Images and kernels are transposed to ONNX's order of dimensions and back. The operator set is 18; docs/weights.md says what is not rendered. */
#ifndef DT_COMPILER_ONNX_ONNX_H
#define DT_COMPILER_ONNX_ONNX_H

#include "compiler/weights.h"
#include "ir/graph.h"

typedef struct dt_onnx_model dt_onnx_model;

/* Leaves of the module only what the step of that name returns, for the passes up to DT_ONNX_LAST_PASS. NULL: "predict", or the only step that does
 * not train. DT_NOT_FOUND: there is none; DT_INVALID_ARGUMENT: it trains, or returns no tensor. */
dt_status *dt_onnx_select(dt_module *module, const char *step, const dt_function **function);
#define DT_ONNX_LAST_PASS "hoist"

/* The model, in the arena. weights: NULL: it is made to be printed alone, and variables have no elements. DT_UNIMPLEMENTED, with the place in the
 * program: ONNX has no operator for it; errors of dt_weights_find. */
dt_status *dt_onnx_render(dt_arena *arena, const dt_function *function, const dt_weights *weights, const dt_onnx_model **model);

/* Its bytes, appended to a text on the heap. DT_INVALID_ARGUMENT: they are more than such a file may have. */
dt_status *dt_onnx_write(dt_text *bytes, const dt_onnx_model *model);
/* A line for each node, its results, operator, operands and attributes; bodies are indented. */
void dt_onnx_print(dt_text *text, const dt_onnx_model *model);

#endif
