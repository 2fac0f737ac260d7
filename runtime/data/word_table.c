/* word_table: see word_table.h. Open addressing; a slot's hash is compared before its key. */
#include "runtime/data/word_table.h"

#include "base/memory.h"

#include <string.h>

enum {
    FIRST_SLOTS = 1024,
    MOST_BYTES = 1 << 30 /* of keys, of tokens: offsets fit, and so do their sums */
};

/* Eight bytes at a time: what comes to a tokenizer is mostly short. */
static uint32_t hash_of(const char *key, size_t n) {
    uint64_t hash = 0x9e3779b97f4a7c15u ^ n, part;
    for (; n >= sizeof part; key += sizeof part, n -= sizeof part) {
        memcpy(&part, key, sizeof part);
        hash = (hash ^ part) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    part = 0;
    memcpy(&part, key, n);
    hash = (hash ^ part) * 0xc4ceb9fe1a85ec53u;
    return (uint32_t)(hash ^ hash >> 29);
}

void dt_word_table_free(dt_word_table *table) {
    dt_release(table->slots);
    dt_release(table->keys);
    dt_release(table->tokens);
    *table = (dt_word_table){0};
}

void dt_word_table_clear(dt_word_table *table) {
    if (table->n > 0) memset(table->slots, 0, table->n_slots * sizeof *table->slots);
    table->n = table->n_keys = table->n_tokens = 0;
}

const dt_word *dt_word_table_find(const dt_word_table *table, const char *key, size_t n) {
    if (table->n == 0) return NULL;
    uint32_t hash = hash_of(key, n), mask = table->n_slots - 1;
    for (uint32_t i = hash & mask; table->slots[i].n_tokens > 0; i = (i + 1) & mask) {
        const dt_word *word = &table->slots[i];
        if (word->hash == hash && word->n_key == n && memcmp(table->keys + word->key, key, n) == 0) return word;
    }
    return NULL;
}

static dt_word *free_slot(dt_word *slots, uint32_t n_slots, uint32_t hash) {
    uint32_t i = hash & (n_slots - 1);
    while (slots[i].n_tokens > 0) i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

static bool grow_slots(dt_word_table *table) {
    if (table->n * 2 < table->n_slots) return true;
    uint32_t n_slots = table->n_slots != 0 ? table->n_slots * 2 : FIRST_SLOTS;
    dt_word *slots = dt_allocate_zeroed(n_slots, sizeof *slots);
    if (slots == NULL) return false;
    for (uint32_t i = 0; i < table->n_slots; i++)
        if (table->slots[i].n_tokens > 0) *free_slot(slots, n_slots, table->slots[i].hash) = table->slots[i];
    dt_release(table->slots);
    table->slots = slots;
    table->n_slots = n_slots;
    return true;
}

/* Room for `n_more` items after the `n` there are. */
static bool reserve(void **items, uint32_t n, size_t n_more, size_t item_bytes, uint32_t *capacity) {
    if (n_more > (MOST_BYTES - (size_t)n * item_bytes) / item_bytes) return false;
    if (n + n_more <= *capacity) return true;
    size_t wanted = n + n_more > 2 * (size_t)*capacity ? n + n_more : 2 * (size_t)*capacity;
    void *grown = dt_reallocate(*items, wanted * item_bytes);
    if (grown == NULL) return false;
    *items = grown;
    *capacity = (uint32_t)wanted;
    return true;
}

const dt_word *dt_word_table_add(dt_word_table *table, const char *key, size_t n, const int32_t *tokens, size_t n_tokens) {
    void *keys = table->keys, *all_tokens = table->tokens;
    bool fits = grow_slots(table) && reserve(&keys, table->n_keys, n + 1, 1, &table->keys_capacity);
    table->keys = keys;
    fits = fits && reserve(&all_tokens, table->n_tokens, n_tokens, sizeof *tokens, &table->tokens_capacity);
    table->tokens = all_tokens;
    if (!fits) return NULL;
    uint32_t hash = hash_of(key, n);
    dt_word *word = free_slot(table->slots, table->n_slots, hash);
    *word = (dt_word){.hash = hash, .key = table->n_keys, .n_key = (uint32_t)n, .tokens = table->n_tokens, .n_tokens = (uint32_t)n_tokens};
    memcpy(table->keys + table->n_keys, key, n);
    memcpy(table->tokens + table->n_tokens, tokens, n_tokens * sizeof *tokens);
    table->n_keys += (uint32_t)n;
    table->n_tokens += (uint32_t)n_tokens;
    table->n++;
    return word;
}
