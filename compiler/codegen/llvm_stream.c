/* llvm_stream: stores past the caches (compiler/passes/choose_stores.c says which).
 *
 * These stores need addresses that are multiples of a register, which the runtime's buffers have; a kernel that is called with others takes ordinary
 * ones. Streaming stores are not ordered with what follows, so a fence ends them: whoever is told that the kernel is done finds its results. */
#include "compiler/codegen/llvm.h"

bool dt_llvm_nest_streams(const dt_llvm_emitter *e, int nest) {
    for (int s = 0; s < e->at_work.kernel->nests[nest].n_stores; s++)
        if (e->at_work.choices[nest].stores[s] == DT_STORE_STREAMING) return true;
    return false;
}

LLVMValueRef dt_llvm_stream_condition(dt_llvm_emitter *e) {
    LLVMValueRef addresses = NULL;
    for (int k = 0; k < e->at_work.kernel->n_nests; k++) {
        const dt_nest *nest = &e->at_work.kernel->nests[k];
        for (int s = 0; s < nest->n_stores; s++) {
            if (e->at_work.choices[k].stores[s] != DT_STORE_STREAMING) continue;
            LLVMValueRef address = LLVMBuildPtrToInt(e->builder, e->buffers[nest->stores[s].address.buffer], e->i64, "");
            addresses = addresses != NULL ? LLVMBuildOr(e->builder, addresses, address, "") : address;
        }
    }
    if (addresses == NULL) return NULL;
    LLVMValueRef rest = LLVMBuildAnd(e->builder, addresses, dt_llvm_i64(e, e->choices->target->line_bytes - 1), "");
    return LLVMBuildICmp(e->builder, LLVMIntEQ, rest, dt_llvm_i64(e, 0), "");
}

void dt_llvm_stream_store(dt_llvm_emitter *e, LLVMValueRef value, LLVMValueRef pointer, int bytes) {
    LLVMValueRef store = LLVMBuildStore(e->builder, value, pointer);
    int line = (int)e->choices->target->line_bytes;
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, false));
    LLVMSetAlignment(store, (unsigned)(bytes < line ? bytes : line));
    LLVMSetMetadata(store, LLVMGetMDKindIDInContext(e->context, "nontemporal", 11),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, &one, 1)));
}

void dt_llvm_stream_end(dt_llvm_emitter *e) { dt_llvm_intrinsic(e, "llvm.x86.sse.sfence", NULL, 0, NULL, 0); }
