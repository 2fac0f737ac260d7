/* checkpoint_plan: see checkpoint_plan.h. */
#include "runtime/checkpoint_plan.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

enum {
    ALIGNMENT = 64 /* of pieces in the copy, and of where what all have alike is divided */
};

/* ---- who writes what ---- */

/* A file that is being laid out. */
typedef struct layout {
    dt_ranges_layout ranges;
    dt_arena *arena;
    dt_checkpoint_plan *plan;
    int file;
    int64_t n_alike, alike; /* bytes of the file that all processes have; those that have a writer */
} layout;

static int64_t all_bytes(const dt_strided_range *of) { return of->n_bytes * of->times; }

static void add_piece(layout *in, dt_checkpoint_piece piece, int writer) {
    dt_checkpoint_plan *plan = in->plan;
    dt_checkpoint_part *last = plan->parts.n > 0 ? &plan->parts.items[plan->parts.n - 1] : NULL;
    dt_strided_range bytes = piece.bytes;
    bytes.first = piece.offset;
    piece.copied = -1;
    if (writer == plan->process && piece.variable >= 0 && !piece.is_collected) {
        piece.copied = plan->copy_bytes;
        plan->copy_bytes += (all_bytes(&bytes) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    plan->collects |= piece.is_collected;
    dt_list_push(in->arena, &plan->pieces, piece);
    bool goes_on = last != NULL && last->file == in->file && last->writer == writer && last->end_piece + 1 == (int)plan->pieces.n &&
                   last->bytes.times == 1 && bytes.times == 1 && last->bytes.first + last->bytes.n_bytes == bytes.first;
    if (goes_on) {
        last->bytes.n_bytes += bytes.n_bytes;
        last->end_piece++;
        return;
    }
    dt_checkpoint_part part = {
        .file = in->file, .writer = writer, .first_piece = (int)plan->pieces.n - 1, .end_piece = (int)plan->pieces.n, .bytes = bytes};
    dt_list_push(in->arena, &plan->parts, part);
}

/* The end of the bytes alike that a writer has. */
static int64_t bound(const layout *in, int writer) {
    int n = in->plan->n_writers;
    if (writer + 1 == n) return in->n_alike;
    return (int64_t)((__int128)in->n_alike * (writer + 1) / n) / ALIGNMENT * ALIGNMENT;
}

static void divide(layout *in, dt_checkpoint_piece whole) {
    for (int writer = 0; whole.bytes.n_bytes > 0; writer++) {
        int64_t left = bound(in, writer) - in->alike;
        if (left <= 0) continue;
        dt_checkpoint_piece piece = whole;
        if (piece.bytes.n_bytes > left) piece.bytes.n_bytes = left;
        add_piece(in, piece, writer);
        whole.bytes.first += piece.bytes.n_bytes;
        whole.offset += piece.bytes.n_bytes;
        whole.bytes.n_bytes -= piece.bytes.n_bytes;
        in->alike += piece.bytes.n_bytes;
    }
}

static int by_beginning(const void *a, const void *b) {
    const dt_checkpoint_part *x = a, *y = b;
    return (x->bytes.first > y->bytes.first) - (x->bytes.first < y->bytes.first);
}

static void add_shares(layout *in, dt_checkpoint_piece whole) {
    const size_t first = in->plan->parts.n;
    if (in->plan->n_writers == 1) {
        whole.is_collected = true;
        add_piece(in, whole, 0);
        return;
    }
    for (int p = 0; p < in->plan->n_writers; p++) {
        dt_strided_ranges given = {0};
        dt_ranges_give(&in->ranges, whole.variable, p, in->arena, &given);
        for (size_t i = 0; i < given.n; i++)
            add_piece(in, (dt_checkpoint_piece){.variable = whole.variable, .bytes = given.items[i], .offset = whole.offset + given.items[i].first},
                      p);
    }
    qsort(in->plan->parts.items + first, in->plan->parts.n - first, sizeof *in->plan->parts.items, by_beginning);
}

static int by_place(const void *a, const void *b) {
    const dt_checkpoint_piece *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes.n_bytes > y->bytes.n_bytes) - (x->bytes.n_bytes < y->bytes.n_bytes);
}

/* The variables of a file, each whole, in the order of the file; the plan's head and length are set. */
static dt_checkpoint_piece *list_variables(layout *in, int *n_listed) {
    const dt_artifact *artifact = in->ranges.artifact;
    dt_safetensor *tensors = DT_NEW_ARRAY(in->arena, dt_safetensor, artifact->n_variables);
    dt_checkpoint_piece *pieces = DT_NEW_ARRAY(in->arena, dt_checkpoint_piece, artifact->n_variables);
    dt_text *head = &in->plan->heads[in->file];
    int n = 0;
    for (int v = 0; v < artifact->n_variables; v++) {
        const dt_artifact_variable *variable = &artifact->variables[v];
        const dt_artifact_tensor *tensor = &variable->tensor;
        if (dt_checkpoint_file_of(variable) != in->file) continue;
        pieces[n] = (dt_checkpoint_piece){.variable = v, .bytes = {.n_bytes = variable->bytes, .times = 1}};
        tensors[n++] = (dt_safetensor){
            .name = variable->path, .dtype = tensor->dtype, .n_dims = tensor->n_dims, .dims = tensor->dims, .n_bytes = variable->bytes};
    }
    *head = (dt_text){.arena = in->arena};
    in->plan->n_bytes[in->file] = dt_safetensors_lay_out(n, tensors, head);
    for (int i = 0; i < n; i++) pieces[i].offset = tensors[i].offset;
    if (n > 0) qsort(pieces, (size_t)n, sizeof *pieces, by_place);
    *n_listed = n;
    return pieces;
}

dt_status *dt_checkpoint_plan_make(const dt_artifact *artifact, const dt_session_options *options, bool is_shared, dt_arena *arena,
                                   dt_checkpoint_plan *plan) {
    dt_process_roles roles = dt_processes_roles(options->processes);
    dt_ranges_layout ranges;
    *plan = (dt_checkpoint_plan){.process = dt_processes_number(options->processes), .n_writers = is_shared ? dt_process_n_owners(roles) : 1};
    DT_TRY(dt_ranges_layout_of(artifact, options, arena, &ranges));
    for (int file = 0; file < DT_CHECKPOINT_FILES; file++) {
        layout in = {.ranges = ranges, .arena = arena, .plan = plan, .file = file};
        int n;
        dt_checkpoint_piece *all = list_variables(&in, &n);
        dt_checkpoint_piece head = {.variable = -1, .bytes = {.n_bytes = (int64_t)plan->heads[file].n, .times = 1}};
        in.n_alike = head.bytes.n_bytes;
        for (int i = 0; i < n; i++)
            if (!dt_ranges_are_shared_out(&ranges, all[i].variable)) in.n_alike += all[i].bytes.n_bytes;
        divide(&in, head);
        for (int i = 0; i < n; i++) {
            if (dt_ranges_are_shared_out(&ranges, all[i].variable))
                add_shares(&in, all[i]);
            else
                divide(&in, all[i]);
        }
    }
    return NULL;
}

int dt_checkpoint_plan_n_parts(const dt_checkpoint_plan *plan, int writer) {
    int n = 0;
    for (size_t i = 0; i < plan->parts.n; i++) n += plan->parts.items[i].writer == writer;
    return n;
}

/* ---- writing ---- */

/* Whether one of `n` elements of a float type is not a number. */
static bool has_nan(dt_dtype dtype, const void *data, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (dtype == DT_F32 && isnan(((const float *)data)[i])) return true;
        if (dtype == DT_F64 && isnan(((const double *)data)[i])) return true;
        uint16_t half = dtype == DT_F16 || dtype == DT_BF16 ? ((const uint16_t *)data)[i] & 0x7fff : 0;
        if (half > (dtype == DT_F16 ? 0x7c00 : 0x7f80)) return true;
    }
    return false;
}

