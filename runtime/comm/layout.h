/* layout: of what crosses in one exchange, an image of bytes, who contributes to it, who owns which part, and who needs it. All that a step exchanges
 * with other processes is one of these, and a schedule (schedule.h) is made of nothing else:
 *
 *                                          contribute    own                      need
 *     sums that all replicas have          everybody     a part, on the way       everybody
 *     the same, with parameter servers     workers       servers, a share each    everybody
 *     sums of what is shared out           who computes  a share each             nobody: it stays with its owner
 *     rows, and what owners have updated   nobody        what each has            everybody, or workers
 *     a layer's parameters                 nobody        a share each             everybody
 *     records of all                       nobody        its own                  everybody
 *     results                              nobody        its own                  process 0
 *     sums over shards of the model        a model group a part, on the way       the model group
 *     what a stage hands on                nobody        its maker                one other stage
 */
#ifndef DT_RUNTIME_COMM_LAYOUT_H
#define DT_RUNTIME_COMM_LAYOUT_H

#include "base/arena.h"
#include "runtime/comm/microbatches.h"

typedef struct dt_layout_member {
    int rank;                        /* of the run's processes */
    dt_microbatch_range contributes; /* the sums of these; empty: nothing */
    bool owns, needs;                /* a part; all of it, in the end */
} dt_layout_member;

/* Bytes [first, end) of the image. */
typedef struct dt_image_range {
    int64_t first, end;
} dt_image_range;

/* A group of processes, in order, with what each is to the image. */
typedef struct dt_layout {
    int n, place;                    /* members; which one this process is */
    const dt_layout_member *members; /* [n] */
    int64_t n_microbatches;          /* of all members; 0: nobody contributes, and owners have their parts from the beginning */
    int64_t n_bytes;
    const dt_image_range *parts; /* [n] what each owns; NULL: a part as even as can be of those that do, which it has on the way alone */
} dt_layout;

typedef enum dt_layout_needs {
    DT_NEEDED_BY_NOBODY,
    DT_NEEDED_BY_HOLDERS, /* those who hold microbatches */
    DT_NEEDED_BY_ALL
} dt_layout_needs;

/* Processes as members [n_processes]. n_microbatches: that holders contribute, all together; 0: none do. */
static inline const dt_layout_member *dt_layout_members(dt_process_roles roles, int n_microbatches, dt_layout_needs needs, dt_arena *arena) {
    dt_layout_member *members = DT_NEW_ARRAY(arena, dt_layout_member, roles.n_processes);
    /* One who alone holds microbatches has the whole sum: it is its own, and nobody is to add anything. */
    bool holder_owns = n_microbatches > 0 && needs == DT_NEEDED_BY_ALL && dt_process_n_workers(roles) == 1;
    for (int p = 0; p < roles.n_processes; p++) {
        bool holds = dt_process_holds(roles, p);
        members[p] = (dt_layout_member){.rank = dt_process_rank(roles, p),
                                        .owns = holder_owns ? holds : dt_process_owns(roles, p),
                                        .needs = needs == DT_NEEDED_BY_ALL || (needs == DT_NEEDED_BY_HOLDERS && holds)};
        if (n_microbatches > 0) members[p].contributes = dt_microbatches_of_process(roles, p, n_microbatches);
    }
    return members;
}

#endif
