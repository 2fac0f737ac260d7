/* cuda_function: what one launch runs, as a __global__ function.
 *
 * Its arguments are the buffers that it touches, in the kernel's order, then the launch values, then the iteration, where it names one. What threads
 * are dealt does not depend on how many there are: any grid of blocks of the given size computes the same bits. */
#include "compiler/codegen/cuda.h"
#include "compiler/kernel/parallel.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define FORMAT(f, ...) DT_CUDA_FORMAT(f, __VA_ARGS__)

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

void dt_cuda_unrolled(dt_cuda_function *f, const char *name, int n) {
    dt_cuda_line(f, "#pragma unroll");
    dt_cuda_line(f, "for (int %s = 0; %s < %d; %s++) {", name, name, n, name);
}

void dt_cuda_close_blocks(dt_cuda_function *f, int n) {
    while (n-- > 0) dt_cuda_line(f, "}");
}

const char *dt_cuda_memory_type_of(const dt_cuda_function *f, const dt_address *address) {
    return dt_cuda_memory_type(f->plan->buffers[f->kernel->buffers[address->buffer]].dtype);
}

const char *dt_cuda_extent(dt_cuda_function *f, int64_t extent) {
    if (extent == DT_BATCH) f->says_rows = true;
    if (extent == DT_GATHERED) f->says_valid = true;
    return extent == DT_BATCH ? "rows" : extent == DT_GATHERED ? "valid" : FORMAT(f, "%" PRId64, extent);
}

/* constant * symbols, as in "rows * 64", of which either may be left out */
static const char *product_text(dt_cuda_function *f, int64_t constant, const char *symbols) {
    if (symbols == NULL) return FORMAT(f, "%" PRId64, constant);
    return constant == 1 ? symbols : FORMAT(f, "%s * %" PRId64, symbols, constant);
}

static void multiply(dt_cuda_function *f, int64_t *constant, const char **symbols, int64_t extent) {
    if (!dt_dim_is_symbol(extent))
        *constant *= extent;
    else
        *symbols = *symbols == NULL ? dt_cuda_extent(f, extent) : FORMAT(f, "%s * %s", *symbols, dt_cuda_extent(f, extent));
}

const char *dt_cuda_count(dt_cuda_function *f, const dt_nest *nest, uint64_t set) {
    int64_t constant = 1;
    const char *symbols = NULL;
    for (int l = 0; l < nest->n_loops; l++)
        if (set >> l & 1) multiply(f, &constant, &symbols, nest->loops[l].extent);
    return product_text(f, constant, constant == 0 ? NULL : symbols);
}

/* Declares the loops of `set` that have been named. */
static void declare_loops(dt_cuda_nest *n, uint64_t set, const char *index) {
    dt_cuda_function *f = n->f;
    assert(n->nest->n_loops >= 0 && n->nest->n_loops <= 64);
    int outermost = 0;
    while (outermost < n->nest->n_loops && (!(set >> outermost & 1) || n->nest->loops[outermost].extent == 1)) outermost++;
    int64_t stride = 1;
    const char *symbols = NULL;
    for (int l = n->nest->n_loops - 1; l >= 0; l--) {
        int64_t extent = n->nest->loops[l].extent;
        if (!(set >> l & 1) || extent == 1) continue;
        const char *step = product_text(f, stride, symbols), *value = index;
        if (strcmp(step, "1") != 0) value = FORMAT(f, symbols != NULL && stride != 1 ? "%s / (%s)" : "%s / %s", index, step);
        if (l != outermost) value = FORMAT(f, "%s %% %s", value, dt_cuda_extent(f, extent));
        if (n->loop_used[l]) dt_cuda_line(f, "const %s %s = %s;", f->index, n->loops[l], value);
        multiply(f, &stride, &symbols, extent);
    }
}

