/* order: see order.h. Node 0 is the source, node i + 1 is stage i. A node that is `direct` answers locate() for any position; the others are
 * walked with next(), and keep a cursor. Both number passes: what stands before repeat(3) is asked for passes 0, 1 and 2 of it. */
#include "runtime/data/order.h"

#include "base/memory.h"
#include "runtime/data/interleave.h"
#include "runtime/data/permutation.h"

#include <string.h>

typedef struct node {
    dt_stage_kind kind; /* unused in node 0 */
    int64_t count;
    int word;  /* of a map or enumerate, in the item */
    int64_t n; /* examples of a pass, or -1 */
    bool direct;

    int64_t pass, cursor; /* where next() is */
    int64_t n_given;      /* by next() since the epoch began, over all passes */
    int64_t *buffer;      /* of a shuffle: [n_buffered][words] */
    int64_t n_buffered, capacity;
} node;

struct dt_order {
    dt_order_options options;
    int n_nodes, n_words;
    node *nodes;
    int64_t epoch;
    int64_t *survivors; /* [n_cached][words] where a cache stands after a filter */
    int64_t n_cached;
    dt_interleave *interleave; /* of the first stage; else NULL */
    int64_t *passed;           /* [words] an item that nobody wants */
};

static bool is_cache(const dt_order *order, int i) { return i > 0 && i - 1 == order->options.stages->cache; }

/* The key of stage `i` in pass `pass` of this epoch. */
static uint64_t key_of(const dt_order *order, int i, int64_t pass) {
    uint64_t key = dt_key_join(order->options.seed, (uint64_t)order->epoch);
    return dt_key_join(dt_key_join(key, (uint64_t)i), (uint64_t)pass);
}

/* The item at `position` of pass `pass`, after node i, which is direct. */
static void locate(const dt_order *order, int i, int64_t pass, int64_t position, int64_t *item) {
    for (; i > 0 && !is_cache(order, i); i--) {
        const node *here = &order->nodes[i];
        switch (here->kind) {
        case DT_STAGE_SHUFFLE: position = dt_permutation_at(key_of(order, i, pass), here->n, position); break;
        case DT_STAGE_SKIP: position += here->count; break;
        case DT_STAGE_INTERLEAVE: position = dt_interleave_row(order->interleave, position); break;
        case DT_STAGE_REPEAT:
            pass = pass * here->count + position / order->nodes[i - 1].n;
            position %= order->nodes[i - 1].n;
            break;
        case DT_STAGE_ENUMERATE: item[here->word] = position; break;
        case DT_STAGE_MAP: item[here->word] = pass * here->n + position; break;
        default: break; /* take, and a cache that another one follows */
        }
    }
    item[0] = position;
}

static void rewind_to(dt_order *order, int i, int64_t pass) {
    node *here = &order->nodes[i];
    here->pass = pass;
    here->cursor = 0;
    here->n_buffered = 0;
    if (!here->direct) rewind_to(order, i - 1, here->kind == DT_STAGE_REPEAT ? pass * here->count : pass);
}

static dt_status *next(dt_order *order, int i, int64_t *item, bool *given);

static dt_status *next_filtered(dt_order *order, int i, int64_t *item, bool *given) {
    bool keep = false;
    do {
        DT_TRY(next(order, i - 1, item, given));
        if (*given) DT_TRY(order->options.predicate(order->options.context, i - 1, item, &keep));
    } while (*given && !keep);
    return NULL;
}

/* cursor counts the passes of what stands before. */
static dt_status *next_repeated(dt_order *order, int i, int64_t *item, bool *given) {
    node *here = &order->nodes[i];
    for (;;) {
        DT_TRY(next(order, i - 1, item, given));
        if (*given || here->cursor + 1 >= here->count) return NULL;
        here->cursor++;
        rewind_to(order, i - 1, here->pass * here->count + here->cursor);
    }
}

