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
#include "ir/reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum {
    MOST_NUMBER = 1 << 20
};

/* A text that is printed, or one that is read, up to the first mistake. */
typedef struct words {
    dt_text *out; /* NULL: it is read */
    dt_reader *in;
    dt_status *wrong;
} words;

/* ---- words ---- */

/* Printing: the text, if it is there. Reading: whether its words and symbols come next, the first of them deciding. */
static bool has(words *w, const char *text, bool is_there) {
    if (w->out != NULL) {
        if (is_there) dt_text_append(w->out, text);
        return is_there;
    }
    bool first = true;
    for (size_t n; *(text += strspn(text, " \n")) != '\0' && w->wrong == NULL; text += n, first = false) {
        n = strcspn(text, " :\n");
        n += n == 0;
        const char *word = dt_arena_substring(w->in->arena, text, n);
        if (*word == ':' ? dt_read_symbol(w->in, word) : dt_read_keyword(w->in, word)) continue;
        if (first) return false;
        w->wrong = dt_reader_error(w->in, "expected %s", word);
    }
    return w->wrong == NULL;
}

static void expect(words *w, const char *text) {
    if (!has(w, text, true) && w->wrong == NULL) w->wrong = dt_reader_error(w->in, "expected %s", text + strspn(text, " \n"));
}

static void number(words *w, int64_t least, int64_t most, int64_t *n) {
    if (w->out != NULL)
        dt_text_format(w->out, " %" PRId64, *n);
    else if (w->wrong == NULL && (!dt_read_int(w->in, n) || *n < least || *n > most))
        w->wrong = dt_reader_error(w->in, "expected a number of %" PRId64 " to %" PRId64, least, most);
}

static void count(words *w, int least, int most, int *n) {
    int64_t wide = *n;
    number(w, least, most, &wide);
    *n = w->wrong == NULL ? (int)wide : least;
}

/* One of `n` names; n: none of them. */
static int one_of(words *w, const char *const *names, int n, int chosen) {
    for (int i = 0; i < n; i++)
        if (has(w, names[i], i == chosen)) return i;
    return n;
}

/* " l3": a loop or an instruction, of n; false: there is none. */
static bool numbered(words *w, char letter, int n, bool is_there, int *i) {
    const char name[] = {letter, '\0'};
    if (w->out != NULL) {
        if (is_there) dt_text_format(w->out, " %c%d", letter, *i);
        return is_there;
    }
    dt_reader before = *w->in;
    int64_t value;
    if (w->wrong == NULL && dt_read_symbol(w->in, name) && dt_read_int(w->in, &value) && value >= 0 && value < n) return *i = (int)value, true;
    *w->in = before;
    return false;
}

static void loops(words *w, const dt_nest *nest, uint64_t *set) {
    for (int l = 0; l < nest->n_loops; l++) {
        int loop = l;
        if (numbered(w, 'l', nest->n_loops, *set >> l & 1, &loop)) *set |= (uint64_t)1 << loop;
    }
}

static void set_of_loops(words *w, const char *what, const dt_nest *nest, uint64_t *set) {
    if (has(w, what, *set != 0)) loops(w, nest, set);
}

/* For people alone. */
static void remark(words *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (w->out != NULL) dt_text_append(w->out, "   # ");
    if (w->out != NULL) dt_text_vformat(w->out, format, arguments);
    va_end(arguments);
}

/* ---- lines ---- */

/* "  by 4 l2": four iterations of that loop side by side; without a loop, so many elements of all. */
static void vectors(words *w, const dt_nest *nest, dt_gpu_vectors *v) {
    if (!has(w, "  by", v->width > 1)) return;
    count(w, 2, MOST_NUMBER, &v->width);
    numbered(w, 'l', nest->n_loops, v->along >= 0, &v->along);
}

