/* version: what an artifact records about its writer, and what its reader compares. */
#ifndef DT_ABI_VERSION_H
#define DT_ABI_VERSION_H

#define DT_VERSION "0.1.0"

/* "compiler" of a manifest. Kernels and runtime of two versions do not mix: a launch structure or a rule of summation may have changed. */
#define DT_COMPILER_NAME "dtc " DT_VERSION

/* "format" of a manifest: grows when a reader of the old one would misread the new one. */
#define DT_ARTIFACT_FORMAT 12

#endif
