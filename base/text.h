/* text: a growing string, and the few conversions that must be exact. */
#ifndef DT_BASE_TEXT_H
#define DT_BASE_TEXT_H

#include "base/arena.h"
#include "base/status.h"

#include <stdarg.h>
#include <stdint.h>

/* Starts as {0}, on the heap: once memory is out, `failed` stays true, appends do nothing, and dt_text_take returns NULL: test once, at the end.
 * Or as {.arena = arena}, in an arena, of which it takes up to twice its length: then whoever holds it may be left at any allocation, and nothing has
 * to be freed. */
typedef struct dt_text {
    dt_arena *arena;
    char *data; /* always terminated when not NULL */
    size_t n, capacity;
    bool failed;
} dt_text;

void dt_text_append(dt_text *text, const char *string);
void dt_text_append_bytes(dt_text *text, const char *bytes, size_t n);
void dt_text_format(dt_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void dt_text_vformat(dt_text *text, const char *format, va_list arguments);
char *dt_text_take(dt_text *text); /* from the heap, ownership goes to the caller (free); the text is as at its start */
void dt_text_free(dt_text *text);  /* of one in an arena, forgets it */

/* The shortest decimal that reads back as the same float64 / float32, always with a '.', an 'e', "inf" or "nan" in it. buffer: 32 bytes. */
const char *dt_text_from_f64(double value, char buffer[32]);
const char *dt_text_from_f32(float value, char buffer[32]);

/* "12,345,678". buffer: 32 bytes. */
const char *dt_text_with_commas(int64_t value, char buffer[32]);

/* Bytes of the character of UTF-8 that a string begins with, 1 to 4; 0: it begins with none, as a path, which may be any bytes, can. */
size_t dt_text_character_bytes(const char *string);

/* A text that somebody else wrote becomes one line for people, never longer: what no character is, what a terminal takes for an order, and what turns
 * the direction of writing is a question mark. */
void dt_text_make_printable(char *text);

/* What makes the word before it fit its number: "" of one thing, else "s". */
const char *dt_plural(int64_t n);

/* Of `n` names the one nearest to `name` by edit distance, or NULL when none is near enough to be what was meant. */
const char *dt_text_nearest(const char *name, const char *const *names, size_t n);

/* 64-bit FNV-1a: for stable identifiers (stream of a random call, hash of a program), never for security. */
uint64_t dt_hash_bytes(const void *bytes, size_t n, uint64_t seed);
#define DT_HASH_SEED 0xcbf29ce484222325u

#endif
