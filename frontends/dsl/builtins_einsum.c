/* builtins_einsum: sums of products by Einstein's convention, as NumPy's einsum has it: einsum("bij,bjk->bik", x, y). The text names each dimension
 * of each operand with a letter; dimensions of one letter are paired, and letters that the result lacks are added up. Operands meet from left to
 * right, each pair in one dot_general. */
#include "frontends/dsl/elaborator.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

enum {
    MOST_OPERANDS = 4,
    MOST_DIMENSIONS = 32,
    ELLIPSIS = 256 /* labels from here on: what `...` stands for, counted from the right */
};

/* The labels of dimensions: letters, or ELLIPSIS + i. */
typedef struct labels {
    int n;
    int items[MOST_DIMENSIONS];
} labels;

/* An operand, or the product of those so far. */
typedef struct term {
    dt_value *value;
    labels labels;
} term;

typedef struct einsum {
    dt_elaborator *e;
    term terms[MOST_OPERANDS];
    int n_terms;
    int n_ellipsis; /* dimensions that `...` stands for, in the operand that has most of them */
    labels result;
    bool met[ELLIPSIS + MOST_DIMENSIONS]; /* [label] */
    int64_t sizes[ELLIPSIS + MOST_DIMENSIONS];
} einsum;

static int find(const labels *labels, int label) {
    for (int i = 0; i < labels->n; i++)
        if (labels->items[i] == label) return i;
    return -1;
}

static const char *name_of(einsum *s, int label) { return label >= ELLIPSIS ? "a dimension of ..." : dt_arena_format(s->e->arena, "%c", label); }

static const char *size_of(einsum *s, int64_t size) { return size == DT_BATCH ? "B" : dt_arena_format(s->e->arena, "%lld", (long long)size); }

/* ---- the text ---- */

/* What stands in text[0 .. n - 1], where `...` are n_ellipsis dimensions. */
static bool read_labels(einsum *s, const char *text, size_t n, int n_ellipsis, labels *labels) {
    bool has_ellipsis = false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ' ') continue;
        bool dots = n - i >= 3 && memcmp(text + i, "...", 3) == 0;
        if (!dots && !isalpha((unsigned char)text[i]))
            return dt_elaborator_error(s->e, s->e->at, "einsum: a dimension is named by a letter, not by '%c'", text[i]), false;
        if (dots && has_ellipsis) return dt_elaborator_error(s->e, s->e->at, "einsum: ... stands twice in one operand"), false;
        int n_new = dots ? n_ellipsis : 1;
        if (labels->n + n_new > MOST_DIMENSIONS)
            return dt_elaborator_error(s->e, s->e->at, "einsum: more than %d dimensions", MOST_DIMENSIONS), false;
        for (int k = n_new; k-- > 0;) labels->items[labels->n++] = dots ? ELLIPSIS + k : text[i];
        has_ellipsis |= dots;
        if (dots) i += 2;
    }
    return true;
}

static int count_letters(const char *text, size_t n) {
    int count = 0;
    for (size_t i = 0; i < n; i++) count += isalpha((unsigned char)text[i]) != 0;
    return count;
}

static bool read_operand(einsum *s, int k, const char *text, size_t n) {
    term *term = &s->terms[k];
    const char *shape = dt_describe_shape(s->e, term->value->shape);
    int rank = term->value->shape.rank, n_rest = rank - count_letters(text, n);
    if (n_rest > 0 && memchr(text, '.', n) != NULL && n_rest > s->n_ellipsis) s->n_ellipsis = n_rest;
    if (n_rest < 0) n_rest = 0;
    if (!read_labels(s, text, n, n_rest, &term->labels)) return false;
    if (term->labels.n != rank) {
        dt_elaborator_error(s->e, s->e->at, "einsum: \"%.*s\" names %d dimension%s of %s, which has %d", (int)n, text, term->labels.n,
                            dt_plural(term->labels.n), shape, rank);
        return false;
    }
    for (int d = 0; d < rank; d++) {
        int label = term->labels.items[d];
        int64_t size = term->value->shape.dims[d], other = s->sizes[label];
        if (s->met[label] && other != size) {
            dt_elaborator_error(s->e, s->e->at, "einsum: %s is %s before, and %s as dimension %d of %s in \"%.*s\"", name_of(s, label),
                                size_of(s, other), size_of(s, size), d, shape, (int)n, text);
            return false;
        }
        s->met[label] = true;
        s->sizes[label] = size;
    }
    return true;
}

