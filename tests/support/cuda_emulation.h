// cuda_emulation: CUDA C++ run on the CPU, so that generated kernels are checked where there is no GPU.
//
//     c++ -x c++ -include tests/support/cuda_emulation.h kernels.cu -shared -o kernels.so
//
// The text is the very one that NVRTC gets; what CUDA builds in is provided here. A thread of a block is a fiber: it runs until it meets a barrier or
// a warp's exchange, and then another one goes on. The order in which threads go on, forward, in reverse or at random, must not matter; what CUDA
// leaves undefined is an error with the line where it happened:
//   - threads of a block at different barriers, or at one that others will never reach
//   - lanes of a warp at different exchanges, a lane that its mask leaves out, or one that has returned
//   - vector accesses that are not aligned
// Shared memory is filled with NaN before each block, so that a missing barrier shows in the results. What is read or written outside of a buffer is
// found by whoever provides the buffers. Blocks run one after another.
#pragma once
#define DT_EMULATED 1

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __shared__ static __attribute__((section("emulated_shared")))

#ifndef EMULATED_WARP
#define EMULATED_WARP 32
#endif

namespace emulation {

enum {
    WARP = EMULATED_WARP // lanes, at most 64
};

struct index3 {
    unsigned x, y, z;
};

enum state {
    RUNNING,
    AT_BARRIER,
    RETURNED
};

struct thread {
    void *stack_pointer;
    index3 index;
    state at;
    int line;       // where it waits
    unsigned turns; // of exchanges of its warp that it has been through
    int number;
};

// The exchange under way in a warp, and the one before, which slower lanes still read.
struct exchange {
    uint64_t mask, arrived, left;
    int line;
    uint64_t values[WARP];
};

struct machine {
    index3 block, block_size, grid_size;
    thread *current, *threads;
    exchange (*exchanges)[2];
    int n_threads, n_at_barrier, n_returned, barrier_line;
    unsigned long progress;
    void *scheduler_stack_pointer;
    void (*entry)(void *const *);
    void *const *arguments;
    bool failed;
    char message[256];
};
static machine m;

enum {
    STACK_BYTES = 1 << 16
};

// Saves the registers that a call preserves and the stack pointer, and goes on with another stack.
extern "C" void emulation_switch(void **from, void *to);
asm(".text\n.type emulation_switch, @function\nemulation_switch:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n    ret\n"
    ".size emulation_switch, . - emulation_switch\n");

static void yield() { emulation_switch(&m.current->stack_pointer, m.scheduler_stack_pointer); }

// The whole launch is given up: no fiber is run again.
static void fail(const char *what, int line) {
    if (!m.failed) snprintf(m.message, sizeof m.message, "line %d, block %u, thread %d: %s", line, m.block.x, m.current->number, what);
    m.failed = true;
    for (;;) yield();
}

static inline void barrier(int line) {
    if (m.n_at_barrier == 0) m.barrier_line = line;
    if (m.barrier_line != line) fail("threads of a block wait at different barriers", line);
    m.current->at = AT_BARRIER;
    m.current->line = line;
    m.n_at_barrier++;
    m.progress++;
    yield();
}

// Every lane of the mask gives 64 bits; all get all of them.
static inline const uint64_t *exchange_bits(uint64_t mask, uint64_t value, int line) {
    thread *t = m.current;
    int lane = t->number % WARP;
    exchange *e = &m.exchanges[t->number / WARP][t->turns % 2];
    if (!(mask >> lane & 1)) fail("a lane calls with a mask that leaves it out", line);
    if (e->arrived == 0) {
        e->mask = mask;
        e->line = line;
        e->left = 0;
    } else if (e->mask != mask || e->line != line) {
        fail("lanes of a warp are at different exchanges", line);
    }
    e->arrived |= uint64_t(1) << lane;
    e->values[lane] = value;
    t->line = line;
    m.progress++;
    while ((e->arrived & mask) != mask) yield();
    t->turns++;
    e->left |= uint64_t(1) << lane;
    if (e->left == mask) e->arrived = 0;
    m.progress++;
    return e->values;
}

template <class T> static inline T from_lane(uint64_t mask, T value, int lane, int line) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    const uint64_t *all = exchange_bits(mask, bits, line);
    if (!(mask >> lane & 1)) fail("a lane outside of the mask is read", line);
    memcpy(&value, &all[lane], sizeof value);
    return value;
}

template <class T> static inline T from_lane_below(uint64_t mask, T value, int distance, int line) {
    int lane = m.current->number % WARP, other = lane + distance;
    return from_lane(mask, value, other < WARP ? other : lane, line);
}

