/* conformance: what is shown to hold of each operation in each element type, as a table.
 *
 * A cell follows from the row of the op table: its signature says which types it takes, its operands and result whether there are gradients. What
 * does not follow is a row of ir/conformance.def. tests/ops/conformance.py runs every cell, and fails if one says too much or too little. */
#include "compiler/api/api.h"
#include "ir/op.h"

#include <string.h>

/* What does not hold: of these operations and types these aspects, `v`, `g`, `h` at edges alone, `V`, `G`, `H` nowhere. */
typedef struct gap {
    const char *operations, *dtypes, *aspects, *reason;
} gap;

/* What holds, in these aspects, where `when` is true of the operands: others may say something else. */
typedef struct convention {
    const char *operations, *aspects, *when, *is, *sentence;
} convention;

#define GAP(operations, dtypes, aspects, reason) {operations, dtypes, aspects, reason},
#define CONVENTION(...)
static const gap gaps[] = {
#include "ir/conformance.def"
};
#undef GAP
#undef CONVENTION
#define GAP(...)
#define CONVENTION(operations, aspects, when, is, sentence) {operations, aspects, when, is, sentence},
static const convention conventions[] = {
#include "ir/conformance.def"
};
#undef GAP
#undef CONVENTION

enum {
    N_GAPS = sizeof gaps / sizeof *gaps,
    N_CONVENTIONS = sizeof conventions / sizeof *conventions
};

/* Is the word one of those, with a space between them? */
static bool is_among(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0)) return true;
    return false;
}

/* The operand whose element type a cell is about; NULL: it is about the result's. */
static const dt_operand_row *subject_of(const dt_op *op) {
    const dt_operand_row *first = NULL;
    for (int k = op->n_operands - 1; k >= 0; k--)
        if (first == NULL || strcmp(op->operands[k].type, "bool") != 0) first = &op->operands[k];
    return first;
}

/* Why nothing is shown of the operation by itself; NULL: its cells say what is. */
static const char *why_empty(const dt_op *op) {
    static const char *const reasons[DT_N_CLASSES] = {
        [DT_CLASS_SOURCE] = "an argument: there is nothing to compute",
        [DT_CLASS_COLLECTIVE] = "crosses replicas: `dtc check` compares one replica with three",
        [DT_CLASS_STATE] = "moves a variable, and computes nothing",
        [DT_CLASS_CONTROL] = "becomes other operations before anything runs: their cells say what holds",
        [DT_CLASS_LOOP] = "part of a loop, and computes nothing without its body",
    };
    return op->loops != NULL || op->class == DT_CLASS_MOVE ? NULL : reasons[op->class];
}

static bool takes(const dt_op *op, dt_dtype dtype) {
    const dt_operand_row *operand = subject_of(op);
    if (operand != NULL) return (operand->dtypes >> dtype & 1) != 0;
    return op->result_dtype == DT_N_DTYPES || op->result_dtype == dtype;
}

/* "VGH": values, gradients and second gradients, at edges too; small letters: on random numbers alone. */
static const char *cell(dt_arena *arena, const dt_op *op, dt_dtype dtype) {
    if (why_empty(op) != NULL || !takes(op, dtype)) return ".";
    bool has_gradients =
        subject_of(op) != NULL && dt_dtype_is_float(dtype) && (op->result_dtype == DT_N_DTYPES || dt_dtype_is_float(op->result_dtype));
    char letters[] = "VGH", *end = letters;
    for (const char *letter = "VGH"; *letter != 0; letter++) {
        if (*letter != 'V' && !has_gradients) continue;
        char small = (char)(*letter - 'A' + 'a');
        bool everywhere = true, somewhere = true;
        for (int i = 0; i < N_GAPS; i++) {
            if (!is_among(gaps[i].operations, op->name) || !is_among(gaps[i].dtypes, dt_dtype_name(dtype))) continue;
            everywhere = everywhere && strchr(gaps[i].aspects, small) == NULL;
            somewhere = somewhere && strchr(gaps[i].aspects, *letter) == NULL;
        }
        if (somewhere) *end++ = everywhere ? *letter : small;
    }
    *end = 0;
    return dt_arena_string(arena, letters);
}

