/* llvm_kernel: a kernel as a function, and the loops over rows, and over blocks of a row, that neighbouring nests share. */
#include "compiler/codegen/llvm.h"
#include "compiler/kernel/meetings.h"

#include <stddef.h>
#include <string.h>

static void add_attribute(dt_llvm_emitter *e, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(e->function, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->context, kind, 0));
}

void dt_llvm_begin_kernel(dt_llvm_emitter *e, const dt_plan *plan, const dt_kernel_function *kernel) {
    e->at_work = (dt_llvm_function){plan, kernel, dt_choices_of(e->choices, plan, kernel)};
}

/* Nothing is thrown, and no loop is to be replaced by a call of memset or memcpy, which nobody would provide. */
void dt_llvm_function_begin(dt_llvm_emitter *e, const char *name, LLVMTypeRef type) {
    e->n_carried = 0;
    e->packed = NULL;
    e->lists = NULL;
    e->function = LLVMAddFunction(e->module, name, type);
    add_attribute(e, "nounwind");
    LLVMAddTargetDependentFunctionAttr(e->function, "no-builtins", "");
    LLVMAddTargetDependentFunctionAttr(e->function, "target-cpu", e->target->cpu);
    LLVMAddTargetDependentFunctionAttr(e->function, "target-features", e->target->features);
    if (e->target->vector_bytes == 64) LLVMAddTargetDependentFunctionAttr(e->function, "prefer-vector-width", "512");
    LLVMPositionBuilderAtEnd(e->builder, dt_llvm_block(e, "entry"));
}

LLVMValueRef dt_llvm_item(dt_llvm_emitter *e, LLVMTypeRef type, LLVMValueRef array, LLVMValueRef index) {
    LLVMValueRef load = LLVMBuildLoad2(e->builder, type, LLVMBuildInBoundsGEP2(e->builder, type, array, &index, 1, ""), "");
    LLVMSetMetadata(load, LLVMGetMDKindIDInContext(e->context, "invariant.load", 14),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
    return load;
}

LLVMValueRef dt_llvm_launch_field(dt_llvm_emitter *e, LLVMTypeRef type, size_t offset) {
    return dt_llvm_item(e, type, e->launch, dt_llvm_i64(e, (int64_t)(offset / 8)));
}

void dt_llvm_load_launch(dt_llvm_emitter *e) {
    e->launch = LLVMGetParam(e->function, 1);
    e->rows = dt_llvm_launch_field(e, e->i64, offsetof(dt_launch, rows));
    e->valid = dt_llvm_launch_field(e, e->i64, offsetof(dt_launch, valid));
    e->bad_index = dt_llvm_launch_field(e, e->pointer, offsetof(dt_launch, bad_index));
    if (e->at_work.kernel->divided) {
        e->meeting = dt_llvm_launch_field(e, e->pointer, offsetof(dt_launch, meeting));
        e->part = dt_llvm_launch_field(e, e->i64, offsetof(dt_launch, part));
        e->n_parts = dt_llvm_launch_field(e, e->i64, offsetof(dt_launch, n_parts));
        e->share = dt_llvm_launch_field(e, e->i64, offsetof(dt_launch, share));
        e->n_shares = dt_llvm_launch_field(e, e->i64, offsetof(dt_launch, n_shares));
    }
}

/* Parts that run at the same time wait for one another. */
static void meet(dt_llvm_emitter *e) {
    LLVMTypeRef type = LLVMFunctionType(e->void_type, &e->pointer, 1, false);
    LLVMBasicBlockRef join = dt_llvm_if_begin(e, LLVMBuildICmp(e->builder, LLVMIntSGT, e->n_parts, dt_llvm_i64(e, 1), ""), false);
    LLVMBuildCall2(e->builder, type, dt_llvm_item(e, e->pointer, e->meeting, dt_llvm_i64(e, 0)), &e->meeting, 1, "");
    dt_llvm_if_end(e, join);
}

static bool streams(const dt_llvm_emitter *e, int first, int end) {
    for (int n = first; n < end; n++)
        if (dt_llvm_nest_streams(e, n)) return true;
    return false;
}

static void load_buffer(dt_llvm_emitter *e, int b) {
    if (e->buffers[b] != NULL) return;
    const char *name = e->at_work.plan->buffers[e->at_work.kernel->buffers[b]].name;
    e->buffers[b] = dt_llvm_item(e, e->pointer, LLVMGetParam(e->function, 0), dt_llvm_i64(e, b));
    if (name != NULL) LLVMSetValueName2(e->buffers[b], name, strlen(name));
}

/* Of a kernel that runs once: whether anybody wants what nests make. NULL: it is no such kernel. */
static LLVMBasicBlockRef if_wanted(dt_llvm_emitter *e, const dt_nest *nests) {
    if (!e->at_work.kernel->once || nests->n_stores == 0) return NULL;
    const int result = nests->stores[0].address.buffer;
    load_buffer(e, result);
    return dt_llvm_if_begin(e, LLVMBuildICmp(e->builder, LLVMIntNE, e->buffers[result], LLVMConstNull(e->pointer), ""), true);
}

/* Those of nests that are written here, and do not call a routine. */
static void load_buffers(dt_llvm_emitter *e, const dt_kernel_repeats *repeats) {
    const dt_kernel_function *kernel = e->at_work.kernel;
    e->buffers = DT_NEW_ARRAY(e->arena, LLVMValueRef, kernel->n_buffers);
    bool is_written = false;
    for (int n = 0, end = 0; n < kernel->n_nests; n++) {
        const dt_nest *nest = &kernel->nests[n];
        if (n == end) {
            end = dt_piece_end(kernel, n);
            is_written = repeats->uses[n] == NULL || streams(e, n, end);
        }
        if (!is_written) continue;
        for (int i = 0; i < nest->n_instructions; i++)
            if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD) load_buffer(e, nest->instructions[i].address.buffer);
        for (int s = 0; s < nest->n_stores; s++) load_buffer(e, nest->stores[s].address.buffer);
    }
}

