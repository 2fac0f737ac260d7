/* op: turns the rows of ops.def into the table of op.h.
 *
 * Signatures are text, so that a row reads as documentation does; they are parsed once, before the first row is seen, into storage of fixed size: the
 * table is then constant and no caller has to think of memory or threads. A mistake in a row is found by the first test that looks at any row. */
#include "ir/op.h"

#include "base/text.h"
#include "ir/loops.h"
#include "ir/ops.h"

#include <assert.h>
#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIGNATURE_BYTES = 256,
    MOST_OPERANDS = 8,
    MOST_DEFAULT_INTS = 6
};

static const char *const signatures[] = {
#define OP(name, class, signature, ...) signature,
#include "ir/ops.def"
#undef OP
};

enum {
    N_OPS = sizeof signatures / sizeof *signatures
};
const size_t dt_n_ops = N_OPS;

#define LINEAR DT_OP_LINEAR
#define NOT_LINEAR 0
#define INVOLUTION DT_OP_INVOLUTION
#define ZERO_RIGHT DT_OP_ZERO_RIGHT
#define ONE_RIGHT DT_OP_ONE_RIGHT
#define ONE_LEFT DT_OP_ONE_LEFT
#define STEADY DT_OP_STEADY
static dt_op rows[] = {
#define OP(name_, class_, signature, formula_, gradient_, infer_, loops_, gradient_function_, narrow_, algebra_, domain_, ulp_, numpy_, doc_)        \
    {.name = #name_,                                                                                                                                 \
     .class = DT_CLASS_##class_,                                                                                                                     \
     .formula = formula_,                                                                                                                            \
     .gradient = gradient_,                                                                                                                          \
     .infer = infer_,                                                                                                                                \
     .loops = loops_,                                                                                                                                \
     .gradient_function = gradient_function_,                                                                                                        \
     .narrow = narrow_,                                                                                                                              \
     .algebra = algebra_,                                                                                                                            \
     .domain = domain_,                                                                                                                              \
     .tolerance_ulp = ulp_,                                                                                                                          \
     .numpy = numpy_,                                                                                                                                \
     .doc = doc_},
#include "ir/ops.def"
#undef OP
};
#undef LINEAR
#undef NOT_LINEAR
#undef INVOLUTION
#undef ZERO_RIGHT
#undef ONE_RIGHT
#undef ONE_LEFT
#undef STEADY

/* What a parsed signature points into. */
static struct storage {
    char text[SIGNATURE_BYTES]; /* the signature; names are ended in place */
    dt_operand_row operands[MOST_OPERANDS];
    dt_attribute_row attributes[DT_MOST_ATTRIBUTES];
    int64_t ints[DT_MOST_ATTRIBUTES][MOST_DEFAULT_INTS];
} storages[N_OPS];

/* A hash table of the rows. */
enum {
    N_PLACES = 512
};
_Static_assert(2 * N_OPS <= N_PLACES, "the table is too full");
static const dt_op *by_name[N_PLACES];

/* What the rows of a class mean that name no function of their own. */
static const struct {
    dt_infer_function infer;
    dt_loops_function loops;
} class_functions[DT_N_CLASSES] = {
    [DT_CLASS_MAP] = {dt_infer_map, dt_loops_map},
};

static char *skip_spaces(char *at) {
    while (*at == ' ') at++;
    return at;
}

/* The word at *at; *at goes after it and after the spaces that follow. The word is ended by end_word once the character after it was read. */
static char *take_word(char **at, size_t *length) {
    char *word = *at;
    while (isalnum((unsigned char)**at) || **at == '_') ++*at;
    *length = (size_t)(*at - word);
    assert(*length > 0 && "ops.def: a signature lacks a word");
    *at = skip_spaces(*at);
    return word;
}

static bool take(char **at, const char *text) {
    if (strncmp(*at, text, strlen(text)) != 0) return false;
    *at = skip_spaces(*at + strlen(text));
    return true;
}

/* "name: word", both ended. */
static void take_declaration(char **at, char **name, char **word) {
    size_t name_length, word_length;
    *name = take_word(at, &name_length);
    bool colon = take(at, ":");
    assert(colon && "ops.def: a signature lacks a colon");
    (void)colon;
    (*name)[name_length] = '\0';
    *word = take_word(at, &word_length);
    /* What follows the word decides the rest, so it is kept aside while the word is ended: move the word one to the left, over the colon's space. */
    memmove(*word - 1, *word, word_length);
    --*word;
    (*word)[word_length] = '\0';
}

