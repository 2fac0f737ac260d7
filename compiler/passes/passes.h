/* passes: the entry point of each pass. Order and reasons are in compiler/pipeline.c; each pass is one file of its name. */
#ifndef DT_COMPILER_PASSES_H
#define DT_COMPILER_PASSES_H

#include "compiler/kernel/choices.h"
#include "compiler/kernel/compilation.h"
#include "compiler/kernel/gpu_choices.h"

dt_status *dt_pass_verify(dt_compilation *compilation);
dt_status *dt_pass_shrink(dt_compilation *compilation);
dt_status *dt_pass_sink(dt_compilation *compilation);
dt_status *dt_pass_autodiff(dt_compilation *compilation);
dt_status *dt_pass_simplify(dt_compilation *compilation);
dt_status *dt_pass_hoist(dt_compilation *compilation);
dt_status *dt_pass_rematerialize(dt_compilation *compilation);
dt_status *dt_pass_widen(dt_compilation *compilation);
dt_status *dt_pass_partition(dt_compilation *compilation);
dt_status *dt_pass_shard(dt_compilation *compilation);
dt_status *dt_pass_rows(dt_compilation *compilation);
dt_status *dt_pass_unroll(dt_compilation *compilation);
dt_status *dt_pass_loops(dt_compilation *compilation);
dt_status *dt_pass_fuse(dt_compilation *compilation);
dt_status *dt_pass_schedule(dt_compilation *compilation);
dt_status *dt_pass_turn_sums(dt_compilation *compilation);
dt_status *dt_pass_late_writes(dt_compilation *compilation);
dt_status *dt_pass_split_reductions(dt_compilation *compilation);
dt_status *dt_pass_count_once(dt_compilation *compilation);
dt_status *dt_pass_plan_memory(dt_compilation *compilation);
dt_status *dt_pass_share_updates(dt_compilation *compilation);
dt_status *dt_pass_order_kernels(dt_compilation *compilation);
dt_status *dt_pass_divide_replicas(dt_compilation *compilation);
dt_status *dt_pass_add_timers(dt_compilation *compilation);

/* What depends on the target, for plans that have their offsets. */
dt_choices *dt_pass_choose(dt_arena *arena, const dt_plan *const *plans, int n_plans, const dt_cpu_target *target);

/* Nests of a kernel, both included. */
typedef struct dt_nest_range {
    int first, last;
} dt_nest_range;
/* [n_nests] of each nest those that a launch would hold together with it, as dt_pass_choose_gpu would choose. */
dt_nest_range *dt_gpu_find_launches(dt_arena *arena, const dt_gpu_target *target, const dt_plan *plan, const dt_kernel_function *kernel);

dt_gpu_choices *dt_pass_choose_gpu(dt_arena *arena, const dt_plan *const *plans, int n_plans, const dt_gpu_target *target);

#endif
