/* cuda_scatter: an owner-computes scatter: a nest that stores where an index says, as the gradient of an embedding does.
 *
 * Several iterations may target one element, and what they store has an order. So each target has an owner: a warp reads all indices, 32 at a time,
 * notes which of them target what it owns, and runs these iterations in order, its lanes side by side in the slice that the index selects. All owners
 * read all indices, which costs little compared with serialising the targets, and the indices stay in cache. Bad indices have no owner: they are
 * counted before. */
#include "compiler/codegen/cuda.h"

#include <inttypes.h>

#define FORMAT(n, ...) dt_arena_format((n)->f->arena, __VA_ARGS__)

enum {
    AT_ONCE = 8 /* indices that a lane asks memory for before it looks at one */
};

typedef struct walk {
    const dt_scatter *scatter;
    const char *count; /* iterations */
} walk;

/* Declares the walked loops that the text of `write` needs, at iteration p, and then writes that text. */
static void at_iteration(dt_cuda_nest *n, void (*write)(dt_cuda_nest *n, const walk *w), const walk *w) {
    dt_cuda_function *f = n->f;
    dt_text body = {.arena = f->arena}, *out = f->out;
    const uint64_t walked = n->serial;
    for (int l = 0; l < n->nest->n_loops; l++) n->loop_used[l] = false;
    f->out = &body;
    n->serial = 0; /* they stand */
    write(n, w);
    n->serial = walked;
    f->out = out;
    dt_cuda_declare_loops(f, n->nest, n->loops, walked, n->loop_used, "p");
    dt_text_append(out, body.data != NULL ? body.data : "");
}

static void write_checks(dt_cuda_nest *n, const walk *w) {
    (void)w;
    dt_cuda_nest_checks(n);
}

/* Whether iteration p targets what the warp owns. */
static void write_match(dt_cuda_nest *n, const walk *w) {
    const char *index = dt_cuda_nest_value(n, w->scatter->index);
    dt_cuda_line(n->f, "mine[k] = begin + %d * (j + k) + lane < %s && %s >= first && %s < end;", DT_WARP, w->count, index, index);
}

/* The lane's elements of the iteration's slice. */
static void write_elements(dt_cuda_nest *n, const walk *w) {
    const dt_scatter *scatter = w->scatter;
    const char *type = dt_cuda_index_type(n->f), *begin = "lane";
    if (scatter->groups > 1) begin = FORMAT(n, "team %% %" PRId64 " * %d + lane", scatter->groups, DT_WARP);
    dt_cuda_line(n->f, "for (%s e = %s; e < %s; e += %" PRId64 ") {", type, begin, dt_cuda_count(n->f, n->nest, n->dealt), scatter->groups * DT_WARP);
    dt_cuda_nest_element(n, "e");
    dt_cuda_line(n->f, "}");
}

/* Bit b of lane l's `own`: iteration begin + 32 l + b is the warp's. */
static void find_iterations(dt_cuda_nest *n, const walk *w) {
    dt_cuda_function *f = n->f;
    dt_cuda_line(f, "u32 own = 0;");
    dt_cuda_line(f, "for (int j = 0; j < %d && begin + %d * j < %s; j += %d) {", DT_WARP, DT_WARP, w->count, AT_ONCE);
    dt_cuda_line(f, "bool mine[%d];", AT_ONCE);
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int k = 0; k < %d; k++) {", AT_ONCE);
    dt_cuda_line(f, "const %s p = lower<%s>(begin + %d * (j + k) + lane, %s - 1);", dt_cuda_index_type(f), dt_cuda_index_type(f), DT_WARP, w->count);
    at_iteration(n, write_match, w);
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int k = 0; k < %d; k++) {", AT_ONCE);
    dt_cuda_line(f, "const u32 lanes = lanes_where(mine[k]);");
    dt_cuda_line(f, "if (lane == j + k) own = lanes;");
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "}");
}

static void run_iterations(dt_cuda_nest *n, const walk *w) {
    dt_cuda_function *f = n->f;
    dt_cuda_line(f, "for (u32 some = lanes_where(own != 0); some != 0; some &= some - 1) {");
    dt_cuda_line(f, "for (u32 others = lanes_of(own, first_of(some)); others != 0; others &= others - 1) {");
    dt_cuda_line(f, "const %s p = begin + %d * first_of(some) + first_of(others);", dt_cuda_index_type(f), DT_WARP);
    at_iteration(n, write_elements, w);
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "}");
}

void dt_cuda_scatter(dt_cuda_function *f) {
    dt_cuda_nest n;
    const dt_scatter scatter = f->phase->scatter;
    const dt_nest *nest = &f->kernel->nests[f->phase->first];
    dt_cuda_nest_prepare(&n, f, nest);
    const char *type = dt_cuda_index_type(f), *count = dt_cuda_count(f, nest, n.serial);
    const walk w = {&scatter, count};
    if (nest->note != NULL) dt_cuda_line(f, "// %s", nest->note);
    dt_cuda_nest_once(&n);
    n.counting = DT_CUDA_COUNTS_ALONE;
    dt_cuda_line(f, "for (%s p = grid_thread(); p < %s; p += grid_threads()) {", type, count);
    at_iteration(&n, write_checks, &w);
    dt_cuda_line(f, "}");
    n.counting = DT_CUDA_COUNTED;
    dt_cuda_line(f, "const int lane = threadIdx.x %% %d;", DT_WARP);
    dt_cuda_line(f, "for (%s team = grid_thread() / %d; team < %" PRId64 "; team += grid_threads() / %d) {", type, DT_WARP,
                 scatter.n_owners * scatter.groups, DT_WARP);
    const char *owner = scatter.groups > 1 ? FORMAT(&n, "team / %" PRId64, scatter.groups) : "team";
    dt_cuda_line(f, "const i64 first = (i64)(%s) * %" PRId64 ", end = lower<i64>(first + %" PRId64 ", %" PRId64 ");", owner, scatter.targets_each,
                 scatter.targets_each, scatter.targets);
    dt_cuda_line(f, "for (%s begin = 0; begin < %s; begin += %d) {", type, count, DT_WARP * DT_WARP);
    find_iterations(&n, &w);
    run_iterations(&n, &w);
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "}");
}
