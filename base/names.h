/* names: which number belongs to a name, as a hash table in an arena. */
#ifndef DT_BASE_NAMES_H
#define DT_BASE_NAMES_H

#include "base/arena.h"

typedef struct dt_names {
    size_t n, n_places; /* a power of two, or 0 */
    struct dt_named {
        const char *name; /* the caller's; NULL: nothing is there */
        int number;
    } * places;
} dt_names;

/* Gives the name its number, of 0 or more; a name that has one keeps it. All of a table is in one arena. */
void dt_names_add(dt_arena *arena, dt_names *names, const char *name, int number);
/* -1: it has none. */
int dt_names_find(const dt_names *names, const char *name);

#endif
