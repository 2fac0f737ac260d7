"""planted: mistakes that the project once had, as replacements of text that still apply; mutate.py shows that a test finds each.

A row is right text that stands once in its file, and what stood there when it was wrong, with the test that came with the cure, which is run first.
tests/structure/planted_mistakes.py sees that rows still apply.
"""
from typing import NamedTuple


class Row(NamedTuple):
    name: str
    what: str
    test: str
    path: str
    right: str
    wrong: str


ROWS = [
    Row(
        "mean of pairs",
        "a mean over several dimensions that are the batch divides by it once",
        "e2e.pair_means",
        "frontends/dsl/builtins_tensor.c",
        """    dt_object count = dt_emit_elements(e, extent, "valid");\n""",
        """    extent.n_batch = 1;\n    dt_object count = dt_emit_elements(e, extent, "valid");\n""",
    ),
    Row(
        "report of pairs",
        "a report over several dimensions that are the batch counts it once",
        "e2e.pair_means",
        "frontends/dsl/elaborate_report.c",
        """    dt_object count = dt_emit_elements(e, extent, "valid");\n""",
        """    extent.n_batch = extent.n_batch > 0;\n    dt_object count = dt_emit_elements(e, extent, "valid");\n""",
    ),
    Row(
        "count of pairs",
        "an objective over several dimensions that are the batch divides by it once",
        "e2e.pair_means",
        "frontends/dsl/elaborate_tensor.c",
        ".n_batch = dt_shape_count(x->shape, DT_BATCH)}",
        ".n_batch = dt_shape_batch_axis(x->shape) >= 0}",
    ),
    Row(
        "sums of integers below a maximum",
        "a sum that wraps around moves past a maximum",
        "e2e.monotone",
        "compiler/passes/sink.c",
        "case DT_SCALAR_ADD: return !wraps && keeps_order",
        "case DT_SCALAR_ADD: return keeps_order",
    ),
    Row(
        "ties below a maximum",
        "what makes equal what was not moves past a maximum whose gradient is taken",
        "e2e.monotone",
        "compiler/passes/sink.c",
        "    if (s->is_differentiated && !(below->op->algebra & DT_OP_STEADY)) return -1;\n",
        "",
    ),
    Row(
        "one product of all iterations",
        "a loop's sum of narrow products becomes one product in their type",
        "e2e.scan_sums",
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
        "e2e.scan_sums",
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
        "e2e.remainders",
        "compiler/codegen/llvm_remainder.c",
        "    return greater;\n",
        "    return y;\n",
    ),
    Row(
        "half a step",
        "a step that fails after dense kernels have updated leaves a session that goes on",
        "python.session",
        "runtime/execution/session.c",
        "    DT_TRY(ends_with(session, finish_step(session)));\n",
        "    DT_TRY(finish_step(session));\n",
    ),
    Row(
        "an evaluation that trains",
        "a step evaluate may hold minimize, and learns from the test set",
        "unit.diagnostics",
        "frontends/dsl/elaborate_step.c",
        "if (!trains || (!d->is_repeated && !is_evaluate)) return;",
        "if (!trains || !d->is_repeated) return;",
    ),
    Row(
        "minimize in a module",
        "a step that calls a module's function that trains does not count as one that trains",
        "unit.diagnostics",
        "frontends/dsl/elaborate_train.c",
        "name)) != NULL && !d->is_private) return declaration_trains(s, s->file->uses.items[i], d);",
        "name)) != NULL && !d->is_private) break;",
    ),
    Row(
        "scatter_add into bf16",
        "what is scattered is rounded at each addition",
        "e2e.narrow_sums",
        "compiler/passes/widen.c",
        "return loops != NULL && loops->result != NULL;",
        "return loops != NULL && loops->result != NULL && !dt_dtype_is_half(value->dtype);",
    ),
    Row(
        "sums of a loop in f16",
        "what iterations give is rounded at each addition",
        "e2e.narrow_sums",
        "compiler/passes/widen.c",
        """if (dt_value_is(value, "accumulate")) return true;""",
        """if (dt_value_is(value, "accumulate")) return false;""",
    ),
    Row(
        "a power's second gradient",
        "the derivative of y x^(y-1) with respect to y is x where y is 0, not 1 / x",
        "ops.conformance",
        "ir/ops.def",
        "x: g * y * power(x, where((y == 0) & logical_not(isfinite(1 / x)), 1, y - 1));",
        "x: g * y * power(x, where(y == 0, 1, y - 1));",
    ),
    Row(
        "second gradients of products",
        "the gradient of a product has constants where an element is 0",
        "e2e.second_gradients",
        "ir/ops_reduce.c",
        "where(n == 1, 1, where(n == 2, sum - x, where(n == 3, 0.5 * ((sum - x) * (sum - x) - (squares - x * x)), 0)))",
        "where(n == 1, 1, 0)",
    ),
    Row(
        "what a loop reads of all rows",
        "a sum over rows that only a body reads shares memory with what the body stores",
        "e2e.scan_outside",
        "compiler/passes/plan_memory_lifetimes.c",
        "            leave_loops(t, t->plan->segments[s].collectives[c].target);\n",
        "",
    ),
    Row(
        "rows that a loop without rows keeps",
        "a loop that stacks rows of outside runs once for all replicas",
        "e2e.scan_outside",
        "ir/body.c",
        "if (leaves && value->distribution.kind != DT_REPLICATED) return false;",
        "(void)leaves;",
    ),
    Row(
        "what a loop keeps of outside",
        "a stack of a reduction outside of its loop is a store of that reduction's nest",
        "e2e.scan_outside",
        "compiler/passes/fuse_groups.c",
        "(user->op->class == DT_CLASS_STATE || user->op->class == DT_CLASS_LOOP) && body_of_read(f, user) == f->bodies[value->id];",
        "user->op->class == DT_CLASS_STATE || (user->op->class == DT_CLASS_LOOP && value != NULL && f != NULL);",
    ),
    Row(
        "parts of a product",
        "parts of a sum are multiplied and divided by what may be 0, infinite or large",
        "e2e.partial_products",
        "compiler/passes/partition.c",
        "|| (is_product ? is_fraction(other) : is_count(other));",
        "|| (is_product ? is_fraction(other) : is_count(other)) || true;",
    ),
    Row(
        "a broadcast of all iterations",
        "a broadcast that would change the order of its operand's axes is made for all iterations",
        "lit.run",
        "compiler/passes/hoist.c",
        """    if (dt_value_is(value, "broadcast") && is_within(h, value->operands[0]) && !keeps_axis(value)) return false;\n""",
        "    (void)keeps_axis;\n",
    ),
    Row(
        "constants in double",
        "constants are folded in double, where kernels round each step",
        "lit.run",
        "compiler/passes/simplify.c",
        "value->dtype, DT_ARITHMETIC_KERNEL, &evaluation",
        "value->dtype, DT_ARITHMETIC_ORACLE, &evaluation",
    ),
    Row(
        "masks of other registers",
        "choices for AVX-512 as code for AVX2: a load whose mask is known to LLVM reads all lanes",
        "unit.codegen_llvm",
        "compiler/codegen/llvm_memory.c",
        "int registers = e->target->vector_bytes;",
        "int registers = e->choices->target->vector_bytes;",
    ),
    Row(
        "a search in another order",
        "loops of a search may be turned, and positions count in another order",
        "unit.choices",
        "compiler/kernel/verify_choices.c",
        "if (searches && p > s->n_outer",
        "if (searches && false && p > s->n_outer",
    ),
    Row(
        "sums of jammed loops",
        "a loop is jammed around another one that adds to the same places",
        "unit.choices",
        "compiler/kernel/verify_choices.c",
        "((loop == choices->vector_loop && choices->width > 1) || choices->jammed[loop] > 0) && inside != 0;",
        "false;",
    ),
    Row(
        "a block of one iteration",
        "a packed block is read in iterations of a loop that moves its operand",
        "unit.choices",
        "compiler/kernel/verify_choices.c",
        "if (in_block && (s->depends",
        "if (in_block && false && (s->depends",
    ),
    Row(
        "one mask of a relu",
        "all shards, and all microbatches of a round, note the mask of a relu in one place",
        "mpi.gpu_shards",
        "runtime/devices/cuda/library.c",
        "(size_t)place->number * libraries->mask_bytes",
        "0 * libraries->mask_bytes",
    ),
    Row(
        "sums of shards beside the queue",
        "what crosses shards on a GPU's own queue is not copied to where it is wanted",
        "mpi.gpu_shards_full",
        "runtime/comm/local/crossing.c",
        "if (!is_of_shares) dt_local_add_reductions(&work->after, arena, &made.beside);",
        "",
    ),
    Row(
        "microbatches of another GPU",
        "a GPU does not know of the microbatches of others in its process",
        "mpi.gpu_shards",
        "runtime/execution/session.c",
        ".n_members = n,",
        ".n_members = shared ? n : 1,",
    ),
]