static void nest_line(words *w, const dt_nest *nest, dt_gpu_nest *how) {
    set_of_loops(w, "  shared", nest, &how->shared);
    set_of_loops(w, "  dealt", nest, &how->dealt);
    set_of_loops(w, "  in order", nest, &how->serial);
    if (has(w, "  reduced", how->reduced != 0 || how->together)) {
        how->together = has(w, " together", how->together);
        loops(w, nest, &how->reduced);
    }
    for (int l = 0; l < nest->n_loops; l++) {
        int loop = l;
        if (!has(w, "  unrolled", how->unrolled[l] > 1)) continue;
        if (!numbered(w, 'l', nest->n_loops, true, &loop)) expect(w, "l0");
        expect(w, " by");
        count(w, 2, MOST_NUMBER, &how->unrolled[loop]);
    }
    vectors(w, nest, &how->vectors);
}

static void side(words *w, const char *name, const dt_nest *nest, dt_gpu_side *s) {
    expect(w, name);
    count(w, 1, MOST_NUMBER, &s->results);
    expect(w, ":");
    if (!numbered(w, 's', nest->n_instructions, true, &s->factor)) expect(w, "s0");
    set_of_loops(w, "  over", nest, &s->loops);
    s->by_terms = has(w, "  term by term", s->by_terms);
    if (!s->by_terms) expect(w, "  result by result");
    vectors(w, nest, &s->vectors);
}

static void tiles(words *w, const dt_gpu_target *target, const dt_nest *nest, dt_gpu_tiles *t) {
    side(w, "\n      rows of", nest, &t->rows);
    side(w, "\n      columns of", nest, &t->columns);
    expect(w, "\n      stages of");
    count(w, 1, MOST_NUMBER, &t->terms);
    expect(w, " terms  padding of");
    count(w, 0, MOST_NUMBER, &t->padding);
    if (has(w, "  tensor cores", t->n_down > 0)) {
        count(w, 1, target->block / target->product_lanes, &t->n_down);
        expect(w, " down");
    }
}

static void scatter(words *w, dt_gpu_scatter *s) {
    expect(w, "\n      owners of");
    number(w, 1, MOST_NUMBER, &s->targets_each);
    expect(w, "  in groups of");
    number(w, 1, MOST_NUMBER, &s->groups);
    expect(w, "  with");
    count(w, 1, MOST_NUMBER, &s->at_once);
    expect(w, " indices at once");
    remark(w, "s%d below %" PRId64, s->index, s->targets);
}

/* Of a library a text says which call there may be instead, and whether rows are cleared for it: all else goes into artifacts, which are made of
 * programs. */
static void library(words *w, dt_gpu_function *f) {
    const dt_library_call *of = f->library;
    if (!has(w, "  or ", of != NULL)) return;
    int class = one_of(w, dt_library_class_names(), DT_N_LIBRARY_CLASSES, of != NULL ? (int)of->class : 0);
    if (class == DT_N_LIBRARY_CLASSES) expect(w, "product");
    bool clears = has(w, " with cleared rows", of != NULL && of->n_clears > 0);
    if (w->out != NULL || w->wrong != NULL) return;
    dt_library_call *call = DT_NEW(w->in->arena, dt_library_call);
    *call = (dt_library_call){.class = (dt_library_class) class, .n_launches = 1, .n_clears = clears};
    f->library = call;
}

static void all_nests(words *w, const dt_gpu_scope *s, dt_gpu_function *f) {
    DT_LIST(dt_gpu_nest) nests = {.items = f->nests};
    int n = 0;
    for (; has(w, "\n      nest", n < f->n_nests); n++) {
        int number = f->first + n;
        count(w, number, number, &number);
        if (number >= s->kernel->n_nests) expect(w, "no more nests than there are");
        if (w->wrong != NULL) return;
        const dt_nest *nest = &s->kernel->nests[number];
        if (w->in != NULL) {
            dt_gpu_nest none = {.vectors = {.width = 1, .along = -1}, .unrolled = DT_NEW_ARRAY(w->in->arena, int, nest->n_loops)};
            for (int l = 0; l < nest->n_loops; l++) none.unrolled[l] = 1;
            dt_list_push(w->in->arena, &nests, none);
        }
        nest_line(w, nest, &nests.items[n]);
    }
    if (n == 0) expect(w, "nest");
    f->nests = nests.items;
    f->n_nests = n;
}

