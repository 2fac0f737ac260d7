/* peak: what one core of this machine can do at most, measured: the yardstick of `dtrun bench`. */
#ifndef DT_RUNTIME_DEVICES_PEAK_H
#define DT_RUNTIME_DEVICES_PEAK_H

/* A second, of one core. */
typedef struct dt_peak {
    double flops;        /* f32 operations: multiply-add in registers, two operations each */
    double memory_bytes; /* copied between buffers larger than all caches, by memcpy or by streaming stores, whichever is faster; what is read and
                            what is written both counted; 0: there was no memory */
    double cache_bytes;  /* copied the same way within the second-level cache */
} dt_peak;

/* With the vector instructions of `level` (base/cpu.h: 1 to 4, not above dt_cpu_level()). Takes some tens of milliseconds and 128 MiB. */
dt_peak dt_peak_measure(int level);

/* How near rates come to the peak: the nearest limit counts. What moves faster than memory can was in a cache, and the cache is its limit. */
typedef struct dt_peak_share {
    double share;
    const char *of; /* "flops", "memory", "cache" */
} dt_peak_share;
dt_peak_share dt_peak_nearest(const dt_peak *peak, double flops, double bytes);

#endif
