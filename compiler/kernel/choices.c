/* choices: see the header. */
#include "compiler/kernel/choices.h"
#include "compiler/kernel/analysis.h"

#include <assert.h>

const dt_nest_choices *dt_choices_of(const dt_choices *choices, const dt_plan *plan, const dt_kernel_function *kernel) {
    int p = 0;
    while (p < choices->n_plans && choices->plans[p] != plan) p++;
    assert(p < choices->n_plans);
    return choices->nests[p][kernel - plan->kernels];
}

dt_factor_lists dt_nest_factor_lists(dt_arena *arena, const dt_nest *nest) {
    const int64_t *a = nest->instructions[nest->tiling.a].address.coefficients;
    dt_factor_lists lists = {.n = 1, .n_elements = 1, .strides = DT_NEW_ARRAY(arena, int64_t, nest->n_loops)};
    for (int l = nest->n_loops - 1; l >= 0; l--) {
        if (dt_nest_reduces(nest, l)) {
            lists.n_elements *= nest->loops[l].extent;
        } else if (a[l] != 0 && !(nest->in_rows && l == 0)) {
            lists.strides[l] = lists.n;
            lists.n *= nest->loops[l].extent;
        }
    }
    return lists;
}

const dt_tile *dt_tile_find(const dt_nest_choices *choices, int rows, int vectors) {
    for (int t = 0; t < choices->n_tiles; t++)
        if (choices->tiles[t].rows == rows && choices->tiles[t].vectors == vectors) return &choices->tiles[t];
    return NULL;
}

dt_parts dt_deal(int64_t things, int64_t most) {
    int64_t n = (things + most - 1) / most;
    return (dt_parts){.n = n, .size = things / n, .n_larger = things % n};
}

static void add_size(dt_tile_sizes *sizes, int64_t size) {
    for (int i = 0; i < sizes->n; i++)
        if (sizes->items[i] == size) return;
    sizes->items[sizes->n++] = (int)size;
}

static void add_dealt(dt_tile_sizes *sizes, int64_t things, int64_t most) {
    if (things == 0) return;
    dt_parts parts = dt_deal(things, most);
    if (parts.n_larger > 0) add_size(sizes, parts.size + 1);
    add_size(sizes, parts.size);
}

dt_tile_sizes dt_row_sizes(const dt_nest *nest, const dt_nest_choices *choices) {
    dt_tile_sizes sizes = {0};
    int64_t extent = nest->tiling.row_loop >= 0 ? nest->loops[nest->tiling.row_loop].extent : 1;
    if (dt_dim_is_symbol(extent) || choices->packed_rows > 0) add_size(&sizes, choices->tile_rows);
    if (dt_dim_is_symbol(extent))
        add_size(&sizes, 1);
    else
        add_dealt(&sizes, choices->packed_rows > 0 ? extent % choices->packed_rows : extent, choices->tile_rows);
    return sizes;
}

dt_tile_sizes dt_vector_sizes(const dt_nest *nest, const dt_nest_choices *choices) {
    dt_tile_sizes sizes = {0};
    int64_t extent = nest->loops[nest->tiling.vector_loop].extent;
    if (dt_dim_is_symbol(extent)) {
        add_size(&sizes, choices->tile_vectors);
        add_size(&sizes, 1);
    } else {
        add_dealt(&sizes, (extent + choices->width - 1) / choices->width, choices->tile_vectors);
    }
    return sizes;
}
