/* codegen_llvm: kernels built by hand, compiled for each level that this machine has, loaded and compared with dt_kernel_execute, which takes one
 * element at a time. Buffers lie between guard bytes, so that a store too far shows. */
#include "base/cpu.h"
#include "base/memory.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/execute.h"
#include "compiler/kernel/nest.h"
#include "compiler/passes/passes.h"
#include "ir/evaluate.h"
#include "runtime/artifact/object_loader.h"
#include "tests/support/expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CAPACITY = 16,
    GUARD_BYTES = 64,
    MOST_BUFFERS = 8
};

static const int64_t sizes[] = {1, 3, 7, 8, 9, 17, 33, 100};
enum {
    N_SIZES = sizeof sizes / sizeof *sizes
};

/* ---- a kernel under test ---- */

typedef struct bench {
    dt_arena *arena;
    dt_module module;
    dt_function function;
    dt_plan plan;
    dt_kernel_function kernel;
    dt_launch launch;
    dt_bad_index bad_index;
    char *contents[MOST_BUFFERS]; /* before the kernel runs */
    int displaced;                /* bytes that arguments lie behind a cache line, less than GUARD_BYTES */
    uint64_t random;
} bench;

static void begin(bench *b) {
    memset(b, 0, sizeof *b);
    b->arena = dt_arena_create();
    b->plan.name = "test";
    b->plan.capacity = CAPACITY;
    b->plan.microbatch_rows = CAPACITY;
    b->plan.is_placed = true;
    b->plan.bytes.replica = b->plan.bytes.scratch = b->plan.bytes.device = (int64_t)1 << 40;
    b->kernel.name = "kernel_under_test";
    b->launch = (dt_launch){.rows = 5, .row_offset = 32, .valid = 11, .global_batch = 32, .replicas = 2, .counter = 3, .seed = 77};
    b->random = 0x9e3779b97f4a7c15u;
}

static uint64_t random_bits(bench *b) {
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return b->random >> 33;
}

/* Small numbers, with a few that are not small; floats are multiples of 1/8, so that ties occur. */
static void random_element(bench *b, dt_dtype dtype, char *at) {
    uint64_t bits = random_bits(b);
    dt_scalar value;
    if (dt_dtype_is_float(dtype))
        value.f = (double)((int64_t)(bits % 65) - 32) / 8;
    else
        value.i = dtype == DT_BOOL ? (int64_t)(bits & 1) : (int64_t)(bits % 23) - (dtype == DT_U8 ? 0 : 11);
    dt_scalar_store(at, dtype, value);
}

static int buffer(bench *b, dt_dtype dtype, int64_t elements) {
    int64_t bytes = elements * (int64_t)dt_dtype_bytes(dtype), offset = 0;
    for (int i = 0; i < b->plan.n_buffers; i++) offset += (b->plan.buffers[i].bytes + 127) / 64 * 64;
    dt_shape shape = dt_shape_make(b->arena, 1, &elements);
    int index = dt_plan_add_buffer(
        b->arena, &b->plan, (dt_buffer){.name = "b", .space = DT_MEMORY_SCRATCH, .dtype = dtype, .shape = shape, .offset = offset, .bytes = bytes});
    assert_true(index < MOST_BUFFERS);
    b->contents[index] = dt_arena_new(b->arena, (size_t)bytes + 1);
    for (int64_t i = 0; i < elements; i++) random_element(b, dtype, b->contents[index] + i * (int64_t)dt_dtype_bytes(dtype));
    return index;
}

static void set(bench *b, int index, int64_t element, double value) {
    dt_dtype dtype = b->plan.buffers[index].dtype;
    dt_scalar scalar = dt_dtype_is_float(dtype) ? (dt_scalar){.f = value} : (dt_scalar){.i = (int64_t)value};
    dt_scalar_store(b->contents[index] + element * (int64_t)dt_dtype_bytes(dtype), dtype, scalar);
}

static dt_nest_builder nest_over(bench *b, int n_loops, const dt_loop *loops) {
    return (dt_nest_builder){.arena = b->arena,
                             .plan = &b->plan,
                             .kernel = &b->kernel,
                             .n_loops = n_loops,
                             .loops = dt_arena_copy(b->arena, loops, sizeof *loops * (size_t)n_loops)};
}
#define NEST(b, ...) nest_over((b), sizeof((dt_loop[]){__VA_ARGS__}) / sizeof(dt_loop), (dt_loop[]){__VA_ARGS__})

static const dt_affine *address(dt_nest_builder *nest, int64_t offset, const int64_t *coefficients) {
    dt_affine *x = DT_NEW(nest->arena, dt_affine);
    *x = dt_affine_constant(nest->arena, nest->n_loops, offset);
    for (int l = 0; l < nest->n_loops; l++) x->coefficients[l] = coefficients[l];
    return x;
}
/* Element offset + sum of coefficients * loops. */
#define AT(nest, offset, ...) address((nest), (offset), (int64_t[]){__VA_ARGS__})

static int loop_value(dt_nest_builder *nest, int loop) {
    dt_affine x = dt_affine_loop(nest->arena, nest->n_loops, loop);
    return dt_nest_affine(nest, &x);
}

static int reduced(dt_nest_builder *nest, dt_combiner combiner, int operand, dt_dtype dtype) {
    int reduction = dt_nest_reduce(nest, combiner, operand, dtype);
    bool position = combiner == DT_COMBINE_ARGMAX || combiner == DT_COMBINE_ARGMIN;
    return dt_nest_add(nest, (dt_instruction){.kind = DT_INSTRUCTION_REDUCED, .dtype = position ? DT_I64 : dtype, .index = reduction, .guard = -1});
}

static dt_nest *finish(bench *b, dt_nest_builder *nest, int vector_loop) {
    dt_nest finished = dt_nest_finish(nest);
    finished.vector_loop = vector_loop;
    int at = b->kernel.n_nests;
    dt_kernel_insert_nest(b->arena, &b->kernel, at, finished);
    return &b->kernel.nests[at];
}

/* The load of `plan_buffer` in a finished nest. */
static int load_of(const bench *b, const dt_nest *nest, int plan_buffer) {
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD && b->kernel.buffers[nest->instructions[i].address.buffer] == plan_buffer) return i;
    fail_msg("no load of buffer %d", plan_buffer);
    return -1;
}

/* ---- running and comparing ---- */

typedef struct memory {
    char *blocks[MOST_BUFFERS], *arguments[MOST_BUFFERS];
} memory;

static void copy_buffers(bench *b, memory *m) {
    for (int k = 0; k < b->kernel.n_buffers; k++) {
        const dt_buffer *x = &b->plan.buffers[b->kernel.buffers[k]];
        m->blocks[k] = aligned_alloc(64, (size_t)(x->bytes + 3 * GUARD_BYTES + 63) / 64 * 64);
        m->arguments[k] = m->blocks[k] + GUARD_BYTES + b->displaced;
        memset(m->blocks[k], 0xa5, (size_t)x->bytes + 3 * GUARD_BYTES);
        memcpy(m->arguments[k], b->contents[b->kernel.buffers[k]], (size_t)x->bytes);
    }
}

static void free_buffers(bench *b, memory *m) {
    for (int k = 0; k < b->kernel.n_buffers; k++) free(m->blocks[k]);
}

