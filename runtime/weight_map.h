/* weight_map: rules that say which tensor of a file made elsewhere is which variable of a program, and how its axes lie. docs/weights.md has the
 * grammar.
 *
 *   encoder.layer.{i}.output.dense.weight -> MiniLm/layer_{i}/dense_1/kernel      : o i -> i o
 *   h.{i}.attn.c_attn.weight[:, 0:768]    -> Gpt/block{_i}/attention/query/kernel
 *   fc.weight                             -> Cnn/dense/kernel                     : o (c h w) -> (h w c) o, h=5, w=5
 *   pooler.**                             -> none
 *
 * Each rule is two sides of one kind and steps that can be undone, so that one map serves both directions: loading goes from their side to ours,
 * exporting back. */
#ifndef DT_RUNTIME_WEIGHT_MAP_H
#define DT_RUNTIME_WEIGHT_MAP_H

#include "base/arena.h"
#include "runtime/weight_axes.h"

#include <stdbool.h>

/* Of one axis, [begin, end); end -1: to the end of the axis. */
typedef struct dt_weight_range {
    int64_t begin, end;
} dt_weight_range;

typedef enum dt_weight_part_kind {
    DT_WEIGHT_TEXT,
    DT_WEIGHT_NUMBER, /* {i}, {i+1}; numbered: {_i}, which is nothing for 0, else _1, _2, … */
    DT_WEIGHT_WORD,   /* *  : characters that are neither '.' nor '/', at least one */
    DT_WEIGHT_WORDS   /* ** : any characters, at least one */
} dt_weight_part_kind;

/* A piece of a name's pattern. */
typedef struct dt_weight_part {
    dt_weight_part_kind kind;
    const char *text; /* [n] of a text, itself; of a number, its name */
    size_t n;
    bool numbered;
    int64_t added; /* to what the name stands for */
    int capture;   /* which one of the rule's it is: the same on both sides; -1: none */
} dt_weight_part;

typedef struct dt_weight_side {
    bool is_none;
    const char *text; /* as written */
    int n_parts;
    dt_weight_part *parts;
    int n_ranges; /* -1: all of the tensor */
    dt_weight_range *ranges;
} dt_weight_side;

typedef struct dt_weight_rule {
    int line;
    dt_weight_side sides[DT_N_WEIGHT_ENDS];
    int n_captures;
    const dt_weight_axes *axes; /* NULL: as they are */
    double scale;               /* ours is theirs times this */
} dt_weight_rule;

typedef struct dt_weight_map {
    const char *path; /* NULL: the caller wrote no map */
    int n_rules;
    const dt_weight_rule *rules;
} dt_weight_map;

/* Reads text of `n` bytes and a 0; `path` is for messages. The map, a copy of both, lives in the arena, whose guard is set.
 * DT_INVALID_ARGUMENT has a line for each wrong one: where, what, what to do. */
dt_status *dt_weight_map_parse(dt_arena *arena, const char *path, const char *text, size_t n, const dt_weight_map **map);

/* The map that gives each tensor its own name. */
const dt_weight_map *dt_weight_map_identity(dt_arena *arena);

/* Whether the rule is about a tensor `name` of the side `from`; then *other is its name on the other side, NULL where that is none. */
bool dt_weight_rule_matches(dt_arena *arena, const dt_weight_rule *rule, dt_weight_end from, const char *name, const char **other);

/* "o i -> i o" alone: for hints. NULL where it is no such thing. */
const dt_weight_axes *dt_weight_axes_parse(dt_arena *arena, const char *text);

#endif
