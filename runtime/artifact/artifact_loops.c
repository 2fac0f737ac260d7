/* artifact_loops: the loops of a function's plan, and the views that its kernels are given in their iterations. See artifact.h.
 *
 * The executor makes a launch of each kernel for each iteration, and adds to each address what the view says: so no iteration of any view may lie
 * outside of its root, and the kernels of a body stand side by side. */
#include "runtime/artifact/artifact_reader.h"

#include <inttypes.h>
#include <limits.h>

/* Of iterations and positions: products of two of them do not overflow. */
static const int64_t MOST_POSITIONS = INT32_MAX;

dt_status *dt_artifact_read_loops(dt_artifact_reader *reader, const dt_json *plan, dt_artifact_function *function) {
    dt_json array;
    if (!dt_json_has(plan, "loops")) return NULL;
    DT_TRY(dt_json_array(plan, "loops", &array, &function->n_loops));
    dt_artifact_loop *loops = DT_NEW_ARRAY(reader->arena, dt_artifact_loop, function->n_loops);
    function->loops = loops;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        int64_t around = -1;
        DT_TRY(dt_json_integer(&item, "trips", 1, MOST_POSITIONS, &loops[item.index].trips));
        if (dt_json_has(&item, "around")) DT_TRY(dt_json_integer(&item, "around", 0, (int64_t)item.index - 1, &around));
        if (loops[item.index].trips > MOST_POSITIONS / dt_artifact_runs(function, (int)around))
            return dt_json_wrong(&item, "its body runs more than %" PRId64 " times", MOST_POSITIONS);
        loops[item.index].around = (int)around;
    }
    return NULL;
}

bool dt_artifact_loop_is_within(const dt_artifact_function *function, int loop, int around) {
    while (loop != around && loop >= 0) loop = function->loops[loop].around;
    return loop == around;
}

int dt_artifact_next_loop(const dt_artifact_function *function, int kernel, int around) {
    int loop = function->kernels[kernel].loop;
    while (loop != around && function->loops[loop].around != around) loop = function->loops[loop].around;
    return loop;
}

int dt_artifact_n_together(const dt_artifact_function *function, const int *kernels, int n, int around) {
    int loop = dt_artifact_next_loop(function, kernels[0], around), end = 1;
    while (loop != around && end < n && dt_artifact_loop_is_within(function, function->kernels[kernels[end]].loop, loop)) end++;
    return end;
}

int64_t dt_artifact_runs(const dt_artifact_function *function, int loop) {
    int64_t runs = 1;
    for (; loop >= 0; loop = function->loops[loop].around) runs *= function->loops[loop].trips;
    return runs;
}

int64_t dt_artifact_n_launches(const dt_artifact_function *function, int n_shards) {
    int64_t n = 0;
    for (int k = 0; k < function->n_kernels; k++)
        n += dt_artifact_runs(function, function->kernels[k].loop) * (function->kernels[k].sharded ? n_shards : 1);
    return n;
}

/* ---- views ---- */

int64_t dt_artifact_shift(const dt_artifact_function *function, int buffer, const int64_t *iterations) {
    int64_t shift = 0;
    for (const dt_artifact_view *view = function->buffers[buffer].view; view != NULL; view = function->buffers[view->of].view) {
        int64_t position = view->first + (view->loop >= 0 ? view->step * iterations[view->loop] : 0);
        shift += (view->wrap > 0 ? position % view->wrap : position) * view->stride;
    }
    return shift;
}

static int64_t bytes_of(const dt_artifact_reader *reader, const dt_artifact_buffer *root) {
    return root->space == DT_MEMORY_VARIABLE || root->space == DT_MEMORY_INPUT ? dt_artifact_tensor_bytes(reader->artifact, &root->tensor)
                                                                               : root->bytes;
}

/* Adds n * bytes to *reach, which stays below `limit`. */
static bool extend(int64_t n, int64_t bytes, int64_t limit, int64_t *reach) {
    if (bytes > 0 && n > (limit - *reach) / bytes) return false;
    *reach += n * bytes;
    return true;
}

/* Whether all positions of the view are there, and how far the last one is. */
static bool find_last(const dt_artifact_function *function, const dt_artifact_view *view, int64_t *last) {
    int64_t way = view->loop >= 0 ? view->step * (function->loops[view->loop].trips - 1) : 0;
    *last = view->wrap > 0 ? view->wrap - 1 : view->first + (way > 0 ? way : 0);
    return view->wrap > 0 ? way >= 0 : view->first + way >= 0;
}

