/* nccl: a communicator of one rank, whose messages to itself, and a sum, are captured in a branch of a graph and run again and again: what there is
 * to see of NCCL with one GPU. What is received is what was sent last; and what follows in the graph sees it. */
#include "runtime/comm/nccl/library.h"
#include "runtime/devices/cuda/context.h"
#include "runtime/devices/cuda/graph.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    N = 1 << 20, /* bytes of a message */
    TIMES = 5,
    DEADLINE_SECONDS = 60,
    SKIPPED = 77
};

typedef struct loop {
    dt_cuda cuda;
    dt_nccl_library nccl;
    void *communicator, *graph, *event; /* by which the streams of the capture wait for one another */
    uint64_t source, received, copy;
} loop;

static char host[N], result[N];

/* Until what a call began is done. */
static dt_status *settle(const loop *l, const char *call, int error) {
    double end = dt_seconds_now() + DEADLINE_SECONDS;
    while (error == DT_NCCL_IN_PROGRESS) {
        if (dt_seconds_now() > end) return dt_error(DT_ABORTED, "%s: not done after %d s; NCCL_DEBUG=INFO says what it does", call, DEADLINE_SECONDS);
        nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
        DT_TRY(dt_nccl_error(&l->nccl, l->communicator, call, l->nccl.ncclCommGetAsyncError(l->communicator, &error)));
    }
    return dt_nccl_error(&l->nccl, l->communicator, call, error);
}

#define NCCL_TRY(l, symbol, ...) DT_TRY(settle((l), #symbol, (l)->nccl.symbol(__VA_ARGS__)))

static dt_status *exchange(loop *l, void *stream) {
    void *source = (void *)(uintptr_t)l->source, *received = (void *)(uintptr_t)l->received;
    NCCL_TRY(l, ncclGroupStart);
    NCCL_TRY(l, ncclSend, source, N, DT_NCCL_INT8, 0, l->communicator, stream);
    NCCL_TRY(l, ncclRecv, received, N, DT_NCCL_INT8, 0, l->communicator, stream);
    NCCL_TRY(l, ncclGroupEnd);
    NCCL_TRY(l, ncclAllReduce, received, received, N / sizeof(int32_t), DT_NCCL_INT32, DT_NCCL_SUM, l->communicator, stream);
    return NULL;
}

static dt_status *branch(const loop *l, void *from, void *to) {
    DT_CUDA_TRY(&l->cuda, cuEventRecord, l->event, from);
    DT_CUDA_TRY(&l->cuda, cuStreamWaitEvent, to, l->event, 0);
    return NULL;
}

static dt_status *enqueue(void *context) {
    loop *l = context;
    DT_TRY(branch(l, l->cuda.stream, l->cuda.beside));
    DT_TRY(exchange(l, l->cuda.beside));
    DT_TRY(branch(l, l->cuda.beside, l->cuda.stream));
    DT_CUDA_TRY(&l->cuda, cuMemcpyDtoDAsync_v2, l->copy, l->received, N, l->cuda.stream);
    return NULL;
}

static dt_status *open_all(loop *l) {
    dt_nccl_id id;
    dt_nccl_config config = {.bytes = sizeof config, .magic = DT_NCCL_CONFIG_MAGIC, .version = DT_NCCL_CONFIG_VERSION, .blocking = 0};
    DT_TRY(dt_cuda_enter(&l->cuda));
    NCCL_TRY(l, ncclGetUniqueId, &id);
    NCCL_TRY(l, ncclCommInitRankConfig, &l->communicator, 1, id, 0, &config);
    DT_CUDA_TRY(&l->cuda, cuEventCreate, &l->event, DT_CUDA_EVENT_DISABLE_TIMING);
    DT_CUDA_TRY(&l->cuda, cuMemAlloc_v2, &l->source, N);
    DT_CUDA_TRY(&l->cuda, cuMemAlloc_v2, &l->received, N);
    DT_CUDA_TRY(&l->cuda, cuMemAlloc_v2, &l->copy, N);
    DT_TRY(enqueue(l)); /* it connects, before anything is captured */
    DT_TRY(dt_cuda_wait(&l->cuda));
    return dt_cuda_graph_make(&l->cuda, enqueue, l, &l->graph);
}

static dt_status *run(loop *l) {
    for (int t = 0; t < TIMES; t++) {
        for (int i = 0; i < N; i++) host[i] = (char)(i * 31 + i / 251 + t);
        DT_CUDA_TRY(&l->cuda, cuMemcpyHtoDAsync_v2, l->source, host, N, l->cuda.stream);
        DT_CUDA_TRY(&l->cuda, cuGraphLaunch, l->graph, l->cuda.stream);
        DT_TRY(dt_cuda_wait(&l->cuda));
        DT_CUDA_TRY(&l->cuda, cuMemcpyDtoHAsync_v2, result, l->copy, N, l->cuda.stream);
        DT_TRY(dt_cuda_wait(&l->cuda));
        if (memcmp(host, result, N) != 0) return dt_error(DT_INTERNAL, "launch %d of the graph delivers other bytes than were sent", t);
    }
    return NULL;
}

static dt_status *close_all(loop *l) {
    dt_cuda_graph_free(&l->cuda, l->graph);
    NCCL_TRY(l, ncclCommFinalize, l->communicator);
    NCCL_TRY(l, ncclCommDestroy, l->communicator);
    DT_CUDA_TRY(&l->cuda, cuEventDestroy_v2, l->event);
    DT_CUDA_TRY(&l->cuda, cuMemFree_v2, l->source);
    DT_CUDA_TRY(&l->cuda, cuMemFree_v2, l->received);
    DT_CUDA_TRY(&l->cuda, cuMemFree_v2, l->copy);
    dt_cuda_close(&l->cuda);
    return NULL;
}

static int skip(dt_status *status) {
    printf("skipped: %s\n", dt_status_message(status));
    dt_status_free(status);
    return SKIPPED;
}

int main(void) {
    static loop l;
    dt_status *status = dt_cuda_open(0, &l.cuda);
    l.cuda.deadline_seconds = DEADLINE_SECONDS;
    if (dt_status_code(status) == DT_NOT_FOUND) return skip(status);
    if (status == NULL) status = dt_nccl_library_open(&l.nccl);
    if (dt_status_code(status) == DT_UNIMPLEMENTED) return dt_cuda_close(&l.cuda), skip(status);
    if (status == NULL) status = open_all(&l);
    if (status == NULL) status = run(&l);
    if (status == NULL) status = close_all(&l);
    if (status != NULL) return fprintf(stderr, "nccl: %s\n", dt_status_message(status)), 1;
    printf("%s: a graph with its messages and a sum, run %d times, agrees\n", l.nccl.name, TIMES);
    return 0;
}
