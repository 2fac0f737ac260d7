/* view: see the header. */
#include "compiler/kernel/view.h"
#include "compiler/kernel/affine.h"
#include "compiler/kernel/nest.h"

#include <assert.h>

/* The dimension of the shape that the buffer is seen with which is dimension d of the view. */
static int seen_dim(const dt_view *view, int d) { return view->length > 0 || d < view->axis ? d : d + 1; }

int dt_plan_add_view(dt_arena *arena, dt_plan *plan, const char *name, dt_view view) {
    dt_buffer buffer = plan->buffers[view.of];
    int rank = view.shape.rank - (view.length == 0);
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, rank), *strides = DT_NEW_ARRAY(arena, int64_t, view.shape.rank);
    assert(buffer.view == NULL || dt_shape_equal(view.shape, buffer.shape));
    for (int d = 0; d < rank; d++) dims[d] = view.shape.dims[seen_dim(&view, d)];
    if (view.length > 0) dims[view.axis] = view.length;
    if (buffer.view != NULL)
        dt_buffer_strides(plan, view.of, strides);
    else
        dt_shape_strides(view.shape, plan->microbatch_rows, strides);
    view.strides = strides;
    buffer.name = name;
    buffer.shape = (dt_shape){rank, dims};
    buffer.view = dt_arena_copy(arena, &view, sizeof view);
    return dt_plan_add_buffer(arena, plan, buffer);
}

int dt_buffer_root(const dt_plan *plan, int buffer) {
    while (plan->buffers[buffer].view != NULL) buffer = plan->buffers[buffer].view->of;
    return buffer;
}

void dt_buffer_strides(const dt_plan *plan, int buffer, int64_t *strides) {
    const dt_view *view = plan->buffers[buffer].view;
    if (view == NULL)
        dt_shape_strides(plan->buffers[buffer].shape, plan->microbatch_rows, strides);
    else
        for (int d = 0; d < plan->buffers[buffer].shape.rank; d++) strides[d] = view->strides[seen_dim(view, d)];
}

int64_t dt_buffer_span(const dt_plan *plan, int buffer) {
    const dt_view *view = plan->buffers[buffer].view;
    dt_shape shape = plan->buffers[buffer].shape;
    int64_t rows = plan->microbatch_rows, n = 1;
    if (view == NULL) return dt_shape_elements(shape, rows, rows);
    for (int d = 0; d < shape.rank; d++) {
        int64_t extent = dt_dim_is_symbol(shape.dims[d]) ? rows : shape.dims[d];
        if (extent == 0) return 0;
        n += (extent - 1) * view->strides[seen_dim(view, d)];
    }
    return n;
}

int64_t dt_view_stride(const dt_plan *plan, const dt_view *view) {
    return view->strides[view->axis] * (int64_t)dt_dtype_bytes(plan->buffers[view->of].dtype);
}

int64_t dt_buffer_shift(const dt_plan *plan, int buffer, const int64_t *iterations) {
    int64_t shift = 0;
    for (const dt_view *view = plan->buffers[buffer].view; view != NULL; view = plan->buffers[view->of].view) {
        int64_t position = view->first + (view->loop != NULL ? view->step * iterations[view->loop->number] : 0);
        shift += (view->wrap > 0 ? position % view->wrap : position) * dt_view_stride(plan, view);
    }
    return shift;
}

bool dt_buffer_begins_at(const dt_plan *plan, int buffer, int64_t bytes) {
    for (const dt_view *view = plan->buffers[buffer].view; view != NULL; view = plan->buffers[view->of].view)
        if (dt_view_stride(plan, view) % bytes != 0) return false;
    return true;
}

bool dt_buffer_moves(const dt_plan *plan, int buffer) {
    for (const dt_view *view = plan->buffers[buffer].view; view != NULL; view = plan->buffers[view->of].view)
        if (view->loop != NULL) return true;
    return false;
}

bool dt_views_are_apart(const dt_plan *plan, int a, int b) {
    const dt_view *x = plan->buffers[a].view, *y = plan->buffers[b].view;
    if (x == NULL || y == NULL || x->of != y->of || x->axis != y->axis || x->loop != y->loop) return false;
    if (x->length > 0 || y->length > 0) return false;
    return x->step == y->step && x->wrap == y->wrap && x->first != y->first; /* and both below wrap */
}

bool dt_nest_has_views(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (x->kind == DT_INSTRUCTION_LOAD && plan->buffers[kernel->buffers[x->address.buffer]].view != NULL) return true;
    }
    for (int s = 0; s < nest->n_stores; s++)
        if (plan->buffers[kernel->buffers[nest->stores[s].address.buffer]].view != NULL) return true;
    return false;
}

int64_t dt_loop_runs(const dt_plan_loop *loop) {
    int64_t runs = 1;
    for (; loop != NULL; loop = loop->around) runs *= loop->trips;
    return runs;
}

bool dt_loop_is_within(const dt_plan_loop *loop, const dt_plan_loop *around) {
    while (loop != around && loop != NULL) loop = loop->around;
    return loop == around;
}

const dt_plan_loop *dt_loop_outermost(const dt_plan_loop *loop) {
    while (loop != NULL && loop->around != NULL) loop = loop->around;
    return loop;
}
