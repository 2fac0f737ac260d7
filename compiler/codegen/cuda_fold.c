/* cuda_fold: the functions by which a runtime adds up what replicas on one GPU have computed: steps of the fixed tree (runtime/comm/fold.h), with the
 * bits that it has on the CPU.
 *
 *     dt_fold_sum_f32(target, left, right, n)    target[i] = left[i] + right[i]; the target may be one of them. max and min alike
 *     dt_widen_f16(target, source, n)            f16 and bf16 are folded as f32, and rounded once, behind the tree
 *     dt_narrow_f16(target, source, n)
 *
 * All pointers are multiples of 64, as buffers are; n is a long long, by value. A program has those that its collectives need, behind its kernels. */
#include "compiler/codegen/cuda.h"

#include <string.h>

enum {
    THREADS = 256
};

static const char *combiner_struct(dt_combiner combiner) {
    return combiner == DT_COMBINE_SUM ? "by_sum" : combiner == DT_COMBINE_MAX ? "by_higher" : "by_lower";
}

static void add(dt_arena *arena, dt_cuda_sources *sources, const char *remarks, const char *name, const char *body) {
    for (size_t i = 0; i < sources->n; i++)
        if (strcmp(sources->items[i].name, name) == 0) return;
    dt_cuda_source source = {name, remarks, body, THREADS};
    dt_list_push(arena, sources, source);
}

static void add_conversions(dt_arena *arena, dt_cuda_sources *sources, const char *dtype) {
    const char *body = "(%s *target, const %s *source, i64 n) {\n    convert_all(target, source, n, %s_%s);\n}\n";
    add(arena, sources, "// as f32, to be folded\n", dt_arena_format(arena, "dt_widen_%s", dtype),
        dt_arena_format(arena, body, "float", "u16", "from", dtype));
    add(arena, sources, "// rounded\n", dt_arena_format(arena, "dt_narrow_%s", dtype), dt_arena_format(arena, body, "u16", "float", "to", dtype));
}

static void add_fold(dt_arena *arena, dt_cuda_sources *sources, dt_combiner combiner, dt_dtype dtype) {
    if (dtype == DT_F16 || dtype == DT_BF16) {
        add_conversions(arena, sources, dt_dtype_name(dtype));
        dtype = DT_F32;
    }
    const char *type = dt_cuda_memory_type(dtype);
    add(arena, sources, "// a step of the tree over replicas\n",
        dt_arena_format(arena, "dt_fold_%s_%s", dt_combiner_name(combiner), dt_dtype_name(dtype)),
        dt_arena_format(arena, "(%s *target, const %s *left, const %s *right, i64 n) {\n    fold_all<%s>(target, left, right, n);\n}\n", type, type,
                        type, combiner_struct(combiner)));
}

/* A collective that plans have folds. */
void dt_cuda_add_folds(dt_arena *arena, const dt_plan *plan, dt_cuda_sources *sources) {
    for (int s = 0; s < plan->n_segments; s++)
        for (int c = 0; c < plan->segments[s].n_collectives; c++) {
            const dt_collective *collective = &plan->segments[s].collectives[c];
            add_fold(arena, sources, collective->combiner, plan->buffers[collective->source].dtype);
        }
}