static dt_attribute_kind attribute_kind(const char *word) {
    static const char *const words[] = {[DT_ATTR_INT] = "int",       [DT_ATTR_NUMBER] = "number", [DT_ATTR_BOOL] = "bool",
                                        [DT_ATTR_STRING] = "string", [DT_ATTR_INTS] = "ints",     [DT_ATTR_DTYPE] = "dtype"};
    size_t kind = 0;
    while (kind < sizeof words / sizeof *words && strcmp(words[kind], word) != 0) kind++;
    assert(kind < sizeof words / sizeof *words && "ops.def: no such kind of attribute");
    return (dt_attribute_kind)kind;
}

static void take_default(char **at, dt_attribute_row *row, int64_t *ints) {
    dt_attribute *standard = &row->standard;
    size_t length;
    char *end = *at;
    switch (row->kind) {
    case DT_ATTR_INT: standard->i = strtoll(*at, &end, 10); break;
    case DT_ATTR_NUMBER: *standard = dt_number(strtod(*at, &end)); break;
    case DT_ATTR_BOOL:
        standard->i = strncmp(*at, "true", 4) == 0;
        take_word(&end, &length);
        break;
    case DT_ATTR_DTYPE: {
        char *word = take_word(&end, &length);
        char name[8] = "";
        memcpy(name, word, length < sizeof name ? length : 0);
        standard->i = dt_dtype_from_name(name);
        assert(standard->i < DT_N_DTYPES);
        break;
    }
    case DT_ATTR_STRING:
        standard->s = *at + 1;
        end = strchr(*at + 1, '"');
        *end++ = '\0';
        break;
    case DT_ATTR_INTS:
        standard->ints = ints;
        for (end++; *end != ']'; end = end[0] == ',' ? skip_spaces(end + 1) : end) {
            assert(standard->i < MOST_DEFAULT_INTS);
            ints[standard->i++] = strtoll(end, &end, 10);
        }
        end++;
        break;
    }
    row->has_default = true;
    *at = skip_spaces(end);
}

static void parse_signature(dt_op *op, struct storage *storage, const char *signature) {
    assert(strlen(signature) < SIGNATURE_BYTES);
    memcpy(storage->text, signature, strlen(signature) + 1);
    op->operands = storage->operands;
    op->attributes = storage->attributes;
    op->result_type = "";
    char *at = skip_spaces(storage->text), *name, *word;
    while (*at != '\0' && *at != ';' && *at != '-') {
        assert(op->n_operands < MOST_OPERANDS && !op->variadic);
        take_declaration(&at, &name, &word);
        storage->operands[op->n_operands++] = (dt_operand_row){.name = name, .type = word};
        op->variadic = take(&at, "...");
        take(&at, ",");
    }
    if (take(&at, ";")) {
        while (*at != '\0' && *at != '-') {
            assert(op->n_attributes < DT_MOST_ATTRIBUTES);
            take_declaration(&at, &name, &word);
            dt_attribute_row *row = &storage->attributes[op->n_attributes];
            *row = (dt_attribute_row){.name = name, .kind = attribute_kind(word)};
            if (take(&at, "=")) take_default(&at, row, storage->ints[op->n_attributes]);
            op->n_attributes++;
            take(&at, ",");
        }
    }
    if (take(&at, "->")) {
        size_t length;
        op->result_type = take_word(&at, &length);
    }
    assert(*at == '\0' && "ops.def: a signature goes on after its end");
}

/* What the words of a signature mean. */
static void read_words(dt_op *op, dt_operand_row *operands) {
    for (int i = op->n_operands - 1; i >= 0; i--) {
        for (int d = 0; d < DT_N_DTYPES; d++) operands[i].dtypes |= (uint32_t)dt_type_word_holds(operands[i].type, (dt_dtype)d) << d;
        operands[i].like = 0;
        while (strcmp(operands[operands[i].like].type, operands[i].type) != 0) operands[i].like++;
        if (strcmp(operands[i].type, "index") == 0) operands[i].like = -1;
    }
    op->result_dtype = dt_dtype_from_name(op->result_type);
    op->result_operand = op->result_attribute = -1;
    if (op->result_dtype != DT_N_DTYPES) return;
    for (int i = op->n_operands - 1; i >= 0; i--)
        if (op->result_type[0] == '\0' || strcmp(operands[i].name, op->result_type) == 0) op->result_operand = i;
    if (op->result_operand < 0) op->result_attribute = dt_op_attribute_index(op, op->result_type);
}

