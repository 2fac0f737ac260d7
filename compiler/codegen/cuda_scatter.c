/* cuda_scatter: an owner-computes scatter: a nest that stores where an index says, as the gradient of an embedding does.
 *
 * Several iterations may target one element, and what they store has an order. So each target has an owner: a warp reads all indices, one a lane at
 * a time, notes which of them target what it owns, and runs these iterations in order, its lanes side by side in the slice that the index selects.
 * All owners read all indices, which costs little compared with serialising the targets, and the indices stay in cache. Bad indices have no owner:
 * they are counted before. */
#include "compiler/codegen/cuda.h"

#include <inttypes.h>

#define FORMAT(n, ...) DT_CUDA_FORMAT((n)->f, __VA_ARGS__)

/* The nest, with its walked loops standing at iteration p of `count`, while their text is written. */
typedef struct walk {
    dt_cuda_nest n;
    const dt_gpu_nest *how;
    dt_gpu_nest standing;
    const char *count, *lanes; /* lanes: the type that has a bit for each */
    int warp;
} walk;

static dt_text *begin_iteration(walk *w) {
    w->n.how = &w->standing;
    return dt_cuda_begin(&w->n, ~(uint64_t)0);
}

static void end_iteration(walk *w, dt_text *out) {
    w->n.how = w->how;
    dt_cuda_end(&w->n, out, w->how->serial, "p");
}

/* Bit b of lane l's `own`: iteration begin + WARP l + b is the warp's. */
static void find_iterations(walk *w) {
    dt_cuda_function *f = w->n.f;
    int at_once = f->how->scatter.at_once;
    dt_cuda_line(f, "%s own = 0;", w->lanes);
    dt_cuda_line(f, "for (int j = 0; j < %d && begin + %d * j < %s; j += %d) {", w->warp, w->warp, w->count, at_once);
    dt_cuda_line(f, "bool mine[%d];", at_once);
    dt_cuda_unrolled(f, "k", at_once);
    dt_cuda_line(f, "const %s p = lower<%s>(begin + %d * (j + k) + lane, %s - 1);", f->index, f->index, w->warp, w->count);
    dt_text *out = begin_iteration(w);
    const char *index = dt_cuda_nest_value(&w->n, f->how->scatter.index);
    dt_cuda_line(f, "mine[k] = begin + %d * (j + k) + lane < %s && %s >= first && %s < end;", w->warp, w->count, index, index);
    end_iteration(w, out);
    dt_cuda_close_blocks(f, 1);
    dt_cuda_unrolled(f, "k", at_once);
    dt_cuda_line(f, "const %s lanes = lanes_where(mine[k]);", w->lanes);
    dt_cuda_line(f, "if (lane == j + k) own = lanes;");
    dt_cuda_close_blocks(f, 2);
}

/* The lane's elements of the slice of each. */
static void run_iterations(walk *w) {
    dt_cuda_function *f = w->n.f;
    int64_t groups = f->how->scatter.groups;
    dt_cuda_line(f, "for (%s some = lanes_where(own != 0); some != 0; some &= some - 1) {", w->lanes);
    dt_cuda_line(f, "for (%s others = lanes_of(own, first_of(some)); others != 0; others &= others - 1) {", w->lanes);
    dt_cuda_line(f, "const %s p = begin + %d * first_of(some) + first_of(others);", f->index, w->warp);
    dt_text *out = begin_iteration(w);
    const char *begin = groups > 1 ? FORMAT(&w->n, "team %% %" PRId64 " * %d + lane", groups, w->warp) : "lane";
    dt_cuda_line(f, "for (%s e = %s; e < %s; e += %" PRId64 ") {", f->index, begin, dt_cuda_count(f, w->n.nest, w->how->dealt), groups * w->warp);
    dt_cuda_nest_element(&w->n, "e");
    dt_cuda_close_blocks(f, 1);
    end_iteration(w, out);
    dt_cuda_close_blocks(f, 2);
}

void dt_cuda_scatter(dt_cuda_function *f) {
    const dt_gpu_scatter *scatter = &f->how->scatter;
    walk w = {.how = f->how->nests, .standing = *f->how->nests, .warp = f->target->warp, .lanes = f->target->warp > 32 ? "u64" : "u32"};
    w.standing.serial = 0;
    dt_cuda_nest_prepare(&w.n, f, 0);
    w.count = dt_cuda_count(f, w.n.nest, w.how->serial);
    if (w.n.nest->note != NULL) dt_cuda_line(f, "// %s", w.n.nest->note);
    dt_cuda_nest_once(&w.n);
    w.n.counting = DT_CUDA_COUNTS_ALONE;
    dt_cuda_line(f, "for (%s p = grid_thread(); p < %s; p += grid_threads()) {", f->index, w.count);
    dt_text *out = begin_iteration(&w);
    dt_cuda_nest_checks(&w.n);
    end_iteration(&w, out);
    dt_cuda_close_blocks(f, 1);
    w.n.counting = DT_CUDA_COUNTED;
    dt_cuda_line(f, "const int lane = threadIdx.x %% %d;", w.warp);
    dt_cuda_line(f, "for (%s team = grid_thread() / %d; team < %" PRId64 "; team += grid_threads() / %d) {", f->index, w.warp,
                 scatter->n_owners * scatter->groups, w.warp);
    const char *owner = scatter->groups > 1 ? FORMAT(&w.n, "team / %" PRId64, scatter->groups) : "team";
    dt_cuda_line(f, "const i64 first = (i64)(%s) * %" PRId64 ", end = lower<i64>(first + %" PRId64 ", %" PRId64 ");", owner, scatter->targets_each,
                 scatter->targets_each, scatter->targets);
    dt_cuda_line(f, "for (%s begin = 0; begin < %s; begin += %d) {", f->index, w.count, w.warp * w.warp);
    find_iterations(&w);
    run_iterations(&w);
    dt_cuda_close_blocks(f, 2);
}