dt_text *dt_cuda_begin(dt_cuda_nest *n, uint64_t set) {
    dt_text *out = n->f->out;
    n->f->out = DT_NEW(n->f->arena, dt_text);
    n->f->out->arena = n->f->arena;
    for (int l = 0; l < n->nest->n_loops; l++) n->loop_used[l] &= !(set >> l & 1);
    return out;
}

void dt_cuda_end(dt_cuda_nest *n, dt_text *out, uint64_t set, const char *index) {
    const dt_text *body = n->f->out;
    n->f->out = out;
    declare_loops(n, set, index);
    dt_text_append(out, body->data != NULL ? body->data : "");
}

/* ---- what it touches ---- */

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

/* Names what the function loads or stores. */
static void find_arguments(dt_cuda_function *f) {
    f->names = DT_NEW_ARRAY(f->arena, const char *, f->kernel->n_buffers);
    f->stored = DT_NEW_ARRAY(f->arena, bool, f->kernel->n_buffers);
    for (int k = 0; k < f->how->n_nests; k++) {
        const dt_nest *nest = &f->kernel->nests[f->how->first + k];
        bool *needed = DT_NEW_ARRAY(f->arena, bool, nest->n_instructions);
        dt_nest_mark_needed(nest, needed);
        for (int i = 0; i < nest->n_instructions + nest->n_stores; i++) {
            bool stores = i >= nest->n_instructions;
            if (!stores && (!needed[i] || nest->instructions[i].kind != DT_INSTRUCTION_LOAD)) continue;
            int b = stores ? nest->stores[i - nest->n_instructions].address.buffer : nest->instructions[i].address.buffer;
            if (f->names[b] == NULL) f->names[b] = argument_name(f, &f->plan->buffers[f->kernel->buffers[b]], b);
            f->stored[b] |= stores;
        }
    }
}

static bool is_alone(const dt_cuda_function *f, int b) {
    for (int other = 0; other < f->kernel->n_buffers; other++) {
        if (other == b || f->names[other] == NULL || !(f->stored[b] || f->stored[other])) continue;
        if (dt_arguments_overlap(f->plan, f->kernel, b, other)) return false;
    }
    return true;
}

/* ---- elements ---- */

static void note(const dt_cuda_nest *n) {
    if (n->nest->note != NULL) dt_cuda_line(n->f, "// %s", n->nest->note);
}

/* Opens a block for an iteration of loop 0, the only outer loop of what processes share out, if that is this process's own; false: all are. */
static bool begin_own(dt_cuda_function *f, const dt_nest *nest, const char *iteration) {
    const dt_nest_share *how = &nest->share;
    if (how->n_units == 0) return false;
    assert(dt_nest_n_outer(nest) == 1);
    dt_cuda_line(f, "if (is_own(launch, %s, %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ")) {", iteration, how->n_units, how->turn,
                 how->first_unit, how->unit_iterations);
    return true;
}

/* One element, or a vector of them, from e on. A vector is a process's own as a whole: units are longer (abi/share.h). */
static void elements(dt_cuda_nest *n) {
    bool shares = begin_own(n->f, n->nest, "e");
    if (n->vectors->width > 1)
        dt_cuda_vector_element(n);
    else
        dt_cuda_nest_element(n, "e");
    dt_cuda_close_blocks(n->f, shares);
}

static void one_nest(dt_cuda_function *f) {
    dt_cuda_nest n;
    dt_cuda_nest_prepare(&n, f, 0);
    note(&n);
    dt_cuda_nest_once(&n);
    const char *each = n.vectors->width == 1 ? "" : FORMAT(f, f->how->wide ? "%dLL * " : "%d * ", n.vectors->width);
    dt_cuda_line(f, "for (%s e = %sgrid_thread(); e < %s; e += %sgrid_threads()) {", f->index, each, dt_cuda_count(f, n.nest, n.how->dealt), each);
    elements(&n);
    dt_cuda_line(f, "}");
}