static void print_head(dt_text *text) {
    dt_text_format(text, "%-24s", "op");
    for (int d = 0; d < DT_N_DTYPES; d++) dt_text_format(text, d + 1 < DT_N_DTYPES ? "%-5s" : "%s\n", dt_dtype_name((dt_dtype)d));
}

static void print_cells(dt_text *text, dt_arena *arena, const dt_op *op) {
    dt_text_format(text, "%-24s", op->name);
    for (int d = 0; d < DT_N_DTYPES; d++) dt_text_format(text, d + 1 < DT_N_DTYPES ? "%-5s" : "%s\n", cell(arena, op, (dt_dtype)d));
}

static void print_aspects(dt_text *text, const char *aspects) {
    static const struct {
        char letter;
        const char *name;
    } names[] = {{'v', "value"}, {'g', "gradient"}, {'h', "second gradient"}};
    const char *before = "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool small = strchr(aspects, names[i].letter) != NULL;
        if (!small && strchr(aspects, names[i].letter - 'a' + 'A') == NULL) continue;
        dt_text_format(text, "%s%s", before, names[i].name);
        before = ", ";
    }
}

/* What is said of one operation, or of all: with its name before it. */
static void print_notes(dt_text *text, const dt_op *op) {
    if (why_empty(op) != NULL) dt_text_format(text, "    %s\n", why_empty(op));
    for (int i = 0; i < N_CONVENTIONS; i++) {
        if (!is_among(conventions[i].operations, op->name)) continue;
        dt_text_append(text, "    ");
        print_aspects(text, conventions[i].aspects);
        dt_text_format(text, ": %s\n", conventions[i].sentence);
    }
    for (int i = 0; i < N_GAPS; i++) {
        if (!is_among(gaps[i].operations, op->name)) continue;
        dt_text_append(text, "    not shown of ");
        dt_text_format(text, "%s, ", gaps[i].dtypes);
        print_aspects(text, gaps[i].aspects);
        dt_text_format(text, ": %s\n", gaps[i].reason);
    }
}

static bool has_notes(dt_arena *arena, const dt_op *op) {
    dt_text text = {.arena = arena};
    print_notes(&text, op);
    return text.n > 0;
}

const char *dt_api_conformance_of(dt_arena *arena, const dt_op *op) {
    dt_text text = {.arena = arena};
    const dt_operand_row *operand = subject_of(op);
    const char *word = operand != NULL ? operand->type : op->result_type;
    print_head(&text);
    print_cells(&text, arena, op);
    bool takes_all = true;
    for (int d = 0; d < DT_N_DTYPES; d++) takes_all = takes_all && takes(op, (dt_dtype)d);
    if (why_empty(op) == NULL && !takes_all) dt_text_format(&text, "    %s %s, and no other type\n", operand != NULL ? "takes" : "gives", word);
    print_notes(&text, op);
    return text.data;
}

const char *dt_api_conformance(dt_arena *arena) {
    dt_text text = {.arena = arena};
    dt_text_append(
        &text, "What tests show of each operation, in each element type, compiled and interpreted: V its values, G its gradient, H its second\n"
               "gradient, on random numbers and at edges: zeros of both signs, infinities, NaN, ties, ends of the type, overflow. v, g, h: on\n"
               "random numbers alone. Values are NumPy's, gradients JAX's, but where a sentence below says another convention. Integers, bool and\n"
               "what results in them have no gradients. A dot: the signature takes no operand of that type, or a sentence below says why.\n\n");
    print_head(&text);
    for (size_t i = 0; i < dt_n_ops; i++) print_cells(&text, arena, dt_op_at(i));
    for (size_t i = 0; i < dt_n_ops; i++) {
        if (!has_notes(arena, dt_op_at(i))) continue;
        dt_text_format(&text, "\n%s\n", dt_op_at(i)->name);
        print_notes(&text, dt_op_at(i));
    }
    return text.data;
}
