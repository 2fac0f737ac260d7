/* bench_kernel_options: the command line. Each option is a row that says which kinds of kernels take it; glibc's argp does the rest. */
#include "base/cpu.h"
#include "bench/bench_kernel.h"
#include "bench/kernel_formula.h"
#include "compiler/codegen/codegen.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    MATMUL = 1,
    CONV2D = 2,
    ELEMENTWISE = 4,
    ANY = MATMUL | CONV2D | ELEMENTWISE
};

static const struct {
    const char *name;
    enum kind kind;
    int n_sizes; /* 0: one to KERNEL_CASE_MOST_DIMS */
    const char *sizes, *example;
} kinds[] = {
    {"matmul", MATMUL, 3, "MxKxN", "512x512x512"},
    {"conv2d", CONV2D, 4, "IMAGESxHEIGHTxWIDTHxCHANNELS", "64x28x28x32"},
    {"elementwise", ELEMENTWISE, 0, "ROWS or ROWSxCOLUMNS", "64x3200"},
};
enum {
    N_KINDS = sizeof kinds / sizeof *kinds
};

enum key {
    KEY_CPU = 256,
    KEY_JSON,
    KEY_BATCH,
    KEY_TRANSPOSE_A,
    KEY_TRANSPOSE_B,
    KEY_FILTERS,
    KEY_KERNEL,
    KEY_STRIDE,
    KEY_PADDING,
    KEY_GROUPS,
    KEY_GRADIENT,
    KEY_INPUT,
    KEY_BETWEEN
};

static const struct {
    enum key key;
    enum kind kinds;
    const char *name, *value, *about;
} rows[] = {
    {KEY_CPU, ANY, "cpu", "LEVEL", "Instruction set: x86-64-v3 (AVX2), x86-64-v4 (AVX-512), native (default: the highest level of this machine)"},
    {KEY_JSON, ANY, "json", NULL, "Print one object"},
    {KEY_BATCH, MATMUL, "batch", "N", "So many products of that size (default: 1)"},
    {KEY_TRANSPOSE_A, MATMUL, "transpose-a", NULL, "a is stored KxM: the gradient of a dense layer's kernel"},
    {KEY_TRANSPOSE_B, MATMUL, "transpose-b", NULL, "b is stored NxK: the gradient of a dense layer's input"},
    {KEY_FILTERS, CONV2D, "filters", "N", "Channels of the result (default: as many as come in)"},
    {KEY_KERNEL, CONV2D, "kernel", "HxW", "Height and width, one number for both (default: 3)"},
    {KEY_STRIDE, CONV2D, "stride", "HxW", "Default: 1"},
    {KEY_PADDING, CONV2D, "padding", "valid|same", "Default: valid"},
    {KEY_GROUPS, CONV2D, "groups", "N", "Groups of channels and filters; as many as there are channels: depthwise (default: 1)"},
    {KEY_GRADIENT, CONV2D, "gradient", "input|kernel", "The gradient of the convolution's input or kernel instead"},
    {KEY_INPUT, ELEMENTWISE, "input", "NAME=SIZES", "An input that is the same for all rows: --input b=3200"},
    {KEY_BETWEEN, ELEMENTWISE, "between", "LOW,HIGH", "What the inputs' elements are spread over (default: -1,1)"},
};
enum {
    N_ROWS = sizeof rows / sizeof *rows
};

static const double MOST_ELEMENTS = 1 << 28; /* of one array: a gibibyte */

/* What is read before the kind is known is kept until all is. */
typedef struct reader {
    bench_kernel_call *call;
    const char *words[3]; /* kind, then formula where there is one, then sizes */
    int n_words;
    int given[N_ROWS]; /* rows, in the order of the command line, with their values */
    const char *values[N_ROWS];
    int n_given, n_inputs;
    const char *inputs[KERNEL_CASE_MOST_INPUTS];
} reader;

/* ---- values ---- */

/* "28x28x32": how many numbers, or -1 where it is anything else. */
static int read_sizes(const char *text, int *sizes, int most) {
    for (int n = 0; n < most; n++) {
        char *end;
        long long value = strtoll(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || value < 1 || (double)value > MOST_ELEMENTS) return -1;
        sizes[n] = (int)value;
        if (*end == 0) return n + 1;
        if (*end != 'x') return -1;
        text = end + 1;
    }
    return -1;
}

static int read_number(struct argp_state *state, const char *option, const char *text) {
    int number = 0;
    if (read_sizes(text, &number, 1) != 1) argp_error(state, "--%s takes a whole number, 1 or more, not %s", option, text);
    return number;
}