static bool agree(dt_scalar x, dt_scalar y, dt_dtype dtype, double tolerance) {
    if (!dt_dtype_is_float(dtype)) return x.i == y.i;
    if (isnan(x.f) || isnan(y.f)) return isnan(x.f) && isnan(y.f);
    return x.f == y.f || fabs(x.f - y.f) <= tolerance * (1 + fabs(y.f));
}

static void compare(bench *b, const char *level, const memory *got, const memory *want, double tolerance) {
    for (int k = 0; k < b->kernel.n_buffers; k++) {
        const dt_buffer *x = &b->plan.buffers[b->kernel.buffers[k]];
        size_t size = dt_dtype_bytes(x->dtype);
        for (int64_t i = 0; i < x->bytes / (int64_t)size; i++) {
            dt_scalar u = dt_scalar_load(got->arguments[k] + (size_t)i * size, x->dtype),
                      v = dt_scalar_load(want->arguments[k] + (size_t)i * size, x->dtype);
            if (agree(u, v, x->dtype, tolerance)) continue;
            if (dt_dtype_is_float(x->dtype)) fail_msg("%s: buffer %d element %lld: %.9g, should be %.9g", level, k, (long long)i, u.f, v.f);
            fail_msg("%s: buffer %d element %lld: %lld, should be %lld", level, k, (long long)i, (long long)u.i, (long long)v.i);
        }
        for (int64_t i = -GUARD_BYTES; i < x->bytes + GUARD_BYTES; i++)
            if ((i < 0 || i >= x->bytes) && (unsigned char)got->arguments[k][i] != 0xa5)
                fail_msg("%s: buffer %d is overrun: byte %lld of %lld", level, k, (long long)i, (long long)x->bytes);
    }
}

static const dt_choices *choices_for(dt_arena *arena, const dt_plan *const *plans, const char *level) {
    const dt_cpu_target *target;
    expect_ok(dt_codegen_target(level, &target));
    const dt_choices *choices = dt_pass_choose(arena, plans, 1, target);
    expect_ok(dt_choices_verify(arena, choices));
    return choices;
}

static void run_object(bench *b, dt_codegen_object *object, const memory *want, const dt_bad_index *want_bad, double tolerance) {
    dt_object *code = NULL;
    expect_ok(dt_object_load(object->level, object->bytes, object->n_bytes, &code));
    dt_kernel_entry entry = (dt_kernel_entry)dt_object_find(code, b->kernel.name);
    assert_non_null(entry);
    memory got, exact;
    copy_buffers(b, &exact);
    dt_kernel_execute(b->arena, &b->plan, &b->kernel, object->choices, (void *const *)exact.arguments, &b->launch);
    copy_buffers(b, &got);
    memset(&b->bad_index, 0, sizeof b->bad_index);
    entry((void *const *)got.arguments, &b->launch);
    compare(b, object->level, &got, want, tolerance);
    compare(b, object->level, &got, &exact, 0);
    free_buffers(b, &exact);
    assert_int_equal(b->bad_index.count > 0, want_bad->count > 0); /* an index used for many elements is counted once, or for each */
    dt_bad_index first = b->bad_index;
    first.count = want_bad->count;
    assert_memory_equal(&first, want_bad, sizeof first);
    free_buffers(b, &got);
    dt_object_free(code);
    free(object->bytes);
}

/* Runs the kernel on the levels of this machine, and with the choices for the widest on the narrowest: with the bits of one element at a time in the
 * order that is chosen, and `tolerance` beside those of the order of the plan. Frees the bench. */
static void check(bench *b, double tolerance) {
    b->plan.kernels = &b->kernel;
    b->plan.n_kernels = 1;
    int runs[1] = {0};
    dt_segment segment = {.n_device_kernels = 1, .device_kernels = runs};
    b->plan.segments = &segment;
    b->plan.n_segments = 1;
    b->launch.bad_index = &b->bad_index;
    expect_ok(dt_plan_verify(&b->plan));
    memory want;
    copy_buffers(b, &want);
    dt_kernel_execute(b->arena, &b->plan, &b->kernel, NULL, (void *const *)want.arguments, &b->launch);
    dt_bad_index want_bad = b->bad_index;
    const dt_plan *plans[1] = {&b->plan};
    dt_codegen_object objects[3] = {{.level = DT_LEVEL_V3}, {.level = dt_cpu_level() >= 4 ? DT_LEVEL_V4 : DT_LEVEL_NATIVE}, {.level = DT_LEVEL_V3}};
    for (int i = 0; i < 3; i++) objects[i].choices = choices_for(b->arena, plans, i < 2 ? objects[i].level : DT_LEVEL_V4);
    expect_ok(dt_codegen_llvm(plans, 1, &(dt_codegen_options){.check = true}, objects, 3));
    for (int i = 0; i < 3; i++) run_object(b, &objects[i], &want, &want_bad, tolerance);
    free_buffers(b, &want);
    dt_arena_destroy(b->arena);
}

/* ---- maps ---- */

static void elementwise_of_every_size(void **state) {
    (void)state;
    for (int s = 0; s < N_SIZES; s++)
        for (int d = 0; d < 2; d++) {
            dt_dtype dtype = d == 0 ? DT_F32 : DT_F64;
            bench b;
            begin(&b);
            int x = buffer(&b, dtype, sizes[s]), y = buffer(&b, dtype, sizes[s]), z = buffer(&b, dtype, sizes[s]);
            dt_nest_builder n = NEST(&b, {sizes[s], false});
            int u = dt_nest_load(&n, x, AT(&n, 0, 1), -1, -1), v = dt_nest_load(&n, y, AT(&n, 0, 1), -1, -1);
            int product = dt_nest_binary(&n, DT_SCALAR_MULTIPLY, dtype, u, dt_nest_constant(&n, dtype, 1.1));
            int relu = dt_nest_binary(&n, DT_SCALAR_MAXIMUM, dtype, v, dt_nest_constant(&n, dtype, 0));
            dt_nest_store(&n, z, AT(&n, 0, 1), dt_nest_binary(&n, DT_SCALAR_ADD, dtype, product, relu), false, -1);
            finish(&b, &n, s % 4 == 3 ? -1 : 0);
            check(&b, 0);
        }
}

static void every_scalar_on_every_dtype(void **state) {
    (void)state;
    static const int n_operands[] = {
#define X(enumerator, text, operands, result) operands,
        DT_SCALARS(X)
#undef X
    };
    static const char results[] = {
#define X(enumerator, text, operands, result) result,
        DT_SCALARS(X)
#undef X
    };
    static const dt_dtype dtypes[] = {DT_F32, DT_F64, DT_I8, DT_U8, DT_I32, DT_I64, DT_BOOL};
    for (int op = 0; op < DT_N_SCALARS; op++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            dt_dtype dtype = dtypes[d];
            bool bitwise =
                op == DT_SCALAR_AND || op == DT_SCALAR_OR || op == DT_SCALAR_XOR || op == DT_SCALAR_SHIFT_LEFT || op == DT_SCALAR_SHIFT_RIGHT;
            bool compares = results[op] == 'b';
            if (bitwise && dt_dtype_is_float(dtype)) continue;
            if (op == DT_SCALAR_HIGH_PRODUCT && dtype != DT_I32) continue;
            if (dt_scalar_precision((dt_scalar_op)op) != DT_PRECISION_F32 && dtype != DT_F32) continue;
            if ((op == DT_SCALAR_FUSED || op == DT_SCALAR_SQUARE_ROOT) && !dt_dtype_is_float(dtype)) continue;
            if (dtype == DT_BOOL && (op == DT_SCALAR_SHIFT_LEFT || op == DT_SCALAR_SHIFT_RIGHT || !(bitwise || compares || op == DT_SCALAR_SELECT)))
                continue;
            bench b;
            begin(&b);
            int64_t n_elements = 37;
            dt_dtype result = compares ? DT_BOOL : dtype;
            int in[3], x[3], out = buffer(&b, result, n_elements);
            dt_nest_builder n = NEST(&b, {n_elements, false});
            for (int k = 0; k < n_operands[op]; k++) {
                in[k] = buffer(&b, op == DT_SCALAR_SELECT && k == 0 ? DT_BOOL : dtype, n_elements);
                if (dt_dtype_is_float(dtype) && k < 2) set(&b, in[k], 4 + k, NAN), set(&b, in[k], 9, INFINITY), set(&b, in[k], 17 + k, 1e10);
                if (op == DT_SCALAR_HIGH_PRODUCT) set(&b, in[k], k, -1e9), set(&b, in[k], 20, 2e9);
                x[k] = dt_nest_load(&n, in[k], AT(&n, 0, 1), -1, -1);
            }
            dt_nest_store(&n, out, AT(&n, 0, 1), dt_nest_scalar(&n, (dt_scalar_op)op, result, n_operands[op], x), false, -1);
            finish(&b, &n, 0);
            check(&b, 0);
        }
}

