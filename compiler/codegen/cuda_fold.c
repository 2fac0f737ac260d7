/* cuda_fold: the function that folds what replicas on one GPU have left (abi/fold.h): all collectives of a segment in one launch, for a launch takes
 * as long as a hundred thousand additions. It has a case for each type and combiner that the program's collectives have; what a case is made of is
 * cuda_fold_helpers.cu. */
#include "abi/fold.h"
#include "compiler/codegen/cuda.h"

enum {
    THREADS = 256 /* of a block */
};

static const char *type_text(dt_arena *arena, dt_dtype dtype) {
    if (dtype == DT_F16 || dtype == DT_BF16) return dtype == DT_F16 ? "fold_f16" : "fold_bf16";
    return dt_arena_format(arena, "fold_plain<%s>", dt_cuda_memory_type(dtype));
}

/* Whether some collective of the program folds so. */
static bool is_used(const dt_plan *const *plans, int n_plans, dt_dtype dtype, dt_combiner combiner) {
    for (int p = 0; p < n_plans; p++)
        for (int s = 0; s < plans[p]->n_segments; s++)
            for (int c = 0; c < plans[p]->segments[s].n_collectives; c++) {
                const dt_collective *collective = &plans[p]->segments[s].collectives[c];
                if (collective->combiner == combiner && plans[p]->buffers[collective->source].dtype == dtype) return true;
            }
    return false;
}

static void add_cases(dt_arena *arena, const dt_plan *const *plans, int n_plans, dt_text *text) {
    for (int d = 0; d < DT_N_DTYPES; d++) {
#define X(enumerator, name, meaning)                                                                                                                 \
    if (is_used(plans, n_plans, (dt_dtype)d, DT_COMBINE_##enumerator))                                                                               \
        dt_text_format(text, "        case %d: fold_element<%s, fold_" name ">(part, e - part->first, sums); break;\n",                              \
                       (int)DT_FOLD_KIND(d, DT_FOLD_##enumerator), type_text(arena, (dt_dtype)d));
        DT_FOLDS(X)
#undef X
    }
}

static const char *helpers(dt_arena *arena) {
#define X(name, meaning) "    long long " #name ";  // " meaning "\n"
    static const char types[] = "struct dt_fold_leaf {\n" DT_FOLD_LEAF_FIELDS(X) "};\nstruct dt_fold_part {\n" DT_FOLD_PART_FIELDS(
        X) "};\nstruct dt_fold_work {\n" DT_FOLD_WORK_FIELDS(X) "};\n";
#undef X
    return dt_arena_format(arena, "enum { FOLD_DEPTH = %d, FOLD_THREADS = %d };\n%s\n%s\n", DT_FOLD_DEPTH, THREADS, types, dt_cuda_fold_helpers);
}

dt_cuda_source dt_cuda_render_fold(dt_arena *arena, const dt_plan *const *plans, int n_plans) {
    dt_text text = {.arena = arena}, cases = {.arena = arena};
    add_cases(arena, plans, n_plans, &cases);
    dt_text_append(&text, "(const dt_fold_work *__restrict__ work) {\n");
    if (cases.n > 0) dt_text_append(&text, "    __shared__ u64 sums[FOLD_DEPTH * FOLD_THREADS];\n");
    dt_text_append(&text, "    for (i64 e = grid_thread(); e < work->n_elements; e += grid_threads()) {\n"
                          "        const dt_fold_part *part = fold_part(work, e);\n"
                          "        switch (part->kind) {\n");
    static const char *const copied[] = {"u8", "u16", "u32", "u64"};
    for (int i = 0; i < 4; i++)
        dt_text_format(&text, "        case %d: copy_element<%s>(part, e - part->first); break;\n", (int)DT_FOLD_KIND_COPY(1 << i), copied[i]);
    if (cases.n > 0) dt_text_append(&text, cases.data);
    dt_text_append(&text, "        }\n    }\n}\n");
    return (dt_cuda_source){.name = "fold",
                            .helpers = helpers(arena),
                            .remarks = "// what replicas have left, for all collectives of a segment\n",
                            .body = text.data,
                            .threads = THREADS};
}
