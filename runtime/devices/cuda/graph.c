/* graph: see the header. */
#include "runtime/devices/cuda/graph.h"

dt_status *dt_cuda_graph_make(const dt_cuda *cuda, dt_status *(*enqueue)(void *context), void *context, void **graph) {
    const dt_cuda_driver *driver = &cuda->driver;
    void *captured = NULL;
    *graph = NULL;
    DT_CUDA_TRY(cuda, cuStreamBeginCapture_v2, cuda->stream, DT_CUDA_CAPTURE_THREAD_LOCAL);
    dt_status *status = enqueue(context);
    /* The capture is ended after an error too, or the stream would stay captured. */
    dt_status *ending = dt_cuda_driver_error(driver, "cuStreamEndCapture", driver->cuStreamEndCapture(cuda->stream, &captured));
    status = dt_status_first(status, ending);
    if (status == NULL) status = dt_cuda_driver_error(driver, "cuGraphInstantiateWithFlags", driver->cuGraphInstantiateWithFlags(graph, captured, 0));
    if (status != NULL) *graph = NULL;
    if (captured != NULL) driver->cuGraphDestroy(captured);
    return status;
}

void dt_cuda_graph_free(const dt_cuda *cuda, void *graph) {
    if (graph != NULL) cuda->driver.cuGraphExecDestroy(graph);
}
