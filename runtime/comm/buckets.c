/* buckets: see the header. */
#include "runtime/comm/buckets.h"

#include "runtime/comm/schedule.h"

#include <string.h>

enum {
    OWN_PIECE_BYTES = 256 << 10 /* of a tensor that shares its pieces with no other */
};

typedef DT_LIST(dt_bucket_range) range_list;

/* Buckets in the making. */
typedef struct builder {
    const dt_bucket_tensor *tensors;
    int64_t piece_bytes; /* at most; DT_WHOLE_PIECES: as many as there are */
    dt_arena *arena;
    range_list shared; /* of the piece of small tensors */
    int64_t n_shared_bytes;
    int shared_kind;
    DT_LIST(dt_piece) pieces; /* of the bucket */
    int64_t n_bytes;          /* the same */
    DT_LIST(dt_bucket) buckets;
} builder;

static void end_shared_piece(builder *b) {
    dt_piece piece = {b->n_shared_bytes, (int)b->shared.n, b->shared.items};
    if (b->shared.n > 0) dt_list_push(b->arena, &b->pieces, piece);
    b->shared = (range_list){0};
    b->n_shared_bytes = 0;
}

static void add_shared(builder *b, int tensor) {
    int64_t n_bytes = b->tensors[tensor].n_bytes;
    bool is_full = b->piece_bytes != DT_WHOLE_PIECES && dt_schedule_whole_units(b->n_shared_bytes) + n_bytes > b->piece_bytes;
    if (is_full || b->shared_kind != b->tensors[tensor].kind) end_shared_piece(b);
    b->shared_kind = b->tensors[tensor].kind;
    int64_t at = dt_schedule_whole_units(b->n_shared_bytes);
    dt_list_push(b->arena, &b->shared, ((dt_bucket_range){tensor, 0, n_bytes, at}));
    b->n_shared_bytes = at + n_bytes;
}

static void add_own_pieces(builder *b, int tensor) {
    int64_t n_bytes = b->tensors[tensor].n_bytes;
    for (int64_t first = 0; first < n_bytes; first += b->piece_bytes) {
        dt_bucket_range *range = DT_NEW(b->arena, dt_bucket_range);
        *range = (dt_bucket_range){tensor, first, n_bytes - first < b->piece_bytes ? n_bytes - first : b->piece_bytes, 0};
        dt_list_push(b->arena, &b->pieces, ((dt_piece){range->n_bytes, 1, range}));
    }
}

static void end_bucket(builder *b, int complete_after) {
    end_shared_piece(b);
    dt_list_push(b->arena, &b->buckets, ((dt_bucket){complete_after, (int)b->pieces.n, b->pieces.items}));
    memset(&b->pieces, 0, sizeof b->pieces);
    b->n_bytes = 0;
}

static bool comes_before(const dt_bucket_tensor *a, const dt_bucket_tensor *b) {
    return a->complete_after < b->complete_after || (a->complete_after == b->complete_after && a->kind < b->kind);
}

/* Tensors as they become complete; of those that do so together, kind by kind, as they are listed. */
static const int *sorted(const dt_bucket_tensor *tensors, int n, dt_arena *arena) {
    int *order = DT_NEW_ARRAY(arena, int, n);
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && comes_before(&tensors[i], &tensors[order[at - 1]]); at--) order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

/* When the bucket that is open is closed. */
static int64_t enough_bytes(const builder *b) {
    if (b->piece_bytes == DT_WHOLE_PIECES) return b->buckets.n == 0 ? DT_BUCKET_BYTES : DT_WHOLE_BUCKET_BYTES;
    return b->piece_bytes > DT_BUCKET_BYTES ? b->piece_bytes : DT_BUCKET_BYTES;
}

const dt_bucket *dt_buckets_of(const dt_bucket_tensor *tensors, int n_tensors, int64_t piece_bytes, dt_arena *arena, int *n_buckets) {
    builder b = {.tensors = tensors, .piece_bytes = piece_bytes, .arena = arena};
    const int *order = sorted(tensors, n_tensors, arena);
    for (int i = 0; i < n_tensors; i++) {
        const dt_bucket_tensor *tensor = &tensors[order[i]];
        if (piece_bytes != DT_WHOLE_PIECES && tensor->n_bytes >= OWN_PIECE_BYTES)
            add_own_pieces(&b, order[i]);
        else
            add_shared(&b, order[i]);
        b.n_bytes += tensor->n_bytes;
        bool full = b.n_bytes >= enough_bytes(&b), last = i == n_tensors - 1;
        if (last || (full && tensors[order[i + 1]].complete_after > tensor->complete_after)) end_bucket(&b, tensor->complete_after);
    }
    *n_buckets = (int)b.buckets.n;
    return b.buckets.items;
}