/* The elements of several nests, one after another. */
static void nests_side_by_side(dt_cuda_function *f) {
    dt_text body = {.arena = f->arena}, *out = f->out;
    int64_t begin = 0;
    f->hoists = true;
    f->out = &body;
    dt_cuda_line(f, "for (%s all = grid_thread(); all < %" PRId64 "; all += grid_threads()) {", f->index, f->how->n_items);
    for (int k = 0; k < f->how->n_nests; k++) {
        dt_cuda_nest n;
        dt_cuda_nest_prepare(&n, f, k);
        int width = n.vectors->width;
        int64_t end = begin + (dt_nest_iterations(f->plan, n.nest, n.how->dealt) + width - 1) / width;
        const char *mine = begin > 0 ? FORMAT(f, "all - %" PRId64, begin) : "all";
        dt_cuda_line(f, "%s%s{", k > 0 ? "} else " : "", k + 1 < f->how->n_nests ? FORMAT(f, "if (all < %" PRId64 ") ", end) : "");
        note(&n);
        if (width > 1) mine = FORMAT(f, begin > 0 ? "%d * (%s)" : "%d * %s", width, mine);
        dt_cuda_line(f, "const %s e = %s;", f->index, mine);
        dt_cuda_nest_once(&n);
        elements(&n);
        begin = end;
    }
    dt_cuda_close_blocks(f, 2);
    f->out = out;
    for (size_t i = 0; i < f->constants.n; i++)
        dt_cuda_line(f, "const %s %s = %s;", f->constants.items[i].type, f->constants.items[i].name, f->constants.items[i].text);
    dt_text_append(out, body.data != NULL ? body.data : "");
}

/* ---- teams ---- */

/* A nest as one team runs it. */
static void team_nest(dt_cuda_function *f, dt_cuda_nest *n) {
    bool one = dt_nest_last_loop(n->nest, n->how->dealt) < 0, every = f->how->team == 1 || n->how->together; /* threads take all elements */
    bool is_shared = n->how->shared & 1, shares = is_shared && begin_own(f, n->nest, "team");
    if (!shares) dt_cuda_line(f, "{");
    note(n);
    dt_cuda_nest_once(n);
    if (!one)
        dt_cuda_line(f, "for (%s e = %s; e < %s; e += %d) {", f->index, every ? "0" : "lane", dt_cuda_count(f, n->nest, n->how->dealt),
                     every ? 1 : f->how->team);
    else if (!every)
        dt_cuda_line(f, "if (lane == 0) {");
    shares = !is_shared && begin_own(f, n->nest, one ? "0" : "e");
    dt_cuda_nest_element(n, one ? NULL : "e");
    dt_cuda_close_blocks(f, shares + (!one || !every) + 1);
}

static void teams(dt_cuda_function *f) {
    int n_nests = f->how->n_nests, team = f->how->team, warp = f->target->warp;
    uint64_t shared = f->how->nests[0].shared;
    dt_cuda_nest *nests = DT_NEW_ARRAY(f->arena, dt_cuda_nest, n_nests);
    for (int k = 0; k < n_nests; k++) dt_cuda_nest_prepare(&nests[k], f, k);
    bool block = team == f->target->block;
    const char *count = dt_cuda_count(f, nests[0].nest, shared), *by = team == warp ? FORMAT(f, " / %d", warp) : "";
    if (block && dt_gpu_shared_bytes(f->target, f->how) > 0) dt_cuda_line(f, "__shared__ u64 partials[%d];", team / warp * 2);
    if (team > 1) dt_cuda_line(f, "const int lane = threadIdx.x%s;", block ? "" : FORMAT(f, " %% %d", warp));
    dt_cuda_line(f, "for (%s team = %s%s; team < %s; team += %s%s) {", f->index, block ? "blockIdx.x" : "grid_thread()", by, count,
                 block ? "gridDim.x" : "grid_threads()", by);
    dt_text *out = dt_cuda_begin(&nests[0], shared);
    for (int k = 0; k < n_nests; k++) {
        if (k > 0 && team > 1) dt_cuda_line(f, block ? "__syncthreads();" : "__syncwarp();");
        team_nest(f, &nests[k]);
        for (int l = 0; l < f->how->n_shared; l++) nests[0].loop_used[l] |= nests[k].loop_used[l];
    }
    dt_cuda_end(&nests[0], out, shared, "team");
    dt_cuda_line(f, "}");
}