static void every_conversion(void **state) {
    (void)state;
    for (int from = 0; from < DT_N_DTYPES; from++)
        for (int to = 0; to < DT_N_DTYPES; to++) {
            bench b;
            begin(&b);
            int x = buffer(&b, (dt_dtype)from, 23), y = buffer(&b, (dt_dtype)to, 23);
            if (dt_dtype_is_float((dt_dtype)from))
                for (int i = 0; i < 8; i++) set(&b, x, i, (const double[]){1e9, -1e9, 300.7, -300.7, NAN, INFINITY, -0.3, 1e30}[i]);
            else if (from == DT_I64)
                for (int i = 0; i < 4; i++) set(&b, x, i, (const double[]){1e18, -1e18, 4294967297.0, 255}[i]);
            if (from == DT_F64 && to == DT_F16) set(&b, x, 7, 0.1); /* f64 to f16 goes through f32 */
            dt_nest_builder n = NEST(&b, {23, false});
            int value = dt_nest_load(&n, x, AT(&n, 0, 1), -1, -1);
            dt_nest_store(&n, y, AT(&n, 0, 1), dt_nest_convert(&n, value, (dt_dtype)to), false, -1);
            finish(&b, &n, 0);
            check(&b, 0);
        }
}

static void same_bits_as_another_type(void **state) {
    (void)state;
    bench b;
    begin(&b);
    int x = buffer(&b, DT_F32, 21), y = buffer(&b, DT_I32, 21);
    dt_nest_builder n = NEST(&b, {21, false});
    int bits = dt_nest_add(
        &n, (dt_instruction){
                .kind = DT_INSTRUCTION_BITS, .dtype = DT_I32, .n_operands = 1, .guard = -1, .operands = {dt_nest_load(&n, x, AT(&n, 0, 1), -1, -1)}});
    dt_nest_store(&n, y, AT(&n, 0, 1), bits, false, -1);
    finish(&b, &n, 0);
    check(&b, 0);
}

/* Rows of the launch, their global index, a bias, in all orders of memory: contiguous, strided, transposed. */
static void loops_launch_values_and_strides(void **state) {
    (void)state;
    for (int s = 0; s < N_SIZES; s++)
        for (int transposed = 0; transposed < 2; transposed++) {
            bench b;
            begin(&b);
            int64_t n_columns = sizes[s];
            int x = buffer(&b, DT_F32, CAPACITY * n_columns), bias = buffer(&b, DT_F32, 2 * n_columns), y = buffer(&b, DT_F32, CAPACITY * n_columns);
            dt_nest_builder n = NEST(&b, {DT_BATCH, false}, {n_columns, false});
            int value = dt_nest_load(&n, x, transposed ? AT(&n, 0, 1, CAPACITY) : AT(&n, 0, n_columns, 1), -1, -1);
            int offset = dt_nest_add(&n, (dt_instruction){.kind = DT_INSTRUCTION_LAUNCH, .dtype = DT_I64, .index = 1, .guard = -1});
            int row = dt_nest_binary(&n, DT_SCALAR_ADD, DT_I64, loop_value(&n, 0), offset);
            int mixed = dt_nest_binary(&n, DT_SCALAR_ADD, DT_I64, row, loop_value(&n, 1));
            int sum = dt_nest_binary(&n, DT_SCALAR_ADD, DT_F32, value, dt_nest_convert(&n, mixed, DT_F32));
            sum = dt_nest_binary(&n, DT_SCALAR_ADD, DT_F32, sum, dt_nest_load(&n, bias, AT(&n, 1, 0, 1), -1, -1));
            dt_nest_store(&n, y, AT(&n, 0, n_columns, 1), sum, false, -1);
            finish(&b, &n, 1);
            check(&b, 0);
        }
}

static void a_vector_loop_over_the_batch(void **state) {
    (void)state;
    for (int64_t rows = 0; rows <= CAPACITY; rows++) {
        bench b;
        begin(&b);
        b.launch.rows = rows;
        int x = buffer(&b, DT_U8, CAPACITY), y = buffer(&b, DT_F32, CAPACITY), z = buffer(&b, DT_U8, 3 * CAPACITY);
        dt_nest_builder n = NEST(&b, {DT_BATCH, false});
        int value = dt_nest_load(&n, x, AT(&n, 0, 1), -1, -1);
        dt_nest_store(&n, y, AT(&n, 0, 1), dt_nest_convert(&n, value, DT_F32), false, -1);
        dt_nest_store(&n, z, AT(&n, 1, 1), dt_nest_load(&n, z, AT(&n, CAPACITY + 1, 1), -1, -1), true, -1);
        finish(&b, &n, 0);
        check(&b, 0);
    }
}

static void a_nest_without_loops(void **state) {
    (void)state;
    bench b;
    begin(&b);
    int x = buffer(&b, DT_F64, 1), y = buffer(&b, DT_F64, 1), z = buffer(&b, DT_F64, 1);
    dt_nest_builder n = nest_over(&b, 0, NULL);
    dt_affine first = dt_affine_constant(b.arena, 0, 0);
    int u = dt_nest_load(&n, x, &first, -1, -1), v = dt_nest_load(&n, y, &first, -1, -1);
    dt_nest_store(&n, z, &first, dt_nest_binary(&n, DT_SCALAR_DIVIDE, DT_F64, u, v), false, -1);
    finish(&b, &n, -1);
    check(&b, 0);
}

/* ---- guards, indirect indices ---- */

/* A border around three rows of w elements. */
static void check_border(dt_dtype dtype, int64_t w, int64_t left, int64_t right, double value_there) {
    bench b;
    begin(&b);
    int64_t width = left + w + right;
    int x = buffer(&b, dtype, 3 * w), y = buffer(&b, dtype, 5 * width);
    dt_nest_builder n = NEST(&b, {5, false}, {width, false});
    int i = loop_value(&n, 0), j = loop_value(&n, 1), guard = -1;
    const int bounds[4][2] = {{dt_nest_integer(&n, DT_I64, 1), i},
                              {i, dt_nest_integer(&n, DT_I64, 3)},
                              {dt_nest_integer(&n, DT_I64, left), j},
                              {j, dt_nest_integer(&n, DT_I64, left + w - 1)}};
    for (int k = 0; k < 4; k++) guard = dt_nest_and(&n, guard, dt_nest_binary(&n, DT_SCALAR_LESS_EQUAL, DT_BOOL, bounds[k][0], bounds[k][1]));
    int value = dt_nest_load(&n, x, AT(&n, -w - left, w, 1), guard, dt_nest_constant(&n, dtype, value_there));
    dt_nest_store(&n, y, AT(&n, 0, width, 1), value, false, -1);
    finish(&b, &n, 1);
    check(&b, 0);
}

