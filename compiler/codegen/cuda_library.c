/* cuda_library: what a vendor's library needs done around a call (abi/library.h), as functions of the program: rows that are not valid are cleared
 * before a sum over rows, and kernels of convolutions are transposed, since cuDNN wants their filters outermost and we keep them innermost. */
#include "compiler/codegen/cuda.h"

const dt_cuda_source dt_cuda_clear_rows = {
    .name = "clear_rows",
    .remarks = "// rows beyond the valid ones, of `row` values each, before a library sums over all rows\n",
    .body = "(float *__restrict__ values, i64 row, i64 capacity, const dt_launch *__restrict__ launch) {\n"
            "    for (i64 i = launch->rows * row + grid_thread(); i < capacity * row; i += grid_threads()) values[i] = 0.0f;\n"
            "}\n",
    .threads = 256};

const dt_cuda_source dt_cuda_transpose_filters = {
    .name = "transpose_filters",
    .remarks = "// to[columns, rows] = from[rows, columns]: kernels of convolutions, for a library\n",
    .body = "(const float *__restrict__ from, float *__restrict__ to, i64 rows, i64 columns) {\n"
            "    for (i64 i = grid_thread(); i < rows * columns; i += grid_threads()) to[i] = from[i % rows * columns + i / rows];\n"
            "}\n",
    .threads = 256};