static void read_pair(struct argp_state *state, const char *option, const char *text, int pair[2]) {
    int n = read_sizes(text, pair, 2);
    if (n < 0) argp_error(state, "--%s takes one or two whole numbers, as in 3 or 3x5, not %s", option, text);
    if (n == 1) pair[1] = pair[0];
}

static bool is_second(struct argp_state *state, const char *option, const char *text, const char *first, const char *second) {
    if (strcmp(text, first) != 0 && strcmp(text, second) != 0) argp_error(state, "--%s takes %s or %s, not %s", option, first, second, text);
    return strcmp(text, second) == 0;
}

static void read_between(struct argp_state *state, const char *text, kernel_case *test) {
    char *end;
    test->elementwise.low = strtod(text, &end);
    const char *high = *end == ',' ? end + 1 : "";
    test->elementwise.high = strtod(high, &end);
    if (high[0] == 0 || *end != 0 || !(test->elementwise.low < test->elementwise.high))
        argp_error(state, "--between takes two numbers, the lower one first, as in -1,1, not %s", text);
}

static void read_level(struct argp_state *state, const char *text, bench_kernel_call *call) {
    call->level = text;
    call->level_number = strcmp(text, DT_LEVEL_NATIVE) == 0 ? dt_cpu_level() : dt_cpu_level_from_name(text);
    if (call->level_number < 3) argp_error(state, "--cpu takes x86-64-v3, x86-64-v4 or native, not %s", text);
    if (call->level_number > dt_cpu_level())
        argp_error(state, "--cpu %s: this machine is of level %s: nothing can be measured", text, dt_cpu_level_name(dt_cpu_level()));
}

/* ---- cases ---- */

static void check_elements(struct argp_state *state, const char *what, double elements) {
    if (elements > MOST_ELEMENTS)
        argp_error(state, "%s would have %.0f elements; one array may have %.0f: take smaller sizes", what, elements, MOST_ELEMENTS);
}

static void make_matmul(struct argp_state *state, const int *sizes, kernel_case *test) {
    if (test->matmul.batch == 0) test->matmul.batch = 1;
    test->matmul.m = sizes[0], test->matmul.k = sizes[1], test->matmul.n = sizes[2];
    test->matmul.rows = test->matmul.batch > 1 ? 'b' : test->matmul.transpose_a ? 'k' : 'm';
    double batch = test->matmul.batch;
    check_elements(state, "a", batch * sizes[0] * sizes[1]);
    check_elements(state, "b", batch * sizes[1] * sizes[2]);
    check_elements(state, "the result", batch * sizes[0] * sizes[2]);
}

/* `same`: as many results as the input has elements divided by the stride, rounded up; an odd one comes after. */
static void pad(kernel_case *test, int axis) {
    int size = test->conv.size[axis], stride = test->conv.stride[axis], kernel = test->conv.kernel[axis];
    int total = ((size + stride - 1) / stride - 1) * stride + kernel - size;
    if (total < 0) total = 0;
    test->conv.before[axis] = total / 2;
    test->conv.after[axis] = total - total / 2;
}

static void make_conv(struct argp_state *state, const int *sizes, bool same, kernel_case *test) {
    test->conv.images = sizes[0], test->conv.channels = sizes[3];
    if (test->conv.filters == 0) test->conv.filters = sizes[3];
    int groups = kernel_case_groups(test), channels = test->conv.channels, filters = test->conv.filters;
    for (int axis = 0; axis < 2; axis++) {
        test->conv.size[axis] = sizes[1 + axis];
        if (test->conv.kernel[axis] == 0) test->conv.kernel[axis] = 3;
        if (test->conv.stride[axis] == 0) test->conv.stride[axis] = 1;
        if (same) pad(test, axis);
        if (!same && test->conv.kernel[axis] > test->conv.size[axis])
            argp_error(state, "a kernel of %d does not fit into images of %d: --padding same lets it reach over the border", test->conv.kernel[axis],
                       test->conv.size[axis]);
    }
    if (channels % groups != 0 || filters % groups != 0)
        argp_error(state, "%d channels and %d filters do not fall into %d groups: both must be multiples of --groups", channels, filters, groups);
    check_elements(state, "the input", (double)sizes[0] * sizes[1] * sizes[2] * channels);
    check_elements(state, "the kernel", (double)test->conv.kernel[0] * test->conv.kernel[1] * ((double)channels / groups) * filters);
    check_elements(state, "the result", (double)sizes[0] * kernel_case_out(test, 0) * kernel_case_out(test, 1) * filters);
}