/* False: there is none. */
static bool function(words *w, const dt_gpu_scope *s, dt_gpu_function *f) {
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
    int form = one_of(w, forms, N_FORMS, (int)f->form), team = f->team == 1 ? 0 : f->team == s->target->warp ? 1 : 2;
    if (form == N_FORMS) return false;
    f->form = (dt_gpu_form)form;
    expect(w, " by ");
    team = one_of(w, teams, 3, team);
    if (team == 3) expect(w, "thread");
    f->team = team < 3 ? sizes[team] : 1;
    f->wide = has(w, "  indices of 64 bits", f->wide);
    library(w, f);
    remark(w, "%" PRId64 " %s%s", f->n_items, teams[team % 3], dt_plural(f->n_items));
    int64_t shared = dt_gpu_shared_bytes(s->target, f);
    if (w->out != NULL && shared > 0) dt_text_format(w->out, ", %" PRId64 " bytes shared", shared);
    if (w->out != NULL && f->library != NULL) dt_text_format(w->out, "; or %s", dt_library_of_class(f->library->class));
    all_nests(w, s, f);
    if (w->wrong != NULL) return false;
    const dt_nest *nest = &s->kernel->nests[f->first];
    if (f->form == DT_GPU_TILES) tiles(w, s->target, nest, &f->tiles);
    if (f->form == DT_GPU_SCATTER) scatter(w, &f->scatter);
    return w->wrong == NULL;
}

/* ---- kernels ---- */

static void print_kernel(words *w, const dt_gpu_scope *s, const dt_gpu_kernel *kernel) {
    for (int i = 0; i < kernel->n_functions; i++) {
        dt_text_append(w->out, "\n    ");
        function(w, s, &kernel->functions[i]);
    }
}

static void read_kernel(words *w, const dt_gpu_scope *s, dt_gpu_kernel *kernel) {
    DT_LIST(dt_gpu_function) functions = {0};
    const dt_gpu_side side = {.vectors = {.width = 1, .along = -1}};
    dt_gpu_function f = {.tiles = {.rows = side, .columns = side}};
    for (; function(w, s, &f); f = (dt_gpu_function){.first = f.first + f.n_nests, .tiles = {.rows = side, .columns = side}}) {
        dt_gpu_complete(w->in->arena, s, &f);
        dt_list_push(w->in->arena, &functions, f);
    }
    kernel->functions = functions.items;
    kernel->n_functions = (int)functions.n;
}

void dt_gpu_choices_print(dt_text *text, const dt_gpu_choices *choices, int plan) {
    words w = {.out = text};
    const dt_gpu_target *target = choices->target;
    dt_text_format(text, "for %s   # blocks of %d, %ss of %d", target->name, target->block, target->warp_name, target->warp);
    for (int k = 0; k < choices->plans[plan]->n_kernels; k++) {
        const dt_gpu_kernel *kernel = &choices->kernels[plan][k];
        dt_text_format(text, "\n  kernel %s", kernel->divided.name);
        print_kernel(&w, &(dt_gpu_scope){target, choices->plans[plan], &kernel->divided}, kernel);
    }
    dt_text_append(text, "\n");
}

dt_status *dt_gpu_choices_read(dt_reader *reader, const dt_plan *plan, const dt_gpu_target **target, dt_gpu_kernel **kernels) {
    words w = {.in = reader};
    *target = NULL;
    for (int t = 0; t < DT_N_TARGETS && *target == NULL; t++) {
        const dt_gpu_target *one = dt_gpu_target_of((dt_target)t);
        if (one != NULL && has(&w, one->name, true)) *target = one;
    }
    if (*target == NULL) expect(&w, "cuda");
    *kernels = DT_NEW_ARRAY(reader->arena, dt_gpu_kernel, plan->n_kernels);
    for (int k = 0; k < plan->n_kernels && w.wrong == NULL; k++) {
        dt_gpu_kernel *kernel = &(*kernels)[k];
        kernel->divided = dt_gpu_divide_stores(reader->arena, plan, &plan->kernels[k], NULL);
        expect(&w, "kernel");
        expect(&w, plan->kernels[k].name);
        read_kernel(&w, &(dt_gpu_scope){*target, plan, &kernel->divided}, kernel);
    }
    return w.wrong;
}
