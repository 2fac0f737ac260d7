/* word_table: a hash table from words to tokens: a vocabulary, and what a tokenizer has found out about the words that it met.
 *
 * Keys lie one after the other in one block, and so do tokens, so that a word met again costs one look into the slots and one at its bytes. */
#ifndef DT_RUNTIME_DATA_WORD_TABLE_H
#define DT_RUNTIME_DATA_WORD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dt_word {
    uint32_t hash, key, n_key; /* key: offset in the table's keys */
    uint32_t tokens, n_tokens; /* tokens: offset in the table's tokens; n_tokens is 0 in a free slot */
} dt_word;

/* Starts as {0}. */
typedef struct dt_word_table {
    dt_word *slots; /* [n_slots], a power of two, at most half of them taken */
    uint32_t n_slots, n;
    char *keys;
    int32_t *tokens;
    uint32_t n_keys, keys_capacity, n_tokens, tokens_capacity;
} dt_word_table;

void dt_word_table_free(dt_word_table *table);
void dt_word_table_clear(dt_word_table *table); /* forgets all words, keeps the memory */

/* NULL when it is not there. Valid until the next word is added. */
const dt_word *dt_word_table_find(const dt_word_table *table, const char *key, size_t n);

/* A word that is not there yet, with n_tokens >= 1. NULL when memory is out. */
const dt_word *dt_word_table_add(dt_word_table *table, const char *key, size_t n, const int32_t *tokens, size_t n_tokens);

#endif