/* Without "->": the letters that occur once, sorted, after those of `...`. */
static void default_result(einsum *s, const char *text) {
    for (int k = s->n_ellipsis; k-- > 0;) s->result.items[s->result.n++] = ELLIPSIS + k;
    int seen[ELLIPSIS] = {0};
    for (; *text != 0; text++) seen[(unsigned char)*text]++;
    for (int letter = 'A'; letter <= 'z' && s->result.n < MOST_DIMENSIONS; letter++)
        if (isalpha(letter) && seen[letter] == 1) s->result.items[s->result.n++] = letter;
}

static bool read_equation(einsum *s, const char *text) {
    const char *arrow = strstr(text, "->"), *end = arrow != NULL ? arrow : text + strlen(text), *at = text;
    int n_named = 1;
    for (const char *c = text; c < end; c++) n_named += *c == ',';
    if (n_named != s->n_terms)
        return dt_elaborator_error(s->e, s->e->at, "einsum: \"%s\" is about %d operand%s, here %s %d", text, n_named, dt_plural(n_named),
                                   s->n_terms == 1 ? "is" : "are", s->n_terms),
               false;
    for (int k = 0; k < s->n_terms; k++) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma != NULL ? comma : end;
        if (!read_operand(s, k, at, (size_t)(stop - at))) return false;
        at = stop + 1;
    }
    if (arrow == NULL) return default_result(s, text), true;
    if (!read_labels(s, arrow + 2, strlen(arrow + 2), s->n_ellipsis, &s->result)) return false;
    for (int i = 0; i < s->result.n; i++) {
        int label = s->result.items[i];
        const char *mistake = !s->met[label] ? ", which no operand has" : find(&s->result, label) < i ? " twice" : NULL;
        if (mistake != NULL) return dt_elaborator_error(s->e, s->e->at, "einsum: the result has %s%s", name_of(s, label), mistake), false;
    }
    return true;
}

/* ---- the sums ---- */

static bool set(term *term, dt_object value) {
    if (dt_is_poison(value)) return false;
    term->value = value.value;
    return true;
}

static void drop(labels *labels, int at) {
    labels->n--;
    memmove(labels->items + at, labels->items + at + 1, (size_t)(labels->n - at) * sizeof *labels->items);
}

static bool sum_away(einsum *s, term *term, int dimension) {
    int64_t axis = dimension;
    drop(&term->labels, dimension);
    return set(term, dt_emit_reduce(s->e, "reduce_sum", term->value, &axis, 1, false));
}

static dt_object positions(einsum *s, dt_shape shape, int axis) {
    dt_named_attribute settings[] = {{"shape", {.i = shape.rank, .ints = shape.dims}}, {"axis", {.i = axis}}};
    return dt_emit(s->e, "iota", NULL, 0, settings, 2);
}

/* Of dimensions with the same letter the diagonal stays: elsewhere there are zeros, so that one of the two can be added up. */
static bool take_diagonals(einsum *s, term *term) {
    for (int d = 0; d < term->labels.n; d++) {
        int first = find(&term->labels, term->labels.items[d]);
        if (first == d) continue;
        dt_shape shape = term->value->shape;
        dt_object rows = positions(s, shape, first), columns = positions(s, shape, d);
        if (dt_is_poison(rows) || dt_is_poison(columns)) return false;
        dt_object chosen = dt_emit_binary(s->e, "equal", rows.value, columns.value);
        dt_object zeros = dt_emit_constant(s->e, term->value->dtype, dt_object_int(0), shape);
        if (dt_is_poison(chosen) || dt_is_poison(zeros)) return false;
        if (!set(term, dt_emit(s->e, "where", (dt_value *[]){chosen.value, term->value, zeros.value}, 3, NULL, 0))) return false;
        if (!sum_away(s, term, d--)) return false;
    }
    return true;
}

/* Whether the result or terms[k], … have that label. */
static bool is_needed(const einsum *s, int label, int k) {
    bool needed = find(&s->result, label) >= 0;
    for (; !needed && k < s->n_terms; k++) needed = find(&s->terms[k].labels, label) >= 0;
    return needed;
}

/* Adds up the dimensions of a term that neither `other` has nor anything from terms[k] on. */
static bool sum_lone(einsum *s, term *term, const labels *other, int k) {
    for (int d = term->labels.n; d-- > 0;) {
        int label = term->labels.items[d];
        if (find(other, label) < 0 && !is_needed(s, label, k) && !sum_away(s, term, d)) return false;
    }
    return true;
}

