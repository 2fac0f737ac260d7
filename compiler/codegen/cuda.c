/* cuda: the kernels of a program as CUDA C++. Functions of one program share much: training, evaluation and prediction run the same layers, and a
 * model has many of one kind. What differs in the names of its arguments alone is written, and compiled, once, with the names of its first user. */
#include "compiler/codegen/cuda.h"

#include <ctype.h>
#include <string.h>

enum {
    THREADS = 256,      /* of a block, where threads or warps work each for themselves */
    RESIDENT_BLOCKS = 2 /* of a multiprocessor, at least: leaves 128 registers a thread. Unsaid, the assembler aims at 32 and spills for it */
};

/* What a function does, whatever its arguments are called, and for which lines of the program. */
typedef struct meaning {
    const char *text;
    DT_LIST(const char *) lines;
} meaning;

typedef struct builder {
    dt_arena *arena;
    bool wide_indices;
    DT_LIST(dt_cuda_source) sources;
    DT_LIST(meaning) meanings; /* of each source */
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
                           "struct dt_bad_index {\n    long long count, value, row, location, limit, state, loop;\n};\nstruct dt_launch {\n%s"
                           "    dt_bad_index *bad_index;\n    long long part, n_parts, share, n_shares;\n};\n\n%s",
                           fields, dt_cuda_prelude);
}

static bool is_part_of_a_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The argument that the name of n letters is; n_arguments: none. */
static int argument_named(const dt_cuda_rendering *rendering, const char *name, size_t n) {
    int a = 0;
    while (a < rendering->n_arguments && (strlen(rendering->names[a]) != n || memcmp(name, rendering->names[a], n) != 0)) a++;
    return a;
}

/* The body with the numbers of its arguments for their names. */
static const char *without_names(dt_arena *arena, const dt_cuda_rendering *rendering) {
    dt_text text = {.arena = arena};
    const char *from = rendering->body, *at = from;
    while (*at != 0) {
        size_t n = 0;
        while (is_part_of_a_name(at[n])) n++;
        int a = argument_named(rendering, at, n);
        if (n > 0 && a < rendering->n_arguments) {
            dt_text_format(&text, "%.*s$%d", (int)(at - from), from, a);
            from = at + n;
        }
        at += n > 0 ? n : 1;
    }
    dt_text_append(&text, from);
    return text.data;
}

/* A comment says of each user which lines of the program it comes from. */
static void add_lines(builder *b, int source, const char *lines) {
    meaning *of = &b->meanings.items[source];
    if (lines == NULL) return;
    for (size_t i = 0; i < of->lines.n; i++)
        if (strcmp(of->lines.items[i], lines) == 0) return;
    dt_list_push(b->arena, &of->lines, lines);
    dt_cuda_source *s = &b->sources.items[source];
    s->lines = s->lines == NULL ? dt_arena_format(b->arena, "// %s\n", lines) : dt_arena_format(b->arena, "%s// %s\n", s->lines, lines);
}

/* The source that does what was rendered. */
static int source_for(builder *b, const char *name, const dt_cuda_rendering *rendering) {
    meaning wanted = {.text = without_names(b->arena, rendering)};
    int i = 0;
    while (i < (int)b->sources.n && strcmp(b->meanings.items[i].text, wanted.text) != 0) i++;
    if (i == (int)b->sources.n) {
        int threads = rendering->team == DT_CUDA_BLOCK ? DT_CUDA_BLOCK : THREADS;
        dt_cuda_source source = {.name = name, .remarks = rendering->remarks, .body = rendering->body, .threads = threads};
        dt_list_push(b->arena, &b->sources, source);
        dt_list_push(b->arena, &b->meanings, wanted);
    }
    add_lines(b, i, rendering->lines);
    return i;
}

/* The call of a library that stands for this phase, and perhaps for those after it; NULL: there is none, or an earlier phase has it. */
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

static void render_kernel(builder *b, const dt_plan *plan, int p, int k) {
    const dt_kernel_function parts = dt_kernel_split_nests(b->arena, plan, &plan->kernels[k]), *kernel = &parts;
    dt_phase *phases;
    int n_phases = dt_kernel_phases(b->arena, plan, kernel, &phases);
    for (int i = 0; i < n_phases; i++) {
        dt_cuda_rendering rendering = {0};
        dt_cuda_render(b->arena, plan, kernel, &phases[i], b->wide_indices, &rendering);
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
}

static bool needs_cleared_rows(const dt_library_call *library) { return library->n_clears > 0; }
static bool needs_transpose(const dt_library_call *library) { return library->class != DT_LIBRARY_PRODUCT; }

/* Adds a function if a call needs it for its library; its number, or -1. */
static int source_if(builder *b, bool (*needs)(const dt_library_call *library), dt_cuda_source source) {
    for (size_t i = 0; i < b->calls.n; i++)
        if (b->calls.items[i].library != NULL && needs(b->calls.items[i].library)) {
            dt_list_push(b->arena, &b->sources, source);
            return (int)b->sources.n - 1;
        }
    return -1;
}

dt_status *dt_codegen_cuda(dt_arena *arena, const dt_plan *const *plans, int n_plans, const dt_codegen_cuda_options *options,
                           dt_cuda_program *program) {
    builder b = {.arena = arena, .wide_indices = options != NULL && options->wide_indices};
    for (int p = 0; p < n_plans; p++) {
        if (!plans[p]->batched) return dt_error(DT_INTERNAL, "the plan of %s goes through its rows in order", plans[p]->name);
        for (int k = 0; k < plans[p]->n_kernels; k++) render_kernel(&b, plans[p], p, k);
    }
    dt_cuda_source reduction = dt_cuda_render_reduction(arena, plans, n_plans);
    dt_list_push(arena, &b.sources, reduction);
    int reduction_index = (int)b.sources.n - 1;
    int clear_rows = source_if(&b, needs_cleared_rows, dt_cuda_render_clear_rows()),
        transpose = source_if(&b, needs_transpose, dt_cuda_render_transpose());
    *program = (dt_cuda_program){.head = head(arena),
                                 .n_sources = (int)b.sources.n,
                                 .n_calls = (int)b.calls.n,
                                 .reduction = reduction_index,
                                 .clear_rows = clear_rows,
                                 .transpose = transpose,
                                 .sources = b.sources.items,
                                 .calls = b.calls.items};
    return NULL;
}

void dt_cuda_print(dt_text *text, const dt_cuda_program *program, int first, int n) {
    dt_text_append(text, program->head);
    for (int i = first; i < first + n; i++) {
        const dt_cuda_source *source = &program->sources[i];
        dt_text_format(text, "\n%s%s%sextern \"C\" __global__ void __launch_bounds__(%d, %d) %s%s", source->helpers != NULL ? source->helpers : "",
                       source->lines != NULL ? source->lines : "", source->remarks, source->threads, RESIDENT_BLOCKS, source->name, source->body);
    }
}
