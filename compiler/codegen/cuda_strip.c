/* cuda_strip: how a tile's factors come into shared memory: a strip is sixteen terms of the sums for all places along one side of the tile.
 *
 * A thread first reads its share into registers, while products of the strip before are added, and writes it to shared memory behind them. Where four
 * neighbours lie side by side in memory, in the order of places or of terms, it reads them as a vector. A factor may be anything: what it is
 * computed from is read so, element by element it is computed. */
#include "compiler/codegen/cuda.h"

enum {
    WIDTH = 4
};

/* The last loop of a set that has several turns; -1: none. */
static int last_loop(const dt_nest *nest, uint64_t set) {
    for (int l = nest->n_loops - 1; l >= 0; l--)
        if ((set >> l & 1) && nest->loops[l].extent != 1) return l;
    return -1;
}

static void count_walks(const dt_nest *nest, int i, int loop, int *n) {
    const dt_instruction *x = &nest->instructions[i];
    if (x->kind == DT_INSTRUCTION_LOAD && loop >= 0 && x->address.coefficients[loop] == 1) ++*n;
    for (int k = 0; k < dt_instruction_n_uses(x); k++)
        if (dt_instruction_use(x, k) >= 0) count_walks(nest, dt_instruction_use(x, k), loop, n);
}

/* Whether all that instruction i reads along the loop are vectors; notes which these are. */
static bool reads_vectors(dt_cuda_nest *n, int i, int along) {
    const dt_instruction *x = &n->nest->instructions[i];
    if (!(n->depends[i] >> along & 1)) return true;
    if (x->kind == DT_INSTRUCTION_LOAD) {
        bool guarded = x->guard >= 0 && ((n->depends[x->guard] | n->depends[x->otherwise]) >> along & 1);
        n->vectors[i] = !guarded && dt_cuda_is_vector(n, &x->address, along, WIDTH);
        return n->vectors[i];
    }
    for (int k = 0; k < dt_instruction_n_uses(x); k++)
        if (!reads_vectors(n, dt_instruction_use(x, k), along)) return false;
    return true;
}

void dt_cuda_strip_prepare(dt_cuda_nest *n, dt_cuda_strip *strip) {
    int terms = 0, results = 0, last_term = last_loop(n->nest, n->reduced), last_result = last_loop(n->nest, strip->loops);
    count_walks(n->nest, strip->factor, last_term, &terms);
    count_walks(n->nest, strip->factor, last_result, &results);
    strip->by_terms = terms > results;
    int along = strip->by_terms ? last_term : last_result;
    bool walks = strip->by_terms ? terms > 0 : results > 0;
    strip->along = walks && reads_vectors(n, strip->factor, along) ? along : -1;
}

/* Elements, or vectors, of the strip; and how many of them one thread reads at most. */
static int n_reads(const dt_cuda_strip *strip) { return strip->places * DT_CUDA_TERMS / (strip->along >= 0 ? WIDTH : 1); }
static int share(const dt_cuda_strip *strip) { return (n_reads(strip) + DT_CUDA_BLOCK - 1) / DT_CUDA_BLOCK; }

void dt_cuda_strip_declare(dt_cuda_nest *n, const dt_cuda_strip *strip) {
    dt_cuda_line(n->f, "%s next_%s[%d];", strip->along >= 0 ? "values<float, 4>" : "float", strip->name, share(strip));
}

/* The loop over a thread's share: place and term of each element, or of the first of a vector. */
static void open_share(dt_cuda_nest *n, const dt_cuda_strip *strip) {
    dt_cuda_function *f = n->f;
    int width = strip->along >= 0 ? WIDTH : 1, places = strip->places / (strip->by_terms ? 1 : width),
        terms = DT_CUDA_TERMS / (strip->by_terms ? width : 1);
    const char *times = width > 1 ? "4 * " : "";
    dt_cuda_line(f, "#pragma unroll");
    if (n_reads(strip) < DT_CUDA_BLOCK)
        dt_cuda_line(f, "for (int i = 0; i < 1 && lane < %d; i++) {", n_reads(strip));
    else
        dt_cuda_line(f, "for (int i = 0; i < %d; i++) {", share(strip));
    if (strip->by_terms)
        dt_cuda_line(f, "const int place = (lane + %d * i) / %d, term = %s((lane + %d * i) %% %d);", DT_CUDA_BLOCK, terms, times, DT_CUDA_BLOCK,
                     terms);
    else
        dt_cuda_line(f, "const int place = %s((lane + %d * i) %% %d), term = (lane + %d * i) / %d;", times, DT_CUDA_BLOCK, places, DT_CUDA_BLOCK,
                     places);
}

static void factor(dt_cuda_nest *n, const dt_cuda_strip *strip) {
    dt_cuda_function *f = n->f;
    if (strip->along >= 0) {
        n->along = strip->along;
        n->width = WIDTH;
        dt_cuda_nest_values(n, strip->factor, "value");
        n->width = 1;
    } else {
        const char *value = dt_cuda_nest_value(n, strip->factor);
        dt_cuda_line(f, "value = %s;", value);
    }
}

void dt_cuda_strip_read(dt_cuda_nest *n, const dt_cuda_strip *strip) {
    dt_cuda_function *f = n->f;
    dt_text body = {.arena = f->arena}, *out = f->out;
    open_share(n, strip);
    dt_cuda_line(f, "const %s at = %s + place, d = terms + term;", dt_cuda_index_type(f), strip->first);
    dt_cuda_line(f, strip->along >= 0 ? "values<float, 4> value = {};" : "float value = 0.0f;");
    dt_cuda_line(f, "if (at < %s && d < %s) {", strip->count, dt_cuda_count(f, n->nest, n->reduced));
    for (int l = 0; l < n->nest->n_loops; l++)
        if ((strip->loops | n->reduced) >> l & 1) n->loop_used[l] = false;
    f->out = &body;
    factor(n, strip);
    f->out = out;
    dt_cuda_declare_loops(f, n->nest, n->loops, strip->loops, n->loop_used, "at");
    dt_cuda_declare_loops(f, n->nest, n->loops, n->reduced, n->loop_used, "d");
    dt_text_append(out, body.data != NULL ? body.data : "");
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "next_%s[i] = value;", strip->name);
    dt_cuda_line(f, "}");
}

void dt_cuda_strip_write(dt_cuda_nest *n, const dt_cuda_strip *strip, const char *buffer) {
    dt_cuda_function *f = n->f;
    open_share(n, strip);
    if (strip->along < 0)
        dt_cuda_line(f, "strip_%s[%s][term][place] = next_%s[i];", strip->name, buffer, strip->name);
    else if (!strip->by_terms)
        dt_cuda_line(f, "store<4>(&strip_%s[%s][term][place], next_%s[i]);", strip->name, buffer, strip->name);
    else
        dt_cuda_line(f, "for (int k = 0; k < %d; k++) strip_%s[%s][term + k][place] = next_%s[i].at[k];", WIDTH, strip->name, buffer, strip->name);
    dt_cuda_line(f, "}");
}
