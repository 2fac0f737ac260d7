/* weight_match: names against the patterns of a rule (weight_map.h). */
#include "base/text.h"
#include "runtime/weight_map.h"

#include <string.h>

enum {
    MOST_DIGITS = 9
};

/* What the captures of a rule stand for: a number, or `n` characters of the name. */
typedef struct capture {
    const char *text;
    size_t n;
    int64_t number;
} capture;

static bool match(const dt_weight_side *side, int part, const char *at, capture *captures);

static bool is_separator(char c) { return c == '.' || c == '/'; }

static bool match_number(const dt_weight_side *side, int i, const char *at, capture *captures) {
    const dt_weight_part *part = &side->parts[i];
    const char *digits = at + (part->numbered && *at == '_');
    int64_t value = 0;
    if (!part->numbered || digits > at)
        for (int n = 0; n < MOST_DIGITS && digits[n] >= '0' && digits[n] <= '9'; n++) {
            if (n > 0 && value == 0) break; /* no number begins with 0 but 0 itself */
            value = 10 * value + (digits[n] - '0');
            if (value < part->added || (part->numbered && value == 0)) continue;
            captures[part->capture].number = value - part->added;
            if (match(side, i + 1, digits + n + 1, captures)) return true;
        }
    if (!part->numbered || part->added > 0) return false;
    captures[part->capture].number = -part->added;
    return match(side, i + 1, at, captures);
}

static bool match_text(const dt_weight_side *side, int i, const char *at, capture *captures) {
    const dt_weight_part *part = &side->parts[i];
    for (size_t n = 1; at[n - 1] != 0 && (part->kind == DT_WEIGHT_WORDS || !is_separator(at[n - 1])); n++) {
        if (part->capture >= 0) captures[part->capture] = (capture){.text = at, .n = n};
        if (match(side, i + 1, at + n, captures)) return true;
    }
    return false;
}

/* Whether the parts from `i` on are what is at `at`. The shortest text that a wildcard can stand for is taken. */
static bool match(const dt_weight_side *side, int i, const char *at, capture *captures) {
    if (i == side->n_parts) return *at == 0;
    const dt_weight_part *part = &side->parts[i];
    if (part->kind == DT_WEIGHT_NUMBER) return match_number(side, i, at, captures);
    if (part->kind != DT_WEIGHT_TEXT) return match_text(side, i, at, captures);
    return strncmp(at, part->text, part->n) == 0 && match(side, i + 1, at + part->n, captures);
}

/* The name that a side has for these captures; NULL: a number would be less than 0. */
static const char *make_name(dt_arena *arena, const dt_weight_side *side, const capture *captures) {
    dt_text name = {.arena = arena};
    dt_text_append(&name, "");
    for (int i = 0; i < side->n_parts; i++) {
        const dt_weight_part *part = &side->parts[i];
        if (part->kind == DT_WEIGHT_TEXT)
            dt_text_append_bytes(&name, part->text, part->n);
        else if (part->kind != DT_WEIGHT_NUMBER)
            dt_text_append_bytes(&name, captures[part->capture].text, captures[part->capture].n);
        else {
            int64_t number = captures[part->capture].number + part->added;
            if (number < 0) return NULL;
            if (!part->numbered || number > 0) dt_text_format(&name, "%s%lld", part->numbered ? "_" : "", (long long)number);
        }
    }
    return name.data;
}

bool dt_weight_rule_matches(dt_arena *arena, const dt_weight_rule *rule, dt_weight_end from, const char *name, const char **other) {
    const dt_weight_side *here = &rule->sides[from], *there = &rule->sides[!from];
    capture *captures = DT_NEW_ARRAY(arena, capture, rule->n_captures);
    *other = NULL;
    if (here->is_none || !match(here, 0, name, captures)) return false;
    if (there->is_none) return true;
    *other = make_name(arena, there, captures);
    return *other != NULL;
}