/* As a convolution's padding is packed; and so wide that a vector of several registers has one in which all lanes are outside. */
static void guarded_loads(void **state) {
    (void)state;
    static const dt_dtype dtypes[] = {DT_F32, DT_U8, DT_F64, DT_I64};
    for (int s = 0; s < N_SIZES; s++)
        for (int d = 0; d < 4; d++)
            for (int border = 1; border <= 9; border += 4) {
                check_border(dtypes[d], sizes[s], border, border, 7);
                check_border(dtypes[d], sizes[s], border, 0, 0);
            }
}

static void guarded_and_accumulating_stores(void **state) {
    (void)state;
    for (int s = 0; s < N_SIZES; s++)
        for (int d = 0; d < 3; d++)
            for (int accumulate = 0; accumulate < 2; accumulate++) {
                dt_dtype dtype = (const dt_dtype[]){DT_F32, DT_U8, DT_I64}[d];
                bench b;
                begin(&b);
                int x = buffer(&b, dtype, 3 * sizes[s]), y = buffer(&b, dtype, 3 * sizes[s]), z = buffer(&b, dtype, 6 * sizes[s]);
                dt_nest_builder n = NEST(&b, {3, false}, {sizes[s], false});
                int value = dt_nest_load(&n, x, AT(&n, 0, sizes[s], 1), -1, -1);
                int lanes = dt_nest_binary(&n, DT_SCALAR_LESS, DT_BOOL, dt_nest_constant(&n, dtype, 2), value);
                int rows = dt_nest_binary(&n, DT_SCALAR_LESS, DT_BOOL, loop_value(&n, 0), dt_nest_integer(&n, DT_I64, 2));
                dt_nest_store(&n, y, AT(&n, 0, sizes[s], 1), value, accumulate, lanes);
                dt_nest_store(&n, z, AT(&n, 0, sizes[s], 1), value, accumulate, rows);
                dt_nest_store(&n, z, AT(&n, 3 * sizes[s], sizes[s], 1), value, accumulate, -1);
                finish(&b, &n, 1);
                check(&b, 0);
            }
}

/* Rows of a table by index, some of them out of range; the same index for each lane, or one a lane. */
static void gathers_are_checked(void **state) {
    (void)state;
    for (int s = 0; s < N_SIZES; s++)
        for (int by_lane = 0; by_lane < 2; by_lane++) {
            bench b;
            begin(&b);
            int64_t w = sizes[s], n_table = 9;
            int table = buffer(&b, DT_F32, n_table * w), index = buffer(&b, DT_I64, 6), y = buffer(&b, DT_F32, 6 * w);
            dt_nest_builder n = by_lane ? NEST(&b, {w, false}, {6, false}) : NEST(&b, {6, false}, {w, false});
            int row = dt_nest_load(&n, index, by_lane ? AT(&n, 0, 0, 1) : AT(&n, 0, 1, 0), -1, -1);
            int inside = dt_nest_add(&n, (dt_instruction){.kind = DT_INSTRUCTION_CHECK,
                                                          .dtype = DT_BOOL,
                                                          .index = 3,
                                                          .integer = n_table,
                                                          .n_operands = 2,
                                                          .operands = {row, loop_value(&n, by_lane)},
                                                          .guard = -1});
            dt_affine at = *(by_lane ? AT(&n, 0, 1, 0) : AT(&n, 0, 0, 1));
            at = dt_affine_add(b.arena, 2, at, dt_affine_term(b.arena, 2, row), w);
            int value = dt_nest_load(&n, table, &at, inside, dt_nest_constant(&n, DT_F32, 0));
            dt_nest_store(&n, y, by_lane ? AT(&n, 0, 1, w) : AT(&n, 0, w, 1), value, false, -1);
            finish(&b, &n, by_lane ? 0 : 1);
            check(&b, 0);
        }
}

/* Indices of their own for each lane; and a scatter, whose stores may meet at one element, which is no loop for vectors. */
static void lanes_gather_and_loops_scatter(void **state) {
    (void)state;
    for (int s = 0; s < N_SIZES; s++) {
        bench b;
        begin(&b);
        int64_t size = sizes[s];
        int x = buffer(&b, DT_F32, 16), index = buffer(&b, DT_I64, size), y = buffer(&b, DT_F32, 16), z = buffer(&b, DT_F32, size);
        for (int64_t i = 0; i < size; i++) set(&b, index, i, (double)(i * 7 % 16));
        dt_nest_builder n = NEST(&b, {size, false});
        int at = dt_nest_load(&n, index, AT(&n, 0, 1), -1, -1);
        dt_affine place = dt_affine_term(b.arena, 1, at);
        int value = dt_nest_load(&n, x, &place, -1, -1);
        dt_nest_store(&n, z, AT(&n, 0, 1), value, false, -1);
        finish(&b, &n, 0);
        n = NEST(&b, {size, false});
        place = dt_affine_term(b.arena, 1, dt_nest_load(&n, index, AT(&n, 0, 1), -1, -1));
        dt_nest_store(&n, y, &place, dt_nest_load(&n, z, AT(&n, 0, 1), -1, -1), true, -1);
        finish(&b, &n, -1);
        check(&b, 0);
    }
}

/* ---- reductions ---- */

static const dt_combiner combiners[] = {DT_COMBINE_SUM, DT_COMBINE_PRODUCT, DT_COMBINE_MAX, DT_COMBINE_MIN, DT_COMBINE_ARGMAX, DT_COMBINE_ARGMIN};

/* x[3, n, m] reduced over n and m, or over the first two with lanes of results. */
static void reductions_of_every_size(void **state) {
    (void)state;
    for (int s = 0; s < N_SIZES; s++)
        for (int c = 0; c < 6; c++)
            for (int kind = 0; kind < 4; kind++) {
                dt_dtype dtype = kind == 2 ? DT_I32 : kind == 3 ? DT_BOOL : DT_F32, folded = kind == 3 ? DT_I64 : dtype;
                bool position = c >= 4;
                for (int by_lane = 0; by_lane < 2; by_lane++) {
                    bench b;
                    begin(&b);
                    int64_t size = sizes[s];
                    int x = buffer(&b, dtype, 3 * 2 * size), y = buffer(&b, position ? DT_I64 : folded, by_lane ? size : 3);
                    if (kind == 1) set(&b, x, size, NAN), set(&b, x, 3 * size, NAN);
                    if (c == 1 && kind < 2)
                        for (int64_t i = 0; i < 6 * size; i++) set(&b, x, i, 1 + (double)(i % 5 - 2) / 64);
                    dt_nest_builder n = by_lane ? NEST(&b, {size, false}, {3, true}, {2, true}) : NEST(&b, {3, false}, {2, true}, {size, true});
                    int value = dt_nest_load(&n, x, by_lane ? AT(&n, 0, 1, 2 * size, size) : AT(&n, 0, 2 * size, size, 1), -1, -1);
                    int result = reduced(&n, combiners[c], value, position ? DT_I64 : folded);
                    dt_nest_store(&n, y, AT(&n, 0, 1, 0, 0), result, false, -1);
                    finish(&b, &n, by_lane ? 0 : 2);
                    check(&b, 1e-5);
                }
            }
}

