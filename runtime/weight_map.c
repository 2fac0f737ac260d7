/* weight_map: the parser of a map (weight_map.h), a rule a line. */
#include "runtime/weight_map.h"

#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SIZE ((int64_t)1 << 50) /* of an axis */

enum {
    MOST_WRONG_LINES = 10, /* that a message shows */
    MOST_CAPTURES = 8,     /* of a rule: what they may stand for is searched */
    MOST_AXES = 16,
    MOST_ADDED = 1000000,
    MOST_SHOWN = 60 /* characters of what was found where something else is expected */
};

typedef DT_LIST(int) int_list;
typedef DT_LIST(int64_t) size_list;
typedef DT_LIST(const char *) name_list;

typedef struct parser {
    dt_arena *arena;
    const char *path;
    int line;
    const char *start, *at, *end; /* of the line; `end` is where its text ends */
    bool is_wrong;                /* the line, and it was said */
    int n_wrong;
    dt_text *wrong;
} parser;

/* Says what is wrong at `at`, once a line. Returns false. */
static bool wrong_at(parser *in, const char *at, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool wrong_at(parser *in, const char *at, const char *format, ...) {
    if (in->is_wrong) return false;
    in->is_wrong = true;
    if (in->n_wrong++ >= MOST_WRONG_LINES) return false;
    int column = 1;
    for (const char *c = in->start; c < at; c++) column += (*c & 0xc0) != 0x80; /* characters of UTF-8 */
    va_list arguments;
    va_start(arguments, format);
    dt_text_format(in->wrong, "%s%s:%d:%d: ", in->n_wrong > 1 ? "\n" : "", in->path, in->line, column);
    dt_text_vformat(in->wrong, format, arguments);
    va_end(arguments);
    return false;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void skip_blanks(parser *in) {
    while (in->at < in->end && is_blank(*in->at)) in->at++;
}

/* Whether `word` comes next; it is passed over then. */
static bool take(parser *in, const char *word) {
    skip_blanks(in);
    size_t n = strlen(word);
    if ((size_t)(in->end - in->at) < n || memcmp(in->at, word, n) != 0) return false;
    in->at += n;
    return true;
}

static bool at_end(parser *in) {
    skip_blanks(in);
    return in->at == in->end;
}

/* What stands at the place, for messages. */
static const char *found(parser *in) {
    if (at_end(in)) return "the end of the line";
    const char *end = in->at;
    while (end < in->end && !is_blank(*end) && end - in->at < MOST_SHOWN) end++;
    return dt_arena_format(in->arena, "`%.*s`", (int)(end - in->at), in->at);
}

/* A whole number that is not negative. */
static bool parse_integer(parser *in, int64_t *value) {
    const char *first = in->at;
    *value = 0;
    while (in->at < in->end && is_digit(*in->at))
        if ((*value = 10 * *value + (*in->at++ - '0')) > MOST_SIZE) return wrong_at(in, first, "the number is too large");
    return in->at > first || wrong_at(in, first, "expected a whole number, found %s", found(in));
}

/* The letters, digits and _ from here on, of which there must be a letter first. */
static bool parse_name(parser *in, const char *what, const char **name) {
    const char *first = in->at;
    if (in->at == in->end || !is_letter(*in->at)) return wrong_at(in, first, "expected %s, found %s", what, found(in));
    while (in->at < in->end && (is_letter(*in->at) || is_digit(*in->at) || *in->at == '_')) in->at++;
    *name = dt_arena_substring(in->arena, first, (size_t)(in->at - first));
    return true;
}

/* ---- names ---- */

typedef DT_LIST(dt_weight_part) part_list;

/* {i}, {i+1}, {i-1}, {_i}: the '{' is passed over. */
static bool parse_number_part(parser *in, part_list *parts) {
    dt_weight_part part = {.kind = DT_WEIGHT_NUMBER, .capture = -1};
    const char *name = NULL;
    part.numbered = in->at < in->end && *in->at == '_';
    in->at += part.numbered;
    if (!parse_name(in, "the name of a number, as in {i}", &name)) return false;
    bool less = in->at < in->end && *in->at == '-';
    if (less || (in->at < in->end && *in->at == '+')) {
        const char *sign = in->at++;
        if (!parse_integer(in, &part.added)) return false;
        if (part.added > MOST_ADDED) return wrong_at(in, sign, "at most %d can be added to a number", MOST_ADDED);
        if (less) part.added = -part.added;
    }
    if (in->at == in->end || *in->at++ != '}') return wrong_at(in, in->at, "expected `}`: a number is written {i}, {i+1}, {i-1} or {_i}");
    part.text = name;
    part.n = strlen(name);
    dt_list_push(in->arena, parts, part);
    return true;
}

static bool parse_part(parser *in, part_list *parts) {
    dt_weight_part part = {.kind = DT_WEIGHT_TEXT, .text = "", .capture = -1};
    const char *first = in->at;
    if (*in->at == '{') {
        in->at++;
        return parse_number_part(in, parts);
    }
    if (*in->at == '*') {
        in->at++;
        bool is_double = in->at < in->end && *in->at == '*';
        in->at += is_double;
        part.kind = is_double ? DT_WEIGHT_WORDS : DT_WEIGHT_WORD;
    } else {
        while (in->at < in->end && !is_blank(*in->at) && strchr("{*[", *in->at) == NULL) in->at++;
        part.n = (size_t)(in->at - first);
        part.text = dt_arena_substring(in->arena, first, part.n);
    }
    dt_list_push(in->arena, parts, part);
    return true;
}

/* ":", "2:", ":5" or "2:5". */
static bool parse_range(parser *in, dt_weight_range *range) {
    *range = (dt_weight_range){.end = -1};
    skip_blanks(in);
    const char *first = in->at;
    if (in->at < in->end && is_digit(*in->at) && !parse_integer(in, &range->begin)) return false;
    if (!take(in, ":")) return wrong_at(in, in->at, "expected a range, as in `0:384`, or `:` for all of an axis, found %s", found(in));
    skip_blanks(in);
    if (in->at < in->end && is_digit(*in->at) && !parse_integer(in, &range->end)) return false;
    if (range->end < 0 || range->begin < range->end) return true;
    return wrong_at(in, first, "the range is empty: it begins at %lld and ends before %lld", (long long)range->begin, (long long)range->end);
}

static bool parse_ranges(parser *in, dt_weight_side *side) {
    DT_LIST(dt_weight_range) ranges = {0};
    do {
        dt_weight_range range;
        if (!parse_range(in, &range)) return false;
        dt_list_push(in->arena, &ranges, range);
    } while (take(in, ","));
    if (!take(in, "]")) return wrong_at(in, in->at, "expected `,` or `]` after a range, found %s", found(in));
    side->n_ranges = (int)ranges.n;
    side->ranges = ranges.items;
    return true;
}

static bool parse_side(parser *in, const char *what, dt_weight_side *side) {
    part_list parts = {0};
    skip_blanks(in);
    const char *first = in->at;
    side->n_ranges = -1;
    while (in->at < in->end && !is_blank(*in->at) && *in->at != '[')
        if (!parse_part(in, &parts)) return false;
    side->is_none = in->at - first == 4 && memcmp(first, "none", 4) == 0;
    if (in->at == first) return wrong_at(in, first, "expected %s, found %s", what, found(in));
    side->n_parts = (int)parts.n;
    side->parts = parts.items;
    if (in->at < in->end && *in->at == '[') {
        if (side->is_none) return wrong_at(in, in->at, "none is no tensor: it has no ranges");
        in->at++;
        if (!parse_ranges(in, side)) return false;
    }
    side->text = dt_arena_substring(in->arena, first, (size_t)(in->at - first));
    if (in->at < in->end && !is_blank(*in->at)) return wrong_at(in, in->at, "expected a blank after %s, found %s", side->text, found(in));
    return true;
}

/* ---- captures ---- */

static bool is_wildcard(const dt_weight_part *part) { return part->kind == DT_WEIGHT_WORD || part->kind == DT_WEIGHT_WORDS; }

static bool is_same_capture(const dt_weight_part *a, const dt_weight_part *b) {
    return a->kind == b->kind && (a->kind != DT_WEIGHT_NUMBER || (a->n == b->n && memcmp(a->text, b->text, a->n) == 0));
}

/* Numbers what the side captures in the order of its names and wildcards; -1 after a message. */
static int number_captures(parser *in, const char *place, dt_weight_side *side) {
    int n = 0;
    for (int i = 0; i < side->n_parts; i++) {
        if (side->parts[i].kind == DT_WEIGHT_TEXT) continue;
        for (int j = 0; j < i; j++)
            if (side->parts[i].kind == DT_WEIGHT_NUMBER && is_same_capture(&side->parts[j], &side->parts[i])) {
                wrong_at(in, place, "{%s} is twice in %s: give the second another name", side->parts[i].text, side->text);
                return -1;
            }
        side->parts[i].capture = n++;
    }
    if (n > MOST_CAPTURES) {
        wrong_at(in, place, "%s has %d wildcards and numbers, at most %d can be told apart: write some of them out", side->text, n, MOST_CAPTURES);
        return -1;
    }
    return n;
}

/* The part of `side` that is the same capture as `part`: of wildcards of a kind the one as many of them come before. NULL: none. */
static const dt_weight_part *counterpart(const dt_weight_side *from, const dt_weight_part *part, const dt_weight_side *side) {
    int before = 0;
    for (const dt_weight_part *p = from->parts; p < part; p++) before += is_wildcard(part) && is_same_capture(p, part);
    for (int i = 0; i < side->n_parts; i++)
        if (is_same_capture(&side->parts[i], part) && before-- == 0) return &side->parts[i];
    return NULL;
}

static const char *print_part(parser *in, const dt_weight_part *part) {
    if (part->kind != DT_WEIGHT_NUMBER) return part->kind == DT_WEIGHT_WORD ? "*" : "**";
    return dt_arena_format(in->arena, "{%s}", part->text);
}

/* Each capture of a side must be on the other one, unless that is none. */
static bool link_captures(parser *in, const char *const places[DT_N_WEIGHT_ENDS], dt_weight_rule *rule) {
    dt_weight_side *theirs = &rule->sides[DT_THEIRS], *ours = &rule->sides[DT_OURS];
    int n_theirs = number_captures(in, places[DT_THEIRS], theirs), n_ours = number_captures(in, places[DT_OURS], ours);
    if (n_theirs < 0 || n_ours < 0) return false;
    rule->n_captures = n_theirs > n_ours ? n_theirs : n_ours;
    if (theirs->is_none || ours->is_none) return true;
    for (int i = 0; i < theirs->n_parts; i++)
        if (theirs->parts[i].capture >= 0 && counterpart(theirs, &theirs->parts[i], ours) == NULL)
            return wrong_at(in, places[DT_OURS], "%s of %s is not in %s: what differs from tensor to tensor must be on both sides",
                            print_part(in, &theirs->parts[i]), theirs->text, ours->text);
    for (int i = 0; i < ours->n_parts; i++) {
        dt_weight_part *part = &ours->parts[i];
        if (part->capture < 0) continue;
        const dt_weight_part *there = counterpart(ours, part, theirs);
        if (there == NULL)
            return wrong_at(in, places[DT_OURS], "%s is not in %s: what differs from tensor to tensor must be on both sides", print_part(in, part),
                            theirs->text);
        part->capture = there->capture;
    }
    return true;
}

/* ---- axes and other steps ---- */

typedef struct axes_builder {
    name_list names;
    size_list sizes;
    int_list first[DT_N_WEIGHT_ENDS], axes[DT_N_WEIGHT_ENDS];
} axes_builder;

static int find_axis(const axes_builder *made, const char *name) {
    for (size_t i = 0; i < made->names.n; i++)
        if (strcmp(made->names.items[i], name) == 0) return (int)i;
    return -1;
}

static bool parse_axis(parser *in, axes_builder *made, dt_weight_end side) {
    const char *first = in->at, *name = NULL;
    if (!parse_name(in, "an axis: a letter, or a word", &name)) return false;
    int axis = find_axis(made, name);
    if (axis < 0 && side == DT_OURS) return wrong_at(in, first, "axis %s is not on the left of `->`", name);
    for (size_t i = 0; i < made->axes[side].n; i++)
        if (made->axes[side].items[i] == axis) return wrong_at(in, first, "axis %s is twice on one side of `->`", name);
    if (made->axes[side].n == MOST_AXES) return wrong_at(in, first, "at most %d axes", MOST_AXES);
    if (axis < 0) {
        axis = (int)made->names.n;
        dt_list_push(in->arena, &made->names, name);
        dt_list_push(in->arena, &made->sizes, 0);
    }
    dt_list_push(in->arena, &made->axes[side], axis);
    return true;
}

static bool parse_group(parser *in, axes_builder *made, dt_weight_end side) {
    const char *first = in->at - 1;
    while (!take(in, ")")) {
        if (at_end(in)) return wrong_at(in, first, "the `(` is not closed");
        if (!parse_axis(in, made, side)) return false;
    }
    return true;
}

static bool parse_order(parser *in, axes_builder *made, dt_weight_end side) {
    dt_list_push(in->arena, &made->first[side], 0);
    while (!at_end(in) && *in->at != ',' && *in->at != '-') {
        if (take(in, "(") ? !parse_group(in, made, side) : !take(in, "1") && !parse_axis(in, made, side)) return false;
        dt_list_push(in->arena, &made->first[side], (int)made->axes[side].n);
    }
    return true;
}

static const dt_weight_axes *finish_axes(parser *in, const axes_builder *made, const char *text) {
    dt_weight_axes *axes = DT_NEW(in->arena, dt_weight_axes);
    axes->text = text;
    axes->n = (int)made->names.n;
    axes->names = made->names.items;
    axes->sizes = made->sizes.items;
    for (int side = 0; side < DT_N_WEIGHT_ENDS; side++)
        axes->orders[side] =
            (dt_weight_order){.n_dims = (int)made->first[side].n - 1, .first = made->first[side].items, .axes = made->axes[side].items};
    return axes;
}

static bool parse_axes(parser *in, axes_builder *made) {
    if (!parse_order(in, made, DT_THEIRS)) return false;
    if (!take(in, "->")) return wrong_at(in, in->at, "expected `->` between the axes of theirs and of ours, found %s", found(in));
    if (!parse_order(in, made, DT_OURS)) return false;
    for (size_t i = 0; i < made->names.n; i++) {
        bool is_there = false;
        for (size_t j = 0; j < made->axes[DT_OURS].n; j++) is_there |= made->axes[DT_OURS].items[j] == (int)i;
        if (!is_there) return wrong_at(in, in->at, "axis %s is missing on the right of `->`", made->names.items[i]);
    }
    return true;
}

static bool parse_scale(parser *in, const char *first, double *scale) {
    char *after;
    skip_blanks(in);
    errno = 0;
    double value = strtod(in->at, &after); /* the text is terminated, and a line's end ends a number */
    if (after == in->at || after > in->end) return wrong_at(in, in->at, "expected a number, found %s", found(in));
    in->at = after;
    if (!isnormal(value) || *scale != 1)
        return wrong_at(in, first, *scale != 1 ? "the scale is said twice" : "a scale must be a number that can be divided by again");
    *scale = value;
    return true;
}

/* scale=NUMBER, or the size of an axis. */
static bool parse_setting(parser *in, axes_builder *made, dt_weight_rule *rule) {
    skip_blanks(in);
    const char *first = in->at, *name = NULL;
    if (!parse_name(in, "scale=NUMBER, or the size of an axis, as in h=5", &name)) return false;
    if (!take(in, "=")) return wrong_at(in, in->at, "expected `=` after %s, found %s", name, found(in));
    if (strcmp(name, "scale") == 0) return parse_scale(in, first, &rule->scale);
    int axis = find_axis(made, name);
    int64_t size;
    if (axis < 0) return wrong_at(in, first, "there is no axis %s: axes are said first, as in `o (c h w) -> (h w c) o, h=5`", name);
    skip_blanks(in);
    if (!parse_integer(in, &size)) return false;
    if (size == 0 || made->sizes.items[axis] != 0) return wrong_at(in, first, size == 0 ? "the size of an axis is 1 or more" : "said twice");
    made->sizes.items[axis] = size;
    return true;
}

/* Whether axes come next: there is a `->` before the next comma. */
static bool has_axes(const parser *in) {
    for (const char *c = in->at; c < in->end && *c != ','; c++)
        if (c + 1 < in->end && c[0] == '-' && c[1] == '>') return true;
    return false;
}

static bool parse_steps(parser *in, dt_weight_rule *rule) {
    axes_builder made = {0};
    skip_blanks(in);
    const char *first = in->at;
    bool are_axes = has_axes(in);
    if (are_axes && !parse_axes(in, &made)) return false;
    for (bool more = are_axes ? take(in, ",") : true; more; more = take(in, ","))
        if (!parse_setting(in, &made, rule)) return false;
    const char *end = in->at;
    if (!at_end(in)) return wrong_at(in, in->at, "expected `,` or the end of the line, found %s", found(in));
    if (are_axes) rule->axes = finish_axes(in, &made, dt_arena_substring(in->arena, first, (size_t)(end - first)));
    return true;
}

const dt_weight_axes *dt_weight_axes_parse(dt_arena *arena, const char *text) {
    dt_text wrong = {.arena = arena};
    parser in = {.arena = arena, .path = "", .start = text, .at = text, .end = text + strlen(text), .wrong = &wrong};
    dt_weight_rule rule = {.scale = 1};
    return parse_steps(&in, &rule) ? rule.axes : NULL;
}

/* ---- rules ---- */

static bool parse_rule(parser *in, dt_weight_rule *rule) {
    const char *places[DT_N_WEIGHT_ENDS] = {in->at};
    dt_weight_side *theirs = &rule->sides[DT_THEIRS], *ours = &rule->sides[DT_OURS];
    *rule = (dt_weight_rule){.line = in->line, .scale = 1};
    if (!parse_side(in, "the name of a tensor of the file", theirs)) return false;
    if (!take(in, "->")) return wrong_at(in, in->at, "expected `->` after %s, found %s: a rule is `THEIRS -> OURS`", theirs->text, found(in));
    skip_blanks(in);
    places[DT_OURS] = in->at;
    if (!parse_side(in, "the path of a variable of the program, or none", ours)) return false;
    if (theirs->is_none && ours->is_none) return wrong_at(in, places[DT_THEIRS], "none on both sides: name a tensor on one of them");
    if (!link_captures(in, places, rule)) return false;
    if (at_end(in)) return true;
    const char *colon = in->at;
    if (!take(in, ":"))
        return wrong_at(in, colon, "expected ` : ` and axes, a blank before and after it, or the end of the line, found %s", found(in));
    if (theirs->is_none || ours->is_none) return wrong_at(in, colon, "nothing can be done with a tensor that goes nowhere: end the line before `:`");
    return parse_steps(in, rule);
}

/* Where the text of a line ends: before a comment, which begins the line or follows a blank. */
static const char *text_end(const char *line, const char *end) {
    for (const char *c = line; c < end; c++)
        if (*c == '#' && (c == line || is_blank(c[-1]))) return c;
    return end;
}

dt_status *dt_weight_map_parse(dt_arena *arena, const char *path, const char *text, size_t n, const dt_weight_map **map) {
    DT_LIST(dt_weight_rule) rules = {0};
    dt_text wrong = {.arena = arena};
    parser in = {.arena = arena, .path = path, .wrong = &wrong};
    const char *end = text + n;
    *map = NULL;
    if (memchr(text, 0, n) != NULL) return dt_error_in(DT_INVALID_ARGUMENT, path, 0, "is not a map of names: it is not text");
    for (const char *line = text; line < end; line = in.end + 1) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline != NULL ? newline : end;
        in.line++;
        in.is_wrong = false;
        in.start = in.at = line;
        in.end = text_end(line, line_end);
        dt_weight_rule rule;
        if (!at_end(&in) && parse_rule(&in, &rule)) dt_list_push(arena, &rules, rule);
        in.end = line_end;
    }
    if (in.n_wrong > MOST_WRONG_LINES) dt_text_format(&wrong, "\n%s: and %d more lines", path, in.n_wrong - MOST_WRONG_LINES);
    if (in.n_wrong > 0) return dt_error(DT_INVALID_ARGUMENT, "%s", wrong.data);
    if (rules.n == 0)
        return dt_error_in(DT_INVALID_ARGUMENT, path, 0, "holds no rule: write one a line, as in `fc.weight -> Net/dense/kernel : o i -> i o`");
    dt_weight_map *made = DT_NEW(arena, dt_weight_map);
    *made = (dt_weight_map){.path = dt_arena_string(arena, path), .n_rules = (int)rules.n, .rules = rules.items};
    *map = made;
    return NULL;
}

const dt_weight_map *dt_weight_map_identity(dt_arena *arena) {
    static const char text[] = "** -> **";
    const dt_weight_map *map;
    dt_status_free(dt_weight_map_parse(arena, "", text, sizeof text - 1, &map));
    dt_weight_map *made = dt_arena_copy(arena, map, sizeof *map);
    made->path = NULL;
    return made;
}
