/* kernel_peers: OpenBLAS, oneDNN and libmvec as they are installed, on one thread. They are loaded when asked for, so that the build does not need
 * them. */
#ifndef DT_BENCH_KERNEL_PEERS_H
#define DT_BENCH_KERNEL_PEERS_H

#include "bench/kernel_case.h"

/* Loads what is there and holds it to one thread and, where `avx2`, to AVX2. Once, before the others. */
void kernel_peers_load(bool avx2);

/* "0.3.21 (SkylakeX)", of OpenBLAS with the processor whose kernels it runs; NULL: not installed. */
const char *kernel_peers_openblas_version(void);
const char *kernel_peers_onednn_version(void);

/* Seconds; 0 where the library is not installed or has no such operation.
 *
 * OpenBLAS  cblas_sgemm, once for each matrix of the batch; products only.
 * oneDNN    products of row-major matrices as they stand, convolutions in the layouts that it asks for itself. Bringing data into these is not
 *           counted. Of elementwise kernels those that are one function: exp, log, tanh, relu, sigmoid, gelu.
 * Winograd  oneDNN's convolutions with fewer multiplications and larger rounding errors, counted as if they did them all. */
double kernel_peers_openblas(const kernel_case *test);
double kernel_peers_onednn(const kernel_case *test);
double kernel_peers_winograd(const kernel_case *test);

/* glibc's vector functions: exp, log, tanh, erf and others, each alone; 0 for all else. */
bool kernel_peers_has_libmvec(void);
double kernel_peers_libmvec(const kernel_case *test, bool avx2);

#endif
