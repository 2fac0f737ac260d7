/* cuda_function: a phase of a kernel as a __global__ function.
 *
 * Its arguments are the buffers that the phase touches, in the kernel's order, then the launch values, then the iteration, where it names one. What
 * threads are dealt does not depend on how many there are: any grid of blocks of the given size computes the same bits. */
#include "compiler/codegen/cuda.h"
#include "compiler/kernel/view.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define FORMAT(f, ...) dt_arena_format((f)->arena, __VA_ARGS__)

enum {
    FEW_ITERATIONS = 8,     /* for one team: one thread does them */
    WARP_ITERATIONS = 1024, /* a warp does them */
    NARROW = 1 << 30        /* elements that indices of 32 bits count, with room for a grid's stride */
};

/* ---- text ---- */

void dt_cuda_line(dt_cuda_function *f, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *line = dt_arena_vformat(f->arena, format, arguments);
    va_end(arguments);
    size_t n = strlen(line);
    if (line[0] == '}') f->depth--;
    for (int i = 0; i < f->depth && n > 0; i++) dt_text_append(f->out, "    ");
    dt_text_append(f->out, line);
    dt_text_append(f->out, "\n");
    if (n > 0 && line[n - 1] == '{') f->depth++;
}

const char *dt_cuda_index_type(const dt_cuda_function *f) { return f->wide ? "i64" : "int"; }

const char *dt_cuda_extent(dt_cuda_function *f, int64_t extent) {
    if (extent == DT_BATCH) f->says_rows = true;
    if (extent == DT_GATHERED) f->says_valid = true;
    return extent == DT_BATCH ? "rows" : extent == DT_GATHERED ? "valid" : FORMAT(f, "%" PRId64, extent);
}

/* constant * symbols, as in "rows * 64" */
static const char *product_text(dt_cuda_function *f, int64_t constant, const char *symbols) {
    if (symbols == NULL) return FORMAT(f, "%" PRId64, constant);
    return constant == 1 ? symbols : FORMAT(f, "%s * %" PRId64, symbols, constant);
}

static const char *times(dt_cuda_function *f, const char *symbols, int64_t extent) {
    const char *name = dt_cuda_extent(f, extent);
    return symbols == NULL ? name : FORMAT(f, "%s * %s", symbols, name);
}

const char *dt_cuda_count(dt_cuda_function *f, const dt_nest *nest, uint64_t set) {
    int64_t constant = 1;
    const char *symbols = NULL;
    for (int l = 0; l < nest->n_loops; l++) {
        if (!(set >> l & 1)) continue;
        if (dt_dim_is_symbol(nest->loops[l].extent))
            symbols = times(f, symbols, nest->loops[l].extent);
        else
            constant *= nest->loops[l].extent;
    }
    return product_text(f, constant, constant == 0 ? NULL : symbols);
}

void dt_cuda_declare_loops(dt_cuda_function *f, const dt_nest *nest, const char *const *names, uint64_t set, const bool *used, const char *index) {
    assert(nest->n_loops >= 0 && nest->n_loops <= 64);
    int outermost = 0;
    while (outermost < nest->n_loops && (!(set >> outermost & 1) || nest->loops[outermost].extent == 1)) outermost++;
    int64_t stride = 1;
    const char *symbols = NULL;
    for (int l = nest->n_loops - 1; l >= 0; l--) {
        int64_t extent = nest->loops[l].extent;
        if (!(set >> l & 1) || extent == 1) continue;
        const char *step = product_text(f, stride, symbols), *value = index;
        if (strcmp(step, "1") != 0) value = FORMAT(f, symbols != NULL && stride != 1 ? "%s / (%s)" : "%s / %s", index, step);
        if (l != outermost) value = FORMAT(f, "%s %% %s", value, dt_cuda_extent(f, extent));
        if (used[l]) dt_cuda_line(f, "const %s %s = %s;", dt_cuda_index_type(f), names[l], value);
        if (dt_dim_is_symbol(extent))
            symbols = times(f, symbols, extent);
        else
            stride *= extent;
    }
}

