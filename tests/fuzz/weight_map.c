/* maps of names from anywhere: what is accepted can be applied, in both directions. */
#include "runtime/weight_map.h"

#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* The name that comes of one is one as well. */
static void translate(dt_arena *arena, const dt_weight_rule *rule, dt_weight_end from, const char *name) {
    const char *other, *back;
    if (dt_weight_rule_matches(arena, rule, from, name, &other) && other != NULL) dt_weight_rule_matches(arena, rule, !from, other, &back);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char *const names[] = {"encoder.layer.11.attention.self.query.weight", "Net/layer_2/dense_1/kernel", "a", "0", "_1", "a.1/b_2.3"};
    jmp_buf guard;
    dt_arena *volatile arena = dt_arena_create();
    char *text = malloc(n + 1);
    if (arena == NULL || text == NULL) abort();
    memcpy(text, bytes, n);
    text[n] = 0;
    if (setjmp(guard) != 0) abort();
    dt_arena_guard(arena, &guard);
    const dt_weight_map *map;
    dt_status *status = dt_weight_map_parse(arena, "fuzz", text, n, &map);
    for (int r = 0; status == NULL && r < map->n_rules; r++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            for (int side = 0; side < DT_N_WEIGHT_ENDS; side++) translate(arena, &map->rules[r], (dt_weight_end)side, names[i]);
    dt_status_free(status);
    dt_arena_destroy(arena);
    free(text);
    return 0;
}