static void set_input(struct argp_state *state, const char *text, kernel_case *test) {
    const char *equals = strchr(text, '=');
    case_shape shape;
    shape.rank = equals == NULL ? -1 : read_sizes(equals + 1, shape.dims, KERNEL_CASE_MOST_DIMS);
    if (shape.rank < 0) argp_error(state, "--input takes a name and its sizes, as in b=3200, not %s", text);
    for (int i = 0; i < test->elementwise.n_inputs; i++) {
        case_input *input = &test->elementwise.inputs[i];
        if (strncmp(input->name, text, (size_t)(equals - text)) != 0 || input->name[equals - text] != 0) continue;
        input->shape = shape;
        return;
    }
    argp_error(state, "--input %s: the formula has no such input: %s", text, test->elementwise.formula);
}

static void make_elementwise(struct argp_state *state, const reader *reader, const int *sizes, int n_sizes, kernel_case *test) {
    test->elementwise.formula = reader->words[1];
    test->elementwise.shape.rank = n_sizes;
    double elements = 1;
    for (int d = 0; d < n_sizes; d++) elements *= test->elementwise.shape.dims[d] = sizes[d];
    check_elements(state, "the result", elements);
    if (test->elementwise.low == test->elementwise.high) test->elementwise.low = -1, test->elementwise.high = 1;
    dt_status *status = kernel_formula_find_inputs(reader->call->arena, test);
    if (status != NULL) argp_error(state, "%s", dt_status_message(status));
    int n_whole = test->elementwise.n_inputs;
    for (int i = 0; i < reader->n_inputs; i++) set_input(state, reader->inputs[i], test), n_whole--;
    if (n_whole < 1) argp_error(state, "one input at least has rows: leave one out of --input");
}

/* ---- all of it ---- */

static int find_kind(struct argp_state *state, const char *name) {
    for (int k = 0; k < N_KINDS; k++)
        if (strcmp(kinds[k].name, name) == 0) return k;
    argp_error(state, "there is no kernel \"%s\": matmul, conv2d or elementwise", name);
    return 0;
}

static void take_option(struct argp_state *state, reader *reader, int row, const char *value, bool *same) {
    kernel_case *test = &reader->call->test;
    const char *name = rows[row].name;
    switch (rows[row].key) {
    case KEY_CPU: read_level(state, value, reader->call); return;
    case KEY_JSON: reader->call->json = true; return;
    case KEY_BATCH: test->matmul.batch = read_number(state, name, value); return;
    case KEY_TRANSPOSE_A: test->matmul.transpose_a = true; return;
    case KEY_TRANSPOSE_B: test->matmul.transpose_b = true; return;
    case KEY_FILTERS: test->conv.filters = read_number(state, name, value); return;
    case KEY_KERNEL: read_pair(state, name, value, test->conv.kernel); return;
    case KEY_STRIDE: read_pair(state, name, value, test->conv.stride); return;
    case KEY_PADDING: *same = is_second(state, name, value, "valid", "same"); return;
    case KEY_GROUPS: test->conv.groups = read_number(state, name, value); return;
    case KEY_GRADIENT: test->kind = is_second(state, name, value, "input", "kernel") ? CASE_CONV_KERNEL : CASE_CONV_INPUT; return;
    case KEY_INPUT: return; /* kept in reader->inputs */
    case KEY_BETWEEN: read_between(state, value, test); return;
    }
}

static void make_case(struct argp_state *state, reader *reader) {
    if (reader->n_words == 0) argp_error(state, "which kernel? matmul, conv2d or elementwise");
    int k = find_kind(state, reader->words[0]), n_words = kinds[k].kind == ELEMENTWISE ? 3 : 2;
    if (reader->n_words < n_words)
        argp_error(state, "%s: which %s? As in: dtc-bench-kernel %s %s%s", kinds[k].name,
                   kinds[k].kind == ELEMENTWISE && reader->n_words == 1 ? "formula" : "sizes", kinds[k].name,
                   kinds[k].kind == ELEMENTWISE ? "'exp(x) * y + 1' " : "", kinds[k].example);
    if (reader->n_words > n_words) argp_error(state, "%s takes one argument less: what is \"%s\"?", kinds[k].name, reader->words[n_words]);

    kernel_case *test = &reader->call->test;
    test->kind = kinds[k].kind == MATMUL ? CASE_MATMUL : kinds[k].kind == CONV2D ? CASE_CONV : CASE_ELEMENTWISE;
    bool same = false;
    for (int i = 0; i < reader->n_given; i++) {
        int row = reader->given[i];
        if ((rows[row].kinds & kinds[k].kind) == 0) argp_error(state, "--%s means nothing for %s", rows[row].name, kinds[k].name);
        take_option(state, reader, row, reader->values[i], &same);
    }
    const char *text = reader->words[n_words - 1];
    int sizes[KERNEL_CASE_MOST_DIMS], n = read_sizes(text, sizes, KERNEL_CASE_MOST_DIMS);
    if (n < 0 || (kinds[k].n_sizes != 0 && n != kinds[k].n_sizes))
        argp_error(state, "the sizes of %s are %s, whole numbers of 1 or more, as in %s, not \"%s\"", kinds[k].name, kinds[k].sizes, kinds[k].example,
                   text);
    if (kinds[k].kind == MATMUL) make_matmul(state, sizes, test);
    if (kinds[k].kind == CONV2D) make_conv(state, sizes, same, test);
    if (kinds[k].kind == ELEMENTWISE) make_elementwise(state, reader, sizes, n, test);
}

