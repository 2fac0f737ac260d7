/* gpu_target: see the header. */
#include "compiler/kernel/gpu_target.h"

#define X(name, value, meaning) .name = value,
#define ALIKE DT_GPU_TARGET_FIELDS(X)

const dt_gpu_target *dt_gpu_target_of(dt_target target) {
    static const dt_gpu_target targets[DT_N_TARGETS] = {
        [DT_TARGET_CUDA] = {.name = "cuda", .warp_name = "warp", .warp = 32, ALIKE},
        [DT_TARGET_WARPS_OF_64] = {.name = "warps of 64", .warp_name = "warp", .warp = 64, ALIKE},
    };
    return targets[target].name != NULL ? &targets[target] : NULL;
}
