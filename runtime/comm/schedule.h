/* schedule: who sends what to whom, round by round, so that who needs what crosses has it (layout.h): a pure function of numbers, and the only place
 * where any is made.
 *
 * What crosses is an image of n bytes, in units of DT_SCHEDULE_UNIT, of which each member has the sums of its own microbatches: the maximal nodes of
 * the tree (runtime/devices/reduce.h) that lie within them. The schedule of a member says, for each round, which ranges of which slots it sends and
 * receives, and then which ranges it adds up, in the tree's order. Any transport runs it, and so does a simulator: it names peers, slots and ranges,
 * never memory. The schedules of all members fit together: what one sends in a round, the other receives in it.
 *
 *     direct    every owner is sent its part of everybody's nodes and adds them up; then it sends its part to everybody who needs it.
 *     halving   where each member has one node, all of the same span: halves are exchanged along the tree, neighbours first, until each has the sum
 *               of a part; and back again.
 *     doubling  of what nobody adds up, in small parts: after each round a member has twice as many of them.
 *     star      the same by way of the first member, where the others are not to reach one another.
 *
 * Bytes that a process sends for an image of N, P processes, k nodes each: direct (k + 1) N (P - 1) / P, in 2 rounds of k (P - 1) and P - 1 messages;
 * halving at most 2 N, in 2 ceil(log2 P) rounds of one message, mostly. Memory, beside the nodes: direct N / P for each node of another process,
 * halving N / 2. Recursive halving and doubling: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH
 * (2005); here the distance doubles, so that the additions are those of the tree. Doubling: Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient
 * Algorithms for All-to-All Communications in Multiport Message-Passing Systems (1997). */
#ifndef DT_RUNTIME_COMM_SCHEDULE_H
#define DT_RUNTIME_COMM_SCHEDULE_H

#include "runtime/comm/layout.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    DT_SCHEDULE_UNIT = 64 /* bytes; no range ends within one, but for the image's own end, and those of parts */
};

static inline int64_t dt_schedule_whole_units(int64_t bytes) { return (bytes + DT_SCHEDULE_UNIT - 1) / DT_SCHEDULE_UNIT * DT_SCHEDULE_UNIT; }

typedef enum dt_schedule_algorithm {
    DT_SCHEDULE_AUTO,
    DT_SCHEDULE_DIRECT,
    DT_SCHEDULE_HALVING,  /* where it can be; else it is DIRECT */
    DT_SCHEDULE_DOUBLING, /* of what nobody contributes to and all need; parts follow one another */
    DT_SCHEDULE_STAR,     /* the same */
    DT_SCHEDULE_ENGINE    /* of sums that all need: each process has added up its microbatches as it likes, and in one round the engine of the
                             transport, or of the link, adds up what they have. There is one node, of all of them, which need not be one of the tree */
} dt_schedule_algorithm;

/* A node of the tree: the sum of microbatches [first, first + span). */
typedef struct dt_schedule_node {
    int64_t first, span;
} dt_schedule_node;

/* A place for bytes [first, first + n_bytes) of the image. Slots 0 … n_nodes - 1 hold this process's nodes, whole, when the schedule begins; in the
 * end slot 0 holds the result: the whole image for who needs it, else its own part. Who contributes nothing has slot 0 alone, which begins with its
 * part, where owners have them from the beginning, and is no larger than what it will hold. */
typedef struct dt_schedule_slot {
    int64_t first, n_bytes;
} dt_schedule_slot;

/* Never empty. Messages of one round from one process to another arrive in the order in which both list them. What is received overlaps neither what
 * is sent from the same slot in the same round, nor anything else that is received. */
typedef struct dt_schedule_message {
    int peer;
    bool sends;
    int slot;
    int64_t first, n_bytes; /* of the image */
} dt_schedule_message;

/* Range [first, first + n_bytes) of the image in slot `target` becomes the sum of what the sources have there: subtrees, in their order, of the tree
 * over n_leaves leaves (microbatches). The target may be any of the sources. */
typedef struct dt_schedule_sum {
    int target;
    int64_t first, n_bytes;
    int64_t n_leaves;
    int n_sources;
    const int *sources;   /* [n_sources] slots */
    const int64_t *spans; /* [n_sources] leaves of each */
} dt_schedule_sum;

/* Messages, all under way together; then, when all of them are done, sums. */
typedef struct dt_schedule_round {
    int n_messages;
    const dt_schedule_message *messages;
    int n_sums;
    const dt_schedule_sum *sums;
} dt_schedule_round;

typedef struct dt_schedule {
    dt_schedule_algorithm algorithm; /* never AUTO */
    int n_nodes;
    const dt_schedule_node *nodes; /* [n_nodes] of this process, in order */
    int n_slots;
    const dt_schedule_slot *slots; /* [n_slots] */
    int n_rounds;
    const dt_schedule_round *rounds; /* [n_rounds] the same number for every process, some of which have nothing to do in one; 0 of one process */
    int64_t n_sent_bytes;            /* by this process, in all rounds */
} dt_schedule;

/* The schedule of one member. Everything it points to is the arena's. Which algorithm AUTO is depends on numbers that all members know. */
dt_schedule dt_schedule_of(const dt_layout *layout, dt_schedule_algorithm algorithm, dt_arena *arena);

/* One round in which a process sends each of n others to[p] bytes, of slot n + p, and receives from[p] from it, in slot p; 0: there is no message. */
dt_schedule dt_schedule_all_to_all(int n, const int64_t *to, const int64_t *from, dt_arena *arena);

/* The maximal nodes, in order, of the tree over n_leaves leaves within [first, end). */
const dt_schedule_node *dt_schedule_nodes(int64_t first, int64_t end, int64_t n_leaves, dt_arena *arena, int *n);

#endif