/* A sum over the rows of the batch, whose number is known at run time; no rows give the identity. */
static void reductions_over_the_batch(void **state) {
    (void)state;
    for (int64_t rows = 0; rows <= CAPACITY; rows += 3)
        for (int vector = 0; vector < 3; vector++) {
            bench b;
            begin(&b);
            b.launch.rows = rows;
            int x = buffer(&b, DT_F32, CAPACITY * 40), y = buffer(&b, DT_F32, 40), z = buffer(&b, DT_F64, 1);
            dt_nest_builder n = vector == 2 ? NEST(&b, {DT_BATCH, true}) : NEST(&b, {40, false}, {DT_BATCH, true});
            int value = dt_nest_load(&n, x, vector == 2 ? AT(&n, 0, 1) : AT(&n, 0, 1, 40), -1, -1);
            if (vector == 2) {
                dt_nest_store(&n, z, AT(&n, 0, 0), reduced(&n, DT_COMBINE_SUM, dt_nest_convert(&n, value, DT_F64), DT_F64), false, -1);
            } else {
                int sum = reduced(&n, DT_COMBINE_SUM, value, DT_F32), most = reduced(&n, DT_COMBINE_MAX, value, DT_F32);
                dt_nest_store(&n, y, AT(&n, 0, 1, 0), dt_nest_binary(&n, DT_SCALAR_SUBTRACT, DT_F32, sum, most), false, -1);
            }
            finish(&b, &n, vector == 2 ? 0 : vector - 1);
            check(&b, 1e-5);
        }
}

/* A wide sum over positions, several registers a vector. */
static void sums_over_many_channels(void **state) {
    (void)state;
    static const int64_t channels[] = {64, 128, 100, 33, 300};
    for (int s = 0; s < 5; s++)
        for (int d = 0; d < 2; d++) {
            dt_dtype dtype = d == 0 ? DT_F32 : DT_F64;
            bench b;
            begin(&b);
            int x = buffer(&b, dtype, 25 * channels[s]), y = buffer(&b, dtype, channels[s]);
            dt_nest_builder n = NEST(&b, {channels[s], false}, {25, true});
            int value = dt_nest_load(&n, x, AT(&n, 0, 1, channels[s]), -1, -1);
            dt_nest_store(&n, y, AT(&n, 0, 1, 0), reduced(&n, DT_COMBINE_SUM, value, dtype), true, -1);
            finish(&b, &n, 0);
            check(&b, 1e-5);
        }
}

/* 2 x 2 windows of stride 2: the greatest and where it was, unrolled. */
static void windows(void **state) {
    (void)state;
    for (int s = 0; s < N_SIZES; s++) {
        bench b;
        begin(&b);
        int64_t c = sizes[s], w = 7, v = 3;
        int x = buffer(&b, DT_F32, CAPACITY * w * w * c), y = buffer(&b, DT_F32, CAPACITY * v * v * c), z = buffer(&b, DT_U8, CAPACITY * v * v * c);
        dt_nest_builder n = NEST(&b, {DT_BATCH, false}, {v, false}, {v, false}, {c, false}, {2, true}, {2, true});
        int value = dt_nest_load(&n, x, AT(&n, 0, w * w * c, 2 * w * c, 2 * c, 1, w * c, c), -1, -1);
        int most = reduced(&n, DT_COMBINE_MAX, value, DT_F32), place = reduced(&n, DT_COMBINE_ARGMAX, value, DT_I64);
        dt_nest_store(&n, y, AT(&n, 0, v * v * c, v * c, c, 1, 0, 0), most, false, -1);
        dt_nest_store(&n, z, AT(&n, 0, v * v * c, v * c, c, 1, 0, 0), dt_nest_convert(&n, place, DT_U8), false, -1);
        finish(&b, &n, 3);
        check(&b, 0);
    }
}

/* ---- loops over rows ---- */

/* Three nests a row that hand on their results in memory of one row. */
static void rows_share_a_loop(void **state) {
    (void)state;
    for (int s = 0; s < N_SIZES; s++) {
        bench b;
        begin(&b);
        int64_t w = sizes[s];
        int x = buffer(&b, DT_F32, CAPACITY * w), most = buffer(&b, DT_F32, 1), shifted = buffer(&b, DT_F32, w), y = buffer(&b, DT_F32, CAPACITY * w);
        int total = buffer(&b, DT_F32, w);
        dt_nest_builder n = NEST(&b, {DT_BATCH, false}, {w, true});
        int value = dt_nest_load(&n, x, AT(&n, 0, w, 1), -1, -1);
        dt_nest_store(&n, most, AT(&n, 0, 0, 0), reduced(&n, DT_COMBINE_MAX, value, DT_F32), false, -1);
        finish(&b, &n, 1)->in_rows = true;

        n = NEST(&b, {DT_BATCH, false}, {w, false});
        value = dt_nest_load(&n, x, AT(&n, 0, w, 1), -1, -1);
        value = dt_nest_binary(&n, DT_SCALAR_SUBTRACT, DT_F32, value, dt_nest_load(&n, most, AT(&n, 0, 0, 0), -1, -1));
        dt_nest_store(&n, shifted, AT(&n, 0, 0, 1), value, false, -1);
        finish(&b, &n, 1)->in_rows = true;

        n = NEST(&b, {DT_BATCH, false}, {w, false});
        value = dt_nest_load(&n, shifted, AT(&n, 0, 0, 1), -1, -1);
        dt_nest_store(&n, y, AT(&n, 0, w, 1), dt_nest_binary(&n, DT_SCALAR_MULTIPLY, DT_F32, value, value), false, -1);
        dt_nest_store(&n, total, AT(&n, 0, 0, 1), value, true, -1);
        finish(&b, &n, 1)->in_rows = true;
        check(&b, 0);
    }
}

/* Two nests that go through a row in blocks, of which one hands on only the block at hand, and one that takes the row as a whole. */
static void blocks_share_a_loop(void **state) {
    (void)state;
    for (int s = 0; s < N_SIZES; s++) {
        bench b;
        begin(&b);
        int64_t w = sizes[s], n_blocks = 3, row = w * n_blocks;
        int x = buffer(&b, DT_F32, CAPACITY * row), block = buffer(&b, DT_F32, w), y = buffer(&b, DT_F32, CAPACITY * row);
        int z = buffer(&b, DT_F32, CAPACITY * row);
        dt_nest_builder n = NEST(&b, {DT_BATCH, false}, {n_blocks, false}, {w, false});
        dt_nest_store(&n, block, AT(&n, 0, 0, 0, 1), dt_nest_load(&n, x, AT(&n, 0, row, w, 1), -1, -1), false, -1);
        finish(&b, &n, 2)->in_rows = true;

        n = NEST(&b, {DT_BATCH, false}, {n_blocks, false}, {w, false}, {w, true});
        int value = dt_nest_load(&n, block, AT(&n, 0, 0, 0, 1, 0), -1, -1), other = dt_nest_load(&n, block, AT(&n, 0, 0, 0, 0, 1), -1, -1);
        value = reduced(&n, DT_COMBINE_SUM, dt_nest_binary(&n, DT_SCALAR_MULTIPLY, DT_F32, value, other), DT_F32);
        dt_nest_store(&n, y, AT(&n, 0, row, w, 1, 0), value, false, -1);
        dt_nest *nest = finish(&b, &n, 2);
        nest->in_rows = nest->in_blocks = true;

        n = NEST(&b, {DT_BATCH, false}, {row, false});
        value = dt_nest_load(&n, y, AT(&n, 0, row, 1), -1, -1);
        dt_nest_store(&n, z, AT(&n, 0, row, 1), dt_nest_binary(&n, DT_SCALAR_ADD, DT_F32, value, value), false, -1);
        finish(&b, &n, 1)->in_rows = true;
        check(&b, 2e-5);
    }
}