/* ---- the function ---- */

/* Its arguments, as the function declares them, or a comment line for what each is. */
static const char *list_arguments(dt_cuda_function *f, const dt_cuda_rendering *of, bool declares) {
    dt_text text = {.arena = f->arena};
    for (int a = 0; a < of->n_arguments; a++) {
        int b = of->arguments[a];
        const dt_buffer *buffer = &f->plan->buffers[f->kernel->buffers[b]];
        if (declares) {
            dt_text_format(&text, "%s%s *%s%s, ", f->stored[b] ? "" : "const ", dt_cuda_memory_type(buffer->dtype),
                           is_alone(f, b) ? "__restrict__ " : "", f->names[b]);
        } else {
            dt_text_format(&text, "// %s %s: ", f->stored[b] ? "out" : "in ", f->names[b]);
            dt_shape_print(&text, buffer->dtype, buffer->shape);
            dt_text_append(&text, "\n");
        }
    }
    return text.data != NULL ? text.data : "";
}

static void signature(dt_cuda_function *f, const dt_cuda_rendering *of) {
    dt_cuda_line(f, "(%sconst dt_launch *__restrict__ launch%s) {", list_arguments(f, of, true), f->says_iteration ? ", i64 iteration" : "");
    if (f->says_rows) dt_cuda_line(f, "const %s rows = (%s)launch->rows;", f->index, f->index);
    if (f->says_valid) dt_cuda_line(f, "const i64 valid = launch->valid;");
}

/* The lines of the program that the function is for; NULL: none. */
static const char *program_lines(dt_cuda_function *f) {
    dt_kernel_function part = *f->kernel;
    dt_text lines = {.arena = f->arena};
    part.nests += f->how->first;
    part.n_nests = f->how->n_nests;
    dt_kernel_lines(&lines, f->plan, &part);
    return lines.data;
}

dt_cuda_rendering dt_cuda_render(dt_arena *arena, const dt_gpu_target *target, const dt_plan *plan, const dt_kernel_function *kernel,
                                 const dt_gpu_function *how) {
    static void (*const forms[])(dt_cuda_function * f) = {
        [DT_GPU_ELEMENTS] = one_nest, [DT_GPU_TEAMS] = teams, [DT_GPU_TILES] = dt_cuda_tiles, [DT_GPU_SCATTER] = dt_cuda_scatter};
    dt_text body = {.arena = arena}, text = {.arena = arena};
    dt_cuda_function f = {.arena = arena, .target = target, .plan = plan, .kernel = kernel, .how = how, .out = &body, .depth = 1};
    dt_cuda_rendering result = {.arguments = DT_NEW_ARRAY(arena, int, kernel->n_buffers),
                                .names = DT_NEW_ARRAY(arena, const char *, kernel->n_buffers)};
    f.index = how->wide ? "i64" : "int";
    find_arguments(&f);
    for (int b = 0; b < kernel->n_buffers; b++) {
        if (f.names[b] == NULL) continue;
        result.names[result.n_arguments] = f.names[b];
        result.arguments[result.n_arguments++] = b;
    }
    (how->form == DT_GPU_ELEMENTS && how->n_nests > 1 ? nests_side_by_side : forms[how->form])(&f);
    f.depth = 0;
    f.out = &text;
    signature(&f, &result);
    dt_text_append(&text, body.data != NULL ? body.data : "");
    dt_cuda_line(&f, "}");
    result.lines = program_lines(&f);
    result.remarks = list_arguments(&f, &result, false);
    result.body = text.data;
    return result;
}
