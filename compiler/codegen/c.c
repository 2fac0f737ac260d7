/* c: a plan's kernels as one C file: void NAME(void *const *buffers, const dt_launch *launch), as abi/launch.h has it. */
#include "compiler/codegen/c.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/meetings.h"

#include <inttypes.h>

#define LINE DT_C_LINE
#define FORMAT DT_C_FORMAT

/* The types of abi/launch.h, in terms of this file alone. */
static void print_head(dt_text *text) {
    static const char fields[] =
#define X(name, type, dtype, meaning) "    " #type " " #name "; /* " meaning " */\n"
        DT_LAUNCH_FIELDS(X)
#undef X
        ;
    dt_text_format(
        text,
        "/* Compile with -O2 -ffp-contract=off -fwrapv -fno-math-errno -fno-trapping-math -fopenmp-simd -Wno-psabi -march=LEVEL, and link "
        "with -lm. */\n"
        "#include <stdbool.h>\n#include <stdint.h>\n\n"
        "typedef struct dt_bad_index {\n    int64_t count, value, row, location, limit, state, loop;\n} dt_bad_index;\n\n"
        "typedef struct dt_meeting {\n    void (*meet)(struct dt_meeting *meeting);\n} dt_meeting;\n\n"
        "typedef struct dt_launch {\n%s    dt_bad_index *bad_index;\n    int64_t part, n_parts, share, n_shares;\n    dt_meeting *meeting;\n"
        "    int64_t *timers;\n} dt_launch;\n\n"
        "static inline bool dt_bad_index_is_first(const dt_bad_index *one, const dt_bad_index *all) {\n"
        "    if (all->count == 0 || one->row != all->row) return all->count == 0 || one->row < all->row;\n"
        "    return one->location != all->location ? one->location < all->location : one->value < all->value;\n}\n\n%s",
        fields, dt_c_prelude);
}

static const char *start_of_share(dt_c_nest *n, const char *share) {
    const dt_nest_share *how = &n->nest->share;
    return FORMAT(n, "share_start(launch, %s, %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ")", share, how->n_units, how->turn,
                  how->first_unit, how->unit_iterations, n->nest->loops[0].extent);
}

/* Iterations [start, end) of the divided loop, or all of the process's share in part 0. */
static void part_of_nest(dt_c_nest *n, int level) {
    const dt_nest *nest = n->nest;
    bool shared = nest->share.n_units > 0;
    LINE(n, nest->part_iterations > 0 ? "{" : "if (launch->part == 0) {");
    if (shared || nest->part_iterations > 0) {
        LINE(n, "i64 start = %s;", shared ? start_of_share(n, "launch->share") : "0");
        LINE(n, "i64 end = %s;",
             shared ? start_of_share(n, "launch->share + 1") : dt_c_extent(n->f->arena, nest->loops[dt_nest_part_loop(nest)].extent));
        n->start = "start";
        n->end = "end";
    }
    if (nest->part_iterations > 0) {
        LINE(n, "const i64 first = start, last = end;");
        LINE(n, "start = part_start(launch, launch->part, %" PRId64 ", first, last);", nest->part_iterations);
        LINE(n, "end = part_start(launch, launch->part + 1, %" PRId64 ", first, last);", nest->part_iterations);
    }
    dt_c_inside(n, level);
    LINE(n, "}");
}

/* Nests in an iteration of the loop over rows: several share the loop over blocks inside of it. */
static void inside_row(dt_c_function *f, const dt_nest *nests, int n_nests) {
    dt_c_nest **prepared = DT_NEW_ARRAY(f->arena, dt_c_nest *, n_nests);
    int first = (int)(nests - f->kernel->nests), group = first, end = first;
    while (group > 0 && f->kernel->nests[group - 1].in_rows) group--;
    while (end < f->kernel->n_nests && f->kernel->nests[end].in_rows) end++;
    for (int k = 0; k < n_nests; k++) {
        prepared[k] = dt_c_nest_prepare(f, &nests[k], &f->kernel->nests[group], end - group);
        dt_c_level(prepared[k], 0, false);
        prepared[k]->loops[0] = "row";
    }
    if (n_nests == 1 && f->kernel->divided) {
        part_of_nest(prepared[0], 1);
        return;
    }
    if (n_nests == 1) {
        dt_c_inside(prepared[0], 1);
        return;
    }
    if (f->kernel->divided) LINE(prepared[0], "if (launch->part == 0) {");
    for (int k = 0; k < n_nests; k++) dt_c_level(prepared[k], 1, false);
    LINE(prepared[0], "for (i64 block = 0; block < %" PRId64 "; block++) {", nests[0].loops[1].extent);
    for (int k = 0; k < n_nests; k++) {
        prepared[k]->loops[1] = "block";
        LINE(prepared[k], "{");
        dt_c_inside(prepared[k], 2);
        LINE(prepared[k], "}");
    }
    LINE(prepared[0], f->kernel->divided ? "}}" : "}");
}