static dt_status *check_reach(dt_artifact_reader *reader, const dt_json *item, const dt_artifact_function *function,
                              const dt_artifact_buffer *buffers, const dt_artifact_buffer *buffer) {
    const dt_artifact_tensor *tensor = &buffer->tensor;
    int64_t limit = bytes_of(reader, &buffers[buffer->root]), reach = (int64_t)dt_dtype_bytes(tensor->dtype), last;
    bool inside = reach <= limit;
    for (int d = 0; d < tensor->n_dims && inside; d++) {
        int64_t extent = tensor->dims[d] < 0 ? reader->artifact->microbatch_rows : tensor->dims[d];
        inside = extent < 1 || extend(extent - 1, buffer->view->strides[d], limit, &reach);
    }
    for (const dt_artifact_view *view = buffer->view; view != NULL && inside; view = buffers[view->of].view)
        inside = find_last(function, view, &last) && extend(last, view->stride, limit, &reach);
    return inside ? NULL : dt_json_wrong(item, "a part that lies outside of its buffer of %" PRId64 " bytes", limit);
}

dt_status *dt_artifact_read_view(dt_artifact_reader *reader, const dt_json *buffer_item, const dt_artifact_function *function,
                                 dt_artifact_buffer *buffers, int number) {
    dt_json item, array;
    dt_artifact_buffer *buffer = &buffers[number];
    dt_artifact_view *view = DT_NEW(reader->arena, dt_artifact_view);
    int64_t of, loop = -1;
    int n_strides;
    DT_TRY(dt_json_member(buffer_item, "view", &item));
    DT_TRY(dt_json_integer(&item, "of", 0, number - 1, &of));
    if (dt_json_has(&item, "loop")) DT_TRY(dt_json_integer(&item, "loop", 0, function->n_loops - 1, &loop));
    *view = (dt_artifact_view){.of = (int)of, .loop = (int)loop};
    DT_TRY(dt_json_integer(&item, "first", 0, MOST_POSITIONS, &view->first));
    DT_TRY(dt_json_integer(&item, "step", -MOST_POSITIONS, MOST_POSITIONS, &view->step));
    DT_TRY(dt_json_integer(&item, "wrap", 0, MOST_POSITIONS, &view->wrap));
    DT_TRY(dt_json_integer(&item, "stride", 0, DT_MOST_BYTES, &view->stride));
    DT_TRY(dt_json_array(&item, "strides", &array, &n_strides));
    int64_t *strides = DT_NEW_ARRAY(reader->arena, int64_t, n_strides);
    if (n_strides != buffer->tensor.n_dims) return dt_json_wrong(&array, "%d strides of %d dimensions", n_strides, buffer->tensor.n_dims);
    for (dt_json stride = dt_json_first(&array); stride.value != NULL; dt_json_next(&stride))
        DT_TRY(dt_json_as_integer(&stride, 0, DT_MOST_BYTES, &strides[stride.index]));
    view->strides = strides;
    const dt_artifact_buffer *root = &buffers[buffers[of].root];
    if (root->tensor.dtype != buffer->tensor.dtype) return dt_json_wrong(&item, "not of the type of its buffer");
    if (buffer->sharded && !root->sharded) return dt_json_wrong(&item, "a part for each shard of a buffer that there is one of");
    buffer->sharded = root->sharded;
    buffer->view = view;
    buffer->root = buffers[of].root;
    buffer->space = root->space;
    buffer->offset = root->offset;
    buffer->bytes = root->bytes;
    buffer->variable = root->variable;
    buffer->input = root->input;
    return check_reach(reader, &item, function, buffers, buffer);
}

/* ---- kernels ---- */

dt_status *dt_artifact_check_bodies(const dt_json *item, const dt_artifact_function *function, const int *kernels, int n, bool *seen) {
    for (int i = 0; i < n; i++)
        for (int loop = function->kernels[kernels[i]].loop; loop >= 0; loop = function->loops[loop].around) {
            bool goes_on = i > 0 && dt_artifact_loop_is_within(function, function->kernels[kernels[i - 1]].loop, loop);
            if (!goes_on && seen[loop]) return dt_json_wrong(item, "the kernels of loop %d do not stand side by side", loop);
            seen[loop] = true;
        }
    return NULL;
}
