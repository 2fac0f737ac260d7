/* format: see format.h.
 *
 * Works on tokens and on the lines that they stand in, not on the tree, so that nothing which the tree does not know is lost. Three things decide
 * where a token goes: the one before it (gap), what its line begins with or continues (indent), and alignment: where neighbouring lines have a word,
 * a colon's right side, an = or a comment in one column, which takes more blanks than one somewhere, they have it in one column afterwards. */
#include "frontends/dsl/format.h"
#include "frontends/dsl/parser.h"

#include <string.h>

enum {
    INDENT = 4
};

/* What may be aligned, in the order in which it stands in a line. */
typedef enum stop {
    STOP_NAME,    /* after const, option, data, param, state, … */
    STOP_COLON,   /* what follows the first `name:` of a line */
    STOP_ASSIGN,  /* = or := of a statement or declaration */
    STOP_COMMENT, /* after code */
    N_STOPS,
    NO_STOP = N_STOPS
} stop;

typedef struct line {
    size_t first, n;     /* tokens */
    const char *comment; /* from its # on; NULL: none */
    int n_comment;       /* bytes */
    int comment_column;  /* in the source */
    int depth;           /* open { around its first token */
    bool continues;      /* a statement of an earlier line */
    bool in_bracket;     /* within ( or [ */
    size_t statement;    /* the line in which its statement begins */
    int column;          /* where its first token goes, where that is known before anything is aligned; -1 */
    int stops[N_STOPS];  /* index of the token there, n: the comment; -1: none */
    int at[N_STOPS];     /* where it goes, from column 0; -1: next to what stands before it */
} line;

typedef struct formatter {
    dt_arena *arena;
    const dt_token *tokens; /* without newlines and the end */
    const char **texts;     /* as they are written */
    bool *is_unary;         /* a sign */
    int *slice;             /* of a colon: -1: no slice; 0, 1: the blanks around it */
    bool *ends_statement;   /* a newline that counts follows */
    size_t n;
    DT_LIST(line) lines;
} formatter;

/* ---- what the tokens are ---- */

static bool ends_value(dt_token_kind kind) {
    bool literal = kind == DT_TOKEN_INT || kind == DT_TOKEN_FLOAT || kind == DT_TOKEN_STRING || (kind >= DT_TOKEN_TRUE && kind <= DT_TOKEN_NONE);
    return literal || kind == DT_TOKEN_NAME || kind == DT_TOKEN_CLOSE_ROUND || kind == DT_TOKEN_CLOSE_SQUARE;
}

static bool opens(dt_token_kind kind) { return kind == DT_TOKEN_OPEN_ROUND || kind == DT_TOKEN_OPEN_SQUARE || kind == DT_TOKEN_OPEN_BRACE; }
static bool closes(dt_token_kind kind) { return kind == DT_TOKEN_CLOSE_ROUND || kind == DT_TOKEN_CLOSE_SQUARE || kind == DT_TOKEN_CLOSE_BRACE; }

static bool is_word(const formatter *f, size_t i, const char *word) {
    return i < f->n && f->tokens[i].kind == DT_TOKEN_NAME && strcmp(f->texts[i], word) == 0;
}

/* a[i : i + n] has blanks around its colon, a[1:n] and a[i + 1:] none: whether the item of the index that has this colon has two ends, and an
 * operator. */
static bool is_composite(const formatter *f, size_t colon) {
    bool has_operator = false;
    for (int side = -1; side <= 1; side += 2) {
        int depth = 0;
        for (size_t i = colon + (size_t)side; i < f->n; i += (size_t)side) {
            dt_token_kind kind = f->tokens[i].kind;
            bool inwards = side < 0 ? closes(kind) : opens(kind), outwards = side < 0 ? opens(kind) : closes(kind);
            bool ends = depth == 0 && (outwards || kind == DT_TOKEN_COMMA);
            if (ends && i == colon + (size_t)side) return false;
            if (ends) break;
            depth += inwards - outwards;
            has_operator |= depth == 0 && kind >= DT_TOKEN_PLUS && kind <= DT_TOKEN_AT && !f->is_unary[i];
        }
    }
    return has_operator;
}

