/* arena: see arena.h. A list of growing blocks; a pointer bump in the newest one is an allocation. */
#include "base/arena.h"

#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNMENT = 16,
    FIRST_BLOCK_BYTES = 4 << 10,
    LARGEST_BLOCK_BYTES = 1 << 20
};

typedef struct block {
    struct block *previous;
    size_t capacity, used; /* of data */
    _Alignas(ALIGNMENT) unsigned char data[];
} block;

struct dt_arena {
    block *newest;
    size_t next_block_bytes;
    size_t bytes;
    jmp_buf *guard;
};

dt_arena *dt_arena_create(void) {
    dt_arena *arena = dt_allocate_zeroed(1, sizeof *arena);
    if (arena != NULL) arena->next_block_bytes = FIRST_BLOCK_BYTES;
    return arena;
}

void dt_arena_destroy(dt_arena *arena) {
    if (arena == NULL) return;
    for (block *current = arena->newest; current != NULL;) {
        block *previous = current->previous;
        dt_release(current);
        current = previous;
    }
    dt_release(arena);
}

void dt_arena_guard(dt_arena *arena, jmp_buf *guard) { arena->guard = guard; }

_Noreturn static void out_of_memory(dt_arena *arena) {
    if (arena->guard == NULL) {
        fputs("out of memory in an arena without a guard\n", stderr);
        abort();
    }
    longjmp(*arena->guard, 1);
}

/* Puts a block in front that holds at least `bytes` more. A large request gets a block of its own size. */
static void add_block(dt_arena *arena, size_t bytes) {
    size_t capacity = arena->next_block_bytes;
    if (bytes > capacity) capacity = bytes;
    block *fresh = capacity <= SIZE_MAX - sizeof *fresh ? dt_allocate(sizeof *fresh + capacity) : NULL;
    if (fresh == NULL) out_of_memory(arena);
    fresh->previous = arena->newest;
    fresh->capacity = capacity;
    fresh->used = 0;
    arena->newest = fresh;
    if (arena->next_block_bytes < LARGEST_BLOCK_BYTES) arena->next_block_bytes *= 2;
}

void *dt_arena_new(dt_arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX - ALIGNMENT) out_of_memory(arena);
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (arena->newest == NULL || arena->newest->capacity - arena->newest->used < rounded) add_block(arena, rounded);
    void *memory = arena->newest->data + arena->newest->used;
    arena->newest->used += rounded;
    arena->bytes += rounded;
    return memset(memory, 0, rounded);
}

void *dt_arena_new_array(dt_arena *arena, size_t n, size_t item_bytes) {
    if (item_bytes != 0 && n > SIZE_MAX / item_bytes) out_of_memory(arena);
    return dt_arena_new(arena, n * item_bytes);
}

void *dt_arena_copy(dt_arena *arena, const void *source, size_t bytes) {
    void *copy = dt_arena_new(arena, bytes);
    if (bytes != 0) memcpy(copy, source, bytes);
    return copy;
}

char *dt_arena_string(dt_arena *arena, const char *text) { return dt_arena_copy(arena, text, strlen(text) + 1); }

char *dt_arena_substring(dt_arena *arena, const char *text, size_t n_characters) {
    char *copy = dt_arena_new(arena, n_characters + 1);
    if (n_characters != 0) memcpy(copy, text, n_characters);
    return copy;
}

char *dt_arena_format(dt_arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = dt_arena_vformat(arena, format, arguments);
    va_end(arguments);
    return text;
}

char *dt_arena_vformat(dt_arena *arena, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = dt_arena_new(arena, (size_t)(n > 0 ? n : 0) + 1);
    if (n > 0) vsnprintf(text, (size_t)n + 1, format, arguments);
    return text;
}

size_t dt_arena_bytes(const dt_arena *arena) { return arena->bytes; }

void *dt_arena_grow(dt_arena *arena, void *items, size_t n, size_t *capacity, size_t item_bytes) {
    if (n < *capacity) return items;
    size_t larger = *capacity != 0 ? *capacity * 2 : 8;
    void *grown = dt_arena_new_array(arena, larger, item_bytes);
    if (n != 0) memcpy(grown, items, n * item_bytes);
    *capacity = larger;
    return grown;
}