/* ---- what the phase touches ---- */

static const char *argument_name(dt_cuda_function *f, const dt_buffer *buffer, int number) {
    static const char *const prefixes[] = {
        [DT_MEMORY_VARIABLE] = "var_", [DT_MEMORY_INPUT] = "in_", [DT_MEMORY_DEVICE] = "t",          [DT_MEMORY_REPLICA] = "t",
        [DT_MEMORY_PARTIAL] = "t",     [DT_MEMORY_SCRATCH] = "t", [DT_MEMORY_CONSTANT] = "constant_"};
    const char *from = buffer->name != NULL ? buffer->name : "";
    char *name = dt_arena_format(f->arena, "%s%s", prefixes[buffer->space], from[0] == '%' ? from + 1 : from);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    for (int b = 0; b < f->kernel->n_buffers; b++)
        if (f->names[b] != NULL && strcmp(f->names[b], name) == 0) return FORMAT(f, "%s_%d", name, number);
    return name;
}

static void touch(dt_cuda_function *f, const dt_address *address, bool stores) {
    int b = address->buffer;
    const dt_buffer *buffer = &f->plan->buffers[f->kernel->buffers[b]];
    if (f->names[b] == NULL) f->names[b] = argument_name(f, buffer, b);
    f->stored[b] |= stores;
    if (buffer->view != NULL ? dt_buffer_span(f->plan, f->kernel->buffers[b]) >= NARROW
                             : dt_shape_elements(buffer->shape, f->plan->microbatch_rows, NARROW) >= NARROW)
        f->wide = true;
}

static void find_arguments(dt_cuda_function *f) {
    for (int k = 0; k < f->phase->n_nests; k++) {
        const dt_nest *nest = &f->kernel->nests[f->phase->first + k];
        bool *needed = DT_NEW_ARRAY(f->arena, bool, nest->n_instructions);
        dt_nest_mark_needed(nest, needed);
        for (int i = 0; i < nest->n_instructions; i++)
            if (needed[i] && nest->instructions[i].kind == DT_INSTRUCTION_LOAD) touch(f, &nest->instructions[i].address, false);
        for (int s = 0; s < nest->n_stores; s++) touch(f, &nest->stores[s].address, true);
        int64_t all = 1;
        for (int l = 0; l < nest->n_loops; l++) {
            int64_t most = dt_trip_count(f->plan, nest->loops[l].extent);
            all = most < 0 || all > NARROW || most > NARROW ? NARROW : all * (most > 0 ? most : 1);
            if (l + 1 == nest->n_loops || dt_nest_reduces(nest, l + 1) != dt_nest_reduces(nest, l)) {
                f->wide |= all >= NARROW;
                all = 1;
            }
        }
    }
    f->wide |= f->phase->n_items >= NARROW;
}

static bool is_alone(const dt_cuda_function *f, int b) {
    for (int other = 0; other < f->kernel->n_buffers; other++) {
        if (other == b || f->names[other] == NULL || !(f->stored[b] || f->stored[other])) continue;
        if (dt_arguments_overlap(f->plan, f->kernel, b, other)) return false;
    }
    return true;
}

/* ---- elements ---- */

static void note(dt_cuda_function *f, const dt_nest *nest) {
    if (nest->note != NULL) dt_cuda_line(f, "// %s", nest->note);
}

/* Opens a block for an iteration of loop 0, the only outer loop of what processes share out, if that is this process's own; false: all are. */
static bool begin_own(dt_cuda_function *f, const dt_nest *nest, const char *iteration) {
    const dt_nest_share *how = &nest->share;
    if (how->n_units == 0) return false;
    assert(nest->n_loops == 1 || (nest->n_loops == 2 && dt_nest_reduces(nest, 1)));
    dt_cuda_line(f, "if (is_own(launch, %s, %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ")) {", iteration, how->n_units, how->turn,
                 how->first_unit, how->unit_iterations);
    return true;
}

