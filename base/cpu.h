/* cpu: how many cores there are for this process, and which x86-64 instruction-set level this machine reaches, processor and operating system
 * together.
 *
 * A level is the psABI's: x86-64-v2 (SSE4.2), -v3 (AVX2, FMA, BMI), -v4 (AVX-512 F, BW, CD, DQ, VL). A processor with AVX under a kernel that
 * does not save its registers is of level v2: code compiled for v3 would fail there. */
#ifndef DT_BASE_CPU_H
#define DT_BASE_CPU_H

/* Cores that this process may use. */
int dt_cpu_n_cores(void);

/* From now on this thread, and those that it creates, may use part `index` of n alike of these cores: at least one, which others may have too. */
void dt_cpu_take_share(int index, int n);

/* 1 to 4; 0 on another architecture. */
int dt_cpu_level(void);

/* 1 to 4 for "x86-64" to "x86-64-v4", 0 for anything else. */
int dt_cpu_level_from_name(const char *name);
const char *dt_cpu_level_name(int level); /* 1 to 4 */

/* Names this machine's processor as exactly as compiled code depends on it: its own name and a hash of its features as the operating system
 * lets them be used. What "native" code is bound to: two machines of the same text run the same code. "" on another architecture. */
const char *dt_cpu_name(char buffer[80]);

#endif