static void classify(formatter *f) {
    DT_LIST(dt_token_kind) brackets = {0};
    for (size_t i = 0; i < f->n; i++) {
        dt_token_kind kind = f->tokens[i].kind;
        bool is_sign = kind == DT_TOKEN_MINUS || kind == DT_TOKEN_PLUS;
        f->is_unary[i] = is_sign && (i == 0 || f->ends_statement[i - 1] || !ends_value(f->tokens[i - 1].kind));
        f->slice[i] = kind == DT_TOKEN_COLON && brackets.n > 0 && brackets.items[brackets.n - 1] == DT_TOKEN_OPEN_SQUARE ? 0 : -1;
        if (opens(kind)) dt_list_push(f->arena, &brackets, kind);
        if (closes(kind) && brackets.n > 0) brackets.n--;
    }
    for (size_t i = 0; i < f->n; i++)
        if (f->slice[i] == 0) f->slice[i] = is_composite(f, i);
}

/* Blanks between a token and the one after it in its line. */
static int gap(const formatter *f, size_t i) {
    dt_token_kind a = f->tokens[i].kind, b = f->tokens[i + 1].kind;
    bool begins = i == 0 || f->ends_statement[i - 1];
    if (a == DT_TOKEN_OPEN_ROUND || a == DT_TOKEN_OPEN_SQUARE || f->is_unary[i]) return 0;
    if (b == DT_TOKEN_COMMA || b == DT_TOKEN_CLOSE_ROUND || b == DT_TOKEN_CLOSE_SQUARE) return 0;
    if (a == DT_TOKEN_DOT || b == DT_TOKEN_DOT || a == DT_TOKEN_DOT_DOT || b == DT_TOKEN_DOT_DOT) return 0;
    if (b == DT_TOKEN_COLON) return a == DT_TOKEN_COMMA || f->slice[i + 1] == 1;
    if (a == DT_TOKEN_COLON) return f->slice[i] != 0;
    if (b == DT_TOKEN_OPEN_ROUND && begins && is_word(f, i, "update")) return 1;
    if (b == DT_TOKEN_OPEN_ROUND) return !ends_value(a) && a != DT_TOKEN_FN;
    if (b == DT_TOKEN_OPEN_SQUARE) return !ends_value(a);
    return 1;
}

/* ---- lines ---- */

/* The lines of the source, each with its tokens and its comment; blank ones too. */
static void split(formatter *f, const char *text) {
    size_t next = 0;
    for (int number = 1; *text != '\0'; number++) {
        size_t n_bytes = strcspn(text, "\n");
        line row = {.first = next, .column = -1};
        while (next < f->n && f->tokens[next].span.line == number) next++;
        row.n = next - row.first;
        size_t code = row.n > 0 ? (size_t)(f->tokens[next - 1].span.column + f->tokens[next - 1].span.length) - 1 : 0;
        const char *comment = memchr(text + code, '#', n_bytes - code);
        if (comment != NULL) {
            row.comment = comment;
            row.comment_column = (int)(comment - text);
            row.n_comment = (int)(text + n_bytes - comment);
            while (strchr(" \t\r", comment[row.n_comment - 1]) != NULL) row.n_comment--;
        }
        dt_list_push(f->arena, &f->lines, row);
        text += n_bytes + (text[n_bytes] == '\n');
    }
}

static bool is_blank(const line *row) { return row->n == 0 && row->comment == NULL; }