/* Iterations [first, end) of loop 0. */
typedef struct iteration_range {
    LLVMValueRef first, end;
} iteration_range;

static iteration_range part_of(const dt_llvm_nest *n);

/* Part 0 goes on here, the others behind what follows. */
static LLVMBasicBlockRef if_first_part(dt_llvm_emitter *e) {
    return dt_llvm_if_begin(e, LLVMBuildICmp(e->builder, LLVMIntEQ, e->part, dt_llvm_i64(e, 0), ""), true);
}

/* Iteration `row` of nests that share the loop over rows, and if they are several the loop over blocks inside of it: what depends on no block comes
 * before that. What depends on no row has been emitted. */
static void row_of_piece(dt_llvm_nest **nests, int n_nests, LLVMValueRef row) {
    dt_llvm_emitter *e = nests[0]->e;
    dt_llvm_sum index = {row, 0};
    if (e->at_work.kernel->divided && nests[0]->nest->part_iterations > 0) {
        iteration_range part = part_of(nests[0]);
        nests[0]->part_start = part.first;
        nests[0]->part_end = part.end;
    }
    if (n_nests == 1) {
        dt_llvm_iteration(nests[0], 0, index);
        return;
    }
    for (int k = 0; k < n_nests; k++) {
        dt_llvm_enter(nests[k], 0, index);
        dt_llvm_emit_level(nests[k], 1, false);
    }
    dt_llvm_loop blocks = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_i64(e, nests[0]->nest->loops[1].extent), 1, false);
    for (int k = 0; k < n_nests; k++) dt_llvm_iteration(nests[k], 1, (dt_llvm_sum){blocks.index, 0});
    dt_llvm_loop_end(e, &blocks);
}

