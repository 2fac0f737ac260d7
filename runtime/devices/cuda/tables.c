/* tables: see the header. */
#include "runtime/devices/cuda/tables.h"

#include "base/memory.h"

dt_cuda_tables dt_cuda_tables_count(const dt_sequence *const *sequences, size_t n) {
    dt_cuda_tables tables = {0};
    for (size_t s = 0; s < n; s++)
        for (size_t i = 0; i < sequences[s]->n_operations; i++) {
            const dt_operation *one = &sequences[s]->operations[i];
            if (one->kind != DT_OPERATION_REDUCE) continue;
            tables.n_works++;
            for (int r = 0; r < one->reduce.n; r++) {
                tables.n_parts++;
                tables.n_sources += (size_t)one->reduce.reductions[r].n_sources;
                tables.n_others += (size_t)one->reduce.reductions[r].n_targets - 1;
            }
        }
    return tables;
}

static size_t parts_at(const dt_cuda_tables *tables) { return tables->n_works * sizeof(dt_reduction_work); }
static size_t sources_at(const dt_cuda_tables *tables) { return parts_at(tables) + tables->n_parts * sizeof(dt_reduction_part); }
static size_t others_at(const dt_cuda_tables *tables) { return sources_at(tables) + tables->n_sources * sizeof(dt_reduction_source); }
size_t dt_cuda_tables_bytes(const dt_cuda_tables *tables) { return others_at(tables) + tables->n_others * sizeof(int64_t); }

/* Entries that are filled in one after another. */
typedef struct filler {
    const dt_cuda_tables *tables;
    uint64_t address;
    dt_reduction_work *work;
    dt_reduction_part *part;
    dt_reduction_source *source;
    int64_t *other;
} filler;

static int64_t on_gpu(const filler *in, const void *entry) { return (int64_t)(in->address + (size_t)((const char *)entry - in->tables->host)); }

static int64_t number(const void *address) { return (int64_t)(uintptr_t)address; }

static int64_t kind_of(const dt_tree_reduction *reduction) {
    dt_reduction_width width = reduction->wide_targets   ? DT_REDUCTION_WIDE_TARGETS
                               : reduction->wide_sources ? DT_REDUCTION_WIDE_SOURCES
                                                         : DT_REDUCTION_ALIKE;
    bool copies = reduction->n_sources == 1 && width == DT_REDUCTION_ALIKE;
    return copies ? DT_REDUCTION_KIND_COPY(dt_dtype_bytes(reduction->dtype)) : DT_REDUCTION_KIND(reduction->dtype, reduction->combine, width);
}

static void add_reduction(filler *in, const dt_tree_reduction *reduction) {
    *in->part = (dt_reduction_part){.target = number(reduction->targets[0]),
                                    .others = on_gpu(in, in->other),
                                    .n_others = reduction->n_targets - 1,
                                    .sources = on_gpu(in, in->source),
                                    .n_sources = reduction->n_sources,
                                    .first = in->work->n_elements,
                                    .kind = kind_of(reduction)};
    for (int t = 1; t < reduction->n_targets; t++) *in->other++ = number(reduction->targets[t]);
    for (int s = 0; s < reduction->n_sources; s++)
        *in->source++ = (dt_reduction_source){number(reduction->sources[s].values), reduction->sources[s].span};
    in->part++;
    in->work->n_parts++;
    in->work->n_elements += (int64_t)reduction->n_elements;
}

dt_status *dt_cuda_tables_fill(dt_cuda_tables *tables, const dt_sequence *const *sequences, size_t n, uint64_t address) {
    tables->host = dt_allocate_zeroed(1, dt_cuda_tables_bytes(tables));
    if (tables->host == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for tables of %zu sums", tables->n_parts);
    filler in = {.tables = tables,
                 .address = address,
                 .work = (dt_reduction_work *)tables->host,
                 .part = (dt_reduction_part *)(tables->host + parts_at(tables)),
                 .source = (dt_reduction_source *)(tables->host + sources_at(tables)),
                 .other = (int64_t *)(tables->host + others_at(tables))};
    for (size_t s = 0; s < n; s++)
        for (size_t i = 0; i < sequences[s]->n_operations; i++) {
            const dt_operation *one = &sequences[s]->operations[i];
            if (one->kind != DT_OPERATION_REDUCE) continue;
            *in.work = (dt_reduction_work){.parts = on_gpu(&in, in.part)};
            for (int r = 0; r < one->reduce.n; r++) add_reduction(&in, &one->reduce.reductions[r]);
            in.work++;
        }
    return NULL;
}

void dt_cuda_tables_free(dt_cuda_tables *tables) {
    dt_release(tables->host);
    *tables = (dt_cuda_tables){0};
}

int64_t dt_cuda_tables_n_elements(const dt_cuda_tables *tables, size_t w) { return ((const dt_reduction_work *)tables->host)[w].n_elements; }