/* Words after which the names of neighbouring declarations may be aligned. */
static bool declares(const formatter *f, size_t i) {
    static const char *const words[] = {"const", "option", "launch", "mesh", "data", "param", "state"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (is_word(f, i, words[k]) && i + 1 < f->n && f->tokens[i + 1].kind == DT_TOKEN_NAME) return true;
    return false;
}

static bool lists(const formatter *f, size_t i) { return is_word(f, i, "report") || is_word(f, i, "use") || f->tokens[i].kind == DT_TOKEN_RETURN; }

static void find_stops(const formatter *f, line *row) {
    for (int k = 0; k < N_STOPS; k++) row->stops[k] = row->at[k] = -1;
    if (row->comment != NULL && row->n > 0) row->stops[STOP_COMMENT] = (int)row->n;
    if (row->n == 0 || row->in_bracket) return;
    size_t i = row->first, end = row->first + row->n;
    if (!row->continues && declares(f, i)) row->stops[STOP_NAME] = 1;
    size_t name = !row->continues && (declares(f, i) || lists(f, i)) ? i + 1 : i;
    bool is_list = row->continues ? lists(f, f->lines.items[row->statement].first) : name > i;
    if (is_list && name + 2 < end && f->tokens[name + 1].kind == DT_TOKEN_COLON) row->stops[STOP_COLON] = (int)(name + 2 - i);
    for (int depth = 0; i < end && row->stops[STOP_ASSIGN] < 0 && !row->continues; i++) {
        dt_token_kind kind = f->tokens[i].kind;
        depth += opens(kind) - closes(kind);
        if (depth == 0 && (kind == DT_TOKEN_ASSIGN || kind == DT_TOKEN_WRITE)) row->stops[STOP_ASSIGN] = (int)(i - row->first);
    }
}

/* Depth, statement and stops of each line. */
static void survey(formatter *f) {
    DT_LIST(dt_token_kind) brackets = {0};
    int depth = 0;
    size_t statement = 0;
    for (size_t k = 0; k < f->lines.n; k++) {
        line *row = &f->lines.items[k];
        row->in_bracket = brackets.n > 0 && brackets.items[brackets.n - 1] != DT_TOKEN_OPEN_BRACE;
        row->continues = row->first > 0 && !f->ends_statement[row->first - 1] && f->tokens[row->first - 1].kind != DT_TOKEN_OPEN_BRACE;
        if (!row->continues && row->n > 0) statement = k;
        row->statement = statement;
        row->depth = depth - (row->n > 0 && f->tokens[row->first].kind == DT_TOKEN_CLOSE_BRACE);
        for (size_t i = row->first; i < row->first + row->n; i++) {
            dt_token_kind kind = f->tokens[i].kind;
            depth += (kind == DT_TOKEN_OPEN_BRACE) - (kind == DT_TOKEN_CLOSE_BRACE);
            if (opens(kind)) dt_list_push(f->arena, &brackets, kind);
            if (closes(kind) && brackets.n > 0) brackets.n--;
        }
        if (!row->continues) row->column = row->depth * INDENT;
        bool in_list = row->continues && !row->in_bracket && row->n > 0 && lists(f, f->lines.items[statement].first);
        if (in_list) row->column = f->lines.items[statement].column + (int)strlen(f->texts[f->lines.items[statement].first]) + 1;
        find_stops(f, row);
    }
}

/* ---- where things go ---- */

/* Of what comes after a line's token i, which stands at `column`. */
static int next_column(const formatter *f, const line *row, int column, size_t i) {
    for (int k = 0; k < N_STOPS; k++)
        if (row->stops[k] == (int)i + 1 && row->at[k] >= 0) return row->at[k];
    return column + (int)f->tokens[row->first + i].span.length + (i + 1 < row->n ? gap(f, row->first + i) : 1);
}

/* The column of a line's token, or of its comment, when its first token stands at `column`. */
static int column_of(const formatter *f, const line *row, int column, size_t token) {
    for (size_t i = 0; i < token; i++) column = next_column(f, row, column, i);
    return column;
}

static int source_column(const formatter *f, const line *row, int k) {
    return row->stops[k] == (int)row->n ? row->comment_column : f->tokens[row->first + (size_t)row->stops[k]].span.column - 1;
}

/* Blanks before the stop in the source. */
static int source_gap(const formatter *f, const line *row, int k) {
    const dt_span before = f->tokens[row->first + (size_t)row->stops[k] - 1].span;
    return source_column(f, row, k) - (before.column - 1 + before.length);
}

/* The next line after k that may share a column with it at that stop: lines that only continue a statement lie between at most. */
static size_t neighbour(const formatter *f, size_t k, int stop) {
    for (k++; k < f->lines.n; k++) {
        const line *row = &f->lines.items[k];
        if (row->column >= 0 && row->stops[stop] >= 0) return k;
        if (!row->continues || row->n == 0) break;
    }
    return f->lines.n;
}

static void align(formatter *f, int stop) {
    for (size_t k = 0; k < f->lines.n; k++) {
        line *row = &f->lines.items[k];
        if (row->column < 0 || row->stops[stop] < 0 || row->at[stop] >= 0) continue;
        int common = source_column(f, row, stop), column = 0, least = source_gap(f, row, stop);
        bool is_wide = false;
        size_t last = k, n = 0;
        for (size_t i = k; i < f->lines.n && source_column(f, &f->lines.items[i], stop) == common; i = neighbour(f, i, stop)) {
            const line *member = &f->lines.items[i];
            int own = column_of(f, member, member->column, (size_t)member->stops[stop]);
            if (own > column) column = own;
            int blanks = source_gap(f, member, stop);
            if (blanks < least) least = blanks;
            is_wide |= blanks > 1;
            last = i;
            n++;
        }
        bool is_comment = stop == STOP_COMMENT; /* which keeps its distance, alone too */
        if (is_comment && least > 1) column += least - 1;
        for (size_t i = k; is_wide && (n > 1 || is_comment); i = neighbour(f, i, stop)) {
            f->lines.items[i].at[stop] = column;
            if (i == last) break;
        }
    }
}

typedef struct bracket {
    bool is_brace, ends_line; /* nothing follows in its line */
    int column, line_column;  /* its own; that of its line's first token */
} bracket;
typedef DT_LIST(bracket) bracket_list;

/* The column of a line whose place depends on what stands above it. */
static int continued_column(const formatter *f, const line *row, const bracket_list *brackets) {
    const line *statement = &f->lines.items[row->statement];
    const bracket *inner = brackets->n > 0 ? &brackets->items[brackets->n - 1] : NULL;
    if (inner != NULL && !inner->is_brace) {
        bool is_close = row->n > 0 && closes(f->tokens[row->first].kind);
        if (inner->ends_line) return inner->line_column + (is_close ? 0 : INDENT);
        return inner->column + (is_close ? 0 : 1);
    }
    int assign = statement->stops[STOP_ASSIGN];
    bool is_pipe = row->n > 0 && f->tokens[row->first].kind == DT_TOKEN_PIPE;
    if (assign < 0 || (size_t)assign + 1 >= statement->n) return statement->column + INDENT;
    return column_of(f, statement, statement->column, (size_t)assign + (is_pipe ? 0 : 1));
}

static void pad(dt_text *text, int n) {
    while (n-- > 0) dt_text_append(text, " ");
}

static void print_line(const formatter *f, const line *row, bracket_list *brackets, dt_text *text) {
    int own = row->column >= 0 ? row->column : continued_column(f, row, brackets), column = 0, to = own;
    for (size_t i = 0; i < row->n; i++) {
        pad(text, to - column);
        dt_text_append(text, f->texts[row->first + i]);
        column = to + f->tokens[row->first + i].span.length;
        dt_token_kind kind = f->tokens[row->first + i].kind;
        bracket opened = {kind == DT_TOKEN_OPEN_BRACE, i + 1 == row->n, to, own};
        if (opens(kind)) dt_list_push(f->arena, brackets, opened);
        if (closes(kind) && brackets->n > 0) brackets->n--;
        to = next_column(f, row, to, i);
    }
    if (row->comment != NULL) {
        pad(text, to - column);
        dt_text_append_bytes(text, row->comment, (size_t)row->n_comment);
    }
    dt_text_append(text, "\n");
}

/* ---- all ---- */

static void prepare(formatter *f, const dt_token *tokens, size_t n_tokens, const char *source) {
    dt_token *kept = DT_NEW_ARRAY(f->arena, dt_token, n_tokens);
    f->texts = DT_NEW_ARRAY(f->arena, const char *, n_tokens);
    f->is_unary = DT_NEW_ARRAY(f->arena, bool, n_tokens);
    f->slice = DT_NEW_ARRAY(f->arena, int, n_tokens);
    f->ends_statement = DT_NEW_ARRAY(f->arena, bool, n_tokens);
    f->tokens = kept;
    const char *start = source;
    int number = 1;
    for (size_t i = 0; i < n_tokens; i++) {
        dt_token_kind kind = tokens[i].kind;
        if (kind == DT_TOKEN_NEWLINE && f->n > 0) f->ends_statement[f->n - 1] = true;
        if (kind == DT_TOKEN_NEWLINE || kind == DT_TOKEN_END) continue;
        for (; number < tokens[i].span.line; number++) start = strchr(start, '\n') + 1;
        f->texts[f->n] = dt_arena_substring(f->arena, start + tokens[i].span.column - 1, (size_t)tokens[i].span.length);
        kept[f->n++] = tokens[i];
    }
    classify(f);
    split(f, source);
    survey(f);
    for (int k = 0; k < N_STOPS; k++) align(f, k);
}

static const char *print(const formatter *f) {
    dt_text text = {.arena = f->arena};
    bracket_list brackets = {0};
    bool after_blank = false, after_open = true;
    dt_text_append(&text, "");
    for (size_t k = 0; k < f->lines.n; k++) {
        const line *row = &f->lines.items[k];
        if (is_blank(row)) {
            after_blank = true;
            continue;
        }
        bool is_end = row->n > 0 && f->tokens[row->first].kind == DT_TOKEN_CLOSE_BRACE;
        if (after_blank && !after_open && !is_end) dt_text_append(&text, "\n");
        after_blank = false;
        after_open = row->n > 0 && f->tokens[row->first + row->n - 1].kind == DT_TOKEN_OPEN_BRACE && row->comment == NULL;
        print_line(f, row, &brackets, &text);
    }
    return text.data;
}

/* Whether two texts are the same tokens: that of a program, and what was made of it. */
static bool same_tokens(dt_arena *arena, const formatter *f, const char *formatted, size_t n_tokens) {
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    size_t n, k = 0;
    const dt_token *tokens = dt_lex(arena, diagnostics, dt_diagnostics_add_file(diagnostics, "", formatted), formatted, &n);
    if (n != n_tokens) return false;
    for (size_t i = 0; i < n; i++) {
        if (tokens[i].kind == DT_TOKEN_NEWLINE || tokens[i].kind == DT_TOKEN_END) continue;
        if (k == f->n || tokens[i].kind != f->tokens[k].kind || tokens[i].span.length != f->tokens[k].span.length) return false;
        k++;
    }
    return k == f->n;
}

dt_status *dt_dsl_format(dt_arena *arena, const char *path, const char *source, dt_diagnostics *diagnostics, const char **formatted) {
    *formatted = NULL;
    source = dt_source_text(source);
    int file = dt_diagnostics_add_file(diagnostics, path, source);
    dt_parse(arena, diagnostics, file, source);
    if (dt_diagnostics_n_errors(diagnostics) > 0) return NULL;
    size_t n_tokens;
    const dt_token *tokens = dt_lex(arena, diagnostics, file, source, &n_tokens);
    formatter f = {.arena = arena};
    prepare(&f, tokens, n_tokens, source);
    const char *text = print(&f);
    if (!same_tokens(arena, &f, text, n_tokens)) return dt_error(DT_INTERNAL, "%s: formatting would change the program", path);
    *formatted = text;
    return NULL;
}