/* a becomes its product with terms[k]. */
static bool multiply(einsum *s, term *a, int k) {
    const term *b = &s->terms[k];
    int64_t batch[2][MOST_DIMENSIONS] = {0}, contract[2][MOST_DIMENSIONS] = {0};
    int n_batch = 0, n_contract = 0;
    labels result = {0};
    for (int i = 0; i < a->labels.n; i++) {
        int label = a->labels.items[i], j = find(&b->labels, label);
        if (j < 0) continue;
        bool stays = is_needed(s, label, k + 1);
        int n = stays ? n_batch++ : n_contract++;
        (stays ? batch : contract)[0][n] = i;
        (stays ? batch : contract)[1][n] = j;
        if (stays) result.items[result.n++] = label;
    }
    if (a->labels.n + b->labels.n > MOST_DIMENSIONS)
        return dt_elaborator_error(s->e, s->e->at, "einsum: more than %d dimensions", MOST_DIMENSIONS), false;
    for (int i = 0; i < a->labels.n; i++)
        if (find(&b->labels, a->labels.items[i]) < 0) result.items[result.n++] = a->labels.items[i];
    for (int i = 0; i < b->labels.n; i++)
        if (find(&a->labels, b->labels.items[i]) < 0) result.items[result.n++] = b->labels.items[i];
    dt_named_attribute settings[] = {{"a_batch", {.i = n_batch, .ints = batch[0]}},
                                     {"b_batch", {.i = n_batch, .ints = batch[1]}},
                                     {"a_contract", {.i = n_contract, .ints = contract[0]}},
                                     {"b_contract", {.i = n_contract, .ints = contract[1]}}};
    a->labels = result;
    return set(a, dt_emit(s->e, "dot_general", (dt_value *[]){a->value, b->value}, 2, settings, 4));
}

static dt_object in_order(einsum *s, const term *term) {
    int64_t permutation[MOST_DIMENSIONS];
    bool moves = false;
    assert(term->labels.n == s->result.n); /* each of the result's is needed, no other one is */
    for (int i = 0; i < s->result.n; i++) {
        permutation[i] = find(&term->labels, s->result.items[i]);
        moves |= permutation[i] != i;
    }
    if (!moves) return dt_object_tensor(term->value);
    dt_named_attribute setting = {"permutation", {.i = s->result.n, .ints = permutation}};
    return dt_emit(s->e, "transpose", (dt_value *[]){term->value}, 1, &setting, 1);
}

static dt_object builtin_einsum(dt_elaborator *e, const dt_object *a) {
    einsum s = {.e = e};
    if (a[0].kind != DT_OBJECT_STRING)
        return dt_elaborator_fail(e, "einsum: the text comes first: einsum(\"ij,jk->ik\", x, y), not %s", dt_object_describe(e->arena, a[0]));
    for (; s.n_terms < MOST_OPERANDS && a[1 + s.n_terms].kind != DT_OBJECT_NONE; s.n_terms++) {
        dt_object x = dt_to_tensor(e, a[1 + s.n_terms], DT_F32);
        if (dt_is_poison(x)) return x;
        if (!dt_dtype_is_float(x.value->dtype)) {
            dt_diagnostic *error = dt_elaborator_error(e, e->at, "einsum: products are of floats, not of %s", dt_object_describe(e->arena, x));
            dt_diagnostic_help(error, "convert it first: f32(x)");
            return dt_poison();
        }
        s.terms[s.n_terms].value = x.value;
    }
    if (!read_equation(&s, a[0].text)) return dt_poison();
    for (int k = 0; k < s.n_terms; k++)
        if (!take_diagonals(&s, &s.terms[k])) return dt_poison();
    term product = s.terms[0];
    if (!sum_lone(&s, &product, &(labels){0}, 1)) return dt_poison();
    for (int k = 1; k < s.n_terms; k++)
        if (!sum_lone(&s, &s.terms[k], &product.labels, k + 1) || !multiply(&s, &product, k)) return dt_poison();
    return in_order(&s, &product);
}

const dt_builtin dt_builtins_einsum[] = {
    {"einsum", "(text, x, y = none, z = none, w = none)", builtin_einsum, false},
    {NULL, NULL, NULL, false},
};
