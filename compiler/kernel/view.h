/* view: where parts of buffers lie, and which loop a kernel is in. */
#ifndef DT_KERNEL_VIEW_H
#define DT_KERNEL_VIEW_H

#include "compiler/kernel/kernel.h"

/* Adds a buffer that is the part `view` of another one. What is a view itself is seen with its own shape. */
int dt_plan_add_view(dt_arena *arena, dt_plan *plan, const char *name, dt_view view);

/* The buffer whose memory it is in: itself, unless it is a view. */
int dt_buffer_root(const dt_plan *plan, int buffer);
/* In elements, of each dimension of the buffer's shape. strides: [rank] */
void dt_buffer_strides(const dt_plan *plan, int buffer, int64_t *strides);
/* Elements from its first one to after its last one, with what lies between them. */
int64_t dt_buffer_span(const dt_plan *plan, int buffer);
/* Bytes from one position of the view's axis to the next. */
int64_t dt_view_stride(const dt_plan *plan, const dt_view *view);
/* Bytes from the beginning of its root to the buffer, in iteration iterations[number] of each loop. */
int64_t dt_buffer_shift(const dt_plan *plan, int buffer, const int64_t *iterations);
/* Whether it always begins a multiple of so many bytes after its root. */
bool dt_buffer_begins_at(const dt_plan *plan, int buffer, int64_t bytes);
/* Whether it moves from iteration to iteration of some loop. */
bool dt_buffer_moves(const dt_plan *plan, int buffer);
/* Whether two views of one buffer are never at the same position of it. */
bool dt_views_are_apart(const dt_plan *plan, int a, int b);

/* Whether the nest reads or writes any view. */
bool dt_nest_has_views(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest);

/* How often kernels of the body run for one microbatch; of NULL once. */
int64_t dt_loop_runs(const dt_plan_loop *loop);
/* Whether `loop` is `around`, or in its body. NULL is around all. */
bool dt_loop_is_within(const dt_plan_loop *loop, const dt_plan_loop *around);
/* The one around it that no other is around; of NULL none. */
const dt_plan_loop *dt_loop_outermost(const dt_plan_loop *loop);

#endif
