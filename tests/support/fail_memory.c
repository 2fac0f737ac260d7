/* fail_memory: a library to be loaded before all others (LD_PRELOAD), in whose processes one allocation of one module's own fails, whichever is
 * wanted: for programs that cannot reach base/memory.h. It calls glibc's allocator by its other names.
 *
 * A module is a range of addresses: what calls malloc from within it allocates for it. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void __libc_free(void *memory);

static atomic_uintptr_t first, end;
static atomic_long left;        /* allocations until the one that fails; below 0: it has */
static atomic_bool is_for_good; /* all later ones fail too */
static atomic_long n_live;

enum {
    N_PLACES = 1 << 18 /* of blocks of the module's that are alive */
};
static atomic_uintptr_t places[N_PLACES];

/* Of the module at [from, to): the allocation after `n` others fails, and with `for_good` all after it. n < 0: none does. */
void fail_memory_at(uintptr_t from, uintptr_t to, long n, int for_good) {
    atomic_store(&first, 0);
    atomic_store(&end, to);
    atomic_store(&left, n < 0 ? INT64_MAX / 2 : n);
    atomic_store(&is_for_good, for_good != 0);
    atomic_store(&first, from);
}

int fail_memory_has(void) { return atomic_load(&left) < 0; } /* failed */
long fail_memory_live(void) { return atomic_load(&n_live); } /* blocks of the module's */

static bool is_own(void *caller) {
    uintptr_t from = atomic_load(&first);
    return from != 0 && (uintptr_t)caller >= from && (uintptr_t)caller < atomic_load(&end);
}

static bool fails(void *caller) {
    if (!is_own(caller)) return false;
    long before = atomic_fetch_sub(&left, 1);
    return before == 0 || (before < 0 && atomic_load(&is_for_good));
}

enum {
    NOBODY, /* was ever at this place */
    GONE    /* who was there */
};

static atomic_uintptr_t *place_of(uintptr_t block, size_t i) { return &places[((block * 0x9e3779b97f4a7c15U >> 46) + i) % N_PLACES]; }

static void *note(void *memory, void *caller) {
    uintptr_t block = (uintptr_t)memory;
    if (memory == NULL || !is_own(caller)) return memory;
    for (size_t i = 0; i < N_PLACES; i++) {
        uintptr_t nobody = NOBODY, gone = GONE;
        if (!atomic_compare_exchange_strong(place_of(block, i), &nobody, block) && !atomic_compare_exchange_strong(place_of(block, i), &gone, block))
            continue;
        atomic_fetch_add(&n_live, 1);
        return memory;
    }
    return memory;
}

/* Whether it was the module's. */
static bool forget(void *memory) {
    uintptr_t block = (uintptr_t)memory;
    for (size_t i = 0; memory != NULL && i < N_PLACES && atomic_load(place_of(block, i)) != NOBODY; i++) {
        uintptr_t there = block;
        if (!atomic_compare_exchange_strong(place_of(block, i), &there, GONE)) continue;
        atomic_fetch_sub(&n_live, 1);
        return true;
    }
    return false;
}

void *malloc(size_t bytes) {
    void *caller = __builtin_return_address(0);
    return fails(caller) ? NULL : note(__libc_malloc(bytes), caller);
}

void *calloc(size_t n, size_t bytes) {
    void *caller = __builtin_return_address(0);
    return fails(caller) ? NULL : note(__libc_calloc(n, bytes), caller);
}

void *realloc(void *memory, size_t bytes) {
    void *caller = __builtin_return_address(0);
    if (fails(caller)) return NULL;
    forget(memory);
    return note(__libc_realloc(memory, bytes), caller);
}

void free(void *memory) {
    forget(memory);
    __libc_free(memory);
}
