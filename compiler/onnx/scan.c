/* scan: loops. A loop is a Scan: its carries, and sums over its iterations, are the states; what it takes apart along an axis is scanned, the numbers
 * of the iterations always; what is stacked are its outputs. Its body is a graph, which reads tensors from around it by their names. */
#include "compiler/onnx/model.h"
#include "ir/body.h"

/* What goes in and out of a Scan, in its order: in [states, scanned], out [states, stacked]. */
typedef struct scan {
    dt_onnx *onnx;
    const dt_value *loop, *end;
    dt_value **bodies, **advances;
    dt_onnx_graph body;
    DT_LIST(const char *) in;
    DT_LIST(const char *) out;
    DT_LIST(const dt_value *) carries;
    DT_LIST(const dt_value *) sums; /* accumulate */
    DT_LIST(const char *) totals;   /* of each, in the body */
    DT_LIST(const dt_value *) stacks;
    DT_LIST(int64_t) in_axes;
    DT_LIST(int64_t) in_directions;
    DT_LIST(int64_t) out_axes;
    DT_LIST(int64_t) out_directions;
} scan;

/* A tensor that the body is given. */
static const char *add_input(scan *scan, const char *outer, dt_dtype kept, dt_shape shape) {
    dt_onnx *onnx = scan->onnx;
    const char *name = dt_onnx_name(onnx, "in");
    dt_list_push(onnx->arena, &scan->in, outer);
    dt_list_push(onnx->arena, &scan->body.inputs, dt_onnx_info(onnx, name, kept, shape));
    return name;
}

/* What the body gives back, which must be a node of its own; returns its name around the loop. */
static const char *add_output(scan *scan, const char *inner, dt_dtype kept, dt_shape shape) {
    dt_onnx *onnx = scan->onnx;
    const char *result = dt_onnx_add_unary(onnx, "Identity", inner), *outer = dt_onnx_name(onnx, "Scan");
    dt_list_push(onnx->arena, &scan->body.outputs, dt_onnx_info(onnx, result, kept, shape));
    dt_list_push(onnx->arena, &scan->out, outer);
    return outer;
}

static void add_scanned(scan *scan, const dt_value *value) {
    dt_onnx *onnx = scan->onnx;
    const dt_value *x = value->operands[0];
    const char *name = add_input(scan, dt_onnx_whole(onnx, x), dt_onnx_kept(x->dtype), value->shape);
    dt_list_push(onnx->arena, &scan->in_axes, dt_value_int(value, "axis"));
    dt_list_push(onnx->arena, &scan->in_directions, dt_value_bool(value, "reverse"));
    dt_onnx_give(onnx, value, name, NULL);
}

/* The numbers of the iterations, [trips]. */
static void add_counter(scan *scan) {
    dt_onnx *onnx = scan->onnx;
    const char *numbers =
        dt_onnx_add(onnx, "Range",
                    DT_ONNX_INPUTS(dt_onnx_number(onnx, DT_I64, 0), dt_onnx_scalar(onnx, DT_I64, (dt_scalar){.i = dt_loop_trips(scan->loop)}),
                                   dt_onnx_number(onnx, DT_I64, 1)),
                    NULL);
    dt_list_push(onnx->arena, &scan->in_axes, 0);
    dt_list_push(onnx->arena, &scan->in_directions, 0);
    dt_onnx_give(onnx, scan->loop, add_input(scan, numbers, DT_I64, dt_shape_scalar()), NULL);
}

/* Everything that the Scan is given, while nodes go to the graph around it. */
static void collect(scan *scan) {
    dt_onnx *onnx = scan->onnx;
    for (const dt_value *value = scan->loop->next; value != scan->end; value = value->next)
        if (scan->bodies[value->id] == scan->loop && dt_value_is(value, "carry")) {
            const dt_value *init = value->operands[0];
            dt_list_push(onnx->arena, &scan->carries, value);
            dt_onnx_give(onnx, value, add_input(scan, dt_onnx_whole(onnx, init), dt_onnx_kept(init->dtype), value->shape), NULL);
        }
    for (const dt_value *value = scan->end->next; value != NULL; value = value->next) {
        if (!dt_value_leaves(value) || dt_loop_left(scan->bodies, value) != scan->loop) continue;
        if (dt_value_is(value, "stack")) dt_list_push(onnx->arena, &scan->stacks, value);
        if (!dt_value_is(value, "accumulate")) continue;
        const char *zeros = dt_onnx_number(onnx, value->dtype, 0);
        if (value->shape.rank > 0) zeros = dt_onnx_add_binary(onnx, "Expand", zeros, dt_onnx_shape(onnx, value->shape.rank, value->shape.dims));
        dt_list_push(onnx->arena, &scan->sums, value);
        dt_list_push(onnx->arena, &scan->totals, add_input(scan, zeros, dt_onnx_kept(value->dtype), value->shape));
    }
    for (const dt_value *value = scan->loop->next; value != scan->end; value = value->next)
        if (scan->bodies[value->id] == scan->loop && dt_value_is(value, "scanned")) add_scanned(scan, value);
    add_counter(scan);
}