static dt_status *check_numbers(const dt_artifact_variable *variable, const void *data, int64_t n_bytes) {
    dt_dtype dtype = variable->tensor.dtype;
    if (!dt_dtype_is_float(dtype) || !has_nan(dtype, data, n_bytes / (int64_t)dt_dtype_bytes(dtype))) return NULL;
    return dt_status_about(dt_error(DT_OUT_OF_RANGE, "%s holds what is not a number (NaN): no checkpoint is written", variable->path),
                           variable->path);
}

/* What parts are written from, and to. */
typedef struct writing {
    const dt_checkpoint_plan *plan;
    dt_session *session;
    int64_t step; /* the last one of the checkpoint */
    const char *copy;
    char *buffer; /* of bytes that are collected, DT_FILE_PIECE_BYTES */
    dt_piece_file to;
} writing;

static dt_status *collect(dt_session *session, int64_t step, const dt_checkpoint_piece *piece, int64_t first, int64_t n, char *data) {
    const dt_step_context context = {.step = "checkpoint", .number = step - 1};
    return dt_ranges_collect(session, piece->variable, (dt_byte_range){piece->bytes.first + first, n}, &context, data);
}

static dt_status *write_piece(writing *in, int file, const dt_checkpoint_piece *piece) {
    const dt_strided_range *bytes = &piece->bytes;
    if (piece->variable < 0) return dt_piece_file_put(&in->to, piece->offset, in->plan->heads[file].data + bytes->first, (size_t)bytes->n_bytes);
    const dt_artifact_variable *variable = &dt_session_artifact(in->session)->variables[piece->variable];
    for (int64_t time = 0; time < bytes->times; time++)
        for (int64_t done = 0, n; done < bytes->n_bytes; done += n) {
            n = bytes->n_bytes - done < DT_FILE_PIECE_BYTES ? bytes->n_bytes - done : DT_FILE_PIECE_BYTES;
            const char *data = piece->is_collected ? in->buffer : in->copy + piece->copied + time * bytes->n_bytes + done;
            if (piece->is_collected) DT_TRY(collect(in->session, in->step, piece, done, n, in->buffer));
            DT_TRY(check_numbers(variable, data, n));
            DT_TRY(dt_piece_file_put(&in->to, piece->offset + time * bytes->stride + done, data, (size_t)n));
        }
    return NULL;
}

