/* cpu_target: see the header. */
#include "compiler/kernel/cpu_target.h"

#include <stddef.h>
#include <string.h>

/* What both have in common. */
#define ALIKE                                                                                                                                        \
    .line_bytes = 64, .page_bytes = 4096, .first_cache_bytes = 32 << 10, .second_cache_bytes = 1 << 20, .cache_share_bytes = 32 << 20,               \
    .second_cache_cost = 20, .latency_cost = 85, .enough_sums = 12, .latency_sums = 10

static const dt_cpu_target targets[] = {
    {.level = DT_LEVEL_V3, .vector_bytes = 32, .registers = 16, .load_cost = 10, .light_operations = 9, ALIKE},
    {.level = DT_LEVEL_V4, .vector_bytes = 64, .registers = 32, .load_cost = 12, .light_operations = 18, ALIKE},
};

const dt_cpu_target *dt_cpu_target_find(const char *level) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].level, level) == 0) return &targets[i];
    return NULL;
}
