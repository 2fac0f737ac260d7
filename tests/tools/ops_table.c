/* ops_table FOLDER SEED [onnx]: evaluates every row of the op table on random operands and writes what tests/ops/numpy_test.py compares.
 *
 * One JSON object a line on standard output: the case, its row's NumPy expression, operands, attributes and result, whose elements are raw files in
 * FOLDER. Rows without a case, or that fail, are lines with "error". With `onnx` each case is a model, too: its file is "model", or "no_model" says
 * why there is none (tests/ops/onnx_full.py). */
#include "base/file.h"
#include "compiler/onnx/onnx.h"
#include "tests/support/op_cases.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    ROWS = 5
};

static dt_launch launch = {.rows = ROWS,
                           .row_offset = 10,
                           .valid = 18,
                           .global_batch = 20,
                           .replicas = 4,
                           .epochs = 2,
                           .steps_per_epoch = 7,
                           .counter = 11,
                           .seed = 0x123456789abcdef};

static void print_string(const char *text) {
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        putchar(*text);
    }
    putchar('"');
}

static void print_tensor(const char *folder, int number, int k, const dt_tensor *tensor) {
    char path[512];
    snprintf(path, sizeof path, "%s/%d.%d", folder, number, k);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(tensor->data, 1, dt_tensor_bytes(tensor), file) != dt_tensor_bytes(tensor) || fclose(file) != 0) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(1);
    }
    printf("{\"file\": ");
    print_string(path);
    printf(", \"dtype\": \"%s\", \"shape\": [", dt_dtype_name(tensor->dtype));
    for (int d = 0; d < tensor->shape.rank; d++) printf("%s%" PRId64, d > 0 ? ", " : "", tensor->shape.dims[d]);
    printf("]}");
}

static void print_attribute(const dt_value *value, int a) {
    const dt_attribute_row *row = &value->op->attributes[a];
    const dt_attribute *attribute = &value->attributes[a];
    char number[32];
    print_string(row->name);
    printf(": ");
    switch (row->kind) {
    case DT_ATTR_INT: printf("%" PRId64, attribute->i); break;
    case DT_ATTR_BOOL: printf("%s", attribute->i != 0 ? "true" : "false"); break;
    case DT_ATTR_NUMBER:
        if (dt_dtype_is_float(value->dtype))
            printf("%s", dt_text_from_f64(attribute->f, number));
        else
            printf("%" PRId64, attribute->i);
        break;
    case DT_ATTR_STRING: print_string(attribute->s); break;
    case DT_ATTR_DTYPE: print_string(dt_dtype_name((dt_dtype)attribute->i)); break;
    case DT_ATTR_INTS:
        putchar('[');
        for (int64_t i = 0; i < attribute->i; i++)
            printf("%s%" PRId64, i > 0 ? ", " : "", attribute->ints[i] == DT_BATCH ? (int64_t)ROWS : attribute->ints[i]);
        putchar(']');
        break;
    }
}

/* The function, of one result, as a file; the operands are its inputs. */
static dt_status *write_model(dt_arena *arena, const char *path, const dt_function *function) {
    const dt_onnx_model *model;
    dt_text bytes = {.arena = arena};
    DT_TRY(dt_onnx_render(arena, function, NULL, &model));
    DT_TRY(dt_onnx_write(&bytes, model));
    return dt_file_write_atomic(path, bytes.data, bytes.n);
}

static void print_model(dt_arena *arena, const char *folder, int number, const dt_function *function) {
    const char *path = dt_arena_format(arena, "%s/%d.onnx", folder, number);
    dt_status *status = write_model(arena, path, function);
    printf(", \"%s\": ", status == NULL ? "model" : "no_model");
    print_string(status == NULL ? path : dt_status_message(status));
    dt_status_free(status);
}

/* `state`: of the generator of random operands; NULL: integers are at the ends of their types. */
static dt_status *run_case(dt_arena *arena, const char *folder, int number, const char *text, bool with_model, uint64_t *state) {
    dt_module *module = dt_module_create(arena, "case");
    dt_function *function = dt_module_add_function(module, "case", DT_ROLE_STEP);
    dt_value *value;
    DT_TRY(op_case_build(function, text, NULL, NULL, &value));
    dt_tensor *operands = DT_NEW_ARRAY(arena, dt_tensor, value->n_operands), result;
    for (int k = 0; k < value->n_operands; k++) {
        operands[k] = op_random_operand(arena, value, k, ROWS, false, state != NULL ? state : &(uint64_t){1});
        if (state == NULL && dt_dtype_kind(operands[k].dtype) == 'i') op_fill_with_extremes(&operands[k], k);
    }
    dt_list_push(arena, &function->results, ((dt_result){"y", value}));
    DT_TRY(dt_interpret(arena, function, &launch, operands, NULL, &result));
    printf("{\"op\": \"%s\", \"case\": ", value->op->name);
    print_string(text);
    printf(", \"numpy\": ");
    print_string(value->op->numpy);
    printf(", \"ulp\": %g, \"sums\": %s, \"operands\": {", value->op->tolerance_ulp, strcmp(value->op->formula, "sum") == 0 ? "true" : "false");
    if (value->op->variadic) printf("\"%s\": [", value->op->operands[0].name);
    for (int k = 0; k < value->n_operands; k++) {
        if (k > 0) printf(", ");
        if (!value->op->variadic) printf("\"%s\": ", value->op->operands[k].name);
        print_tensor(folder, number, k, &operands[k]);
    }
    printf("%s}, \"attributes\": {", value->op->variadic ? "]" : "");
    for (int a = 0; a < value->op->n_attributes; a++) {
        if (a > 0) printf(", ");
        print_attribute(value, a);
    }
    printf("}, \"launch\": {");
#define X(name, type, dtype, meaning) printf("\"%s\": %" PRId64 ", ", #name, launch.name);
    DT_LAUNCH_FIELDS(X)
#undef X
    printf("\"bad_indices\": %" PRId64 "}, \"result\": ", launch.bad_index->count);
    print_tensor(folder, number, value->n_operands, &result);
    if (with_model) print_model(arena, folder, number, function);
    printf("}\n");
    return NULL;
}

static void print_error(const char *what, const char *message) {
    printf("{\"case\": ");
    print_string(what);
    printf(", \"error\": ");
    print_string(message);
    printf("}\n");
}

int main(int argc, char **argv) {
    bool with_models = argc == 4 && strcmp(argv[3], "onnx") == 0;
    if (argc != 3 && !with_models) {
        fprintf(stderr, "usage: ops_table FOLDER SEED [onnx]\n");
        return 2;
    }
    uint64_t state = strtoull(argv[2], NULL, 10);
    int number = 0;
    for (size_t i = 0; i < dt_n_ops; i++) {
        const dt_op *op = dt_op_at(i);
        dt_arena *arena = dt_arena_create();
        op_case_list list = {0};
        if (op_has_value(op) && (!op_cases(arena, &list, op) || op->numpy[0] == '\0')) print_error(op->name, "no case, or no NumPy expression");
        for (size_t c = 0; c < (op->class == DT_CLASS_MAP ? 2 : 1) * list.texts.n; c++) {
            const char *text = list.texts.items[c % list.texts.n];
            dt_bad_index bad = {0};
            launch.bad_index = &bad;
            dt_status *status = run_case(arena, argv[1], number++, text, with_models, c < list.texts.n ? &state : NULL);
            if (status != NULL) print_error(text, dt_status_message(status));
            dt_status_free(status);
        }
        dt_arena_destroy(arena);
    }
    return 0;
}