/* One element, or a vector of them, from e on. A vector is a process's own as a whole: units are longer (abi/share.h). */
static void elements(dt_cuda_nest *n) {
    bool shares = begin_own(n->f, n->nest, "e");
    if (n->width > 1)
        dt_cuda_nest_vector(n);
    else
        dt_cuda_nest_element(n, "e");
    if (shares) dt_cuda_line(n->f, "}");
}

/* Threads that have something to do for so many elements. */
static int64_t threads_for(const dt_cuda_nest *n, int64_t count) { return (count + n->width - 1) / n->width; }

static void one_nest(dt_cuda_function *f) {
    dt_cuda_nest n;
    dt_cuda_nest_prepare(&n, f, &f->kernel->nests[f->phase->first]);
    dt_cuda_find_vectors(&n);
    note(f, n.nest);
    dt_cuda_nest_once(&n);
    const char *type = dt_cuda_index_type(f), *count = dt_cuda_count(f, n.nest, n.dealt);
    const char *each = n.width == 1 ? "" : FORMAT(f, f->wide ? "%dLL * " : "%d * ", n.width);
    dt_cuda_line(f, "for (%s e = %sgrid_thread(); e < %s; e += %sgrid_threads()) {", type, each, count, each);
    elements(&n);
    dt_cuda_line(f, "}");
    f->n_items = threads_for(&n, f->phase->n_items);
}

/* The elements of several nests, one after another. */
static void nests_side_by_side(dt_cuda_function *f) {
    dt_text body = {.arena = f->arena}, *out = f->out;
    const char *type = dt_cuda_index_type(f);
    int64_t total = 0, begin = 0, *counts = DT_NEW_ARRAY(f->arena, int64_t, f->phase->n_nests);
    dt_cuda_nest *nests = DT_NEW_ARRAY(f->arena, dt_cuda_nest, f->phase->n_nests);
    for (int k = 0; k < f->phase->n_nests; k++) {
        dt_cuda_nest_prepare(&nests[k], f, &f->kernel->nests[f->phase->first + k]);
        dt_cuda_find_vectors(&nests[k]);
        counts[k] = 1;
        for (int l = 0; l < nests[k].nest->n_loops; l++)
            if (nests[k].dealt >> l & 1) counts[k] *= nests[k].nest->loops[l].extent;
        counts[k] = threads_for(&nests[k], counts[k]);
        total += counts[k];
    }
    f->n_items = total;
    f->hoists = true;
    f->out = &body;
    dt_cuda_line(f, "for (%s all = grid_thread(); all < %" PRId64 "; all += grid_threads()) {", type, total);
    for (int k = 0; k < f->phase->n_nests; k++) {
        const char *end = k + 1 < f->phase->n_nests ? FORMAT(f, "if (all < %" PRId64 ") ", begin + counts[k]) : "";
        const char *mine = begin > 0 ? FORMAT(f, "all - %" PRId64, begin) : "all";
        dt_cuda_line(f, "%s%s{", k > 0 ? "} else " : "", end);
        note(f, nests[k].nest);
        if (nests[k].width > 1) mine = FORMAT(f, begin > 0 ? "%d * (%s)" : "%d * %s", nests[k].width, mine);
        dt_cuda_line(f, "const %s e = %s;", type, mine);
        dt_cuda_nest_once(&nests[k]);
        elements(&nests[k]);
        begin += counts[k];
    }
    dt_cuda_line(f, "}");
    dt_cuda_line(f, "}");
    f->out = out;
    for (size_t i = 0; i < f->constants.n; i++)
        dt_cuda_line(f, "const %s %s = %s;", f->constants.items[i].type, f->constants.items[i].name, f->constants.items[i].text);
    dt_text_append(out, body.data != NULL ? body.data : "");
}

/* ---- teams ---- */