/* The same, of which part 0 does alone what is not divided. */
static void part_of_row(dt_llvm_nest **nests, int n_nests, LLVMValueRef row) {
    dt_llvm_emitter *e = nests[0]->e;
    bool by_one = e->at_work.kernel->divided && nests[0]->nest->part_iterations == 0;
    LLVMBasicBlockRef join = by_one ? if_first_part(e) : NULL;
    row_of_piece(nests, n_nests, row);
    if (join != NULL) dt_llvm_if_end(e, join);
}

/* Nests of a group that shares the loop over rows: what of them depends on no row. */
static dt_llvm_nest **before_rows(dt_llvm_emitter *e, const dt_nest *nests, int n_nests, const dt_nest *group, int n_group) {
    dt_llvm_nest **prepared = DT_NEW_ARRAY(e->arena, dt_llvm_nest *, n_nests);
    for (int k = 0; k < n_nests; k++) {
        prepared[k] = dt_llvm_nest_prepare(e, &nests[k], group, n_group);
        dt_llvm_emit_level(prepared[k], 0, false);
    }
    return prepared;
}

/* The code that the piece which begins with a nest calls; NULL: it is written here. Streaming stores are. */
static const dt_routine_use *called(const dt_llvm_emitter *e, const dt_kernel_repeats *repeats, int nest) {
    const dt_kernel_function *kernel = e->at_work.kernel;
    if (e->streams && streams(e, nest, dt_piece_end(kernel, nest))) return NULL;
    return repeats->uses[nest];
}

/* Calls what is called, from the piece that begins with nest `first` on; returns the first one that is not, or `end`. What is timed ends a list of
 * calls, and so does a meeting; that of the one returned has been. */
static int call_routines(dt_llvm_emitter *e, const dt_kernel_repeats *repeats, int first, int end, LLVMValueRef row) {
    DT_LIST(const dt_routine_use *) uses = {0};
    while (first < end) {
        const dt_kernel_function *kernel = e->at_work.kernel;
        const dt_routine_use *use = called(e, repeats, first);
        if (kernel->nests[first].meets && !dt_nest_begins_rows(kernel, first)) {
            if (uses.n > 0) dt_llvm_call_routines(e, uses.items, (int)uses.n, row);
            uses.n = 0;
            meet(e);
        }
        if (use == NULL) break;
        dt_list_push(e->arena, &uses, use);
        first = dt_piece_end(e->at_work.kernel, first);
        if (dt_timer_before(e->at_work.kernel, first, false) == 0) continue;
        dt_llvm_call_routines(e, uses.items, (int)uses.n, row);
        dt_llvm_read_timer(e, first, false);
        uses.n = 0;
    }
    if (uses.n > 0) dt_llvm_call_routines(e, uses.items, (int)uses.n, row);
    return first;
}

/* Nests that share the loop over rows. */
static void row_group(dt_llvm_emitter *e, const dt_kernel_repeats *repeats, int first, int end) {
    const dt_nest *nests = e->at_work.kernel->nests;
    dt_llvm_nest ***pieces = DT_NEW_ARRAY(e->arena, dt_llvm_nest **, end - first);
    if (nests[first].meets) meet(e);
    for (int k = first, next; k < end; k = next) {
        next = dt_piece_end(e->at_work.kernel, k);
        if (called(e, repeats, k) == NULL) pieces[k - first] = before_rows(e, &nests[k], next - k, &nests[first], end - first);
    }
    dt_llvm_loop rows = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), dt_llvm_extent(e, nests[first].loops[0].extent), 1, true);
    for (int k = call_routines(e, repeats, first, end, rows.index), next; k < end; k = call_routines(e, repeats, next, end, rows.index)) {
        next = dt_piece_end(e->at_work.kernel, k);
        part_of_row(pieces[k - first], next - k, rows.index);
        dt_llvm_read_timer(e, next, false);
    }
    if (nests[first].meets) meet(e);
    dt_llvm_loop_end(e, &rows);
    dt_llvm_read_timer(e, end, true);
}

static LLVMValueRef least(dt_llvm_emitter *e, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, x, y, ""), x, y, "");
}

