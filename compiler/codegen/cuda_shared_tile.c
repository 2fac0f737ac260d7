/* cuda_shared_tile: how a tile's factors come into shared memory, stage by stage: a stage is sixteen terms of the sums for all results along one
 * side of the tile.
 *
 * A thread first reads its share into registers, while the products of the stage before are added, and then writes it to shared memory. Where four
 * neighbours are contiguous in memory, in the order of results or of terms, it reads them as a vector. A factor may be any expression: its loads are
 * vectors, and it is computed element by element. */
#include "compiler/codegen/cuda.h"

enum {
    WIDTH = 4
};

/* The last loop of a set that has several iterations; -1: none. */
static int last_loop(const dt_nest *nest, uint64_t set) {
    for (int l = nest->n_loops - 1; l >= 0; l--)
        if ((set >> l & 1) && nest->loops[l].extent != 1) return l;
    return -1;
}

/* Of the loads that instruction i needs, how many walk the loop. seen[n_instructions]: those that were looked at. */
static int count_walks(const dt_nest *nest, int i, int loop, bool *seen) {
    if (i < 0 || loop < 0 || seen[i]) return 0;
    seen[i] = true;
    const dt_instruction *x = &nest->instructions[i];
    int n = x->kind == DT_INSTRUCTION_LOAD && x->address.coefficients[loop] == 1;
    for (int k = 0; k < dt_instruction_n_uses(x); k++) n += count_walks(nest, dt_instruction_use(x, k), loop, seen);
    return n;
}

/* Whether all that instruction i reads along the loop are vectors; notes which these are. `seen` as above. */
static bool reads_vectors(dt_cuda_nest *n, int i, int along, bool *seen) {
    const dt_instruction *x = &n->nest->instructions[i];
    if (seen[i] || !(n->depends[i] >> along & 1)) return true;
    seen[i] = true;
    if (x->kind == DT_INSTRUCTION_LOAD) {
        bool guarded = x->guard >= 0 && ((n->depends[x->guard] | n->depends[x->otherwise]) >> along & 1);
        n->vectors[i] = !guarded && dt_cuda_is_vector(n, &x->address, along, WIDTH);
        return n->vectors[i];
    }
    for (int k = 0; k < dt_instruction_n_uses(x); k++)
        if (!reads_vectors(n, dt_instruction_use(x, k), along, seen)) return false;
    return true;
}

void dt_cuda_shared_tile_prepare(dt_cuda_nest *n, dt_cuda_shared_tile *tile) {
    dt_arena *arena = n->f->arena;
    int last_term = last_loop(n->nest, n->reduced), last_result = last_loop(n->nest, tile->loops);
    int terms = count_walks(n->nest, tile->factor, last_term, DT_NEW_ARRAY(arena, bool, n->nest->n_instructions));
    int results = count_walks(n->nest, tile->factor, last_result, DT_NEW_ARRAY(arena, bool, n->nest->n_instructions));
    tile->by_terms = terms > results;
    int along = tile->by_terms ? last_term : last_result;
    bool walks = tile->by_terms ? terms > 0 : results > 0;
    tile->along = walks && reads_vectors(n, tile->factor, along, DT_NEW_ARRAY(arena, bool, n->nest->n_instructions)) ? along : -1;
}

/* Elements, or vectors, of a stage; and how many of them one thread reads at most. */
static int n_reads(const dt_cuda_shared_tile *tile) { return tile->side * DT_CUDA_TERMS / (tile->along >= 0 ? WIDTH : 1); }
static int share(const dt_cuda_shared_tile *tile) { return (n_reads(tile) + DT_CUDA_BLOCK - 1) / DT_CUDA_BLOCK; }

void dt_cuda_shared_tile_declare(dt_cuda_nest *n, const dt_cuda_shared_tile *tile) {
    dt_cuda_line(n->f, "%s next_%s[%d];", tile->along >= 0 ? "values<float, 4>" : "float", tile->name, share(tile));
}

