/* permutation: see permutation.h. A Feistel network permutes the smallest power of four that holds n; a value that falls outside [0, n) is
 * permuted again until it does not (at most four times on average), which leaves a permutation of [0, n). */
#include "runtime/data/permutation.h"

enum {
    N_ROUNDS = 8
};

/* The finaliser of splitmix64: each bit of the result depends on each of `x`. */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t dt_key_join(uint64_t key, uint64_t part) { return mix(mix(key + 0x9e3779b97f4a7c15u) ^ (part + 0xd1b54a32d192ed03u)); }

int64_t dt_key_draw(uint64_t key, uint64_t index, int64_t limit) {
    return (int64_t)((unsigned __int128)dt_key_join(key, index) * (unsigned __int128)limit >> 64);
}

int64_t dt_permutation_at(uint64_t key, int64_t n, int64_t position) {
    int n_half_bits = 1;
    while (n_half_bits < 31 && (int64_t)1 << 2 * n_half_bits < n) n_half_bits++;
    uint64_t mask = ((uint64_t)1 << n_half_bits) - 1, value = (uint64_t)position;
    do {
        uint64_t left = value >> n_half_bits, right = value & mask;
        for (uint64_t round = 0; round < N_ROUNDS; round++) {
            uint64_t next = left ^ (dt_key_join(key + round, right) & mask);
            left = right;
            right = next;
        }
        value = left << n_half_bits | right;
    } while (value >= (uint64_t)n);
    return (int64_t)value;
}
