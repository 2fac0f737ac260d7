/* cuda_reduction: the function that reduces over the replicas on one GPU (abi/reduction.h): all collectives of a segment in one launch, since a
 * launch takes as long as a hundred thousand additions. It has a case for each type and combiner of the program's collectives; the cases use
 * cuda_reduction_helpers.cu. */
#include "abi/reduction.h"
#include "compiler/codegen/cuda.h"

/* Whether some collective of the program reduces this type by this combiner. Sums of f16 and bf16 cross processes as f32. */
static bool is_used(const dt_plan *const *plans, int n_plans, dt_dtype dtype, dt_combiner combiner) {
    for (int p = 0; p < n_plans; p++)
        for (int s = 0; s < plans[p]->n_segments; s++)
            for (int c = 0; c < plans[p]->segments[s].n_collectives; c++) {
                const dt_collective *collective = &plans[p]->segments[s].collectives[c];
                dt_dtype source = plans[p]->buffers[collective->source].dtype;
                if (collective->combiner == combiner && (source == dtype || (dt_dtype_is_half(source) && dtype == DT_F32))) return true;
            }
    return false;
}

static void add_case(dt_text *text, dt_dtype dtype, dt_reduction_op op, const char *combiner, dt_reduction_width width, const char *suffix) {
    bool half = dt_dtype_is_half(dtype);
    if (!half && width != DT_REDUCTION_ALIKE) return;
    dt_text_format(text, half ? "        case %d: reduce_element<reduction_%s%s" : "        case %d: reduce_element<reduction_plain<%s%s>",
                   (int)DT_REDUCTION_KIND(dtype, op, width), half ? dt_dtype_name(dtype) : dt_cuda_memory_type(dtype), suffix);
    dt_text_format(text, ", reduction_%s>(part, e - part->first, sums); break;\n", combiner);
}

static void add_cases(const dt_plan *const *plans, int n_plans, dt_text *text) {
    for (int d = 0; d < DT_N_DTYPES; d++) {
#define W(width, suffix, meaning) add_case(text, (dt_dtype)d, op, combiner, DT_REDUCTION_##width, suffix);
#define X(enumerator, name, meaning)                                                                                                                 \
    if (is_used(plans, n_plans, (dt_dtype)d, DT_COMBINE_##enumerator)) {                                                                             \
        const dt_reduction_op op = DT_REDUCTION_##enumerator;                                                                                        \
        const char *combiner = name;                                                                                                                 \
        DT_REDUCTION_WIDTHS(W)                                                                                                                       \
    }
        DT_REDUCTION_OPS(X)
#undef X
#undef W
    }
}

static const char *helpers(dt_arena *arena, int threads) {
#define X(name, meaning) "    long long " #name ";  // " meaning "\n"
    static const char types[] = "struct dt_reduction_source {\n" DT_REDUCTION_SOURCE_FIELDS(
        X) "};\nstruct dt_reduction_part {\n" DT_REDUCTION_PART_FIELDS(X) "};\nstruct dt_reduction_work {\n" DT_REDUCTION_WORK_FIELDS(X) "};\n";
#undef X
    return dt_arena_format(arena, "enum { REDUCTION_DEPTH = %d, REDUCTION_THREADS = %d };\n%s\n%s\n", DT_REDUCTION_DEPTH, threads, types,
                           dt_cuda_reduction_helpers);
}

dt_cuda_source dt_cuda_render_reduction(dt_arena *arena, const dt_plan *const *plans, int n_plans, int threads) {
    dt_text text = {.arena = arena}, cases = {.arena = arena};
    add_cases(plans, n_plans, &cases);
    dt_text_append(&text, "(const dt_reduction_work *__restrict__ work) {\n");
    if (cases.n > 0) dt_text_append(&text, "    __shared__ u64 sums[REDUCTION_DEPTH * REDUCTION_THREADS];\n");
    dt_text_append(&text, "    for (i64 e = grid_thread(); e < work->n_elements; e += grid_threads()) {\n"
                          "        const dt_reduction_part *part = part_of(work, e);\n"
                          "        switch (part->kind) {\n");
    static const char *const copied[] = {"u8", "u16", "u32", "u64"};
    for (int i = 0; i < 4; i++)
        dt_text_format(&text, "        case %d: copy_element<%s>(part, e - part->first); break;\n", (int)DT_REDUCTION_KIND_COPY(1 << i), copied[i]);
    if (cases.n > 0) dt_text_append(&text, cases.data);
    dt_text_append(&text, "        }\n    }\n}\n");
    return (dt_cuda_source){.name = "reduce_replicas",
                            .helpers = helpers(arena, threads),
                            .remarks = "// the sums over replicas of all collectives of a segment\n",
                            .body = text.data,
                            .threads = threads};
}
