/* llvm_memory: addresses, loads and stores of a nest.
 *
 * Of a vector load, the vector loop's coefficient says how: 1 is a vector, 0 a scalar that is splatted; anything else, and any indirect index that
 * differs from lane to lane, goes element by element. Vector stores are to neighbours: no other loop is vectorised.
 *
 * Loads never branch. One that a guard forbids reads the buffer's first element instead, which always exists, and its value is replaced. Vectors
 * may read past the end of a row, and by the slack that every buffer has (DT_SLACK_BYTES) past its end; never write there: what a tail stores is cut
 * into pieces of its exact length. */
#include "compiler/codegen/llvm.h"

static dt_dtype buffer_dtype(const dt_llvm_nest *n, const dt_address *address) {
    return n->e->at_work.plan->buffers[n->e->at_work.kernel->buffers[address->buffer]].dtype;
}

static bool terms_vary(const dt_llvm_nest *n, const dt_address *address) {
    for (int t = 0; t < address->n_terms; t++)
        if (dt_llvm_varies(n, address->terms[t])) return true;
    return false;
}

static int64_t lane_step(const dt_llvm_nest *n, const dt_address *address) {
    return n->width > 1 ? address->coefficients[n->choices->vector_loop] : 0;
}

/* The offset of lane 0 with all its terms; scalar, or a vector when terms vary (then all lanes' offsets). */
static dt_llvm_sum full_offset(dt_llvm_nest *n, const dt_address *address, dt_llvm_sum loops, bool as_vector) {
    dt_llvm_emitter *e = n->e;
    LLVMValueRef sum = loops.variable;
    if (as_vector) {
        sum = dt_llvm_splat(e, sum != NULL ? sum : dt_llvm_i64(e, 0), n->width);
        LLVMValueRef steps = dt_llvm_integer(LLVMTypeOf(sum), lane_step(n, address));
        sum = LLVMBuildAdd(e->builder, sum, LLVMBuildMul(e->builder, dt_llvm_iota(e->i64, n->width), steps, ""), "");
    }
    for (int t = 0; t < address->n_terms; t++) {
        LLVMValueRef term = dt_llvm_operand(n, address->terms[t], as_vector);
        LLVMValueRef product = LLVMBuildMul(e->builder, term, dt_llvm_integer(LLVMTypeOf(term), address->term_coefficients[t]), "");
        sum = sum != NULL ? LLVMBuildAdd(e->builder, sum, product, "") : product;
    }
    return (dt_llvm_sum){sum, loops.constant};
}

/* Address of the element at variable + constant. The constant comes last, where the processor's addressing takes it for nothing. */
static LLVMValueRef pointer_to(dt_llvm_nest *n, const dt_address *address, dt_llvm_sum offset) {
    dt_llvm_emitter *e = n->e;
    LLVMTypeRef type = dt_llvm_memory_type(e, buffer_dtype(n, address));
    LLVMValueRef pointer = e->buffers[address->buffer];
    if (offset.variable != NULL) pointer = LLVMBuildInBoundsGEP2(e->builder, type, pointer, &offset.variable, 1, "");
    LLVMValueRef constant = dt_llvm_i64(e, offset.constant);
    return offset.constant == 0 ? pointer : LLVMBuildInBoundsGEP2(e->builder, type, pointer, &constant, 1, "");
}

/* ---- what memory holds and what registers hold ---- */

static LLVMValueRef from_memory(dt_llvm_emitter *e, LLVMValueRef value, dt_dtype dtype) {
    LLVMBuilderRef builder = e->builder;
    switch (dtype) {
    case DT_BOOL: return LLVMBuildICmp(builder, LLVMIntNE, value, LLVMConstNull(LLVMTypeOf(value)), "");
    case DT_F16: return LLVMBuildFPExt(builder, value, dt_llvm_like(value, e->f32), "");
    case DT_BF16: {
        LLVMTypeRef type = dt_llvm_like(value, e->i32);
        value = LLVMBuildShl(builder, LLVMBuildZExt(builder, value, type, ""), dt_llvm_integer(type, 16), "");
        return LLVMBuildBitCast(builder, value, dt_llvm_like(value, e->f32), "");
    }
    default: return value;
    }
}

