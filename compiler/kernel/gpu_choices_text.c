/* gpu_choices_text: what was chosen for a GPU, as text behind the plan that it was chosen for. The functions below describe a line each, and the one
 * description is printed and read: what is printed reads back, and nothing is printed that is not read, but for what stands behind a #. Numbers of
 * nests count those of the divided kernel.
 *
 *   for cuda   # blocks of 256, warps of 32
 *     kernel train_1_matmul
 *       tiles by block  or product   # 200 blocks, 17408 bytes shared; or cuBLASLt
 *         nest 0  dealt l0 l1  reduced l2  by 4 l1
 *         rows of 64: s0  over l0  term by term  by 4 l2
 *         columns of 64: s1  over l1  result by result  by 4 l1
 *         stages of 16 terms  padding of 4
 *       teams by warp   # 640 warps
 *         nest 1  shared l0  reduced together l1
 *       scatter by warp   # 200 warps
 *         nest 2  dealt l1  in order l0
 *         owners of 1  in groups of 2  with 8 indices at once   # s2 below 100
 */
#include "compiler/kernel/gpu_choices.h"
#include "compiler/kernel/words.h"

#include <inttypes.h>

enum {
    MOST_NUMBER = 1 << 20
};

static void loops(dt_words *w, const dt_nest *nest, uint64_t *set) {
    for (int l = 0; l < nest->n_loops; l++) {
        int loop = l;
        if (dt_has(w, *set >> l & 1, " l%i", &loop)) *set |= (uint64_t)1 << loop;
    }
}

static void set_of_loops(dt_words *w, const char *what, const dt_nest *nest, uint64_t *set) {
    if (dt_has_word(w, *set != 0, "  ", what)) loops(w, nest, set);
}

/* ---- lines ---- */

/* "  by 4 l2": four iterations of that loop side by side; without a loop, so many elements of all. */
static void vectors(dt_words *w, dt_gpu_vectors *v) {
    if (!dt_has(w, v->width > 1, "  by ")) return;
    dt_int(w, 2, MOST_NUMBER, &v->width);
    dt_has(w, v->along >= 0, " l%i", &v->along);
}

static void nest_line(dt_words *w, const dt_nest *nest, dt_gpu_nest *how) {
    set_of_loops(w, "shared", nest, &how->shared);
    set_of_loops(w, "dealt", nest, &how->dealt);
    if (dt_has(w, how->serial != 0, "  in order")) loops(w, nest, &how->serial);
    if (dt_has(w, how->reduced != 0 || how->together, "  reduced")) {
        how->together = dt_has(w, how->together, " together");
        loops(w, nest, &how->reduced);
    }
    for (int l = 0; l < nest->n_loops; l++) {
        int loop = l;
        if (dt_has(w, how->unrolled[l] > 1, "  unrolled l%i by ", &loop)) dt_int(w, 2, MOST_NUMBER, &how->unrolled[loop]);
    }
    vectors(w, &how->vectors);
}

static void side(dt_words *w, const dt_nest *nest, dt_gpu_side *s) {
    dt_int(w, 1, MOST_NUMBER, &s->results);
    dt_expect(w, ": s%i", &s->factor);
    set_of_loops(w, "over", nest, &s->loops);
    s->by_terms = dt_has(w, s->by_terms, "  term by term");
    if (!s->by_terms) dt_expect(w, "  result by result");
    vectors(w, &s->vectors);
}

static void tiles(dt_words *w, const dt_gpu_target *target, const dt_nest *nest, dt_gpu_tiles *t) {
    dt_expect(w, "\n      rows of ");
    side(w, nest, &t->rows);
    dt_expect(w, "\n      columns of ");
    side(w, nest, &t->columns);
    dt_expect(w, "\n      stages of ");
    dt_int(w, 1, MOST_NUMBER, &t->terms);
    dt_expect(w, " terms  padding of ");
    dt_int(w, 0, MOST_NUMBER, &t->padding);
    if (dt_has(w, t->n_down > 0, "  tensor cores ")) {
        dt_int(w, 1, target->block / target->product_lanes, &t->n_down);
        dt_expect(w, " down");
    }
}

static void scatter(dt_words *w, dt_gpu_scatter *s) {
    dt_expect(w, "\n      owners of ");
    dt_int64(w, 1, MOST_NUMBER, &s->targets_each);
    dt_expect(w, "  in groups of ");
    dt_int64(w, 1, MOST_NUMBER, &s->groups);
    dt_expect(w, "  with ");
    dt_int(w, 1, MOST_NUMBER, &s->at_once);
    dt_expect(w, " indices at once");
    dt_comment(w, "s%d below %" PRId64, s->index, s->targets);
}

/* Of a library a text says which call there may be instead, and whether rows are cleared for it: all else goes into artifacts, which are made of
 * programs. */
static void library(dt_words *w, dt_gpu_function *f) {
    const dt_library_call *of = f->library;
    if (!dt_has(w, of != NULL, "  or")) return;
    int class = dt_one_of(w, " ", dt_library_class_names(), DT_N_LIBRARY_CLASSES, of != NULL ? (int)of->class : 0, "product");
    bool clears = dt_has(w, of != NULL && of->n_clears > 0, " with cleared rows");
    if (w->out != NULL || w->wrong != NULL) return;
    dt_library_call *call = DT_NEW(w->arena, dt_library_call);
    *call = (dt_library_call){.class = (dt_library_class) class, .n_launches = 1, .n_clears = clears};
    f->library = call;
}

