/* weight_plan: a map applied to the tensors of one side: which tensors of the other side they make, of which pieces.
 *
 * The same in both directions. Loading knows what it is to make: the program's variables. Exporting finds it: a tensor is as large as its pieces are
 * together. Nothing is copied before all is known to fit. */
#ifndef DT_RUNTIME_WEIGHT_PLAN_H
#define DT_RUNTIME_WEIGHT_PLAN_H

#include "base/text.h"
#include "runtime/data/safetensors.h"
#include "runtime/weight_map.h"

/* A source tensor, or its ranges, that a rule puts into a target, or into ranges of it. */
typedef struct dt_weight_piece {
    const dt_weight_rule *rule;
    int source;
    const dt_weight_range *from, *to; /* [n_dims of the source], [n_dims of the target] */
    int n_axes;
    const int64_t *sizes; /* [n_axes] */
} dt_weight_piece;

typedef struct dt_weight_target {
    const char *name;
    dt_dtype dtype;
    int n_dims;
    int64_t *dims;
    bool is_named; /* by a rule with none on the other side: it is to stay as it is */
    DT_LIST(dt_weight_piece) pieces;
} dt_weight_target;

typedef struct dt_weight_plan {
    dt_arena *arena; /* its guard is set */
    const dt_weight_map *map;
    dt_weight_end from;
    dt_safetensors *file; /* of the sources */
    int n_sources;
    const dt_safetensor *sources;
    DT_LIST(dt_weight_target) targets;
    const char **unused;  /* [n_sources] why a source is in no target, "" where a rule says so; NULL: it is in one */
    const bool *rule_hit; /* [map->n_rules] whether a source fits the rule's pattern */
    int n_wrong;
    const dt_weight_rule *last_wrong;
    dt_text wrong;      /* what does not fit, a line each, the first few */
    dt_status *refusal; /* NULL, but where the arena's guard left the plan: its owner frees it */
} dt_weight_plan;

/* Applies plan->map to plan->sources. With plan->targets empty they are found, else they are all there can be. Fills the rest of the plan. */
void dt_weight_plan_make(dt_weight_plan *plan);

/* Elements of a target. */
int64_t dt_weight_target_elements(const dt_weight_target *target);

/* The source that a target is, element by element; NULL: it is made of several, or of other elements. */
const dt_safetensor *dt_weight_plan_same(const dt_weight_plan *plan, const dt_weight_target *target);

/* Makes a target, dense, in `data`. DT_OUT_OF_RANGE for a whole number that does not fit its type, and what dt_safetensors_load says. */
dt_status *dt_weight_plan_fill(const dt_weight_plan *plan, const dt_weight_target *target, void *data);

/* Appends "theirs f16[2, 3][0:1] -> ours f32[3]: o i -> i o, from f16", whatever the direction. */
void dt_weight_plan_print(const dt_weight_plan *plan, const dt_weight_target *target, const dt_weight_piece *piece, dt_text *text);

#endif