static inline uint64_t ballot(uint64_t mask, bool holds, int line) {
    const uint64_t *all = exchange_bits(mask, holds, line);
    uint64_t bits = 0;
    for (int lane = 0; lane < WARP; lane++) bits |= uint64_t(mask >> lane & 1 && all[lane] != 0) << lane;
    return bits;
}

static void start() {
    m.entry(m.arguments);
    m.current->at = RETURNED;
    m.n_returned++;
    m.progress++;
    for (;;) yield();
}

static unsigned next_random(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

// order[n]: 0 … n - 1 forward (0), in reverse (1), or shuffled (2).
static void arrange(int *order, int n, int how, unsigned *seed) {
    for (int i = 0; i < n; i++) order[i] = how == 1 ? n - 1 - i : i;
    for (int i = n - 1; i > 0 && how == 2; i--) std::swap(order[i], order[next_random(seed) % (unsigned)(i + 1)]);
}

static void prepare_threads(char *stacks) {
    for (int i = 0; i < m.n_threads; i++) {
        thread *t = &m.threads[i];
        void **top = (void **)(stacks + (size_t)(i + 1) * STACK_BYTES);
        *--top = nullptr;
        *--top = (void *)start;
        for (int k = 0; k < 6; k++) *--top = nullptr;
        *t = {top, {(unsigned)i, 0, 0}, RUNNING, 0, 0, i};
    }
    memset(m.exchanges, 0, sizeof *m.exchanges * (size_t)((m.n_threads + WARP - 1) / WARP));
    m.n_at_barrier = m.n_returned = 0;
}

static void release_barrier() {
    m.n_at_barrier = 0;
    for (int i = 0; i < m.n_threads; i++) m.threads[i].at = RUNNING;
}

static void report_deadlock() {
    for (int i = 0; i < m.n_threads && !m.failed; i++) {
        m.current = &m.threads[i];
        if (m.current->at == RETURNED) continue;
        const char *what = m.current->at == AT_BARRIER ? "waits at a barrier that other threads never reach" : "waits for lanes that never come";
        snprintf(m.message, sizeof m.message, "line %d, block %u, thread %d: %s", m.current->line, m.block.x, i, what);
        m.failed = true;
    }
}

extern "C" char __start_emulated_shared[] __attribute__((weak));
extern "C" char __stop_emulated_shared[] __attribute__((weak));

static void run_block(char *stacks, int *order, int how, unsigned *seed) {
    if (__start_emulated_shared) memset(__start_emulated_shared, 0xff, (size_t)(__stop_emulated_shared - __start_emulated_shared));
    prepare_threads(stacks);
    while (m.n_returned < m.n_threads && !m.failed) {
        unsigned long before = m.progress;
        arrange(order, m.n_threads, how, seed);
        for (int i = 0; i < m.n_threads && !m.failed; i++) {
            m.current = &m.threads[order[i]];
            if (m.current->at == RUNNING) emulation_switch(&m.scheduler_stack_pointer, m.current->stack_pointer);
        }
        if (m.n_at_barrier == m.n_threads)
            release_barrier();
        else if (m.progress == before && !m.failed)
            report_deadlock();
    }
}

// What a launch needs, kept for the next one, which may come after one that was left by a signal, and until the library is unloaded.
static struct launch_room {
    int n_threads, n_blocks;
    char *stacks;
    int *order; // of threads, then of blocks
    thread *threads;
    exchange (*exchanges)[2];

    void empty() {
        free(stacks);
        free(order);
        free(threads);
        free(exchanges);
    }
    ~launch_room() { empty(); }
} room;

static void prepare_room(int threads, int blocks) {
    if (threads > room.n_threads || blocks > room.n_blocks) {
        room.empty();
        room.n_threads = threads > room.n_threads ? threads : room.n_threads;
        room.n_blocks = blocks > room.n_blocks ? blocks : room.n_blocks;
        room.stacks = (char *)aligned_alloc(64, (size_t)room.n_threads * STACK_BYTES);
        room.order = (int *)calloc((size_t)(room.n_threads + room.n_blocks), sizeof *room.order);
        room.threads = (thread *)calloc((size_t)room.n_threads, sizeof *room.threads);
        room.exchanges = (exchange(*)[2])calloc((size_t)(room.n_threads + WARP - 1) / WARP, sizeof *room.exchanges);
    }
    m.threads = room.threads;
    m.exchanges = room.exchanges;
}

// An argument is up to eight bytes; 'p' in the signature is a pointer, a digit the size of what is none.
template <auto Kernel> struct caller;
template <class... A, void (*Kernel)(A...)> struct caller<Kernel> {
    template <class T> static T taken(void *const *argument) {
        static_assert(sizeof(T) <= sizeof *argument, "an argument of a kernel is a pointer or a number");
        T value;
        memcpy(&value, argument, sizeof value);
        return value;
    }
    template <size_t... I> static void unpack(void *const *arguments, std::index_sequence<I...>) { Kernel(taken<A>(&arguments[I])...); }
    static void call(void *const *arguments) { unpack(arguments, std::index_sequence_for<A...>()); }
    static constexpr char signature[] = {(std::is_pointer<A>::value ? 'p' : (char)('0' + sizeof(A)))..., 0};
};

struct entry {
    const char *name, *signature;
    void (*call)(void *const *);
};

} // namespace emulation

