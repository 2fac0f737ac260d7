/* cuda_shared_tile: how a tile's factors come into shared memory, stage by stage: a stage is some terms of the sums for all results along one side of
 * the tile.
 *
 * A thread first reads its share into registers, while the products of the stage before are added, and then writes it to shared memory. A factor may
 * be any expression: its loads are vectors, and it is computed element by element. */
#include "compiler/codegen/cuda.h"

/* Elements, or vectors, of a stage; and how many of them one thread reads at most. */
static int n_reads(const dt_cuda_function *f, const dt_gpu_side *side) { return side->results * f->how->tiles.terms / side->vectors.width; }
static int share(const dt_cuda_function *f, const dt_gpu_side *side) { return (n_reads(f, side) + f->target->block - 1) / f->target->block; }

static const char *type_of(const dt_cuda_function *f, const dt_gpu_side *side) {
    return side->vectors.width > 1 ? DT_CUDA_FORMAT(f, "values<float, %d>", side->vectors.width) : "float";
}

void dt_cuda_shared_tile_declare(dt_cuda_nest *n, const dt_cuda_shared_tile *tile) {
    dt_cuda_line(n->f, "%s next_%s[%d];", type_of(n->f, tile->side), tile->name, share(n->f, tile->side));
}

/* The loop over a thread's share: result and term of each element, or of the first of a vector. */
static void open_share(dt_cuda_function *f, const dt_gpu_side *side) {
    int block = f->target->block, width = side->vectors.width;
    int across = side->by_terms ? f->how->tiles.terms / width : side->results / width; /* neighbours in memory, in vectors */
    const char *times = width > 1 ? DT_CUDA_FORMAT(f, "%d * ", width) : "";
    const char *along = DT_CUDA_FORMAT(f, "%s((lane + %d * i) %% %d)", times, block, across);
    const char *down = DT_CUDA_FORMAT(f, "(lane + %d * i) / %d", block, across);
    if (n_reads(f, side) < block) {
        dt_cuda_line(f, "#pragma unroll");
        dt_cuda_line(f, "for (int i = 0; i < 1 && lane < %d; i++) {", n_reads(f, side));
    } else {
        dt_cuda_unrolled(f, "i", share(f, side));
    }
    dt_cuda_line(f, "const int result = %s, term = %s;", side->by_terms ? down : along, side->by_terms ? along : down);
}

void dt_cuda_shared_tile_read(dt_cuda_nest *n, const dt_cuda_shared_tile *tile) {
    dt_cuda_function *f = n->f;
    const dt_gpu_side *side = tile->side;
    bool vectors = side->vectors.width > 1;
    open_share(f, side);
    dt_cuda_line(f, "const %s at = %s + result, d = terms + term;", f->index, tile->first);
    dt_cuda_line(f, "%s value = %s;", type_of(f, side), vectors ? "{}" : "0.0f");
    dt_cuda_line(f, "if (at < %s && d < %s) {", tile->count, dt_cuda_count(f, n->nest, n->how->reduced));
    dt_text *out = dt_cuda_begin(n, side->loops), *inner = dt_cuda_begin(n, n->how->reduced);
    n->vectors = &side->vectors;
    if (vectors) {
        dt_cuda_vector_value(n, side->factor, "value");
    } else {
        const char *value = dt_cuda_nest_value(n, side->factor); /* which writes lines itself */
        dt_cuda_line(f, "value = %s;", value);
    }
    dt_cuda_end(n, inner, n->how->reduced, "d");
    dt_cuda_end(n, out, side->loops, "at");
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "next_%s[i] = value;", tile->name);
    dt_cuda_line(f, "}");
}

void dt_cuda_shared_tile_write(dt_cuda_nest *n, const dt_cuda_shared_tile *tile) {
    dt_cuda_function *f = n->f;
    int width = tile->side->vectors.width;
    open_share(f, tile->side);
    if (width == 1)
        dt_cuda_line(f, "shared_%s[next][term][result] = next_%s[i];", tile->name, tile->name);
    else if (!tile->side->by_terms)
        dt_cuda_line(f, "store<%d>(&shared_%s[next][term][result], next_%s[i]);", width, tile->name, tile->name);
    else
        dt_cuda_line(f, "for (int k = 0; k < %d; k++) shared_%s[next][term + k][result] = next_%s[i].at[k];", width, tile->name, tile->name);
    dt_cuda_line(f, "}");
}