/* ---- tiles ---- */

typedef struct product_case {
    int64_t rows, columns, inner;
    dt_dtype dtype;
    bool accumulate;
    int n_late; /* instructions behind the sum */
} product_case;

static void add_late(dt_nest_builder *n, int *value, dt_dtype dtype, int n_late) {
    for (int i = 0; i < n_late; i++)
        *value = dt_nest_binary(n, i % 2 ? DT_SCALAR_MULTIPLY : DT_SCALAR_ADD, dtype, *value, dt_nest_constant(n, dtype, 0.5 + i));
}

/* y[r, c] (+)= relu(sum over k of a[r, k] b[k, c] + bias[c]) */
static void tiled_product(const product_case *test, bool has_rows) {
    bench b;
    begin(&b);
    int64_t room = test->rows == DT_BATCH ? CAPACITY : test->rows, w = test->columns, k = dt_dim_is_symbol(test->inner) ? CAPACITY : test->inner;
    int x = buffer(&b, test->dtype, room * k), weights = buffer(&b, test->dtype, k * w), bias = buffer(&b, test->dtype, w);
    int y = buffer(&b, test->dtype, room * w);
    dt_nest_builder n = NEST(&b, {test->rows, false}, {w, false}, {test->inner, true});
    int a = dt_nest_load(&n, x, AT(&n, 0, k, 0, 1), -1, -1), m = dt_nest_load(&n, weights, AT(&n, 0, 0, 1, w), -1, -1);
    int sum = reduced(&n, DT_COMBINE_SUM, dt_nest_binary(&n, DT_SCALAR_MULTIPLY, test->dtype, a, m), test->dtype);
    sum = dt_nest_binary(&n, DT_SCALAR_ADD, test->dtype, sum, dt_nest_load(&n, bias, AT(&n, 0, 0, 1, 0), -1, -1));
    add_late(&n, &sum, test->dtype, test->n_late);
    sum = dt_nest_binary(&n, DT_SCALAR_MAXIMUM, test->dtype, sum, dt_nest_constant(&n, test->dtype, 0));
    dt_nest_store(&n, y, AT(&n, 0, w, 1, 0), sum, test->accumulate, -1);
    dt_nest *nest = finish(&b, &n, 1);
    nest->algorithm = DT_ALGORITHM_TILED;
    nest->tiling = (dt_tiling){.row_loop = has_rows ? 0 : -1, .vector_loop = 1, .a = load_of(&b, nest, x), .b = load_of(&b, nest, weights)};
    if (!has_rows && test->rows == DT_BATCH) nest->in_rows = true;
    check(&b, test->dtype == DT_F64 ? 1e-12 : 2e-5);
}

static void tiled_products(void **state) {
    (void)state;
    static const product_case cases[] = {
        {5, 10, 7, DT_F32, false, 0},           {26, 128, 64, DT_F32, false, 0},
        {26, 33, 64, DT_F32, true, 0},          {11, 100, 9, DT_F32, false, 0},
        {1, 64, 100, DT_F32, false, 0},         {DT_BATCH, 10, 320, DT_F32, false, 0},
        {DT_BATCH, 128, 17, DT_F32, true, 0},   {17, 17, 17, DT_F64, false, 0},
        {13, 64, 31, DT_F32, false, 30},        {DT_BATCH, 33, 8, DT_F32, true, 40},
        {8, 1, 20, DT_F32, false, 0},           {3, 3, 3, DT_F32, false, 0},
        {12, 48, DT_GATHERED, DT_F32, true, 0}, {12, 48, DT_BATCH, DT_F32, false, 0},
        {100, 8, 1, DT_F32, false, 0},          {7, 9, 8, DT_F64, true, 50},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiled_product(&cases[i], true);
        tiled_product(&cases[i], false);
    }
}

/* y[n, i, j, o] = sum over u, v, c of x[n, s i + u, s j + v, c] w[u, v, c, o], row by row of the batch or not. */
static void tiled_convolution(int64_t side, int64_t channels, int64_t outputs, int64_t stride, bool in_rows) {
    bench b;
    begin(&b);
    int64_t out = (side - 3) / stride + 1;
    int x = buffer(&b, DT_F32, CAPACITY * side * side * channels), w = buffer(&b, DT_F32, 9 * channels * outputs);
    int y = buffer(&b, DT_F32, CAPACITY * out * out * outputs);
    dt_nest_builder n = NEST(&b, {DT_BATCH, false}, {out, false}, {out, false}, {outputs, false}, {3, true}, {3, true}, {channels, true});
    int64_t line = side * channels;
    int a = dt_nest_load(&n, x, AT(&n, 0, side * line, stride * line, stride * channels, 0, line, channels, 1), -1, -1);
    int m = dt_nest_load(&n, w, AT(&n, 0, 0, 0, 0, 1, 3 * channels * outputs, channels * outputs, outputs), -1, -1);
    int sum = reduced(&n, DT_COMBINE_SUM, dt_nest_binary(&n, DT_SCALAR_MULTIPLY, DT_F32, a, m), DT_F32);
    dt_nest_store(&n, y, AT(&n, 0, out * out * outputs, out * outputs, outputs, 1, 0, 0, 0), sum, false, -1);
    dt_nest *nest = finish(&b, &n, 3);
    nest->algorithm = DT_ALGORITHM_TILED;
    nest->tiling = (dt_tiling){.row_loop = 2, .vector_loop = 3, .a = load_of(&b, nest, x), .b = load_of(&b, nest, w)};
    nest->in_rows = in_rows;
    check(&b, 1e-4);
}

static void tiled_convolutions(void **state) {
    (void)state;
    tiled_convolution(9, 1, 16, 1, false);
    tiled_convolution(9, 5, 33, 2, true);
    tiled_convolution(7, 8, 10, 1, true);
}

/* w[u, c, o] += sum over positions of x[n, p + u, c] g[n, p, o]: what weight gradients are. */
static void tiled_sums_over_rows(void **state) {
    (void)state;
    bench b;
    begin(&b);
    int64_t channels = 21, outputs = 40, positions = 25, taps = 3;
    int x = buffer(&b, DT_F32, CAPACITY * (positions + taps) * channels), g = buffer(&b, DT_F32, CAPACITY * positions * outputs);
    int w = buffer(&b, DT_F32, taps * channels * outputs);
    dt_nest_builder n = NEST(&b, {DT_BATCH, false}, {taps, false}, {channels, false}, {outputs, false}, {positions, true});
    int a = dt_nest_load(&n, x, AT(&n, 0, (positions + taps) * channels, channels, 1, 0, channels), -1, -1);
    int m = dt_nest_load(&n, g, AT(&n, 0, positions * outputs, 0, 0, 1, outputs), -1, -1);
    int sum = reduced(&n, DT_COMBINE_SUM, dt_nest_binary(&n, DT_SCALAR_MULTIPLY, DT_F32, a, m), DT_F32);
    dt_nest_store(&n, w, AT(&n, 0, 0, channels * outputs, outputs, 1, 0), sum, true, -1);
    dt_nest *nest = finish(&b, &n, 3);
    nest->algorithm = DT_ALGORITHM_TILED;
    nest->tiling = (dt_tiling){.row_loop = 2, .vector_loop = 3, .a = load_of(&b, nest, x), .b = load_of(&b, nest, g)};
    nest->in_rows = true;
    check(&b, 1e-4);
}

