/* loops: see loops.h. The loops of each op are made by its row's function in the ops_CLASS.c of its class. */
#include "ir/loops.h"

#include "ir/graph.h"

const char *dt_combiner_name(dt_combiner combiner) {
    static const char *const names[] = {
        [DT_COMBINE_NONE] = "none", [DT_COMBINE_SUM] = "sum",       [DT_COMBINE_PRODUCT] = "product", [DT_COMBINE_MAX] = "max",
        [DT_COMBINE_MIN] = "min",   [DT_COMBINE_ARGMAX] = "argmax", [DT_COMBINE_ARGMIN] = "argmin"};
    return names[combiner];
}

dt_loops *dt_value_loops(dt_arena *arena, const dt_value *value) { return value->op->loops != NULL ? value->op->loops(arena, value) : NULL; }
