/* peak: what one core of this machine can do at most, measured: the yardstick of `dtrun bench`. */
#ifndef DT_RUNTIME_PEAK_H
#define DT_RUNTIME_PEAK_H

/* f32 operations a second of one core with the vector instructions of `level` (base/cpu.h: 1 to 4, not above dt_cpu_level()): multiply-add in
 * registers, two operations each. Takes about ten milliseconds. */
double dt_peak_flops(int level);

/* Bytes a second that one core copies between buffers larger than its own caches, what is read and what is written both counted. Takes some tens of
 * milliseconds and 128 MiB; 0 when there is no such memory. */
double dt_peak_bytes(void);

#endif
