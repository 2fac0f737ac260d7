/* ops_random: counter-based random numbers.
 *
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3") makes of a counter and a key four words that pass for random. The
 * counter is the element's number in the global batch and the launch's counter, the key the run's seed and the call's stream: no state, no order,
 * so the numbers depend neither on replicas nor on which rows a kernel computes first. It is written here as a formula, as everything else is. */
#include "ir/ops.h"

#include <inttypes.h>

dt_status *dt_infer_random_uniform(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                                   dt_shape *shape, dt_dtype *dtype) {
    DT_TRY(dt_infer_constant(arena, op, operands, n_operands, attributes, shape, dtype));
    int n_symbols = dt_shape_count(*shape, DT_BATCH) + dt_shape_count(*shape, DT_GATHERED);
    int64_t whole = dt_op_attribute(op, attributes, "whole")->i, axis = dt_op_attribute(op, attributes, "shard_axis")->i;
    if (whole != 0 && (whole < 0 || axis < 0 || axis + 1 >= shape->rank || shape->dims[axis] != 1 || shape->dims[axis + 1] < 1))
        return dt_error(DT_INVALID_ARGUMENT, "random_uniform: of one of the shards of %" PRId64 " elements dimension shard_axis is 1", whole);
    return n_symbols <= 1 ? NULL : dt_error(DT_INVALID_ARGUMENT, "random_uniform: B may stand once in the shape");
}

/* Row-major with B outermost, wherever it stands: its extent is not known, so it may not be in a stride. Of a shard's part, where whole > 0, in the
 * whole tensor: there dimension `shard_axis` is not, and the next one has `whole` elements. */
static void append_element_number(dt_text *text, dt_shape shape, int64_t shard_axis, int64_t whole) {
    int64_t stride = 1;
    dt_text_append(text, "e = i64(0)");
    for (int d = shape.rank - 1; d >= 0; d--) {
        if (dt_dim_is_symbol(shape.dims[d])) continue;
        bool is_shard = whole > 0 && d == shard_axis;
        if (is_shard)
            dt_text_format(text, " + launch(shard) * %" PRId64, stride);
        else
            dt_text_format(text, " + loop(%d) * %" PRId64, d, stride);
        stride = is_shard ? stride / shape.dims[d + 1] * whole : stride * shape.dims[d];
    }
    int batch = dt_shape_batch_axis(shape);
    if (batch >= 0) dt_text_format(text, " + (loop(%d)%s) * %" PRId64, batch, shape.dims[batch] == DT_BATCH ? " + launch(row_offset)" : "", stride);
    dt_text_append(text, "; ");
}

static void append_rounds(dt_text *text, uint64_t stream) {
    dt_text_format(text, "k0 = i32(launch(seed)) ^ %" PRId32 "; k1 = i32(shr(launch(seed), 32)) ^ %" PRId32 "; ", (int32_t)(uint32_t)stream,
                   (int32_t)(uint32_t)(stream >> 32));
    dt_text_append(text, "c0 = i32(e); c1 = i32(shr(e, 32)); c2 = i32(launch(counter)); c3 = i32(shr(launch(counter), 32)); ");
    for (uint32_t round = 0; round < 10; round++) {
        int32_t bump0 = (int32_t)(round * 0x9E3779B9u), bump1 = (int32_t)(round * 0xBB67AE85u);
        dt_text_format(text, "h0 = mulhi(c0, %d); l0 = c0 * %d; h1 = mulhi(c2, %d); l1 = c2 * %d; ", (int32_t)0xD2511F53, (int32_t)0xD2511F53,
                       (int32_t)0xCD9E8D57, (int32_t)0xCD9E8D57);
        dt_text_format(text, "c0 = h1 ^ c1 ^ (k0 + %d); c1 = l1; c2 = h0 ^ c3 ^ (k1 + %d); c3 = l0; ", bump0, bump1);
    }
    dt_text_append(text, "f32(shr(c0, 8)) * 5.9604644775390625e-08");
}

dt_loops *dt_loops_random_uniform(dt_arena *arena, const dt_value *value) {
    dt_text text = {.arena = arena};
    append_element_number(&text, value->shape, dt_value_int(value, "shard_axis"), dt_value_int(value, "whole"));
    append_rounds(&text, (uint64_t)dt_value_int(value, "stream"));
    return dt_loops_new(arena, value, value->shape, 0, NULL, DT_COMBINE_NONE, text.data);
}