/* ---- routines ---- */

static int count_functions(const bench *b) {
    dt_plan plan = b->plan;
    plan.kernels = (dt_kernel_function *)&b->kernel;
    plan.n_kernels = 1;
    const dt_plan *plans[1] = {&plan};
    dt_text text = {.arena = b->arena};
    expect_ok(dt_codegen_llvm_text(plans, 1, DT_LEVEL_V3, choices_for(b->arena, plans, DT_LEVEL_V3), DT_CODEGEN_TEXT_LLVM, &text));
    int n = 0;
    for (const char *at = text.data; (at = strstr(at, "\ndefine ")) != NULL; at++) n++;
    return n;
}

/* y[from + …] = x[…] * c + d, where the buffers, `from` and the constants differ, over rows or not. */
static void add_line(bench *b, bool in_rows, int64_t width, int x, int y, int64_t from, double c, double d) {
    dt_dtype dtype = b->plan.buffers[x].dtype;
    dt_nest_builder n = in_rows ? NEST(b, {DT_BATCH, false}, {width, false}) : NEST(b, {CAPACITY, false}, {width, false});
    int value = dt_nest_load(&n, x, AT(&n, from, width, 1), -1, -1);
    int factor = dt_dtype_is_float(dtype) ? dt_nest_constant(&n, dtype, c) : dt_nest_integer(&n, dtype, (int64_t)c);
    int added = dt_dtype_is_float(dtype) ? dt_nest_constant(&n, dtype, d) : dt_nest_integer(&n, dtype, (int64_t)d);
    value = dt_nest_binary(&n, DT_SCALAR_ADD, dtype, dt_nest_binary(&n, DT_SCALAR_MULTIPLY, dtype, value, factor), added);
    dt_nest_store(&n, y, AT(&n, from, width, 1), value, false, -1);
    finish(b, &n, 1)->in_rows = in_rows;
}

static void nests_that_differ_in_buffers_and_numbers_are_one_routine(void **state) {
    (void)state;
    static const dt_dtype dtypes[] = {DT_F64, DT_F32, DT_I64, DT_I32, DT_I8, DT_U8};
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
        for (int in_rows = 0; in_rows < 2; in_rows++) {
            bench b;
            begin(&b);
            int64_t width = 701, rest = 9, elements = CAPACITY * width + rest;
            int x = buffer(&b, dtypes[t], elements), y = buffer(&b, dtypes[t], elements), z = buffer(&b, dtypes[t], elements);
            add_line(&b, in_rows, width, x, y, 0, 3, -1.5);
            add_line(&b, in_rows, width, y, z, rest, -2, 100);
            add_line(&b, in_rows, width, z, x, 4, 0.5, 7);
            assert_int_equal(count_functions(&b), 3); /* the kernel, what it calls three times, and who goes through the calls */
            add_line(&b, in_rows, width - 1, x, y, 0, 3, 1);
            assert_int_equal(count_functions(&b), 3); /* met once */
            check(&b, 0);
        }
}

/* Two that have the same numbers keep them as constants, and one that is written where another is read is no twin of one that is not. */
static void what_overlaps_is_another_routine(void **state) {
    (void)state;
    bench b;
    begin(&b);
    int64_t width = 701, elements = CAPACITY * width;
    int x = buffer(&b, DT_F32, elements), y = buffer(&b, DT_F32, elements), z = buffer(&b, DT_F32, elements);
    add_line(&b, false, width, x, y, 0, 3, 1);
    add_line(&b, false, width, z, z, 0, 3, 1);
    assert_int_equal(count_functions(&b), 1);
    add_line(&b, false, width, y, x, 0, 3, 1);
    assert_int_equal(count_functions(&b), 3);
    check(&b, 0);
}

/* A bad index is said to stand where it stands, though the nests are one routine. */
static void routines_know_where_an_index_stands(void **state) {
    (void)state;
    for (int first_is_bad = 0; first_is_bad < 2; first_is_bad++) {
        bench b;
        begin(&b);
        int64_t n_table = 9, width = 600;
        int table = buffer(&b, DT_F32, n_table * width), index[2] = {buffer(&b, DT_I64, 6), buffer(&b, DT_I64, 6)};
        int y = buffer(&b, DT_F32, 6 * width), z = buffer(&b, DT_F32, 6 * width);
        for (int k = 0; k < 2; k++) {
            for (int64_t i = 0; i < 6; i++) set(&b, index[k], i, (double)(i == 4 && k != first_is_bad ? n_table + 5 : i));
            dt_nest_builder n = NEST(&b, {6, false}, {width, false});
            int row = dt_nest_load(&n, index[k], AT(&n, 0, 1, 0), -1, -1);
            int inside = dt_nest_add(&n, (dt_instruction){.kind = DT_INSTRUCTION_CHECK,
                                                          .dtype = DT_BOOL,
                                                          .index = 3 + k,
                                                          .integer = n_table,
                                                          .n_operands = 2,
                                                          .operands = {row, loop_value(&n, 0)},
                                                          .guard = -1});
            dt_affine at = dt_affine_add(b.arena, 2, *AT(&n, 0, 0, 1), dt_affine_term(b.arena, 2, row), width);
            int value = dt_nest_load(&n, table, &at, inside, dt_nest_constant(&n, DT_F32, 0));
            dt_nest_store(&n, k == 0 ? y : z, AT(&n, 0, width, 1), value, false, -1);
            finish(&b, &n, 1);
        }
        assert_int_equal(count_functions(&b), 3);
        check(&b, 0);
    }
}

/* ---- the interface ---- */

static void make_small_kernel(bench *b) {
    begin(b);
    int x = buffer(b, DT_F32, 8);
    dt_nest_builder n = NEST(b, {8, false});
    dt_nest_store(&n, x, AT(&n, 0, 1), dt_nest_constant(&n, DT_F32, 2), false, -1);
    finish(b, &n, 0);
    b->plan.kernels = &b->kernel;
    b->plan.n_kernels = 1;
}

/* Kernels that differ in name alone are one function. */
static void equal_kernels_are_compiled_once(void **state) {
    (void)state;
    bench b;
    make_small_kernel(&b);
    dt_kernel_function kernels[3] = {b.kernel, b.kernel, b.kernel};
    kernels[1].name = "twin";
    kernels[2].name = "other";
    b.kernel.n_nests = 0;
    b.kernel.nests = NULL;
    dt_nest_builder n = NEST(&b, {8, false});
    dt_nest_store(&n, 0, AT(&n, 0, 1), dt_nest_constant(&n, DT_F32, 3), false, -1);
    finish(&b, &n, 0);
    kernels[2].nests = b.kernel.nests;
    b.plan.kernels = kernels;
    b.plan.n_kernels = 3;
    const dt_plan *plans[1] = {&b.plan};
    dt_codegen_object object = {.level = DT_LEVEL_V3, .choices = choices_for(b.arena, plans, DT_LEVEL_V3)};
    expect_ok(dt_codegen_llvm(plans, 1, &(dt_codegen_options){.check = true}, &object, 1));
    dt_object *code = NULL;
    expect_ok(dt_object_load("twins", object.bytes, object.n_bytes, &code));
    assert_non_null(dt_object_find(code, "twin"));
    assert_true(dt_object_find(code, "kernel_under_test") == dt_object_find(code, "twin"));
    assert_true(dt_object_find(code, "other") != dt_object_find(code, "twin"));
    dt_object_free(code);
    free(object.bytes);
    dt_arena_destroy(b.arena);
}