// Stands behind the text: EMULATION(EMULATED(one) EMULATED(two)). Who loads the library finds its two functions by name.
#define EMULATED(name) {#name, emulation::caller<name>::signature, emulation::caller<name>::call},
#define EMULATION(kernels)                                                                                                                           \
    static const emulation::entry table[] = {kernels{nullptr, nullptr, nullptr}};                                                                    \
    extern "C" const char *launch(const char *name, void *const *arguments, int blocks, int threads, int how, unsigned seed) {                       \
        return emulation_launch(table, name, arguments, blocks, threads, how, seed);                                                                 \
    }                                                                                                                                                \
    extern "C" const char *signature(const char *name) { return emulation_signature(table, name); }

// The signature of kernel `name`; NULL: there is no such kernel.
static inline const char *emulation_signature(const emulation::entry *table, const char *name) {
    for (; table->name != nullptr; table++)
        if (strcmp(table->name, name) == 0) return table->signature;
    return nullptr;
}

// Runs kernel `name` of the table that stands behind the text. Returns NULL, or what is wrong; the text lives until the next launch.
static const char *emulation_launch(const emulation::entry *table, const char *name, void *const *arguments, int blocks, int threads, int how,
                                    unsigned seed) {
    using namespace emulation;
    for (; table->name != nullptr && strcmp(table->name, name) != 0; table++) continue;
    if (table->name == nullptr) return "there is no such kernel";
    m = machine();
    m.grid_size = {(unsigned)blocks, 1, 1};
    m.block_size = {(unsigned)threads, 1, 1};
    m.n_threads = threads;
    m.entry = table->call;
    m.arguments = arguments;
    prepare_room(threads, blocks);
    int *order = room.order, *block_order = order + threads;
    arrange(block_order, blocks, how, &seed);
    for (int b = 0; b < blocks && !m.failed; b++) {
        m.block = {(unsigned)block_order[b], 0, 0};
        run_block(room.stacks, order, how, &seed);
    }
    return m.failed ? m.message : nullptr;
}

// ---- what CUDA builds in ----

#define threadIdx (emulation::m.current->index)
#define blockIdx (emulation::m.block)
#define blockDim (emulation::m.block_size)
#define gridDim (emulation::m.grid_size)
#define __syncthreads() emulation::barrier(__LINE__)
#define __syncwarp() ((void)emulation::exchange_bits(~uint64_t(0) >> (64 - emulation::WARP), 0, __LINE__))
#define __shfl_down_sync(mask, value, distance) emulation::from_lane_below(mask, value, distance, __LINE__)
#define __shfl_sync(mask, value, lane) emulation::from_lane(mask, value, lane, __LINE__)
#define __ballot_sync(mask, holds) emulation::ballot(mask, holds, __LINE__)
#define __ffs(x) __builtin_ffs(x)
#define __ffsll(x) __builtin_ffsll(x)

template <class To, class From> static inline To same_bits(From from) {
    To to;
    static_assert(sizeof to == sizeof from, "of one size");
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static inline int __float_as_int(float x) { return same_bits<int>(x); }
static inline float __int_as_float(int x) { return same_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return same_bits<double>(x); }

// A fiber is left at a barrier or an exchange alone, so these are whole.
template <class T> static inline T atomicAdd(T *place, T value) {
    T old = *place;
    *place = old + value;
    return old;
}
template <class T> static inline T atomicExch(T *place, T value) {
    T old = *place;
    *place = value;
    return old;
}
template <class T> static inline T atomicCAS(T *place, T expected, T value) {
    T old = *place;
    if (old == expected) *place = value;
    return old;
}
static inline void __threadfence() {}

// ---- what the prelude says in PTX, or leaves to the device ----

template <class V> static inline V *whole(void *place) {
    if ((uintptr_t)place % sizeof(V) != 0) emulation::fail("a vector access is not aligned", 0);
    return (V *)place;
}
template <class V> static inline const V *whole(const void *place) { return whole<V>((void *)place); }

static inline float from_f16(unsigned short bits) { return (float)same_bits<_Float16>(bits); }
static inline unsigned short to_f16(float value) { return same_bits<unsigned short>((_Float16)value); }
static inline int not_ahead(int value) { return value; }
static inline long long not_ahead(long long value) { return value; }
