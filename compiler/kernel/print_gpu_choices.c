/* print_gpu_choices: what was chosen for a GPU, as comments behind the plan that it was chosen for: whoever reads the plan back chooses anew. Numbers
 * of nests count those of the divided kernel.
 *
 *   # for cuda, blocks of 256, warps of 32
 *   #   kernel train_1_matmul
 *   #     tiles for 200 blocks  or cuDNN
 *   #       nest 0  dealt l0 l1  reduced l2  by 4 l1
 *   #         rows of 64, 4 a thread: s0  over l0  term by term  by 4 l2
 *   #         columns of 64, 4 a thread: s1  over l1  result by result  by 4 l1
 *   #         stages of 16 terms, rows of 4 more; 17408 bytes shared
 *   #     teams for 640 warps
 *   #       nest 1  shared l0  reduced together l1 */
#include "compiler/kernel/gpu_choices.h"

#include <inttypes.h>

static void print_set(dt_text *text, const char *what, uint64_t set) {
    if (set != 0) dt_text_format(text, "  %s", what);
    for (int l = 0; l < 64; l++)
        if (set >> l & 1) dt_text_format(text, " l%d", l);
}

/* "  by 4 l2": four iterations of that loop side by side; without a loop, so many elements of all. */
static void print_vectors(dt_text *text, const dt_gpu_vectors *vectors) {
    if (vectors->width == 1) return;
    dt_text_format(text, "  by %d", vectors->width);
    if (vectors->along >= 0) dt_text_format(text, " l%d", vectors->along);
}

static void print_side(dt_text *text, const char *name, const dt_gpu_side *side) {
    dt_text_format(text, "#         %s of %d, %d a thread: s%d", name, side->results, side->own, side->factor);
    print_set(text, "over", side->loops);
    dt_text_append(text, side->by_terms ? "  term by term" : "  result by result");
    print_vectors(text, &side->vectors);
    dt_text_append(text, "\n");
}

static void print_nest(dt_text *text, const dt_nest *nest, const dt_gpu_nest *how, int n) {
    dt_text_format(text, "#       nest %d", n);
    print_set(text, "shared", how->shared);
    print_set(text, "dealt", how->dealt);
    print_set(text, "in order", how->serial);
    print_set(text, how->together ? "reduced together" : "reduced", how->reduced);
    for (int l = 0; l < nest->n_loops; l++)
        if (how->unrolled[l] > 1) dt_text_format(text, "  l%d unrolled by %d", l, how->unrolled[l]);
    print_vectors(text, &how->vectors);
    dt_text_append(text, "\n");
}

static void print_function(dt_text *text, const dt_gpu_target *target, const dt_kernel_function *kernel, const dt_gpu_function *f) {
    static const char *const forms[] = {
#define X(enumerator, name) name,
        DT_GPU_FORMS(X)
#undef X
    };
    dt_text_format(text, "#     %s for %" PRId64 " %s%s", forms[f->form], f->n_items,
                   f->team == 1               ? "thread"
                   : f->team == target->block ? "block"
                                              : target->warp_name,
                   dt_plural(f->n_items));
    if (f->wide) dt_text_append(text, "  indices of 64 bits");
    if (f->library != NULL) dt_text_format(text, "  or %s", dt_library_of_class(f->library->class));
    dt_text_append(text, "\n");
    for (int n = 0; n < f->n_nests; n++) print_nest(text, &kernel->nests[f->first + n], &f->nests[n], f->first + n);
    if (f->form == DT_GPU_TILES) {
        print_side(text, "rows", &f->tiles.rows);
        print_side(text, "columns", &f->tiles.columns);
        dt_text_format(text, "#         stages of %d terms, rows of %d more; %" PRId64 " bytes shared", f->tiles.terms, f->tiles.padding,
                       dt_gpu_shared_bytes(target, f));
        if (f->tiles.n_down > 0) dt_text_format(text, "; tensor cores, %d down", f->tiles.n_down);
        dt_text_append(text, "\n");
    }
    if (f->form == DT_GPU_SCATTER)
        dt_text_format(text, "#         s%d below %" PRId64 ": %" PRId64 " owners of %" PRId64 ", %" PRId64 " for each slice, %d indices at once\n",
                       f->scatter.index, f->scatter.targets, f->scatter.n_owners, f->scatter.targets_each, f->scatter.groups, f->scatter.at_once);
}

void dt_gpu_choices_print(dt_text *text, const dt_gpu_choices *choices, int plan) {
    const dt_gpu_target *target = choices->target;
    dt_text_format(text, "# for %s, blocks of %d, %ss of %d\n", target->name, target->block, target->warp_name, target->warp);
    for (int k = 0; k < choices->plans[plan]->n_kernels; k++) {
        const dt_gpu_kernel *kernel = &choices->kernels[plan][k];
        dt_text_format(text, "#   kernel %s\n", kernel->divided.name);
        for (int f = 0; f < kernel->n_functions; f++) print_function(text, target, &kernel->divided, &kernel->functions[f]);
    }
}