static LLVMValueRef next(dt_llvm_emitter *e, LLVMValueRef number) { return LLVMBuildAdd(e->builder, number, dt_llvm_i64(e, 1), ""); }

static LLVMValueRef share_number(const dt_llvm_nest *n, int number, int64_t value) {
    LLVMValueRef parameter = n->numbers[n->nest->n_instructions + n->nest->n_stores + number];
    return parameter != NULL ? parameter : dt_llvm_i64(n->e, value);
}

static LLVMValueRef extent_of(const dt_llvm_nest *n) { return share_number(n, DT_SHARE_EXTENT, n->nest->loops[dt_nest_part_loop(n->nest)].extent); }

/* The first iteration of `share`: dt_share_first_unit, of this nest. */
static LLVMValueRef start_of_share(const dt_llvm_nest *n, LLVMValueRef share) {
    dt_llvm_emitter *e = n->e;
    const dt_nest *nest = n->nest;
    const dt_nest_share *how = &nest->share;
    LLVMValueRef turn = LLVMBuildURem(e->builder, share_number(n, DT_SHARE_TURN, how->turn), e->n_shares, "");
    LLVMValueRef first_unit = share_number(n, DT_SHARE_FIRST_UNIT, how->first_unit);
    LLVMValueRef sum = LLVMBuildAdd(e->builder, LLVMBuildMul(e->builder, share_number(n, DT_SHARE_N_UNITS, how->n_units), share, ""), turn, "");
    LLVMValueRef unit = LLVMBuildSub(e->builder, LLVMBuildUDiv(e->builder, sum, e->n_shares, ""), first_unit, "");
    LLVMValueRef start = LLVMBuildMul(e->builder, unit, dt_llvm_i64(e, how->unit_iterations), "");
    LLVMValueRef is_before = LLVMBuildICmp(e->builder, LLVMIntSLT, unit, dt_llvm_i64(e, 0), "");
    return least(e, LLVMBuildSelect(e->builder, is_before, dt_llvm_i64(e, 0), start, ""), extent_of(n));
}

static iteration_range share_of(const dt_llvm_nest *n) {
    dt_llvm_emitter *e = n->e;
    if (n->nest->share.n_units == 0) return (iteration_range){dt_llvm_i64(e, 0), extent_of(n)};
    return (iteration_range){start_of_share(n, e->share), start_of_share(n, next(e, e->share))};
}

/* The first iteration of `part` of the share, as kernel.h has it. */
static LLVMValueRef start_of_part(dt_llvm_emitter *e, const dt_nest *nest, iteration_range share, LLVMValueRef part) {
    int64_t iterations = nest->part_iterations;
    LLVMValueRef n = LLVMBuildSub(e->builder, share.end, share.first, "");
    LLVMValueRef n_units = LLVMBuildUDiv(e->builder, LLVMBuildAdd(e->builder, n, dt_llvm_i64(e, iterations - 1), ""), dt_llvm_i64(e, iterations), "");
    LLVMValueRef unit = LLVMBuildUDiv(e->builder, LLVMBuildMul(e->builder, n_units, part, ""), e->n_parts, "");
    LLVMValueRef start = LLVMBuildAdd(e->builder, share.first, LLVMBuildMul(e->builder, unit, dt_llvm_i64(e, iterations), ""), "");
    return least(e, start, share.end);
}

static iteration_range part_of(const dt_llvm_nest *n) {
    dt_llvm_emitter *e = n->e;
    iteration_range share = share_of(n);
    return (iteration_range){start_of_part(e, n->nest, share, e->part), start_of_part(e, n->nest, share, next(e, e->part))};
}