/* Our own allocations fail one after the other; LLVM's are its own affair. */
static void memory_runs_out(void **state) {
    (void)state;
    bench b;
    make_small_kernel(&b);
    const dt_plan *plans[1] = {&b.plan};
    const dt_choices *narrow = choices_for(b.arena, plans, DT_LEVEL_V3), *wide = choices_for(b.arena, plans, DT_LEVEL_V4);
    int64_t n_allocations = 0;
    for (bool failed = true; failed; n_allocations++) {
        dt_codegen_object objects[2] = {{.level = DT_LEVEL_V3, .choices = narrow}, {.level = DT_LEVEL_V4, .choices = wide}};
        dt_memory_fail_after(n_allocations);
        dt_status *status = dt_codegen_llvm(plans, 1, NULL, objects, 2);
        dt_memory_fail_after(-1);
        failed = status != NULL;
        assert_int_equal(dt_status_code(status), failed ? DT_RESOURCE_EXHAUSTED : DT_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(objects[i].bytes == NULL, failed);
            free(objects[i].bytes);
        }
        dt_status_free(status);
    }
    assert_true(n_allocations > 5);
    dt_arena_destroy(b.arena);
}

static void texts_and_errors(void **state) {
    (void)state;
    bench b;
    make_small_kernel(&b);
    const dt_plan *plans[1] = {&b.plan};
    dt_text text = {0};
    expect_ok(dt_codegen_llvm_text(plans, 1, DT_LEVEL_V3, choices_for(b.arena, plans, DT_LEVEL_V3), DT_CODEGEN_TEXT_LLVM, &text));
    assert_non_null(strstr(text.data, "define void @kernel_under_test"));
    expect_ok(dt_codegen_llvm_text(plans, 1, DT_LEVEL_V4, choices_for(b.arena, plans, DT_LEVEL_V4), DT_CODEGEN_TEXT_ASSEMBLY, &text));
    assert_non_null(strstr(text.data, "kernel_under_test:"));
    dt_text_free(&text);
    const dt_cpu_target *target;
    dt_status *status = dt_codegen_target("x86-64-v9", &target);
    assert_int_equal(dt_status_code(status), DT_INVALID_ARGUMENT);
    dt_status_free(status);
    const dt_choices *choices = choices_for(b.arena, plans, DT_LEVEL_V3);
    dt_codegen_object objects[2] = {{.level = DT_LEVEL_V3, .choices = choices}, {.level = "x86-64-v9", .choices = choices}};
    status = dt_codegen_llvm(plans, 1, NULL, objects, 2);
    assert_int_equal(dt_status_code(status), DT_INVALID_ARGUMENT);
    assert_null(objects[0].bytes);
    dt_status_free(status);
    dt_arena_destroy(b.arena);
}

/* Rows of 1000 in a buffer of `elements` whose rows have 1024. */
static void map_into(bench *b, int64_t elements, int n_products, int displaced) {
    enum {
        ROWS = 20,
        COLUMNS = 1000,
        STRIDE = 1024
    };
    begin(b);
    b->displaced = displaced;
    int x = buffer(b, DT_F32, ROWS * COLUMNS), z = buffer(b, DT_F32, elements);
    dt_nest_builder n = NEST(b, {ROWS, false}, {COLUMNS, false});
    int value = dt_nest_load(&n, x, AT(&n, 0, COLUMNS, 1), -1, -1);
    for (int k = 0; k < n_products; k++) value = dt_nest_binary(&n, DT_SCALAR_MULTIPLY, DT_F32, value, dt_nest_constant(&n, DT_F32, 1.25));
    dt_nest_store(&n, z, AT(&n, 0, STRIDE, 1), value, false, -1);
    finish(b, &n, 1);
    b->plan.kernels = &b->kernel;
    b->plan.n_kernels = 1;
}

static bool is_streamed(bench *b, const char *level) {
    dt_text text = {0};
    const dt_plan *plans[1] = {&b->plan};
    expect_ok(dt_codegen_llvm_text(plans, 1, level, choices_for(b->arena, plans, level), DT_CODEGEN_TEXT_ASSEMBLY, &text));
    bool is = strstr(text.data, "vmovntps") != NULL;
    assert_int_equal(is, strstr(text.data, "sfence") != NULL);
    dt_text_free(&text);
    return is;
}

static void large_results_of_light_maps_are_streamed(void **state) {
    (void)state;
    enum {
        SMALL = 20 * 1024,
        LARGE = 9 << 20 /* 36 MiB */
    };
    bench b;
    map_into(&b, SMALL, 1, 0);
    assert_false(is_streamed(&b, DT_LEVEL_V3));
    check(&b, 0);
    for (int displaced = 0; displaced <= 4; displaced += 4) {
        map_into(&b, LARGE, 1, displaced);
        assert_true(is_streamed(&b, DT_LEVEL_V3));
        check(&b, 0);
    }
    map_into(&b, LARGE, 14, 0); /* so much arithmetic is a reason to wait with AVX2, and none with AVX-512 */
    assert_false(is_streamed(&b, DT_LEVEL_V3));
    assert_true(is_streamed(&b, DT_LEVEL_V4));
    dt_arena_destroy(b.arena);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    if (dt_cpu_level() < 4) puts("skipped: x86-64-v4, which this machine does not have");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_of_every_size),
        cmocka_unit_test(every_scalar_on_every_dtype),
        cmocka_unit_test(every_conversion),
        cmocka_unit_test(same_bits_as_another_type),
        cmocka_unit_test(loops_launch_values_and_strides),
        cmocka_unit_test(a_vector_loop_over_the_batch),
        cmocka_unit_test(a_nest_without_loops),
        cmocka_unit_test(guarded_loads),
        cmocka_unit_test(guarded_and_accumulating_stores),
        cmocka_unit_test(gathers_are_checked),
        cmocka_unit_test(lanes_gather_and_loops_scatter),
        cmocka_unit_test(reductions_of_every_size),
        cmocka_unit_test(reductions_over_the_batch),
        cmocka_unit_test(sums_over_many_channels),
        cmocka_unit_test(windows),
        cmocka_unit_test(rows_share_a_loop),
        cmocka_unit_test(blocks_share_a_loop),
        cmocka_unit_test(tiled_products),
        cmocka_unit_test(tiled_convolutions),
        cmocka_unit_test(tiled_sums_over_rows),
        cmocka_unit_test(large_results_of_light_maps_are_streamed),
        cmocka_unit_test(nests_that_differ_in_buffers_and_numbers_are_one_routine),
        cmocka_unit_test(what_overlaps_is_another_routine),
        cmocka_unit_test(routines_know_where_an_index_stands),
        cmocka_unit_test(equal_kernels_are_compiled_once),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(texts_and_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