static void all_nests(dt_words *w, const dt_gpu_scope *s, dt_gpu_function *f) {
    int n = 0;
    for (; dt_has(w, n < f->n_nests, "\n      nest "); n++) {
        int number = f->first + n;
        dt_nth(w, number);
        if (number >= s->kernel->n_nests) dt_wrong(w, "expected no more nests than there are");
        if (w->wrong != NULL) return;
        const dt_nest *nest = &s->kernel->nests[number];
        if (w->in != NULL) {
            dt_gpu_nest none = {.vectors = {.width = 1, .along = -1}, .unrolled = DT_NEW_ARRAY(w->arena, int, nest->n_loops)};
            for (int l = 0; l < nest->n_loops; l++) none.unrolled[l] = 1;
            *DT_ITEM(w, f->nests, f->n_nests, n) = none;
        }
        w->n_loops = nest->n_loops, w->n_instructions = nest->n_instructions;
        nest_line(w, nest, &f->nests[n]);
    }
    if (n == 0) dt_wrong(w, "expected nest");
}

/* False: there is none. */
static bool function(dt_words *w, const dt_gpu_scope *s, dt_gpu_function *f) {
    static const char *const forms[] = {
#define X(enumerator, name) name,
        DT_GPU_FORMS(X)
#undef X
    };
    enum {
        N_FORMS = sizeof forms / sizeof *forms
    };
    const char *const teams[] = {"thread", s->target->warp_name, "block"};
    const int sizes[] = {1, s->target->warp, s->target->block};
    int form = dt_one_of(w, "", forms, N_FORMS, (int)f->form, NULL), team = f->team == 1 ? 0 : f->team == s->target->warp ? 1 : 2;
    if (form < 0) return false;
    f->form = (dt_gpu_form)form;
    dt_expect(w, " by");
    team = dt_one_of(w, " ", teams, 3, team, "thread");
    f->team = sizes[team];
    f->wide = dt_has(w, f->wide, "  indices of 64 bits");
    library(w, f);
    dt_comment(w, "%" PRId64 " %s%s", f->n_items, teams[team], dt_plural(f->n_items));
    int64_t shared = dt_gpu_shared_bytes(s->target, f);
    if (w->out != NULL && shared > 0) dt_text_format(w->out, ", %" PRId64 " bytes shared", shared);
    if (w->out != NULL && f->library != NULL) dt_text_format(w->out, "; or %s", dt_library_of_class(f->library->class));
    all_nests(w, s, f);
    if (w->wrong != NULL) return false;
    const dt_nest *nest = &s->kernel->nests[f->first];
    w->n_loops = nest->n_loops, w->n_instructions = nest->n_instructions;
    if (f->form == DT_GPU_TILES) tiles(w, s->target, nest, &f->tiles);
    if (f->form == DT_GPU_SCATTER) scatter(w, &f->scatter);
    return w->wrong == NULL;
}

/* ---- kernels ---- */

static void functions(dt_words *w, const dt_gpu_scope *s, dt_gpu_kernel *kernel) {
    const dt_gpu_side side = {.vectors = {.width = 1, .along = -1}};
    for (int i = 0, first = 0; w->in != NULL || i < kernel->n_functions; i++) {
        dt_gpu_function f = {.first = first, .tiles = {.rows = side, .columns = side}};
        if (w->out != NULL) f = kernel->functions[i];
        dt_expect(w, "\n    ");
        if (!function(w, s, &f)) return;
        first = f.first + f.n_nests;
        if (w->out != NULL) continue;
        dt_gpu_complete(w->arena, s, &f);
        *DT_ITEM(w, kernel->functions, kernel->n_functions, i) = f;
    }
}

static void all_kernels(dt_words *w, const dt_gpu_target *target, const dt_plan *plan, dt_gpu_kernel *kernels) {
    for (int k = 0; k < plan->n_kernels && w->wrong == NULL; k++) {
        if (w->in != NULL) kernels[k].divided = dt_gpu_divide_stores(w->arena, plan, &plan->kernels[k], NULL);
        dt_expect(w, "\n  kernel");
        if (!dt_has_word(w, true, " ", plan->kernels[k].name)) dt_wrong(w, "expected %s", plan->kernels[k].name);
        functions(w, &(dt_gpu_scope){target, plan, &kernels[k].divided}, &kernels[k]);
    }
}

void dt_gpu_choices_print(dt_text *text, const dt_gpu_choices *choices, int plan) {
    const dt_gpu_target *target = choices->target;
    dt_text_format(text, "for %s   # blocks of %d, %ss of %d", target->name, target->block, target->warp_name, target->warp);
    all_kernels(&(dt_words){.out = text}, target, choices->plans[plan], choices->kernels[plan]);
    dt_text_append(text, "\n");
}

dt_status *dt_gpu_choices_read(dt_reader *reader, const dt_plan *plan, const dt_gpu_target **target, dt_gpu_kernel **kernels) {
    dt_words w = {.arena = reader->arena, .in = reader};
    *target = NULL;
    for (int t = 0; t < DT_N_TARGETS && *target == NULL; t++) {
        const dt_gpu_target *one = dt_gpu_target_of((dt_target)t);
        if (one != NULL && dt_has_word(&w, true, "", one->name)) *target = one;
    }
    if (*target == NULL) dt_wrong(&w, "expected cuda");
    *kernels = DT_NEW_ARRAY(reader->arena, dt_gpu_kernel, plan->n_kernels);
    all_kernels(&w, *target, plan, *kernels);
    return w.wrong;
}
