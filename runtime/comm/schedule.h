/* schedule: who sends what to whom, round by round, so that all processes have what crosses replicas: a pure function of numbers.
 *
 * What crosses is an image of n bytes, in units of DT_SCHEDULE_UNIT, of which each process has the sums of its own microbatches: the maximal nodes of
 * the tree (runtime/devices/reduce.h) that lie within them. The schedule of a process says, for each round, which ranges of which slots it sends and
 * receives, and then which ranges it adds up, in the tree's order. Any transport runs it, and so does a simulator: it names peers, slots and ranges,
 * never memory. The schedules of all processes fit together: what one sends in a round, the other receives in it.
 *
 *     direct    every process owns a share of the image: it is sent that share of everybody's nodes, adds them up, and sends the sum to everybody.
 *     halving   where each process has one node, all of the same span: halves are exchanged along the tree, neighbours first, until each has the sum
 *               of a share; and back again.
 *
 * Of a run with parameter servers (microbatches.h) each exchange is direct: servers own the image's shares and have no nodes, workers have nodes and
 * own nothing. So workers send their nodes to the servers, servers add them up and send the sums to all, and no worker sends anything to another. Of
 * one worker, which has the whole sum, servers are sent it, in one round.
 *
 * Bytes that a process sends for an image of N, P processes, k nodes each: direct (k + 1) N (P - 1) / P, in 2 rounds of k (P - 1) and P - 1 messages;
 * halving at most 2 N, in 2 ceil(log2 P) rounds of one message, mostly. Memory, beside the nodes: direct N / P for each node of another process,
 * halving N / 2. Recursive halving and doubling: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH
 * (2005); here the distance doubles, so that the additions are those of the tree. */
#ifndef DT_RUNTIME_COMM_SCHEDULE_H
#define DT_RUNTIME_COMM_SCHEDULE_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    DT_SCHEDULE_UNIT = 64 /* bytes; no range ends within one, but for the image's own end, and those of parts */
};

static inline int64_t dt_schedule_whole_units(int64_t bytes) { return (bytes + DT_SCHEDULE_UNIT - 1) / DT_SCHEDULE_UNIT * DT_SCHEDULE_UNIT; }

typedef enum dt_schedule_goal {
    DT_SCHEDULE_ALL_REDUCE,     /* everybody gets the whole sum */
    DT_SCHEDULE_REDUCE_SCATTER, /* each gets the sum of its own part */
    DT_SCHEDULE_ALL_GATHER      /* each has its own part, which everybody gets, or all workers */
} dt_schedule_goal;

typedef enum dt_schedule_algorithm {
    DT_SCHEDULE_AUTO,
    DT_SCHEDULE_DIRECT,
    DT_SCHEDULE_HALVING, /* of an ALL_REDUCE where each process has one node, all of the same span; else it is DIRECT */
    DT_SCHEDULE_ENGINE   /* of an ALL_REDUCE: each process has added up its microbatches as it likes, and in one round the engine of the transport, or
                            of the link, adds up what they have. There is one node, of all of them, which need not be one of the tree */
} dt_schedule_algorithm;

typedef struct dt_schedule_options {
    dt_schedule_goal goal;
    dt_schedule_algorithm algorithm;
    int process, n_processes, n_servers;
    int64_t n_microbatches; /* of all processes, at least as many as hold some: dt_microbatches_of_process. Not of ALL_GATHER */
    int64_t n_bytes;        /* of the image */
    const int64_t *parts;   /* [n_processes + 1] REDUCE_SCATTER, ALL_GATHER: process p's part of the image is [parts[p], parts[p + 1]), from 0 to
                               n_bytes. It may be empty, and end within a unit */
    const int64_t *ends;    /* [n_processes] with parts, of which only the beginning is exchanged: [parts[p], ends[p]). NULL: all of them are */
    bool for_workers;       /* ALL_GATHER, where there are servers: these get nothing */
} dt_schedule_options;

/* A node of the tree: the sum of microbatches [first, first + span). */
typedef struct dt_schedule_node {
    int64_t first, span;
} dt_schedule_node;

/* A place for bytes [first, first + n_bytes) of the image. Slots 0 … n_nodes - 1 hold this process's nodes, whole, when the schedule begins; in the
 * end slot 0 holds the result: the whole image, or of REDUCE_SCATTER this process's part of it. Of ALL_GATHER there is slot 0 alone, which begins
 * with this process's part. */
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
    const dt_schedule_node *nodes; /* [n_nodes] of this process, in order; none of ALL_GATHER */
    int n_slots;
    const dt_schedule_slot *slots; /* [n_slots] */
    int n_rounds;
    const dt_schedule_round *rounds; /* [n_rounds] the same number for every process, some of which have nothing to do in one; 0 of one process */
    int64_t n_sent_bytes;            /* by this process, in all rounds */
} dt_schedule;

/* The schedule of one process. Everything it points to is the arena's. Which algorithm AUTO is depends on numbers that all processes know. */
dt_schedule dt_schedule_of(const dt_schedule_options *options, dt_arena *arena);

/* What `process` owns, where the exchange is direct: its part, or as even a share of the units as can be. It adds up the others' nodes there. */
dt_schedule_slot dt_schedule_share(const dt_schedule_options *options, int process);

/* The maximal nodes, in order, of the tree over n_leaves leaves within [first, end). */
const dt_schedule_node *dt_schedule_nodes(int64_t first, int64_t end, int64_t n_leaves, dt_arena *arena, int *n);

#endif
