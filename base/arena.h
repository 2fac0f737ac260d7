/* arena: memory that lives as long as one piece of work, freed at once.
 *
 * A compilation owns one arena, a pass may own a scratch arena. dt_arena_new never returns NULL: when memory is out it jumps to the guard
 * that the owner of the work set (dt_arena_guard), as Lua does, so that a compiler of thousands of small nodes need not test each one.
 * Whoever holds anything else than arena memory (a file, an LLVM object) across a call that allocates, frees it in the guard's branch. */
#ifndef DT_BASE_ARENA_H
#define DT_BASE_ARENA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

typedef struct dt_arena dt_arena;

/* NULL when memory is out. An arena is used by one thread at a time. */
dt_arena *dt_arena_create(void);
void dt_arena_destroy(dt_arena *arena); /* NULL is allowed */

/* Where to go when memory is out. `guard` must stay alive while it is set; NULL removes it (then running out of memory aborts, which only tests
 * may rely on). Use:   jmp_buf guard;  if (setjmp(guard)) { cleanup; return dt_error(DT_RESOURCE_EXHAUSTED, …); }  dt_arena_guard(arena, &guard); */
void dt_arena_guard(dt_arena *arena, jmp_buf *guard);

/* `bytes` zeroed bytes aligned to 16. 0 bytes give a valid pointer. */
void *dt_arena_new(dt_arena *arena, size_t bytes);
void *dt_arena_new_array(dt_arena *arena, size_t n, size_t item_bytes); /* n items; a product that does not fit is memory that is out */
void *dt_arena_copy(dt_arena *arena, const void *source, size_t bytes);
char *dt_arena_string(dt_arena *arena, const char *text);                         /* a copy */
char *dt_arena_substring(dt_arena *arena, const char *text, size_t n_characters); /* a copy of the first n, terminated */
char *dt_arena_format(dt_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *dt_arena_vformat(dt_arena *arena, const char *format, va_list arguments);
size_t dt_arena_bytes(const dt_arena *arena); /* handed out so far */

#define DT_NEW(arena, type) ((type *)dt_arena_new((arena), sizeof(type)))
#define DT_NEW_ARRAY(arena, type, n) ((type *)dt_arena_new_array((arena), (size_t)(n), sizeof(type)))

/* A growing array in an arena: struct { type *items; size_t n, capacity; } with dt_arena_push as its only operation. */
#define DT_LIST(type)                                                                                                                                \
    struct {                                                                                                                                         \
        type *items;                                                                                                                                 \
        size_t n, capacity;                                                                                                                          \
    }
/* Makes room for one more item and returns the grown storage. */
void *dt_arena_grow(dt_arena *arena, void *items, size_t n, size_t *capacity, size_t item_bytes);
#define dt_list_push(arena, list, item)                                                                                                              \
    ((list)->items = dt_arena_grow((arena), (list)->items, (list)->n, &(list)->capacity, sizeof *(list)->items), (list)->items[(list)->n++] = (item))

#endif
