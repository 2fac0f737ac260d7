/* cpu: see cpu.h. */
#include "base/cpu.h"

#include "base/text.h"

#include <inttypes.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int dt_cpu_n_cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void dt_cpu_take_share(int index, int n) {
    cpu_set_t all, own;
    if (sched_getaffinity(0, sizeof all, &all) != 0) return;
    int n_cores = CPU_COUNT(&all), share = n_cores / n > 0 ? n_cores / n : 1, first = n_cores >= n ? index * share : index % n_cores;
    CPU_ZERO(&own);
    for (int core = 0, i = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &all) && i++ >= first && i <= first + share) CPU_SET(core, &own);
    sched_setaffinity(0, sizeof own, &own); /* where it is refused, the scheduler decides */
}

static const char *const names[] = {NULL, "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

int dt_cpu_level_from_name(const char *name) {
    for (int level = 1; level <= 4; level++)
        if (strcmp(names[level], name) == 0) return level;
    return 0;
}

const char *dt_cpu_level_name(int level) { return names[level]; }

#ifdef __x86_64__
#include <cpuid.h>

typedef enum cpu_register {
    EAX,
    EBX,
    ECX,
    EDX
} cpu_register;

/* One bit of one cpuid leaf that a level needs, and the register state that the operating system must save for it (bits of XCR0). */
static const struct feature {
    int level;
    unsigned leaf;
    cpu_register in;
    int bit;
    unsigned saved;
} features[] = {
    {2, 1, ECX, 0, 0},           /* SSE3 */
    {2, 1, ECX, 9, 0},           /* SSSE3 */
    {2, 1, ECX, 13, 0},          /* CMPXCHG16B */
    {2, 1, ECX, 19, 0},          /* SSE4.1 */
    {2, 1, ECX, 20, 0},          /* SSE4.2 */
    {2, 1, ECX, 23, 0},          /* POPCNT */
    {3, 1, ECX, 12, 0x6},        /* FMA */
    {3, 1, ECX, 22, 0},          /* MOVBE */
    {3, 1, ECX, 28, 0x6},        /* AVX */
    {3, 1, ECX, 29, 0x6},        /* F16C */
    {3, 7, EBX, 3, 0},           /* BMI1 */
    {3, 7, EBX, 5, 0x6},         /* AVX2 */
    {3, 7, EBX, 8, 0},           /* BMI2 */
    {3, 0x80000001u, ECX, 5, 0}, /* LZCNT */
    {4, 7, EBX, 16, 0xe6},       /* AVX512F */
    {4, 7, EBX, 17, 0xe6},       /* AVX512DQ */
    {4, 7, EBX, 28, 0xe6},       /* AVX512CD */
    {4, 7, EBX, 30, 0xe6},       /* AVX512BW */
    {4, 7, EBX, 31, 0xe6},       /* AVX512VL */
};

/* XCR0: which register state the operating system saves. 0 when it has not turned that on. */
static unsigned saved_state(void) {
    unsigned registers[4], low, high;
    if (!__get_cpuid(1, &registers[EAX], &registers[EBX], &registers[ECX], &registers[EDX]) || !(registers[ECX] & 1u << 27)) return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

int dt_cpu_level(void) {
    unsigned saved = saved_state();
    int level = 4;
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        const struct feature *feature = &features[i];
        unsigned registers[4] = {0};
        __get_cpuid_count(feature->leaf, 0, &registers[EAX], &registers[EBX], &registers[ECX], &registers[EDX]);
        int there = (registers[feature->in] >> feature->bit & 1) && (saved & feature->saved) == feature->saved;
        if (!there && level >= feature->level) level = feature->level - 1;
    }
    return level;
}

static uint32_t features_hash(void) {
    static const struct {
        unsigned leaf, subleaf, registers; /* bit r: register r */
    } leaves[] = {
        {1, 0, 1u << ECX | 1u << EDX}, {7, 0, 1u << EBX | 1u << ECX | 1u << EDX}, {7, 1, 1u << EAX}, {0x80000001u, 0, 1u << ECX | 1u << EDX}};
    uint32_t words[10] = {saved_state()};
    size_t n = 1;
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        unsigned registers[4] = {0};
        __get_cpuid_count(leaves[i].leaf, leaves[i].subleaf, &registers[EAX], &registers[EBX], &registers[ECX], &registers[EDX]);
        for (int r = EAX; r <= EDX; r++)
            if (leaves[i].registers >> r & 1) words[n++] = registers[r];
    }
    return (uint32_t)dt_hash_bytes(words, sizeof words, DT_HASH_SEED);
}

const char *dt_cpu_name(char buffer[80]) {
    unsigned words[12] = {0};
    for (unsigned i = 0; i < 3; i++) __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
    char text[sizeof words + 1] = {0};
    memcpy(text, words, sizeof words);
    const char *start = text + strspn(text, " ");
    int n = (int)strlen(start);
    while (n > 0 && start[n - 1] == ' ') n--;
    snprintf(buffer, 80, "%.*s / %08" PRIx32, n, start, features_hash());
    return buffer;
}

#else

int dt_cpu_level(void) { return 0; }
const char *dt_cpu_name(char buffer[80]) { return buffer[0] = '\0', buffer; }

#endif