static bool uses(const dt_nest *nest, int buffer) {
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD && nest->instructions[i].address.buffer == buffer) return true;
    for (int s = 0; s < nest->n_stores; s++)
        if (nest->stores[s].address.buffer == buffer) return true;
    return false;
}

/* A nest, or several that share a loop over blocks, is a function of its own: compilers are slow with many loops in one, and give them worse code. */
static void print_function(dt_c_function *f, int first, int n_nests) {
    const dt_kernel_function *kernel = f->kernel;
    const dt_nest *nests = &kernel->nests[first];
    dt_text_format(f->out, "\nAPART void nest_%d_of_%s(void *const *buffers, const dt_launch *launch, i64 row) {\n", first, kernel->name);
    for (int b = 0; b < kernel->n_buffers; b++)
        for (int k = 0, used = 0; k < n_nests && !used; k++)
            if ((used = uses(&nests[k], b)))
                dt_text_format(f->out, "%s *const b%d = buffers[%d];\n", dt_c_memory_type(f->plan->buffers[kernel->buffers[b]].dtype), b, b);
    if (kernel->once && nests[0].n_stores > 0) dt_text_format(f->out, "if (buffers[%d] == 0) return;\n", nests[0].stores[0].address.buffer);
    if (nests[0].in_rows) {
        inside_row(f, nests, n_nests);
    } else {
        dt_c_nest *n = dt_c_nest_prepare(f, nests, NULL, 0);
        if (kernel->divided)
            part_of_nest(n, 0);
        else
            dt_c_inside(n, 0);
    }
    dt_text_append(f->out, "}\n");
}

/* As llvm_timer.c does. */
static void read_timer(const dt_kernel_function *kernel, int end, bool rows_are_done, dt_text *calls) {
    const int timer = dt_timer_before(kernel, end, rows_are_done);
    if (timer > 0) dt_text_format(calls, "clock = read_timer(launch, %d, clock);\n", timer - 1);
}

/* As llvm_kernel.c does. */
static void meet(dt_text *calls) { dt_text_append(calls, "if (launch->n_parts > 1) launch->meeting->meet(launch->meeting);\n"); }

static bool is_timed(const dt_kernel_function *kernel) {
    for (int n = 0; n < kernel->n_nests; n++)
        if (kernel->nests[n].timer > 0) return true;
    return false;
}

static void print_kernel(dt_c_function *f) {
    const dt_kernel_function *kernel = f->kernel;
    dt_text lines = {.arena = f->arena}, calls = {.arena = f->arena};
    dt_kernel_lines(&lines, f->plan, kernel);
    if (lines.n > 0) dt_text_format(f->out, "\n/* %s */", lines.data);
    dt_text_format(&calls, "\nvoid %s(void *const *buffers, const dt_launch *launch) {\n", kernel->name);
    if (is_timed(kernel)) dt_text_append(&calls, "i64 clock = cycles();\n");
    for (int k = 0, end; k < kernel->n_nests; k = end) {
        bool in_rows = kernel->nests[k].in_rows, begins = k == 0 || !kernel->nests[k - 1].in_rows;
        for (end = k + 1; in_rows && end < kernel->n_nests && kernel->nests[end].in_blocks;) end++;
        print_function(f, k, end - k);
        if (kernel->nests[k].meets) meet(&calls);
        if (in_rows && begins)
            dt_text_format(&calls, "for (i64 row = 0; row < %s; row++) {\n", dt_c_extent(f->arena, kernel->nests[k].loops[0].extent));
        dt_text_format(&calls, "nest_%d_of_%s(buffers, launch, %s);\n", k, kernel->name, in_rows ? "row" : "0");
        read_timer(kernel, end, false, &calls);
        if (!in_rows || (end < kernel->n_nests && kernel->nests[end].in_rows)) continue;
        if (kernel->divided) meet(&calls);
        dt_text_append(&calls, "}\n");
        read_timer(kernel, end, true, &calls);
    }
    if (kernel->divided && !kernel->once) meet(&calls);
    dt_text_format(f->out, "%s}\n", calls.data);
}

void dt_codegen_c(dt_arena *arena, const dt_plan *const *plans, int n_plans, const dt_choices *choices, dt_text *text) {
    print_head(text);
    for (int p = 0; p < n_plans; p++)
        for (int k = 0; k < plans[p]->n_kernels; k++) {
            const dt_kernel_function *kernel = &plans[p]->kernels[k];
            print_kernel(&(dt_c_function){arena, text, plans[p], kernel, dt_choices_of(choices, plans[p], kernel)});
        }
}