/* A nest of a divided kernel: a range of its outermost loop, or all of the process's share in part 0. */
static void part_of_nest(dt_llvm_emitter *e, const dt_nest *nest) {
    dt_llvm_nest *n = dt_llvm_nest_prepare(e, nest, NULL, 0);
    if (nest->part_iterations > 0) {
        iteration_range part = part_of(n);
        n->part_start = part.first;
        n->part_end = part.end;
        dt_llvm_nest_emit(n, 0);
    } else {
        LLVMBasicBlockRef join = if_first_part(e);
        if (nest->share.n_units > 0) {
            iteration_range share = share_of(n);
            n->part_start = share.first;
            n->part_end = share.end;
        }
        dt_llvm_nest_emit(n, 0);
        dt_llvm_if_end(e, join);
    }
}

void dt_llvm_piece(dt_llvm_emitter *e, const dt_nest *nests, int n_nests, LLVMValueRef row) {
    LLVMBasicBlockRef join = row == NULL ? if_wanted(e, nests) : NULL;
    if (row != NULL)
        part_of_row(before_rows(e, nests, n_nests, nests, n_nests), n_nests, row);
    else if (e->at_work.kernel->divided)
        part_of_nest(e, nests);
    else
        dt_llvm_nest_emit(dt_llvm_nest_prepare(e, nests, NULL, 0), 0);
    if (join != NULL) dt_llvm_if_end(e, join);
}

static void all_nests(dt_llvm_emitter *e, const dt_kernel_repeats *repeats) {
    const dt_kernel_function *kernel = e->at_work.kernel;
    for (int k = 0, end; k < kernel->n_nests; k = end) {
        bool in_rows = kernel->nests[k].in_rows;
        for (end = k + 1; end < kernel->n_nests && kernel->nests[end].in_rows == in_rows;) end++;
        LLVMBasicBlockRef join = in_rows ? if_wanted(e, &kernel->nests[k]) : NULL;
        if (in_rows)
            row_group(e, repeats, k, end);
        else
            for (k = call_routines(e, repeats, k, end, NULL); k < end; k = call_routines(e, repeats, k + 1, end, NULL)) {
                dt_llvm_piece(e, &kernel->nests[k], 1, NULL);
                dt_llvm_read_timer(e, k + 1, false);
            }
        if (join != NULL) dt_llvm_if_end(e, join);
    }
}

/* With streaming stores, then with ordinary ones: which copy runs is up to where the buffers lie. */
static void both_ways(dt_llvm_emitter *e, const dt_kernel_repeats *repeats, LLVMValueRef may_stream) {
    LLVMBasicBlockRef join = dt_llvm_if_begin(e, may_stream, true);
    e->streams = true;
    all_nests(e, repeats);
    dt_llvm_stream_end(e);
    e->streams = false;
    dt_llvm_if_end(e, join);
    join = dt_llvm_if_begin(e, LLVMBuildNot(e->builder, may_stream, ""), false);
    all_nests(e, repeats);
    dt_llvm_if_end(e, join);
}

/* void kernel(void *const *buffers, const dt_launch *launch), as abi/launch.h has it. */
void dt_llvm_kernel(dt_llvm_emitter *e, const dt_plan *plan, const dt_kernel_function *kernel, const dt_kernel_repeats *repeats) {
    LLVMTypeRef type = LLVMFunctionType(e->void_type, (LLVMTypeRef[]){e->pointer, e->pointer}, 2, false);
    if (repeats->same != NULL) {
        LLVMAddAlias2(e->module, type, 0, LLVMGetNamedFunction(e->module, repeats->same->name), kernel->name);
        return;
    }
    dt_llvm_write_routines(e, kernel, repeats);
    dt_llvm_begin_kernel(e, plan, kernel);
    dt_llvm_function_begin(e, kernel->name, type);
    dt_llvm_load_launch(e);
    load_buffers(e, repeats);
    dt_llvm_timers_begin(e);
    LLVMValueRef may_stream = dt_llvm_stream_condition(e);
    if (may_stream != NULL)
        both_ways(e, repeats, may_stream);
    else
        all_nests(e, repeats);
    if (kernel->divided && !kernel->once) meet(e);
    LLVMBuildRetVoid(e->builder);
}
