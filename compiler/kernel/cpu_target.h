/* cpu_target: what the choices for a CPU depend on (kernel/choices.h). What was measured on processors stands here and nowhere else. */
#ifndef DT_KERNEL_CPU_TARGET_H
#define DT_KERNEL_CPU_TARGET_H

#include <stdint.h>

/* The instruction sets that code is generated for, by the names that artifacts use. "native" is the machine that dtc runs on. */
#define DT_LEVEL_V3 "x86-64-v3"
#define DT_LEVEL_V4 "x86-64-v4"
#define DT_LEVEL_NATIVE "native"

typedef struct dt_cpu_target {
    const char *level;
    int vector_bytes; /* of a register */
    int registers;    /* that hold vectors */

    int64_t line_bytes, page_bytes;
    int64_t first_cache_bytes, second_cache_bytes; /* of a core */
    int64_t cache_share_bytes;                     /* of the last cache: more than a core can count on */

    /* The time that a tile's product takes, in tenths of a multiply-add's: measured on an AMD Zen 4 for every tile that fits the registers. A core
     * loads two registers for two multiply-adds, but not quite where they are of 64 bytes; the second cache delivers one in the time of two; eight
     * sums at a time reach 93 %, twelve 99 %. */
    int load_cost, second_cache_cost, latency_cost;
    int enough_sums;
    int latency_sums; /* independent sums that hide the latency of a multiply-add: 4 cycles, two a cycle, and some room */

    /* Scalar operations of a nest that still waits for memory. A streaming store keeps a processor that computes waiting longer than an ordinary one
     * does. Measured: with AVX-512, where an instruction serves twice as many elements, exp over 64 MiB gains a fifth and gelu loses a tenth; with
     * AVX2 exp loses a fifth. */
    int light_operations;
} dt_cpu_target;

/* NULL: no level of that name; "native" is known to code generators. */
const dt_cpu_target *dt_cpu_target_find(const char *level);

#endif