static bool has_one_element(const dt_cuda_nest *n) {
    for (int l = 0; l < n->nest->n_loops; l++)
        if ((n->dealt >> l & 1) && n->nest->loops[l].extent != 1) return false;
    return true;
}

/* A nest as one team runs it. */
static void team_nest(dt_cuda_function *f, dt_cuda_nest *n) {
    const char *type = dt_cuda_index_type(f);
    bool one = has_one_element(n), every = f->team == 1 || n->together; /* every thread of the team takes all elements */
    bool is_shared = n->shared & 1, shares = is_shared && begin_own(f, n->nest, "team");
    if (!shares) dt_cuda_line(f, "{");
    note(f, n->nest);
    dt_cuda_nest_once(n);
    if (!one)
        dt_cuda_line(f, "for (%s e = %s; e < %s; e += %d) {", type, every ? "0" : "lane", dt_cuda_count(f, n->nest, n->dealt), every ? 1 : f->team);
    else if (!every)
        dt_cuda_line(f, "if (lane == 0) {");
    shares = !is_shared && begin_own(f, n->nest, one ? "0" : "e");
    dt_cuda_nest_element(n, one ? NULL : "e");
    if (shares) dt_cuda_line(f, "}");
    if (!one || !every) dt_cuda_line(f, "}");
    dt_cuda_line(f, "}");
}

static void begin_teams(dt_cuda_function *f, const dt_nest *nest, uint64_t shared, bool together) {
    const char *type = dt_cuda_index_type(f), *count = dt_cuda_count(f, nest, shared);
    if (f->team == DT_CUDA_BLOCK && together) dt_cuda_line(f, "__shared__ u64 partials[%d];", DT_CUDA_BLOCK / DT_WARP * 2);
    if (f->team == DT_CUDA_BLOCK) dt_cuda_line(f, "const int lane = threadIdx.x;");
    if (f->team == DT_WARP) dt_cuda_line(f, "const int lane = threadIdx.x %% %d;", DT_WARP);
    if (f->team == DT_CUDA_BLOCK)
        dt_cuda_line(f, "for (%s team = blockIdx.x; team < %s; team += gridDim.x) {", type, count);
    else if (f->team == DT_WARP)
        dt_cuda_line(f, "for (%s team = grid_thread() / %d; team < %s; team += grid_threads() / %d) {", type, DT_WARP, count, DT_WARP);
    else
        dt_cuda_line(f, "for (%s team = grid_thread(); team < %s; team += grid_threads()) {", type, count);
}

static void teams(dt_cuda_function *f) {
    int n_nests = f->phase->n_nests;
    dt_cuda_nest *nests = DT_NEW_ARRAY(f->arena, dt_cuda_nest, n_nests);
    bool *used = DT_NEW_ARRAY(f->arena, bool, 64);
    dt_text body = {.arena = f->arena}, *out = f->out;
    bool together = false;
    for (int k = 0; k < n_nests; k++) {
        dt_cuda_nest_prepare(&nests[k], f, &f->kernel->nests[f->phase->first + k]);
        together |= nests[k].together;
    }
    begin_teams(f, nests[0].nest, nests[0].shared, together);
    f->out = &body;
    for (int k = 0; k < n_nests; k++) {
        if (k > 0 && f->team > 1) dt_cuda_line(f, f->team == DT_WARP ? "__syncwarp();" : "__syncthreads();");
        team_nest(f, &nests[k]);
        for (int l = 0; l < f->phase->n_shared; l++) used[l] |= nests[k].loop_used[l];
    }
    f->out = out;
    dt_cuda_declare_loops(f, nests[0].nest, nests[0].loops, nests[0].shared, used, "team");
    dt_text_append(out, body.data != NULL ? body.data : "");
    dt_cuda_line(f, "}");
}

/* ---- the function ---- */