/* The loop over a thread's share: result and term of each element, or of the first of a vector. */
static void open_share(dt_cuda_nest *n, const dt_cuda_shared_tile *tile) {
    dt_cuda_function *f = n->f;
    int width = tile->along >= 0 ? WIDTH : 1, results = tile->side / (tile->by_terms ? 1 : width),
        terms = DT_CUDA_TERMS / (tile->by_terms ? width : 1);
    const char *times = width > 1 ? "4 * " : "";
    dt_cuda_line(f, "#pragma unroll");
    if (n_reads(tile) < DT_CUDA_BLOCK)
        dt_cuda_line(f, "for (int i = 0; i < 1 && lane < %d; i++) {", n_reads(tile));
    else
        dt_cuda_line(f, "for (int i = 0; i < %d; i++) {", share(tile));
    if (tile->by_terms)
        dt_cuda_line(f, "const int result = (lane + %d * i) / %d, term = %s((lane + %d * i) %% %d);", DT_CUDA_BLOCK, terms, times, DT_CUDA_BLOCK,
                     terms);
    else
        dt_cuda_line(f, "const int result = %s((lane + %d * i) %% %d), term = (lane + %d * i) / %d;", times, DT_CUDA_BLOCK, results, DT_CUDA_BLOCK,
                     results);
}

static void factor(dt_cuda_nest *n, const dt_cuda_shared_tile *tile) {
    dt_cuda_function *f = n->f;
    if (tile->along >= 0) {
        n->along = tile->along;
        n->width = WIDTH;
        dt_cuda_nest_values(n, tile->factor, "value");
        n->width = 1;
    } else {
        const char *value = dt_cuda_nest_value(n, tile->factor);
        dt_cuda_line(f, "value = %s;", value);
    }
}

void dt_cuda_shared_tile_read(dt_cuda_nest *n, const dt_cuda_shared_tile *tile) {
    dt_cuda_function *f = n->f;
    dt_text body = {.arena = f->arena}, *out = f->out;
    open_share(n, tile);
    dt_cuda_line(f, "const %s at = %s + result, d = terms + term;", dt_cuda_index_type(f), tile->first);
    dt_cuda_line(f, tile->along >= 0 ? "values<float, 4> value = {};" : "float value = 0.0f;");
    dt_cuda_line(f, "if (at < %s && d < %s) {", tile->count, dt_cuda_count(f, n->nest, n->reduced));
    for (int l = 0; l < n->nest->n_loops; l++)
        if ((tile->loops | n->reduced) >> l & 1) n->loop_used[l] = false;
    f->out = &body;
    factor(n, tile);
    f->out = out;
    dt_cuda_declare_loops(f, n->nest, n->loops, tile->loops, n->loop_used, "at");
    dt_cuda_declare_loops(f, n->nest, n->loops, n->reduced, n->loop_used, "d");
    dt_text_append(out, body.data != NULL ? body.data : "");
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "next_%s[i] = value;", tile->name);
    dt_cuda_line(f, "}");
}

void dt_cuda_shared_tile_write(dt_cuda_nest *n, const dt_cuda_shared_tile *tile, const char *buffer) {
    dt_cuda_function *f = n->f;
    open_share(n, tile);
    if (tile->along < 0)
        dt_cuda_line(f, "shared_%s[%s][term][result] = next_%s[i];", tile->name, buffer, tile->name);
    else if (!tile->by_terms)
        dt_cuda_line(f, "store<4>(&shared_%s[%s][term][result], next_%s[i]);", tile->name, buffer, tile->name);
    else
        dt_cuda_line(f, "for (int k = 0; k < %d; k++) shared_%s[%s][term + k][result] = next_%s[i].at[k];", WIDTH, tile->name, buffer, tile->name);
    dt_cuda_line(f, "}");
}
