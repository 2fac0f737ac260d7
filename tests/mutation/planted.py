"""planted: mistakes that the project once had, as replacements of text that still apply; mutate.py shows that a test finds each.

A row is right text that stands once in its file, and what stood there when it was wrong. tests/structure/planted_mistakes.py sees that rows still apply.
"""
from typing import NamedTuple


class Row(NamedTuple):
    name: str
    what: str
    path: str
    right: str
    wrong: str


ROWS = [
    Row(
        "mean of pairs",
        "a mean over several dimensions that are the batch divides by it once",
        "frontends/dsl/builtins_tensor.c",
        "extent.n_batch += dim == DT_BATCH;",
        "extent.n_batch |= dim == DT_BATCH;",
    ),
    Row(
        "count of pairs",
        "an objective over several dimensions that are the batch divides by it once",
        "frontends/dsl/elaborate_tensor.c",
        ".n_batch = dt_shape_count(x->shape, DT_BATCH)}",
        ".n_batch = dt_shape_batch_axis(x->shape) >= 0}",
    ),
    Row(
        "sums of integers below a maximum",
        "a sum that wraps around moves past a maximum",
        "compiler/passes/sink.c",
        "case DT_SCALAR_ADD: return !wraps && keeps_order",
        "case DT_SCALAR_ADD: return keeps_order",
    ),
    Row(
        "ties below a maximum",
        "what makes equal what was not moves past a maximum whose gradient is taken",
        "compiler/passes/sink.c",
        "    if (s->is_differentiated && !(below->op->algebra & DT_OP_STEADY)) return -1;\n",
        "",
    ),
    Row(
        "one product of all iterations",
        "a loop's sum of narrow products becomes one product in their type",
        "compiler/passes/hoist.c",
        """    const char *precision =
        accumulate->dtype == product->dtype ? dt_value_string(product, "precision") : precision_of_widened(product, accumulate->dtype);
    if (precision == NULL) return NULL;
    dt_builder builder = builder_at(h, product, accumulate);
    dt_attribute batches[2], contracts[2];
    bool reverse = false;
    for (int k = 0; k < 2; k++) reverse |= is_scanned(product->operands[k]) && dt_value_bool(product->operands[k], "reverse");
    for (int k = 0; k < 2; k++) {
        dims batch, contract;
        int axis = dt_stack_axis(product->operands[k]->shape);
        find_dims(h, product, k, &batch, &contract);
        DT_TRY(stack_all(h, product->operands[k], reverse, &wholes[k]));
        DT_TRY(dt_build_convert(&builder, &wholes[k], wholes[k], accumulate->dtype));
        batches[k] = list_of_whole(h, batch, axis, -1);
        contracts[k] = list_of_whole(h, contract, axis, dt_stack_axis(product->operands[0]->shape) > 0); /* rows outermost */
    }
    dt_attribute attributes[] = {batches[0], batches[1], contracts[0], contracts[1], {.s = precision}};
    DT_TRY(dt_build(&builder, dt_op_find("dot_general"), wholes, 2, attributes, &result));
""",
        """    const char *precision = product->dtype == DT_F64 ? precision_of_widened(product, accumulate->dtype) : dt_value_string(product, "precision");
    dt_builder builder = builder_at(h, product, accumulate);
    dt_attribute batches[2], contracts[2];
    bool reverse = false;
    for (int k = 0; k < 2; k++) reverse |= is_scanned(product->operands[k]) && dt_value_bool(product->operands[k], "reverse");
    for (int k = 0; k < 2; k++) {
        dims batch, contract;
        int axis = dt_stack_axis(product->operands[k]->shape);
        find_dims(h, product, k, &batch, &contract);
        DT_TRY(stack_all(h, product->operands[k], reverse, &wholes[k]));
        batches[k] = list_of_whole(h, batch, axis, -1);
        contracts[k] = list_of_whole(h, contract, axis, dt_stack_axis(product->operands[0]->shape) > 0); /* rows outermost */
    }
    dt_attribute attributes[] = {batches[0], batches[1], contracts[0], contracts[1], {.s = precision}};
    DT_TRY(dt_build(&builder, dt_op_find("dot_general"), wholes, 2, attributes, &result));
    DT_TRY(dt_build_convert(&builder, &result, result, accumulate->dtype));
""",
    ),
    Row(
        "one sum of all iterations",
        "a loop's sum of narrow sums becomes one sum in their type",
        "compiler/passes/hoist.c",
        """    DT_TRY(dt_build_convert(&builder, &stack, stack, accumulate->dtype));
    DT_TRY(dt_build_reduce(&builder, &result, "reduce_sum", stack, all.ints, (int)all.i, false));
""",
        """    DT_TRY(dt_build_reduce(&builder, &result, "reduce_sum", stack, all.ints, (int)all.i, false));
    DT_TRY(dt_build_convert(&builder, &result, result, accumulate->dtype));
""",
    ),
    Row(
        "remainders of large quotients",
        "a remainder is taken in one step, whose quotient is rounded",
        "compiler/codegen/llvm_remainder.c",
        "    return greater;\n",
        "    return y;\n",
    ),
    Row(
        "half a step",
        "a step that fails after dense kernels have updated leaves a session that goes on",
        "runtime/execution/session.c",
        "    DT_TRY(ends_with(session, finish_step(session)));\n",
        "    DT_TRY(finish_step(session));\n",
    ),
]
