/* shared_library: a vendor's library, found at run time where such libraries lie.
 *
 * One binary runs everywhere because it links none of them. A machine has them from its distribution, from a toolkit, or from Python: whoever
 * installed a framework has them all, in site-packages/nvidia/NAME/lib, where no loader looks. */
#ifndef DT_BASE_SHARED_LIBRARY_H
#define DT_BASE_SHARED_LIBRARY_H

#include "base/status.h"

/* Loads one of `names` (the newest version first, NULL ends them). Tried in this order, each with all names: the path that the environment variable
 * `variable` holds, and then no other; the system's loader (LD_LIBRARY_PATH too); lib64 and lib of CUDA_HOME, CUDA_PATH and /usr/local/cuda; the
 * nvidia packages of Python in PYTHONPATH, VIRTUAL_ENV, CONDA_PREFIX, beside the python3 of PATH, of the user and of /usr/local.
 *
 * library   NULL where there is none, which is no error; the caller may dlclose it. It stays mapped all the same: these libraries hold a C++ library
 *           that keeps an emergency pool to its end, and each loading anew would lose one.
 * Returns   NULL, or that what the variable names cannot be loaded, and why. */
dt_status *dt_shared_library_open(const char *variable, const char *const *names, void **library);

/* Loads `name` from the folder of the library that `symbol` is in, and it stays: for a library that asks the system's loader for a companion, which
 * finds it then wherever the two lie. No error where there is none beside it: the loader may know another one. */
void dt_shared_library_load_beside(const void *symbol, const char *name);

#endif