static void signature(dt_cuda_function *f) {
    dt_text text = {.arena = f->arena};
    for (int b = 0; b < f->kernel->n_buffers; b++) {
        if (f->names[b] == NULL) continue;
        dt_dtype dtype = f->plan->buffers[f->kernel->buffers[b]].dtype;
        dt_text_format(&text, "%s%s *%s%s, ", f->stored[b] ? "" : "const ", dt_cuda_memory_type(dtype), is_alone(f, b) ? "__restrict__ " : "",
                       f->names[b]);
    }
    dt_cuda_line(f, "(%sconst dt_launch *__restrict__ launch%s) {", text.data != NULL ? text.data : "", f->says_iteration ? ", i64 iteration" : "");
    if (f->says_rows) dt_cuda_line(f, "const %s rows = (%s)launch->rows;", dt_cuda_index_type(f), dt_cuda_index_type(f));
    if (f->says_valid) dt_cuda_line(f, "const i64 valid = launch->valid;");
}

/* The lines of the program that the function is for; NULL: none. */
static const char *program_lines(dt_cuda_function *f) {
    dt_kernel_function part = *f->kernel;
    dt_text lines = {.arena = f->arena};
    part.nests += f->phase->first;
    part.n_nests = f->phase->n_nests;
    dt_kernel_lines(&lines, f->plan, &part);
    return lines.data;
}

/* What its arguments are. */
static const char *remarks(dt_cuda_function *f) {
    dt_text text = {.arena = f->arena};
    for (int b = 0; b < f->kernel->n_buffers; b++) {
        if (f->names[b] == NULL) continue;
        const dt_buffer *buffer = &f->plan->buffers[f->kernel->buffers[b]];
        dt_text_format(&text, "// %s %s: ", f->stored[b] ? "out" : "in ", f->names[b]);
        dt_shape_print(&text, buffer->dtype, buffer->shape);
        dt_text_append(&text, "\n");
    }
    return text.data != NULL ? text.data : "";
}

void dt_cuda_render(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel, const dt_phase *phase, bool wide,
                    dt_cuda_rendering *result) {
    dt_text body = {.arena = arena}, text = {.arena = arena};
    dt_cuda_function f = {.arena = arena, .plan = plan, .kernel = kernel, .phase = phase, .wide = wide, .out = &body, .team = 1, .depth = 1};
    f.n_items = phase->n_items;
    f.names = DT_NEW_ARRAY(arena, const char *, kernel->n_buffers);
    f.stored = DT_NEW_ARRAY(arena, bool, kernel->n_buffers);
    if (phase->kind == DT_PHASE_TEAMS && phase->team_work > FEW_ITERATIONS) f.team = phase->team_work > WARP_ITERATIONS ? DT_CUDA_BLOCK : DT_WARP;
    find_arguments(&f);
    if (phase->kind == DT_PHASE_TILES) f.team = DT_CUDA_BLOCK;
    if (phase->kind == DT_PHASE_SCATTER) f.team = DT_WARP;
    if (phase->kind == DT_PHASE_TILES)
        dt_cuda_tiles(&f);
    else if (phase->kind == DT_PHASE_SCATTER)
        dt_cuda_scatter(&f);
    else if (phase->kind == DT_PHASE_TEAMS)
        teams(&f);
    else if (phase->n_nests == 1)
        one_nest(&f);
    else
        nests_side_by_side(&f);
    f.depth = 0;
    f.out = &text;
    signature(&f);
    dt_text_append(&text, body.data != NULL ? body.data : "");
    dt_cuda_line(&f, "}");
    *result = (dt_cuda_rendering){.lines = program_lines(&f), .remarks = remarks(&f), .team = f.team};
    result->body = text.data;
    result->n_items = f.n_items;
    result->arguments = DT_NEW_ARRAY(arena, int, kernel->n_buffers);
    result->names = DT_NEW_ARRAY(arena, const char *, kernel->n_buffers);
    for (int b = 0; b < kernel->n_buffers; b++) {
        if (f.names[b] == NULL) continue;
        result->names[result->n_arguments] = f.names[b];
        result->arguments[result->n_arguments++] = b;
    }
}