/* The words and options as they stand on the command line, for people. */
static const char *name_of(const reader *reader) {
    const char *name = reader->words[0];
    for (int i = 1; i < reader->n_words; i++) name = dt_arena_format(reader->call->arena, "%s %s", name, reader->words[i]);
    for (int i = 0; i < reader->n_given; i++) {
        enum key key = rows[reader->given[i]].key;
        if (key == KEY_CPU || key == KEY_JSON) continue;
        name = dt_arena_format(reader->call->arena, "%s --%s%s%s", name, rows[reader->given[i]].name, reader->values[i] != NULL ? " " : "",
                               reader->values[i] != NULL ? reader->values[i] : "");
    }
    return name;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    reader *reader = state->input;
    if (key == ARGP_KEY_ARG) {
        if (reader->n_words == 3) argp_error(state, "one kernel at a time: what is \"%s\"?", argument);
        reader->words[reader->n_words++] = argument;
        return 0;
    }
    if (key == ARGP_KEY_END) {
        make_case(state, reader);
        reader->call->test.name = name_of(reader);
        return 0;
    }
    for (int row = 0; row < N_ROWS; row++) {
        if ((int)rows[row].key != key) continue;
        if (key == KEY_INPUT && reader->n_inputs == KERNEL_CASE_MOST_INPUTS) argp_error(state, "more inputs than a formula may have");
        if (key == KEY_INPUT) reader->inputs[reader->n_inputs++] = argument;
        if (reader->n_given == N_ROWS) argp_error(state, "too many options");
        reader->given[reader->n_given] = row;
        reader->values[reader->n_given++] = argument;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

void bench_kernel_read(bench_kernel_call *call, int argc, char **argv) {
    struct argp_option options[N_ROWS + 1] = {0};
    for (int row = 0; row < N_ROWS; row++)
        options[row] = (struct argp_option){.name = rows[row].name, .key = rows[row].key, .arg = rows[row].value, .doc = rows[row].about};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "matmul MxKxN\nconv2d IMAGESxHEIGHTxWIDTHxCHANNELS\nelementwise FORMULA ROWS[xCOLUMNS...]",
        .doc =
            "Compiles one kernel, compares its results with the interpreter's, and says how fast it is on one core, beside what this machine was "
            "measured to do and beside OpenBLAS, oneDNN and libmvec where these are installed.\v"
            "Sizes are f32 elements. The first one (of a product with --transpose-a, K; with --batch, the batch) is known at launch only, as the "
            "rows of a batch are. A formula is an expression of the language; the names in it that are not called are its inputs.\n\n"
            "GFLOP/s counts two operations for each multiplication of the definition, of a formula what the kernel does; GB/s what must be read and "
            "written at least; `of peak` is the nearest of three limits: arithmetic, copying in memory, and, for what moves faster than memory can, "
            "copying in the second-level cache. Times are the best of many runs on the same arrays.\n\n"
            "  dtc-bench-kernel matmul 64x3200x10 --transpose-b\n"
            "  dtc-bench-kernel conv2d 64x28x28x32 --filters 64 --kernel 3 --stride 2 --padding same --gradient input\n"
            "  dtc-bench-kernel elementwise 'exp(x) * y + 1' 1048576\n"
            "  dtc-bench-kernel elementwise 'relu(x + b)' 4096x256 --input b=256 --json"};
    reader reader = {.call = call};
    argp_err_exit_status = 2;
    call->level_number = dt_cpu_level();
    call->level = call->level_number >= 3 ? dt_cpu_level_name(call->level_number) : DT_LEVEL_V3;
    argp_parse(&argp, argc, argv, 0, NULL, &reader);
}