static LLVMValueRef to_memory(dt_llvm_emitter *e, LLVMValueRef value, dt_dtype dtype) {
    LLVMBuilderRef builder = e->builder;
    switch (dtype) {
    case DT_BOOL: return LLVMBuildZExt(builder, value, dt_llvm_like(value, e->i8), "");
    case DT_F16: return LLVMBuildFPTrunc(builder, value, dt_llvm_like(value, e->f16), "");
    case DT_BF16: {
        LLVMTypeRef type = dt_llvm_like(value, e->i32);
        value = LLVMBuildBitCast(builder, dt_llvm_convert(e, value, DT_F32, DT_BF16), type, "");
        return LLVMBuildTrunc(builder, LLVMBuildLShr(builder, value, dt_llvm_integer(type, 16), ""), dt_llvm_like(value, e->i16), "");
    }
    default: return value;
    }
}

/* ---- loads ---- */

/* The mask of an access to a vector of this type. Where that is several registers of AVX2, LLVM is to know nothing of the mask. It finds out that all
 * lanes of a register are false, as where a condition that is one for all lanes is and-ed with a constant, and makes of that a constant of which only
 * the sign bits are 0; then it takes the other bits for true, and a load reads all lanes (LLVM 14 and 19). Stores are treated alike. */
static LLVMValueRef hidden_mask(dt_llvm_emitter *e, LLVMValueRef mask) {
    int width = dt_llvm_width(mask), half = width / 2;
    if (width > e->target->vector_bytes) {
        LLVMValueRef low = hidden_mask(e, dt_llvm_lanes(e, mask, 0, half)), high = hidden_mask(e, dt_llvm_lanes(e, mask, half, half));
        return LLVMBuildShuffleVector(e->builder, low, high, dt_llvm_iota(e->i32, width), "");
    }
    LLVMTypeRef bits = dt_llvm_vector(width < 16 ? e->i16 : e->i8, width), type = LLVMFunctionType(bits, &bits, 1, false);
    LLVMValueRef nothing = LLVMGetInlineAsm(type, "", 0, "=x,0", 4, false, false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef same = LLVMBuildZExt(e->builder, mask, bits, "");
    return LLVMBuildTrunc(e->builder, LLVMBuildCall2(e->builder, type, nothing, &same, 1, ""), LLVMTypeOf(mask), "");
}

static LLVMValueRef mask_for(dt_llvm_emitter *e, LLVMValueRef mask, int lane_bytes) {
    int registers = e->target->vector_bytes;
    return registers == 32 && dt_llvm_width(mask) * lane_bytes > registers && !LLVMIsConstant(mask) ? hidden_mask(e, mask) : mask;
}

/* LLVM 22 has moved the alignment of the masked intrinsics from an argument to an attribute. */
static LLVMValueRef masked_load(dt_llvm_emitter *e, LLVMTypeRef type, LLVMValueRef pointer, LLVMValueRef mask, int alignment) {
    LLVMTypeRef types[2] = {type, e->pointer};
    unsigned id = LLVMLookupIntrinsicID("llvm.masked.load", 16);
    LLVMTypeRef function = LLVMIntrinsicGetType(e->context, id, types, 2);
    LLVMValueRef zero = LLVMConstNull(type);
    mask = mask_for(e, mask, alignment);
    if (LLVMCountParamTypes(function) == 3) return dt_llvm_intrinsic(e, "llvm.masked.load", types, 2, (LLVMValueRef[]){pointer, mask, zero}, 3);
    LLVMValueRef arguments[4] = {pointer, LLVMConstInt(e->i32, (uint64_t)alignment, false), mask, zero};
    return dt_llvm_intrinsic(e, "llvm.masked.load", types, 2, arguments, 4);
}

static void masked_store(dt_llvm_emitter *e, LLVMValueRef value, LLVMValueRef pointer, LLVMValueRef mask, int alignment) {
    LLVMTypeRef types[2] = {LLVMTypeOf(value), e->pointer};
    unsigned id = LLVMLookupIntrinsicID("llvm.masked.store", 17);
    LLVMTypeRef function = LLVMIntrinsicGetType(e->context, id, types, 2);
    mask = mask_for(e, mask, alignment);
    if (LLVMCountParamTypes(function) == 3) {
        dt_llvm_intrinsic(e, "llvm.masked.store", types, 2, (LLVMValueRef[]){value, pointer, mask}, 3);
    } else {
        LLVMValueRef arguments[4] = {value, pointer, LLVMConstInt(e->i32, (uint64_t)alignment, false), mask};
        dt_llvm_intrinsic(e, "llvm.masked.store", types, 2, arguments, 4);
    }
}

static LLVMValueRef both(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return a == NULL ? b : b == NULL ? a : LLVMBuildAnd(e->builder, a, b, "");
}

/* `width` neighbours in memory's type. A mask keeps lanes from being read; without one all of them may be. */
static LLVMValueRef load_neighbours(dt_llvm_nest *n, const dt_address *address, dt_llvm_sum offset, int width, LLVMValueRef mask) {
    dt_llvm_emitter *e = n->e;
    dt_dtype dtype = buffer_dtype(n, address);
    int bytes = (int)dt_dtype_bytes(dtype);
    LLVMTypeRef type = dt_llvm_vector(dt_llvm_memory_type(e, dtype), width);
    LLVMValueRef pointer = pointer_to(n, address, offset);
    if (mask != NULL) return masked_load(e, type, pointer, mask, bytes);
    LLVMValueRef load = LLVMBuildLoad2(e->builder, type, pointer, "");
    LLVMSetAlignment(load, (unsigned)bytes);
    return load;
}

/* Moves the access to the buffer's first element where `allowed` (NULL: always allowed) is false. */
static dt_llvm_sum safe_offset(dt_llvm_emitter *e, dt_llvm_sum offset, LLVMValueRef allowed) {
    if (allowed == NULL) return offset;
    LLVMValueRef whole = dt_llvm_sum_value(e, offset);
    return (dt_llvm_sum){LLVMBuildSelect(e->builder, allowed, whole, dt_llvm_i64(e, 0), ""), 0};
}

/* Lane by lane; a lane outside of `allowed` or of the tail reads a safe element. */
static LLVMValueRef load_lanes(dt_llvm_nest *n, const dt_address *address, dt_llvm_sum base, LLVMValueRef allowed) {
    dt_llvm_emitter *e = n->e;
    bool indirect = terms_vary(n, address);
    int64_t step = lane_step(n, address);
    LLVMTypeRef element = dt_llvm_memory_type(e, buffer_dtype(n, address));
    LLVMValueRef vector = LLVMConstNull(dt_llvm_vector(element, n->width));
    bool runtime_tail = n->mask != NULL && !LLVMIsConstant(n->mask);
    LLVMValueRef mask = runtime_tail ? both(e, allowed, n->mask) : allowed;
    dt_llvm_sum all = full_offset(n, address, base, indirect);
    for (int k = 0; k < n->lanes; k++) {
        dt_llvm_sum offset = {all.variable, all.constant + (indirect ? 0 : k * step)};
        if (indirect) offset.variable = dt_llvm_lane(e, all.variable, k);
        offset = safe_offset(e, offset, mask != NULL ? dt_llvm_lane(e, mask, k) : NULL);
        LLVMValueRef value = LLVMBuildLoad2(e->builder, element, pointer_to(n, address, offset), "");
        vector = LLVMBuildInsertElement(e->builder, vector, value, dt_llvm_i64(e, k), "");
    }
    return vector;
}

LLVMValueRef dt_llvm_load_plain(dt_llvm_nest *n, int instruction, dt_llvm_sum offset, int width) {
    const dt_address *address = &n->nest->instructions[instruction].address;
    dt_llvm_sum at = full_offset(n, address, n->addresses[instruction], false);
    at.constant += offset.constant;
    if (offset.variable != NULL)
        at.variable = at.variable != NULL ? LLVMBuildNSWAdd(n->e->builder, offset.variable, at.variable, "") : offset.variable;
    return from_memory(n->e, load_neighbours(n, address, at, width, NULL), buffer_dtype(n, address));
}

/* Neighbours of a vector load: a guard that is one for all lanes moves the address, others mask; a tail is masked only where reading all lanes
 * could go past the slack. */
static LLVMValueRef load_vector(dt_llvm_nest *n, const dt_address *address, dt_llvm_sum base, LLVMValueRef guard) {
    dt_llvm_emitter *e = n->e;
    bool guard_varies = guard != NULL && dt_llvm_width(guard) > 1;
    bool wide = n->width * (int)dt_dtype_bytes(buffer_dtype(n, address)) > DT_SLACK_BYTES;
    dt_llvm_sum offset = full_offset(n, address, base, false);
    LLVMValueRef mask = guard_varies ? guard : NULL;
    if (wide && guard != NULL && !guard_varies)
        mask = dt_llvm_splat(e, guard, n->width);
    else if (!guard_varies)
        offset = safe_offset(e, offset, guard);
    if (mask != NULL || wide) mask = both(e, mask, n->mask);
    return load_neighbours(n, address, offset, n->width, mask);
}

LLVMValueRef dt_llvm_load(dt_llvm_nest *n, int i) {
    dt_llvm_emitter *e = n->e;
    const dt_instruction *load = &n->nest->instructions[i];
    const dt_address *address = &load->address;
    LLVMValueRef guard = load->guard >= 0 ? n->values[load->guard] : NULL;
    bool guard_varies = guard != NULL && dt_llvm_width(guard) > 1;
    bool indirect = terms_vary(n, address);
    int64_t step = lane_step(n, address);
    dt_llvm_sum base = n->addresses[i];
    LLVMValueRef value;
    if (!indirect && step == 1)
        value = load_vector(n, address, base, guard);
    else if (indirect || step != 0 || guard_varies)
        value = load_lanes(n, address, base, guard != NULL ? dt_llvm_splat(e, guard, n->width) : NULL);
    else
        value = load_neighbours(n, address, safe_offset(e, full_offset(n, address, base, false), guard), 1, NULL);
    value = from_memory(e, value, buffer_dtype(n, address));
    if (guard == NULL) return value;
    LLVMValueRef otherwise = dt_llvm_operand(n, load->otherwise, dt_llvm_width(value) > 1);
    return LLVMBuildSelect(e->builder, guard, value, otherwise, "");
}

/* ---- stores ---- */

static LLVMValueRef accumulated(dt_llvm_emitter *e, LLVMValueRef old, LLVMValueRef value, dt_dtype dtype) {
    old = from_memory(e, old, dtype);
    if (dt_dtype_is_float(dtype)) return LLVMBuildFAdd(e->builder, old, value, "");
    return dtype == DT_BOOL ? LLVMBuildOr(e->builder, old, value, "") : LLVMBuildAdd(e->builder, old, value, "");
}

static void store_element(dt_llvm_nest *n, const dt_store *store, dt_llvm_sum offset, LLVMValueRef value) {
    dt_llvm_emitter *e = n->e;
    dt_dtype dtype = buffer_dtype(n, &store->address);
    LLVMValueRef pointer = pointer_to(n, &store->address, offset);
    if (store->accumulate) value = accumulated(e, LLVMBuildLoad2(e->builder, dt_llvm_memory_type(e, dtype), pointer, ""), value, dtype);
    LLVMBuildStore(e->builder, to_memory(e, value, dtype), pointer);
}

/* Stores the first `lanes` lanes in pieces whose lengths are powers of two. */
static void store_pieces(dt_llvm_nest *n, const dt_address *address, dt_llvm_sum offset, LLVMValueRef value, int lanes) {
    dt_llvm_emitter *e = n->e;
    unsigned alignment = (unsigned)dt_dtype_bytes(buffer_dtype(n, address));
    for (int first = 0, piece = dt_llvm_width(value); first < lanes; piece /= 2) {
        if (piece > lanes - first) continue;
        LLVMValueRef part = piece == dt_llvm_width(value) ? value : dt_llvm_lanes(e, value, first, piece);
        dt_llvm_sum at = {offset.variable, offset.constant + first};
        LLVMSetAlignment(LLVMBuildStore(e->builder, part, pointer_to(n, address, at)), alignment);
        first += piece;
    }
}

static void store_vector(dt_llvm_nest *n, const dt_store *store, dt_llvm_sum base, LLVMValueRef value, LLVMValueRef guard) {
    dt_llvm_emitter *e = n->e;
    dt_dtype dtype = buffer_dtype(n, &store->address);
    dt_llvm_sum offset = full_offset(n, &store->address, base, false);
    bool runtime_tail = n->mask != NULL && !LLVMIsConstant(n->mask);
    LLVMValueRef mask = guard != NULL ? both(e, guard, n->mask) : runtime_tail ? n->mask : NULL;
    if (store->accumulate) {
        bool wide = n->width * (int)dt_dtype_bytes(dtype) > DT_SLACK_BYTES;
        LLVMValueRef readable = mask != NULL ? mask : wide ? n->mask : NULL;
        value = accumulated(e, load_neighbours(n, &store->address, offset, n->width, readable), value, dtype);
    }
    value = to_memory(e, value, dtype);
    if (mask != NULL)
        masked_store(e, value, pointer_to(n, &store->address, offset), mask, (int)dt_dtype_bytes(dtype));
    else if (e->streams && n->lanes == n->width && n->choices->stores[store - n->nest->stores] == DT_STORE_STREAMING)
        dt_llvm_stream_store(e, value, pointer_to(n, &store->address, offset), n->width * (int)dt_dtype_bytes(dtype));
    else
        store_pieces(n, &store->address, offset, value, n->lanes);
}

void dt_llvm_store(dt_llvm_nest *n, int s) {
    dt_llvm_emitter *e = n->e;
    const dt_store *store = &n->nest->stores[s];
    const dt_address *address = &store->address;
    dt_llvm_sum base = n->addresses[n->nest->n_instructions + s];
    LLVMValueRef guard = store->guard >= 0 ? n->values[store->guard] : NULL;
    LLVMBasicBlockRef join = NULL;
    if (guard != NULL && dt_llvm_width(guard) == 1) {
        join = dt_llvm_if_begin(e, guard, true);
        guard = NULL;
    }
    if (lane_step(n, address) != 0)
        store_vector(n, store, base, dt_llvm_operand(n, store->operand, true), guard);
    else
        store_element(n, store, full_offset(n, address, base, false), n->values[store->operand]);
    if (join != NULL) dt_llvm_if_end(e, join);
}

LLVMValueRef dt_llvm_load_stored(dt_llvm_nest *n, int s, int64_t offset, int width) {
    const dt_address *address = &n->nest->stores[s].address;
    dt_llvm_sum at = full_offset(n, address, n->addresses[n->nest->n_instructions + s], false);
    at.constant += offset;
    return from_memory(n->e, load_neighbours(n, address, at, width, NULL), buffer_dtype(n, address));
}

/* `cache`: 3, the first, to 1. */
static void prefetch(dt_llvm_nest *n, const dt_address *address, dt_llvm_sum base, int64_t offset, bool to_write, unsigned cache) {
    dt_llvm_emitter *e = n->e;
    dt_llvm_sum at = full_offset(n, address, base, false);
    at.constant += offset;
    LLVMValueRef data = LLVMConstInt(e->i32, 1, false);
    LLVMValueRef arguments[] = {pointer_to(n, address, at), LLVMConstInt(e->i32, to_write, false), LLVMConstInt(e->i32, cache, false), data};
    dt_llvm_intrinsic(e, "llvm.prefetch", &e->pointer, 1, arguments, 4);
}

void dt_llvm_prefetch(dt_llvm_nest *n, int s, int64_t offset) {
    prefetch(n, &n->nest->stores[s].address, n->addresses[n->nest->n_instructions + s], offset, true, 3);
}

void dt_llvm_prefetch_load(dt_llvm_nest *n, int load, int64_t offset) {
    prefetch(n, &n->nest->instructions[load].address, n->addresses[load], offset, false, 2);
}
