/* interleave: see interleave.h. A round is a turn of every place. As long as no file ends all rounds are alike, so one phase of the table holds them
 * all; a round in which a file ends is a phase of its own. */
#include "runtime/data/interleave.h"

#include "base/memory.h"

#include <stdbool.h>
#include <string.h>

/* What a place gives in a round: `n` rows from `row` on, in the first round of the phase. */
typedef struct share {
    int64_t row, n;
} share;

typedef struct phase {
    int64_t position; /* of its first row */
    int64_t n_a_round;
    int64_t first, end; /* of its shares */
} phase;

struct dt_interleave {
    int64_t n_phases, n_shares, phase_capacity, share_capacity;
    phase *phases;
    share *shares;
};

/* A place is empty, or at `row` of a file that ends at `end`. */
typedef struct place {
    bool is_open;
    int64_t row, end;
} place;

typedef struct walk {
    int64_t n_files, n_opened, n_places, block;
    const int64_t *ends;
    place *places; /* [n_places] */
} walk;

static void open_files(walk *at) {
    for (int64_t i = 0; i < at->n_places && at->n_opened < at->n_files; i++) {
        if (at->places[i].is_open) continue;
        int64_t file = at->n_opened++;
        at->places[i] = (place){true, file > 0 ? at->ends[file - 1] : 0, at->ends[file]};
    }
}

/* How many rounds all open files fill; 0: a place becomes empty in the next one. */
static int64_t count_full_rounds(const walk *at) {
    int64_t n = INT64_MAX;
    for (int64_t i = 0; i < at->n_places; i++) {
        int64_t own = (at->places[i].end - at->places[i].row) / at->block;
        if (at->places[i].is_open && own < n) n = own;
    }
    return n;
}

static bool make_room(dt_interleave *table, int64_t n_shares) {
    if (table->n_phases == table->phase_capacity) {
        int64_t capacity = table->phase_capacity * 2 + 16;
        phase *grown = dt_reallocate(table->phases, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return false;
        table->phases = grown;
        table->phase_capacity = capacity;
    }
    if (table->n_shares + n_shares > table->share_capacity) {
        int64_t capacity = table->share_capacity * 2 + n_shares;
        share *grown = dt_reallocate(table->shares, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return false;
        table->shares = grown;
        table->share_capacity = capacity;
    }
    return true;
}

/* A file is seen to have ended when there is nothing to read: within its turn, or at the beginning of the next one, which it then loses. */
static bool add_phase(dt_interleave *table, walk *at, int64_t *position) {
    int64_t n_rounds = count_full_rounds(at);
    if (!make_room(table, at->n_places)) return false;
    phase *added = &table->phases[table->n_phases++];
    *added = (phase){.position = *position, .first = table->n_shares};
    for (int64_t i = 0; i < at->n_places; i++) {
        place *here = &at->places[i];
        if (!here->is_open) continue;
        int64_t n_left = here->end - here->row, n = n_left < at->block ? n_left : at->block;
        if (n > 0) table->shares[table->n_shares++] = (share){here->row, n};
        added->n_a_round += n;
        here->row += n_rounds > 0 ? n_rounds * n : n;
        here->is_open = n == at->block;
    }
    added->end = table->n_shares;
    *position += n_rounds > 0 ? n_rounds * added->n_a_round : added->n_a_round;
    table->n_phases -= added->n_a_round == 0;
    return true;
}

dt_status *dt_interleave_create(int64_t n_files, const int64_t *ends, int64_t cycle, int64_t block, dt_interleave **interleave) {
    *interleave = NULL;
    dt_interleave *table = dt_allocate_zeroed(1, sizeof *table);
    walk at = {.n_files = n_files, .n_places = cycle < n_files ? cycle : n_files, .block = block, .ends = ends};
    at.places = dt_allocate_zeroed((size_t)at.n_places, sizeof *at.places);
    bool fits = table != NULL && at.places != NULL;
    for (int64_t position = 0; fits && position < ends[n_files - 1];) {
        open_files(&at);
        fits = add_phase(table, &at, &position);
    }
    dt_release(at.places);
    if (fits) {
        *interleave = table;
        return NULL;
    }
    dt_interleave_destroy(table);
    return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for interleave() of %lld files", (long long)n_files);
}

void dt_interleave_destroy(dt_interleave *interleave) {
    if (interleave == NULL) return;
    dt_release(interleave->phases);
    dt_release(interleave->shares);
    dt_release(interleave);
}

int64_t dt_interleave_row(const dt_interleave *interleave, int64_t position) {
    int64_t first = 0, end = interleave->n_phases; /* the phase is in [first, end) */
    while (end - first > 1) {
        int64_t middle = first + (end - first) / 2;
        if (interleave->phases[middle].position <= position)
            first = middle;
        else
            end = middle;
    }
    const phase *in = &interleave->phases[first];
    int64_t round = (position - in->position) / in->n_a_round, left = (position - in->position) % in->n_a_round;
    const share *own = &interleave->shares[in->first];
    for (; left >= own->n; own++) left -= own->n;
    return own->row + round * own->n + left;
}