/* The results of the body, and what they are called around the loop. */
static void give_results(scan *scan) {
    dt_onnx *onnx = scan->onnx;
    const char **carried = DT_NEW_ARRAY(onnx->arena, const char *, onnx->function->next_id);
    for (size_t i = 0; i < scan->carries.n; i++) {
        const dt_value *carry = scan->carries.items[i], *next = scan->advances[carry->id]->operands[1];
        carried[carry->id] = add_output(scan, dt_onnx_whole(onnx, next), dt_onnx_kept(next->dtype), next->shape);
    }
    const char **totals = DT_NEW_ARRAY(onnx->arena, const char *, scan->sums.n);
    for (size_t i = 0; i < scan->sums.n; i++) {
        const dt_value *sum = scan->sums.items[i], *x = sum->operands[0];
        const char *total =
            dt_onnx_add_binary(onnx, "Add", scan->totals.items[i], dt_onnx_convert(onnx, dt_onnx_whole(onnx, x), x->dtype, sum->dtype));
        totals[i] = add_output(scan, dt_onnx_round(onnx, total, sum->dtype), dt_onnx_kept(sum->dtype), sum->shape);
    }
    const char **stacked = DT_NEW_ARRAY(onnx->arena, const char *, scan->stacks.n);
    for (size_t i = 0; i < scan->stacks.n; i++) {
        const dt_value *stack = scan->stacks.items[i], *x = stack->operands[0];
        stacked[i] = add_output(scan, dt_onnx_whole(onnx, x), dt_onnx_kept(x->dtype), x->shape);
        dt_list_push(onnx->arena, &scan->out_axes, dt_value_int(stack, "axis"));
        dt_list_push(onnx->arena, &scan->out_directions, dt_value_bool(stack, "reverse"));
    }
    onnx->graph = scan->body.outer;
    for (size_t i = 0; i < scan->sums.n; i++) dt_onnx_give(onnx, scan->sums.items[i], totals[i], NULL);
    for (size_t i = 0; i < scan->stacks.n; i++) dt_onnx_give(onnx, scan->stacks.items[i], stacked[i], NULL);
    for (const dt_value *value = scan->end->next; value != NULL; value = value->next)
        if (dt_value_is(value, "final") && dt_loop_left(scan->bodies, value) == scan->loop)
            dt_onnx_give(onnx, value, carried[value->operands[0]->id], NULL);
}

static void add_scan(scan *scan) {
    dt_onnx *onnx = scan->onnx;
    size_t n_scanned = scan->in_axes.n;
    dt_list_push(onnx->arena, &scan->in, NULL);
    dt_list_push(onnx->arena, &scan->out, NULL);
    Onnx__GraphProto *body = dt_onnx_close_graph(onnx, &scan->body, dt_onnx_name(onnx, "body"));
    bool stacks = scan->stacks.n > 0; /* without any, the lists would be empty, which is to be left out */
    dt_onnx_add_named(onnx, "Scan", scan->in.items, scan->out.items,
                      DT_ONNX_ATTRIBUTES(dt_onnx_graph_attribute(onnx, "body", body), dt_onnx_int(onnx, "num_scan_inputs", (int64_t)n_scanned),
                                         dt_onnx_ints(onnx, "scan_input_axes", (int64_t)n_scanned, scan->in_axes.items),
                                         dt_onnx_ints(onnx, "scan_input_directions", (int64_t)n_scanned, scan->in_directions.items),
                                         stacks ? dt_onnx_ints(onnx, "scan_output_axes", (int64_t)scan->stacks.n, scan->out_axes.items) : NULL,
                                         dt_onnx_ints(onnx, "scan_output_directions", (int64_t)scan->stacks.n, scan->out_directions.items)));
}

dt_status *dt_onnx_render_loop(dt_onnx *onnx, const dt_value *loop) {
    scan scan = {.onnx = onnx, .loop = loop, .end = dt_loop_end(loop), .body.outer = onnx->graph};
    scan.bodies = DT_NEW_ARRAY(onnx->arena, dt_value *, onnx->function->next_id);
    dt_function_find_bodies(onnx->function, scan.bodies);
    scan.advances = dt_function_find_advances(onnx->arena, onnx->function);
    collect(&scan);
    onnx->graph = &scan.body;
    DT_TRY(dt_onnx_render_values(onnx, loop->next, scan.end));
    onnx->value = loop;
    give_results(&scan);
    if (scan.body.outputs.n > 0) add_scan(&scan); /* nobody reads it */
    return NULL;
}
