/* memory: malloc with a place where tests make it fail.
 *
 * Everything in the project that takes heap memory takes it here, so that "memory is out" is a path that the unit tests walk, allocation by
 * allocation (Lua and SQLite do the same), and not a hope. Memory may be released with dt_release or free alike. All functions may be called
 * from any thread. */
#ifndef DT_BASE_MEMORY_H
#define DT_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

void *dt_allocate(size_t bytes);                  /* not zeroed; NULL when memory is out; 0 bytes give a pointer that can be released */
void *dt_allocate_zeroed(size_t n, size_t bytes); /* n items of `bytes`; NULL when memory is out or n * bytes does not fit */
void *dt_reallocate(void *memory, size_t bytes);  /* as realloc: NULL leaves `memory` as it was; bytes > 0 */
void dt_release(void *memory);                    /* NULL is allowed */

/* For tests: the next `n` allocations of the process succeed and every later one fails; -1, as at start, lets all succeed. */
void dt_memory_fail_after(int64_t n);
/* For tests: the next `n` allocations succeed, the one after them fails, as one that is too large does, and all later ones succeed. */
void dt_memory_fail_once(int64_t n);

#endif
