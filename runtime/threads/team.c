/* team: see team.h. */
#include "runtime/threads/team.h"

#include <math.h>
#include <stddef.h>

/* The last one to come lets the others go. */
static void meet(dt_meeting *meeting) {
    dt_team *team = (dt_team *)((char *)meeting - offsetof(dt_team, meeting));
    uint32_t seen = dt_event_value(&team->met);
    if (atomic_fetch_add(&team->n_arrived, 1) + 1 == team->n) {
        atomic_store(&team->n_arrived, 0);
        dt_event_advance(&team->met);
        return;
    }
    while (dt_event_value(&team->met) == seen && !atomic_load(&team->is_broken)) dt_event_wait(&team->met, seen, team->may_look, INFINITY);
}

void dt_team_begin(dt_team *team, int n, bool may_look) { *team = (dt_team){.meeting = {meet}, .n = n, .may_look = may_look}; }

void dt_team_break(dt_team *team) {
    atomic_store(&team->is_broken, true);
    dt_event_advance(&team->met);
}