/* cursor counts the draws. The buffer is filled, then each example drawn makes room for the next one that comes. */
static dt_status *next_shuffled(dt_order *order, int i, int64_t *item, bool *given) {
    node *here = &order->nodes[i];
    size_t item_bytes = (size_t)order->n_words * sizeof *item;
    while (here->n_buffered < here->count) {
        if (here->n_buffered == here->capacity) {
            int64_t capacity = here->capacity != 0 ? here->capacity * 2 : 64;
            int64_t *grown = dt_reallocate(here->buffer, (size_t)capacity * item_bytes);
            if (grown == NULL)
                return dt_error(DT_RESOURCE_EXHAUSTED, "data %s: no memory for %lld examples of shuffle()", order->options.stages->pipeline,
                                (long long)capacity);
            memset(grown + here->capacity * order->n_words, 0,
                   (size_t)(capacity - here->capacity) * item_bytes); /* words that a cache leaves unsaid */
            here->buffer = grown;
            here->capacity = capacity;
        }
        DT_TRY(next(order, i - 1, here->buffer + here->n_buffered * order->n_words, given));
        if (!*given) break;
        here->n_buffered++;
    }
    *given = here->n_buffered > 0;
    if (!*given) return NULL;
    int64_t *drawn = here->buffer + dt_key_draw(key_of(order, i, here->pass), (uint64_t)here->cursor++, here->n_buffered) * order->n_words;
    memcpy(item, drawn, item_bytes);
    memmove(drawn, here->buffer + --here->n_buffered * order->n_words, item_bytes);
    return NULL;
}

/* The next item after node i; *given is false at the end of the pass. */
static dt_status *next(dt_order *order, int i, int64_t *item, bool *given) {
    node *here = &order->nodes[i];
    *given = false;
    if (here->direct) {
        *given = here->cursor < here->n;
        if (*given) locate(order, i, here->pass, here->cursor++, item);
        return NULL;
    }
    switch (here->kind) {
    case DT_STAGE_FILTER: return next_filtered(order, i, item, given);
    case DT_STAGE_REPEAT: return next_repeated(order, i, item, given);
    case DT_STAGE_SHUFFLE: return next_shuffled(order, i, item, given);
    case DT_STAGE_TAKE: return here->cursor++ < here->count ? next(order, i - 1, item, given) : NULL;
    case DT_STAGE_SKIP:
        for (bool more = true; more && here->cursor < here->count; here->cursor++) DT_TRY(next(order, i - 1, item, &more));
        return next(order, i - 1, item, given);
    case DT_STAGE_ENUMERATE:
        DT_TRY(next(order, i - 1, item, given));
        if (*given) item[here->word] = here->cursor++;
        return NULL;
    case DT_STAGE_MAP:
        DT_TRY(next(order, i - 1, item, given));
        if (*given) item[here->word] = here->n_given++;
        return NULL;
    default: return next(order, i - 1, item, given); /* a cache that another one follows */
    }
}

static int64_t examples_after(const dt_stage *stage, int64_t n_before) {
    if (stage->kind == DT_STAGE_FILTER || n_before < 0) return -1;
    int64_t n = n_before;
    if (stage->kind == DT_STAGE_TAKE && stage->count < n) n = stage->count;
    if (stage->kind == DT_STAGE_SKIP) n = stage->count < n ? n - stage->count : 0;
    if (stage->kind == DT_STAGE_REPEAT && __builtin_mul_overflow(n, stage->count, &n)) n = INT64_MAX;
    return n;
}

/* Walks what stands before the cache once, for nothing but filters decides how many rows it has. */
static dt_status *find_survivors(dt_order *order, int i) {
    int64_t capacity = 0;
    order->n_cached = 0;
    for (bool given = true; given;) {
        if (order->n_cached == capacity) {
            capacity = capacity != 0 ? capacity * 2 : 64;
            int64_t *grown = dt_reallocate(order->survivors, (size_t)(capacity * order->n_words) * sizeof *grown);
            if (grown == NULL)
                return dt_error(DT_RESOURCE_EXHAUSTED, "data %s: no memory for %lld examples of cache()", order->options.stages->pipeline,
                                (long long)capacity);
            memset(grown + order->n_cached * order->n_words, 0, (size_t)((capacity - order->n_cached) * order->n_words) * sizeof *grown);
            order->survivors = grown;
        }
        DT_TRY(next(order, i - 1, order->survivors + order->n_cached * order->n_words, &given));
        order->n_cached += given;
    }
    return NULL;
}

/* Node i, which follows stage i - 1. `n_numbers` counts the words of stages before it. */
static node node_after(const node *before, const dt_stage *stage, int n_numbers) {
    node here = {.kind = stage->kind, .count = stage->count, .n = examples_after(stage, before->n), .word = 1 + n_numbers};
    here.direct = before->direct && stage->kind != DT_STAGE_FILTER && !(stage->kind == DT_STAGE_SHUFFLE && stage->count < before->n);
    return here;
}

static dt_status *make_interleave(dt_order *order, const dt_stage *stage) {
    const dt_order_options *options = &order->options;
    if (options->n_files == 0)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: interleave() takes files in turn that lie one after the other, and its source has no such",
                        options->stages->pipeline);
    return dt_interleave_create(options->n_files, options->file_ends, stage->count, stage->arguments[1].integer, &order->interleave);
}

