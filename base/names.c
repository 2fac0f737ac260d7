/* names: see the header. Open addressing, half of the places empty. */
#include "base/names.h"

#include "base/text.h"

#include <string.h>

/* Where the name is, or would be. */
static struct dt_named *place_of(const dt_names *names, const char *name) {
    for (uint64_t at = dt_hash_bytes(name, strlen(name), DT_HASH_SEED);; at++) {
        struct dt_named *place = &names->places[at & (names->n_places - 1)];
        if (place->name == NULL || strcmp(place->name, name) == 0) return place;
    }
}

static void grow(dt_arena *arena, dt_names *names) {
    dt_names larger = {.n = names->n, .n_places = names->n_places > 0 ? 2 * names->n_places : 64};
    larger.places = DT_NEW_ARRAY(arena, struct dt_named, larger.n_places);
    for (size_t i = 0; i < names->n_places; i++)
        if (names->places[i].name != NULL) *place_of(&larger, names->places[i].name) = names->places[i];
    *names = larger;
}

void dt_names_add(dt_arena *arena, dt_names *names, const char *name, int number) {
    if (2 * (names->n + 1) > names->n_places) grow(arena, names);
    struct dt_named *place = place_of(names, name);
    if (place->name != NULL) return;
    *place = (struct dt_named){name, number};
    names->n++;
}

int dt_names_find(const dt_names *names, const char *name) {
    const struct dt_named *place = names->n > 0 ? place_of(names, name) : NULL;
    return place != NULL && place->name != NULL ? place->number : -1;
}
