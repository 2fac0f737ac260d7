/* cuda: the kernels of a program as CUDA C++. Functions of one program share much: training, evaluation and prediction run the same layers, and a
 * model has many of one kind. What differs in the names of its arguments alone is written, and compiled, once, with the names of its first user. */
#include "compiler/codegen/cuda.h"

#include <ctype.h>
#include <string.h>

/* What a function does, whatever its arguments are called, and for which lines of the program. */
typedef struct meaning {
    const char *text;
    DT_LIST(const char *) lines;
} meaning;

typedef struct builder {
    dt_arena *arena;
    const dt_gpu_target *target;
    DT_LIST(dt_cuda_source) sources;
    DT_LIST(meaning) meanings; /* of each source */
    DT_LIST(dt_cuda_call) calls;
} builder;

/* The types of abi/launch.h as this language has them: eight bytes a field on both sides. */
static const char *head(dt_arena *arena, int warp) {
    static const char fields[] =
#define X(name, type, dtype, meaning) "    long long " #name ";  // " meaning "\n"
        DT_LAUNCH_FIELDS(X)
#undef X
        ;
    return dt_arena_format(
        arena,
        "#define DT_WARP %d  // threads of a warp\ntypedef unsigned %s lane_set;  // with a bit for each\n\n"
        "struct dt_bad_index {\n    long long count, value, row, location, limit, state, loop;\n};\nstruct dt_launch {\n%s"
        "    dt_bad_index *bad_index;\n    long long part, n_parts, share, n_shares;\n    void *meeting;\n    long long *timers;\n};\n\n%s",
        warp, warp > 32 ? "long long" : "int", fields, dt_cuda_prelude);
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
        dt_cuda_source source = {.name = name, .remarks = rendering->remarks, .body = rendering->body, .threads = b->target->block};
        dt_list_push(b->arena, &b->sources, source);
        dt_list_push(b->arena, &b->meanings, wanted);
    }
    add_lines(b, i, rendering->lines);
    return i;
}

static void render_kernel(builder *b, const dt_plan *plan, int p, int k, const dt_gpu_kernel *kernel) {
    for (int i = 0; i < kernel->n_functions; i++) {
        const dt_gpu_function *how = &kernel->functions[i];
        dt_cuda_rendering rendering = dt_cuda_render(b->arena, b->target, plan, &kernel->divided, how);
        const char *whole = kernel->divided.name, *name = kernel->n_functions == 1 ? whole : dt_arena_format(b->arena, "%s_part%d", whole, i);
        int source = source_for(b, name, &rendering);
        dt_cuda_call call = {.plan = p,
                             .kernel = k,
                             .kernel_name = whole,
                             .source = source,
                             .name = b->sources.items[source].name,
                             .n_arguments = rendering.n_arguments,
                             .arguments = rendering.arguments,
                             .threads = b->target->block,
                             .team = how->team,
                             .n_items = how->n_items,
                             .library = how->library};
        dt_list_push(b->arena, &b->calls, call);
    }
}

static bool needs_cleared_rows(const dt_library_call *library) { return library->n_clears > 0; }
static bool needs_transpose(const dt_library_call *library) { return library->class != DT_LIBRARY_PRODUCT; }

/* Adds a function if a call needs it for its library; its number, or -1. */
static int source_if(builder *b, bool (*needs)(const dt_library_call *library), const dt_cuda_source *source) {
    for (size_t i = 0; i < b->calls.n; i++)
        if (b->calls.items[i].library != NULL && needs(b->calls.items[i].library)) {
            dt_list_push(b->arena, &b->sources, *source);
            return (int)b->sources.n - 1;
        }
    return -1;
}

void dt_codegen_cuda(dt_arena *arena, const dt_gpu_choices *choices, dt_cuda_program *program) {
    builder b = {.arena = arena, .target = choices->target};
    for (int p = 0; p < choices->n_plans; p++)
        for (int k = 0; k < choices->plans[p]->n_kernels; k++) render_kernel(&b, choices->plans[p], p, k, &choices->kernels[p][k]);
    dt_cuda_source reduction = dt_cuda_render_reduction(arena, choices->plans, choices->n_plans, b.target->block);
    dt_list_push(arena, &b.sources, reduction);
    *program =
        (dt_cuda_program){.head = head(arena, b.target->warp), .resident_blocks = b.target->resident_blocks, .reduction = (int)b.sources.n - 1};
    program->clear_rows = source_if(&b, needs_cleared_rows, &dt_cuda_clear_rows);
    program->transpose = source_if(&b, needs_transpose, &dt_cuda_transpose_filters);
    program->n_sources = (int)b.sources.n;
    program->n_calls = (int)b.calls.n;
    program->sources = b.sources.items;
    program->calls = b.calls.items;
}

void dt_cuda_print(dt_text *text, const dt_cuda_program *program, int first, int n) {
    dt_text_append(text, program->head);
    for (int i = first; i < first + n; i++) {
        const dt_cuda_source *source = &program->sources[i];
        dt_text_format(text, "\n%s%s%sextern \"C\" __global__ void __launch_bounds__(%d, %d) %s%s", source->helpers != NULL ? source->helpers : "",
                       source->lines != NULL ? source->lines : "", source->remarks, source->threads, program->resident_blocks, source->name,
                       source->body);
    }
}