static dt_status *build(dt_order *order) {
    const dt_stages *stages = order->options.stages;
    order->n_words = 1;
    for (int i = 0; i < stages->n; i++) order->n_words += dt_stage_numbers(stages->stages[i].kind);
    order->nodes = dt_allocate_zeroed((size_t)stages->n + 1, sizeof *order->nodes);
    order->passed = dt_allocate_zeroed((size_t)order->n_words, sizeof *order->passed);
    if (order->nodes == NULL || order->passed == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (stages->n > 0 && stages->stages[0].kind == DT_STAGE_INTERLEAVE) DT_TRY(make_interleave(order, &stages->stages[0]));
    order->nodes[0] = (node){.n = order->options.n_source, .direct = true};
    order->n_nodes = 1;
    int n_numbers = 0;
    for (int i = 0; i < stages->n; i++) {
        node *here = &order->nodes[i + 1];
        *here = node_after(here - 1, &stages->stages[i], n_numbers);
        order->n_nodes++;
        n_numbers += dt_stage_numbers(here->kind);
        if (i != stages->cache) continue;
        order->n_cached = here->n;
        if (!here->direct) DT_TRY(find_survivors(order, i + 1));
        here->n = order->n_cached;
        here->direct = true;
    }
    if (order->nodes[stages->n].n == 0)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: no example is left of %lld", stages->pipeline, (long long)order->options.n_source);
    return NULL;
}

dt_status *dt_order_create(const dt_order_options *options, dt_order **order) {
    *order = NULL;
    dt_order *created = dt_allocate_zeroed(1, sizeof *created);
    if (created == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    created->options = *options;
    dt_status *status = build(created);
    if (status != NULL) {
        dt_order_destroy(created);
        return status;
    }
    *order = created;
    return NULL;
}

void dt_order_destroy(dt_order *order) {
    if (order == NULL) return;
    for (int i = 0; i < order->n_nodes; i++) dt_release(order->nodes[i].buffer);
    dt_release(order->nodes);
    dt_release(order->survivors);
    dt_interleave_destroy(order->interleave);
    dt_release(order->passed);
    dt_release(order);
}

int dt_order_item_words(const dt_order *order) { return order->n_words; }

int64_t dt_order_n_examples(const dt_order *order) { return order->nodes[order->n_nodes - 1].n; }

int64_t dt_order_n_cached(const dt_order *order) { return order->n_cached; }

void dt_order_cached_item(const dt_order *order, int64_t row, int64_t *item) {
    if (order->survivors != NULL)
        memcpy(item, order->survivors + row * order->n_words, (size_t)order->n_words * sizeof *item);
    else
        locate(order, order->options.stages->cache, 0, row, item);
}

dt_status *dt_order_start(dt_order *order, int64_t epoch, int64_t position) {
    int last = order->n_nodes - 1;
    order->epoch = epoch;
    for (int i = 0; i <= last; i++) order->nodes[i].n_given = 0;
    rewind_to(order, last, 0);
    if (order->nodes[last].direct) {
        order->nodes[last].cursor = position;
        return NULL;
    }
    int64_t n_passed;
    return dt_order_next(order, position, (dt_row_range){0}, NULL, &n_passed);
}

dt_status *dt_order_next(dt_order *order, int64_t n, dt_row_range wanted, int64_t *items, int64_t *n_given) {
    int last = order->n_nodes - 1, n_words = order->n_words;
    node *end = &order->nodes[last];
    if (wanted.end > wanted.first) memset(items, 0, (size_t)((wanted.end - wanted.first) * n_words) * sizeof *items);
    *n_given = 0;
    if (end->direct) {
        int64_t n_left = end->cursor < end->n ? end->n - end->cursor : 0;
        *n_given = n < n_left ? n : n_left;
        for (int64_t i = wanted.first; i < wanted.end && i < *n_given; i++)
            locate(order, last, end->pass, end->cursor + i, items + (i - wanted.first) * n_words);
        end->cursor += *n_given;
        return NULL;
    }
    for (bool given; *n_given < n; ++*n_given) {
        bool is_wanted = *n_given >= wanted.first && *n_given < wanted.end;
        DT_TRY(next(order, last, is_wanted ? items + (*n_given - wanted.first) * n_words : order->passed, &given));
        if (!given) break;
    }
    return NULL;
}

bool dt_order_is_walked(const dt_order *order) { return !order->nodes[order->n_nodes - 1].direct; }
