/* team: threads that run parts of a kernel at the same time, and meet within it (abi/launch.h). */
#ifndef DT_RUNTIME_THREADS_TEAM_H
#define DT_RUNTIME_THREADS_TEAM_H

#include "abi/launch.h"
#include "runtime/threads/event.h"

typedef struct dt_team {
    dt_meeting meeting; /* what kernels are given */
    int n;
    bool may_look; /* each thread has a core of its own (event.h) */
    atomic_bool is_broken;
    atomic_int n_arrived; /* at the meeting that is next */
    char apart[64];       /* who looks at `met` has another line than who arrives */
    dt_event met;
} dt_team;

/* A team of n threads, which stays where it is. */
void dt_team_begin(dt_team *team, int n, bool may_look);

/* One of them fails and will not come: nobody waits any more, and what kernels compute from here on is of no use to anybody. For any thread. */
void dt_team_break(dt_team *team);

#endif
