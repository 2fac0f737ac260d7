/* llvm_stream: results that are larger than caches are stored past them.
 *
 * An ordinary store reads the cache line first that it is about to overwrite. A result of which nothing will be left in a cache when somebody
 * reads it is written by streaming stores instead: the line goes to memory without having been read, and drives nothing else out. These stores
 * need addresses that are multiples of a register, which the runtime's buffers have; a kernel that is called with others takes ordinary ones.
 * Streaming stores are not ordered with what follows, so a fence ends them: whoever is told that the kernel is done finds its results. */
#include "compiler/codegen/llvm.h"
#include "compiler/kernel/view.h"

enum {
    LINE_BYTES = 64,
    STREAM_BYTES = 32 << 20 /* more than the share of a last-level cache that a core has */
};

static bool is_loaded(const dt_llvm_function *f, int buffer) {
    for (int k = 0; k < f->kernel->n_nests; k++) {
        const dt_nest *nest = &f->kernel->nests[k];
        for (int i = 0; i < nest->n_instructions; i++)
            if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD &&
                dt_arguments_overlap(f->plan, f->kernel, nest->instructions[i].address.buffer, buffer))
                return true;
    }
    return false;
}

/* Whether all vectors of the store begin at lines where the buffer does. */
static bool is_aligned(const dt_nest *nest, const dt_address *address, int64_t line) {
    for (int l = 0; l < nest->n_loops; l++)
        if (l != nest->vector_loop && address->coefficients[l] % line != 0) return false;
    return nest->vector_loop >= 0 && address->coefficients[nest->vector_loop] == 1 && address->n_terms == 0 && address->offset % line == 0;
}

/* Whether the store could go past the caches, as the plan has it: its buffer is larger than these, and no nest of the kernel loads it. */
static bool may_stream(const dt_llvm_function *f, const dt_nest *nest, const dt_store *store) {
    const dt_buffer *buffer = &f->plan->buffers[f->kernel->buffers[store->address.buffer]];
    if (!dt_buffer_begins_at(f->plan, f->kernel->buffers[store->address.buffer], LINE_BYTES)) return false;
    if (buffer->bytes < STREAM_BYTES || store->accumulate || store->guard >= 0) return false;
    if (nest->n_reductions > 0 || (nest->part_iterations > 0 && nest->vector_loop == 0)) return false;
    return is_aligned(nest, &store->address, LINE_BYTES / (int64_t)dt_dtype_bytes(buffer->dtype)) && !is_loaded(f, store->address.buffer);
}

/* Does the nest wait for memory, and not for arithmetic? A streaming store keeps a processor that computes waiting longer than an ordinary one does.
 * Measured: with AVX-512, where an instruction serves twice as many elements, exp over 64 MiB gains a fifth and gelu loses a tenth; with AVX2 exp
 * loses a fifth. */
static bool is_light(const dt_llvm_emitter *e, const dt_nest *nest) {
    int n_scalars = 0, most = e->target->vector_bytes * 9 / 32;
    for (int i = 0; i < nest->n_instructions; i++) n_scalars += nest->instructions[i].kind == DT_INSTRUCTION_SCALAR;
    return n_scalars <= most;
}

bool dt_llvm_streams(const dt_llvm_emitter *e, const dt_nest *nest, const dt_store *store) {
    return is_light(e, nest) && may_stream(&e->at_work, nest, store);
}

LLVMValueRef dt_llvm_stream_condition(dt_llvm_emitter *e) {
    LLVMValueRef addresses = NULL;
    for (int k = 0; k < e->at_work.kernel->n_nests; k++) {
        const dt_nest *nest = &e->at_work.kernel->nests[k];
        for (int s = 0; s < nest->n_stores; s++) {
            if (!dt_llvm_streams(e, nest, &nest->stores[s])) continue;
            LLVMValueRef address = LLVMBuildPtrToInt(e->builder, e->buffers[nest->stores[s].address.buffer], e->i64, "");
            addresses = addresses != NULL ? LLVMBuildOr(e->builder, addresses, address, "") : address;
        }
    }
    if (addresses == NULL) return NULL;
    LLVMValueRef rest = LLVMBuildAnd(e->builder, addresses, dt_llvm_i64(e, LINE_BYTES - 1), "");
    return LLVMBuildICmp(e->builder, LLVMIntEQ, rest, dt_llvm_i64(e, 0), "");
}

void dt_llvm_stream_store(dt_llvm_emitter *e, LLVMValueRef value, LLVMValueRef pointer, int bytes) {
    LLVMValueRef store = LLVMBuildStore(e->builder, value, pointer);
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, false));
    LLVMSetAlignment(store, (unsigned)(bytes < LINE_BYTES ? bytes : LINE_BYTES));
    LLVMSetMetadata(store, LLVMGetMDKindIDInContext(e->context, "nontemporal", 11),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, &one, 1)));
}

void dt_llvm_stream_end(dt_llvm_emitter *e) { dt_llvm_intrinsic(e, "llvm.x86.sse.sfence", NULL, 0, NULL, 0); }