static dt_status *write_parts(writing *in, int file, unsigned char (*sums)[DT_SHA256_BYTES]) {
    for (size_t i = 0; i < in->plan->parts.n; i++) {
        const dt_checkpoint_part *part = &in->plan->parts.items[i];
        if (part->file != file || part->writer != in->plan->process) continue;
        for (int p = part->first_piece; p < part->end_piece; p++) DT_TRY(write_piece(in, file, &in->plan->pieces.items[p]));
        dt_piece_file_sum(&in->to, sums[i]);
    }
    return NULL;
}

static dt_status *write_file(writing *in, int file, const char *folder, dt_progress *progress, unsigned char (*sums)[DT_SHA256_BYTES]) {
    dt_text path = {0};
    dt_text_format(&path, "%s/%s", folder, dt_checkpoint_file_name(file));
    dt_status *status =
        path.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : dt_piece_file_open(path.data, in->plan->n_bytes[file], progress, &in->to);
    if (status == NULL) status = dt_piece_file_close(&in->to, write_parts(in, file, sums));
    dt_text_free(&path);
    return status;
}

dt_status *dt_checkpoint_plan_write(const dt_checkpoint_plan *plan, dt_session *session, const char *copy, const char *folder, int64_t step,
                                    dt_progress *progress, unsigned char (*sums)[DT_SHA256_BYTES]) {
    writing in = {.plan = plan, .session = session, .step = step, .copy = copy, .buffer = plan->collects ? dt_allocate(DT_FILE_PIECE_BYTES) : NULL};
    dt_status *status = plan->collects && in.buffer == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    for (int file = 0; file < DT_CHECKPOINT_FILES && status == NULL; file++) status = write_file(&in, file, folder, progress, sums);
    dt_release(in.buffer);
    return status;
}

dt_status *dt_checkpoint_plan_give(const dt_checkpoint_plan *plan, dt_session *session, int64_t step) {
    for (size_t i = 0; i < plan->pieces.n; i++) {
        const dt_checkpoint_piece *piece = &plan->pieces.items[i];
        for (int64_t done = 0, n; piece->is_collected && done < piece->bytes.n_bytes; done += n) {
            n = piece->bytes.n_bytes - done < DT_FILE_PIECE_BYTES ? piece->bytes.n_bytes - done : DT_FILE_PIECE_BYTES;
            DT_TRY(collect(session, step, piece, done, n, NULL));
        }
    }
    return NULL;
}