/* Where the op is in by_name, or would be. */
static const dt_op **place_of(const char *name) {
    for (uint64_t at = dt_hash_bytes(name, strlen(name), DT_HASH_SEED);; at++) {
        const dt_op **place = &by_name[at % N_PLACES];
        if (*place == NULL || strcmp((*place)->name, name) == 0) return place;
    }
}

static void parse_rows(void) {
    for (size_t i = 0; i < N_OPS; i++) {
        parse_signature(&rows[i], &storages[i], signatures[i]);
        read_words(&rows[i], storages[i].operands);
        *place_of(rows[i].name) = &rows[i];
        if (rows[i].infer == NULL) rows[i].infer = class_functions[rows[i].class].infer;
        if (rows[i].loops == NULL) rows[i].loops = class_functions[rows[i].class].loops;
    }
}

const dt_op *dt_op_at(size_t i) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, parse_rows);
    return &rows[i];
}

const dt_op *dt_op_find(const char *name) {
    dt_op_at(0); /* the table is filled in */
    return *place_of(name);
}

bool dt_type_word_holds(const char *word, dt_dtype dtype) {
    char kind = dt_dtype_kind(dtype);
    if (strcmp(word, "any") == 0) return true;
    if (strcmp(word, "float") == 0) return kind == 'f';
    if (strcmp(word, "integer") == 0 || strcmp(word, "index") == 0) return kind == 'i';
    if (strcmp(word, "number") == 0) return kind != 'b';
    return dt_dtype_from_name(word) == dtype;
}

int dt_op_attribute_index(const dt_op *op, const char *name) {
    for (int i = 0; i < op->n_attributes; i++)
        if (strcmp(op->attributes[i].name, name) == 0) return i;
    return -1;
}

const dt_attribute *dt_op_attribute(const dt_op *op, const dt_attribute *attributes, const char *name) {
    int i = dt_op_attribute_index(op, name);
    assert(i >= 0);
    return &attributes[i];
}

dt_dtype dt_op_result_dtype(const dt_op *op, dt_value *const *operands, const dt_attribute *attributes) {
    if (op->result_dtype != DT_N_DTYPES) return op->result_dtype;
    if (op->result_operand >= 0) return operands[op->result_operand]->dtype;
    assert(op->result_attribute >= 0);
    return (dt_dtype)attributes[op->result_attribute].i;
}

const dt_formula *dt_op_body(dt_arena *arena, const dt_value *value) {
    const dt_op *op = value->op;
    const char *operands[MOST_OPERANDS], *attributes[DT_MOST_ATTRIBUTES];
    for (int i = 0; i < op->n_operands; i++) operands[i] = op->operands[i].name;
    for (int i = 0; i < op->n_attributes; i++) attributes[i] = op->attributes[i].name;
    dt_formula *body;
    dt_status *status = dt_formula_parse(arena, op->formula, operands, op->n_operands, attributes, op->n_attributes, &body);
    assert(status == NULL && "ops.def: a formula does not parse");
    dt_formula_bind(arena, body, value);
    dt_dtype of_operands[MOST_OPERANDS], *types;
    for (int i = 0; i < value->n_operands; i++) of_operands[i] = value->operands[i]->dtype;
    status = dt_formula_types(arena, body, of_operands, value->dtype, &types);
    assert(status == NULL && "ops.def: a formula mixes types");
    (void)status;
    if (types[body->number] == value->dtype) return body;
    dt_formula *converted = DT_NEW(arena, dt_formula);
    *converted = (dt_formula){.kind = DT_FORMULA_CONVERT, .dtype = value->dtype, .n_arguments = 1, .arguments = {body}, .number = body->number + 1};
    return converted;
}

const char *dt_class_name(dt_op_class class) {
    static const char *const names[DT_N_CLASSES] = {
        [DT_CLASS_SOURCE] = "SOURCE", [DT_CLASS_MAP] = "MAP",         [DT_CLASS_REDUCE] = "REDUCE",         [DT_CLASS_CONTRACT] = "CONTRACT",
        [DT_CLASS_WINDOW] = "WINDOW", [DT_CLASS_MOVE] = "MOVE",       [DT_CLASS_INDEX] = "INDEX",           [DT_CLASS_RANDOM] = "RANDOM",
        [DT_CLASS_STATE] = "STATE",   [DT_CLASS_CONTROL] = "CONTROL", [DT_CLASS_COLLECTIVE] = "COLLECTIVE", [DT_CLASS_LOOP] = "LOOP",
    };
    return names[class];
}
