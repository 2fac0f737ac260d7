/* body: which values are the body of which loop.
 *
 *     %4 = begin_loop(trips=28)                       begins a body
 *       %5 = carry(%init)                             what goes from one iteration to the next …
 *       %6 = scanned(%xs, axis=1)                     this iteration's part of a value from outside
 *       %7 = tanh(…)                                  any values; those from before the loop are invariant, and just used
 *       advance(%5, %7)                               … and what it becomes
 *     end_loop()
 *     %9 = stack(%7, %4, axis=1, size=28)             what leaves: a value of each iteration,
 *     %10 = final(%5)                                 the carry after the last,
 *     %11 = accumulate(%7, %4)                        the sum over all
 *
 * A body is a run of values in its function's list, not a function of its own: so the passes go through it as through everything else, ids, types
 * and locations are those of the function, what is invariant needs no operand, and a value moves out of a loop by standing before it. What they
 * have to know is when a value may be used:
 *
 *  - in the body that it stands in, and in those within it;
 *  - by stack, final and accumulate after the end of its loop, in the body right around that. Nothing else from a body is seen outside. (What they
 *    take may also be invariant: a pass that finds something equal outside of the body puts that in its place, as anywhere.)
 *
 * Loops nest; what leaves the inner one stands in the outer one's body. */
#ifndef DT_IR_BODY_H
#define DT_IR_BODY_H

#include "ir/graph.h"

bool dt_value_is_loop(const dt_value *value);     /* `begin_loop` */
bool dt_value_is_end_loop(const dt_value *value); /* `end_loop` */
bool dt_value_leaves(const dt_value *value);      /* stack, final, accumulate: it takes its first operand out of a body */

bool dt_function_has_loops(const dt_function *function);
/* The `begin_loop` whose body each value stands in, by id; NULL: none. `begin_loop` and `end_loop` themselves stand around their body.
 * bodies: [next_id]. The loops are balanced, as those of a verified function are. */
void dt_function_find_bodies(const dt_function *function, dt_value **bodies);
/* The loop that a value which leaves comes from. */
dt_value *dt_loop_left(dt_value *const *bodies, const dt_value *value);
/* The `advance` of each carry, by id; of other values NULL. In the arena. */
dt_value **dt_function_find_advances(dt_arena *arena, const dt_function *function);
/* Whether `body` is `around`, or within it; NULL is around all. */
bool dt_body_is_within(dt_value *const *bodies, const dt_value *body, const dt_value *around);
/* The `end_loop` of a `begin_loop`. */
dt_value *dt_loop_end(const dt_value *loop);
int64_t dt_loop_trips(const dt_value *loop);
/* Whether every replica computes the same in all of it; known of partitioned functions. */
bool dt_loop_is_replicated(const dt_value *loop);

/* Where a scan puts an axis for its iterations into a shape: after the rows, if these come first, so that they stay outermost in memory. */
int dt_stack_axis(dt_shape shape);

/* Loops balance; carries advance once; what enters, leaves and is used does so as above. For the verifier. */
dt_status *dt_bodies_verify(dt_arena *scratch, const dt_function *function);

#endif
