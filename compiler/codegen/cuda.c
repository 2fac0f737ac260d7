/* cuda: the kernels of a program as CUDA C++. Functions of one program share much: training, evaluation and prediction run the same layers; what has
 * the same text is written, and compiled, once. */
#include "compiler/codegen/cuda.h"

#include <string.h>

enum {
    THREADS = 256,      /* of a block, where threads or warps work each for themselves */
    RESIDENT_BLOCKS = 2 /* of a multiprocessor, at least: leaves 128 registers a thread. Unsaid, the assembler aims at 32 and spills for it */
};

typedef struct builder {
    dt_arena *arena;
    DT_LIST(dt_cuda_source) sources;
    DT_LIST(dt_cuda_call) calls;
} builder;

/* The types of abi/launch.h as this language has them: eight bytes a field on both sides. */
static const char *head(dt_arena *arena) {
    static const char fields[] =
#define X(name, type, dtype, meaning) "    long long " #name ";  // " meaning "\n"
        DT_LAUNCH_FIELDS(X)
#undef X
        ;
    return dt_arena_format(arena,
                           "struct dt_bad_index {\n    long long count, value, row, site, limit, state;\n};\nstruct dt_launch {\n%s"
                           "    dt_bad_index *bad_index;\n    long long part, n_parts;\n};\n\n%s",
                           fields, dt_cuda_prelude);
}

static int source_for(builder *b, const char *name, const dt_cuda_rendering *rendering) {
    for (size_t i = 0; i < b->sources.n; i++)
        if (strcmp(b->sources.items[i].body, rendering->body) == 0) return (int)i;
    int threads = rendering->team == DT_CUDA_BLOCK ? DT_CUDA_BLOCK : THREADS;
    dt_cuda_source source = {.name = name, .remarks = rendering->remarks, .body = rendering->body, .threads = threads};
    dt_list_push(b->arena, &b->sources, source);
    return (int)b->sources.n - 1;
}

/* The call of a library that stands for this phase, and perhaps for those behind it; NULL: there is none, or an earlier phase has it. */
static const dt_library_call *library_of(const dt_kernel_function *kernel, const dt_phase *phase) {
    int first, last;
    dt_library_nests(kernel, phase->first, &first, &last);
    return first == phase->first ? kernel->nests[first].library : NULL;
}

/* Notes how many of the phases before phase i do what a library can do beside its product. */
static const dt_library_call *with_launches_beside(dt_arena *arena, const dt_library_call *call, const dt_kernel_function *kernel,
                                                   const dt_phase *phases, int i) {
    if (call == NULL || call->class != DT_LIBRARY_PRODUCT || call->product.bias_gradient.argument < 0) return call;
    dt_library_call *noted = DT_NEW(arena, dt_library_call);
    *noted = *call;
    noted->product.bias_gradient.n_launches = 0;
    while (i-- > 0 && kernel->nests[phases[i].first].beside_library) noted->product.bias_gradient.n_launches++;
    return noted;
}

static dt_status *render_kernel(builder *b, const dt_plan *plan, int p, int k) {
    const dt_kernel_function parts = dt_kernel_taken_apart(b->arena, plan, &plan->kernels[k]), *kernel = &parts;
    dt_phase *phases;
    int n_phases = dt_kernel_phases(b->arena, plan, kernel, &phases);
    for (int i = 0; i < n_phases; i++) {
        dt_cuda_rendering rendering = {0};
        dt_cuda_render(b->arena, plan, kernel, &phases[i], &rendering);
        if (rendering.body == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory to generate code");
        const char *name = n_phases == 1 ? kernel->name : dt_arena_format(b->arena, "%s_part%d", kernel->name, i);
        dt_cuda_call call = {
            .plan = p, .kernel = k, .kernel_name = kernel->name, .n_arguments = rendering.n_arguments, .arguments = rendering.arguments};
        call.source = source_for(b, name, &rendering);
        call.name = b->sources.items[call.source].name;
        call.threads = rendering.team == DT_CUDA_BLOCK ? DT_CUDA_BLOCK : THREADS;
        call.team = rendering.team;
        call.n_items = rendering.n_items;
        call.library = with_launches_beside(b->arena, library_of(kernel, &phases[i]), kernel, phases, i);
        dt_list_push(b->arena, &b->calls, call);
    }
    return NULL;
}

static bool needs_cleared_rows(const dt_library_call *library) { return library->n_clears > 0; }
static bool needs_turning(const dt_library_call *library) { return library->class != DT_LIBRARY_PRODUCT; }

/* Adds a function if a call needs it for its library; its number, or -1. */
static int source_if(builder *b, bool (*needs)(const dt_library_call *library), dt_cuda_source source) {
    for (size_t i = 0; i < b->calls.n; i++)
        if (b->calls.items[i].library != NULL && needs(b->calls.items[i].library)) {
            dt_list_push(b->arena, &b->sources, source);
            return (int)b->sources.n - 1;
        }
    return -1;
}

dt_status *dt_codegen_cuda(dt_arena *arena, const dt_plan *const *plans, int n_plans, dt_cuda_program *program) {
    builder b = {.arena = arena};
    for (int p = 0; p < n_plans; p++) {
        if (!plans[p]->rows_at_once) return dt_error(DT_INTERNAL, "the plan of %s goes through its rows in order", plans[p]->function->name);
        for (int k = 0; k < plans[p]->n_kernels; k++) DT_TRY(render_kernel(&b, plans[p], p, k));
    }
    dt_cuda_source fold = dt_cuda_render_fold(arena, plans, n_plans);
    if (fold.body == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory to generate code");
    dt_list_push(arena, &b.sources, fold);
    int fold_source = (int)b.sources.n - 1;
    int clear_rows = source_if(&b, needs_cleared_rows, dt_cuda_render_clear_rows()), turn = source_if(&b, needs_turning, dt_cuda_render_turn());
    *program = (dt_cuda_program){.head = head(arena),
                                 .n_sources = (int)b.sources.n,
                                 .n_calls = (int)b.calls.n,
                                 .fold = fold_source,
                                 .clear_rows = clear_rows,
                                 .turn = turn,
                                 .sources = b.sources.items,
                                 .calls = b.calls.items};
    return NULL;
}

void dt_cuda_print(dt_text *text, const dt_cuda_program *program, int first, int n) {
    dt_text_append(text, program->head);
    for (int i = first; i < first + n; i++) {
        const dt_cuda_source *source = &program->sources[i];
        dt_text_format(text, "\n%s%sextern \"C\" __global__ void __launch_bounds__(%d, %d) %s%s", source->helpers != NULL ? source->helpers : "",
                       source->remarks, source->threads, RESIDENT_BLOCKS, source->name, source->body);
    }
}
