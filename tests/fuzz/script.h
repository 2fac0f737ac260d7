/* script: what a target of calls is given, as letters and digits: each letter is a call, what follows it picks the arguments from short lists. Any
 * bytes are a script, and those of the corpora can be read. */
#ifndef DT_TESTS_FUZZ_SCRIPT_H
#define DT_TESTS_FUZZ_SCRIPT_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t *script, *script_end; /* what is left */

static inline uint8_t script_next(void) { return script < script_end ? *script++ : '0'; }

/* One of n: "0" is the first. */
static inline unsigned pick(unsigned n) { return (uint8_t)(script_next() - '0') % n; }

/* One of an array. */
#define PICK(array) ((array)[pick(sizeof(array) / sizeof *(array))])

/* A copy of a struct that begins with its size, of which the caller has another header: as it is for '0', else smaller or larger. The memory ends
 * where the struct does. The caller frees it. */
static inline void *script_struct(const void *whole, size_t n_bytes) {
    static const int more[] = {0, 0, 0, -8, 8, 16, -1000};
    int change = PICK(more);
    size_t size = change >= 0 || n_bytes > (size_t)-change ? n_bytes + (size_t)change : 0, room = size < sizeof size ? sizeof size : size;
    char *made = calloc(1, room);
    if (made == NULL) abort();
    memcpy(made, whole, size < n_bytes ? size : n_bytes);
    memcpy(made, &size, sizeof size);
    if (change == 16) made[size - 1] = 1; /* what this library does not know */
    return made;
}

#endif
