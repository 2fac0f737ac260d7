/* library: NVIDIA's NCCL, loaded when it is asked for: dtrun neither links it nor needs it. Its functions and numbers are held against its header by
 * tests/structure/vendor_headers.py. */
#ifndef DT_RUNTIME_COMM_NCCL_LIBRARY_H
#define DT_RUNTIME_COMM_NCCL_LIBRARY_H

#include "base/status.h"

#include <stddef.h>

/* X(ours, after DT_NCCL_; theirs; the number) */
#define DT_NCCL_NUMBERS(X)                                                                                                                           \
    X(SUCCESS, ncclSuccess, 0)                                                                                                                       \
    X(IN_PROGRESS, ncclInProgress, 7)                                                                                                                \
    X(INT8, ncclInt8, 0)                                                                                                                             \
    X(INT32, ncclInt32, 2)                                                                                                                           \
    X(INT64, ncclInt64, 4)                                                                                                                           \
    X(FLOAT32, ncclFloat32, 7)                                                                                                                       \
    X(FLOAT64, ncclFloat64, 8)                                                                                                                       \
    X(SUM, ncclSum, 0)                                                                                                                               \
    X(ID_BYTES, NCCL_UNIQUE_ID_BYTES, 128)

enum {
#define X(ours, theirs, number) DT_NCCL_##ours = number,
    DT_NCCL_NUMBERS(X)
#undef X
    DT_NCCL_CONFIG_VERSION = 21400 /* which has ncclCommInitRankConfig first */
};

/* By which processes find one another: process 0 makes it, all others are told. */
typedef struct dt_nccl_id {
    char bytes[DT_NCCL_ID_BYTES];
} dt_nccl_id;

/* What a configuration begins with. */
#define DT_NCCL_CONFIG_MAGIC 0xcafebeefu

/* The first fields of the library's own structure, as version 2.14 knew it: later ones take what is not there as not chosen. */
typedef struct dt_nccl_config {
    size_t bytes;
    unsigned magic, version;
    int blocking;
} dt_nccl_config;

/* X(result, symbol, arguments). Results that are int are a DT_NCCL_*. What is opaque (communicators, streams) is void *. */
#define DT_NCCL_SYMBOLS(X)                                                                                                                           \
    X(int, ncclGetVersion, (int *))                                                                                                                  \
    X(const char *, ncclGetErrorString, (int))                                                                                                       \
    X(const char *, ncclGetLastError, (void *))                                                                                                      \
    X(int, ncclGetUniqueId, (dt_nccl_id *))                                                                                                          \
    X(int, ncclCommInitRankConfig, (void **, int, dt_nccl_id, int, dt_nccl_config *))                                                                \
    X(int, ncclCommSplit, (void *, int, int, void **, dt_nccl_config *))                                                                             \
    X(int, ncclCommGetAsyncError, (void *, int *))                                                                                                   \
    X(int, ncclCommFinalize, (void *))                                                                                                               \
    X(int, ncclCommDestroy, (void *))                                                                                                                \
    X(int, ncclCommAbort, (void *))                                                                                                                  \
    X(int, ncclGroupStart, (void))                                                                                                                   \
    X(int, ncclGroupEnd, (void))                                                                                                                     \
    X(int, ncclAllReduce, (const void *, void *, size_t, int, int, void *, void *))                                                                  \
    X(int, ncclSend, (const void *, size_t, int, int, void *, void *))                                                                               \
    X(int, ncclRecv, (void *, size_t, int, int, void *, void *))

typedef struct dt_nccl_library {
    void *handle;
    int version;   /* 22703 */
    char name[32]; /* "NCCL 2.27.3" */
#define X(result, symbol, arguments) result(*symbol) arguments;
    DT_NCCL_SYMBOLS(X)
#undef X
} dt_nccl_library;

/* Loads libnccl.so.2, or what the environment variable DT_NCCL names, from where such libraries lie (base/shared_library.h); it stays loaded.
 * DT_UNIMPLEMENTED: there is none, or one that is too old. */
dt_status *dt_nccl_library_open(dt_nccl_library *library);

/* "NCCL 2.27.3" of its number. */
void dt_nccl_name(int version, char *name, size_t bytes);

/* "NCCL 2.27.3, ncclCommInitRankConfig: invalid usage, 5: Duplicate GPU detected …"; NULL for success, and for what is in progress. */
dt_status *dt_nccl_error(const dt_nccl_library *library, void *communicator, const char *call, int error);

#endif
