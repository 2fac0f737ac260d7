/* checkpoint_state: see checkpoint_state.h. */
#include "runtime/checkpoint_state.h"

#include "base/memory.h"
#include "base/text.h"
#include "runtime/artifact/json.h"
#include "runtime/artifact/json_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    FORMAT = 2,
    HEX_CHARACTERS = 2 * DT_SHA256_BYTES
};

/* The integers of the state: X(member, least value, greatest value). Each is a string in the file. */
#define INTEGERS(X)                                                                                                                                  \
    X(step, 0, DT_MOST_COUNT)                                                                                                                        \
    X(epoch, 0, DT_MOST_COUNT)                                                                                                                       \
    X(examples, 0, DT_MOST_COUNT)                                                                                                                    \
    X(seed, INT64_MIN, INT64_MAX)                                                                                                                    \
    X(replicas, 1, DT_MOST_COUNT)                                                                                                                    \
    X(global_batch, 1, DT_MOST_COUNT)                                                                                                                \
    X(epochs, 0, INT64_MAX)                                                                                                                          \
    X(steps_per_epoch, 0, DT_MOST_COUNT)                                                                                                             \
    X(n_added, 0, DT_MOST_COUNT)

const char *dt_checkpoint_file_name(int file) { return file == DT_CHECKPOINT_MODEL ? "model.safetensors" : "optimizer.safetensors"; }

int dt_checkpoint_file_of(const dt_artifact_variable *variable) {
    switch (variable->kind) {
    case DT_VARIABLE_LAUNCH: return DT_CHECKPOINT_FILES;
    case DT_VARIABLE_SLOT: return DT_CHECKPOINT_OPTIMIZER;
    default: return DT_CHECKPOINT_MODEL;
    }
}

dt_status *dt_checkpoint_state_set(char **member, const char *string) {
    char *copy = NULL;
    if (string != NULL) {
        copy = dt_allocate(strlen(string) + 1);
        if (copy == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
        memcpy(copy, string, strlen(string) + 1);
    }
    dt_release(*member);
    *member = copy;
    return NULL;
}

void dt_checkpoint_state_free(dt_checkpoint_state *state) {
    dt_release(state->program_hash);
    dt_release(state->level);
    dt_release(state->libraries);
    dt_release(state->launch);
    dt_release(state->data);
    dt_release(state->place);
    dt_release(state->totals);
    dt_release(state->metric);
    dt_release(state->plateau);
    for (int f = 0; f < DT_CHECKPOINT_FILES; f++) dt_release(state->files[f].items);
    *state = (dt_checkpoint_state){0};
}

static dt_status *parse_string(const dt_json *object, const char *key, char **member) {
    const char *string;
    DT_TRY(dt_json_string(object, key, &string));
    return dt_checkpoint_state_set(member, string);
}

/* A float64 as a string, which may say inf and nan. */
static dt_status *parse_f64(const dt_json *object, const char *key, double *value) {
    const char *string;
    char *end;
    DT_TRY(dt_json_string(object, key, &string));
    *value = strtod(string, &end);
    return *string != 0 && *end == 0 ? NULL : dt_json_wrong(object, "\"%s\" is no number: %s", key, string);
}

static dt_status *parse_total(const dt_json *item, dt_total *total) {
    total->is_integer = dt_json_has(item, "integer");
    if (total->is_integer) return dt_json_integer(item, "integer", INT64_MIN, INT64_MAX, &total->integer);
    return parse_f64(item, "number", &total->number);
}

static dt_status *parse_sum(const dt_json *range, unsigned char sum[DT_SHA256_BYTES]) {
    const char *string;
    DT_TRY(dt_json_string(range, "sha256", &string));
    if (strlen(string) != HEX_CHARACTERS || strspn(string, "0123456789abcdef") != HEX_CHARACTERS)
        return dt_json_wrong(range, "\"sha256\" is no SHA-256");
    for (int i = 0; i < HEX_CHARACTERS; i++) {
        int digit = string[i] <= '9' ? string[i] - '0' : string[i] - 'a' + 10;
        sum[i / 2] = (unsigned char)(i % 2 == 0 ? digit << 4 : sum[i / 2] | digit);
    }
    return NULL;
}

/* Bytes are said as they lie: n_all so far, of all ranges before. */
static dt_status *parse_range(const dt_json *item, int64_t n_all, dt_file_range *range) {
    range->times = 1;
    DT_TRY(dt_json_integer(item, "first", 0, INT64_MAX, &range->first));
    DT_TRY(dt_json_integer(item, "bytes", 1, INT64_MAX - n_all, &range->n_bytes));
    if (dt_json_has(item, "times")) {
        int64_t after = INT64_MAX - range->first - range->n_bytes;
        DT_TRY(dt_json_integer(item, "times", 2, (INT64_MAX - n_all) / range->n_bytes, &range->times));
        DT_TRY(dt_json_integer(item, "stride", range->n_bytes, after / (range->times - 1), &range->stride));
    }
    return parse_sum(item, range->sha256);
}

/* Where ranges begin, in order, is where they are looked for: those that have begun and are not over. Each time another one's turn comes, as a rule
 * the next one's. */
typedef struct cover {
    const dt_file_ranges *ranges;
    int64_t *done; /* [n] times */
    int first, end, at;
    int64_t n_bytes; /* the beginning of the file that is covered */
} cover;

static int64_t next_of(const cover *in, int r) { return in->ranges->items[r].first + in->done[r] * in->ranges->items[r].stride; }
static bool is_over(const cover *in, int r) { return in->done[r] == in->ranges->items[r].times; }

/* Takes what goes on where the others end. Returns -1, or the number of a range that begins elsewhere. */
static int take_next(cover *in) {
    while (in->first < in->end && is_over(in, in->first)) in->first++;
    while (in->end < in->ranges->n && in->ranges->items[in->end].first <= in->n_bytes) in->end++;
    if (in->at < in->first) in->at = in->first;
    for (int i = in->first, r = in->at; i < in->end; i++, r = r + 1 < in->end ? r + 1 : in->first) {
        if (is_over(in, r) || next_of(in, r) != in->n_bytes) continue;
        in->done[r]++;
        in->n_bytes += in->ranges->items[r].n_bytes;
        in->at = r + 1 < in->end ? r + 1 : in->first;
        return -1;
    }
    int wrong = in->end;
    for (int r = in->first; r < in->end; r++)
        if (!is_over(in, r) && (wrong == in->end || next_of(in, r) < next_of(in, wrong))) wrong = r;
    return wrong;
}

/* Each byte of the file is in one of them, once. */
static dt_status *check_cover(const dt_json *list, const dt_file_ranges *ranges) {
    enum {
        MOST_TIMES = 1 << 30 /* of all: which takes seconds */
    };
    cover in = {.ranges = ranges, .done = dt_allocate_zeroed((size_t)ranges->n, sizeof *in.done)};
    int64_t n_times = 0;
    int wrong = -1;
    if (in.done == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, list->document, 0, "out of memory");
    for (int r = 0; r < ranges->n && n_times <= MOST_TIMES; r++)
        n_times += ranges->items[r].times < MOST_TIMES ? ranges->items[r].times : MOST_TIMES + 1;
    for (int64_t t = 0; t < n_times && n_times <= MOST_TIMES && wrong < 0; t++) wrong = take_next(&in);
    dt_json item = dt_json_first(list);
    for (int r = 0; r < wrong; r++) dt_json_next(&item);
    dt_status *status = n_times > MOST_TIMES ? dt_json_wrong(list, "more than %d ranges", MOST_TIMES) : NULL;
    if (wrong >= 0)
        status = dt_json_wrong(&item, "begins at byte %" PRId64 ", which %s: the range before it ends at byte %" PRId64, next_of(&in, wrong),
                               next_of(&in, wrong) < in.n_bytes ? "another range has too" : "leaves a gap", in.n_bytes);
    dt_release(in.done);
    return status;
}

/* In the order in which they begin. */
static dt_status *parse_ranges(const dt_json *files, const char *name, dt_file_ranges *ranges) {
    dt_json list;
    int n;
    int64_t n_all = 0;
    DT_TRY(dt_json_array(files, name, &list, &n));
    if (n == 0) return dt_json_wrong(&list, "expected at least one range");
    ranges->items = dt_allocate_zeroed((size_t)n, sizeof *ranges->items);
    if (ranges->items == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, files->document, 0, "out of memory");
    for (dt_json item = dt_json_first(&list); item.value != NULL; dt_json_next(&item)) {
        dt_file_range *range = &ranges->items[ranges->n];
        DT_TRY(parse_range(&item, n_all, range));
        if (ranges->n++ > 0 && range->first < range[-1].first)
            return dt_json_wrong(&item, "begins at byte %" PRId64 ", and the range before it at byte %" PRId64, range->first, range[-1].first);
        n_all += range->n_bytes * range->times;
    }
    return check_cover(&list, ranges);
}

static dt_status *parse_best(const dt_json *best, dt_checkpoint_state *state) {
    DT_TRY(parse_string(best, "metric", &state->metric));
    DT_TRY(dt_json_integer(best, "epochs_without_gain", 0, DT_MOST_COUNT, &state->epochs_without_gain));
    state->has_best = dt_json_has(best, "value");
    if (!state->has_best) return NULL;
    DT_TRY(parse_f64(best, "value", &state->best));
    return dt_json_integer(best, "step", 0, DT_MOST_COUNT, &state->best_step);
}

static dt_status *parse_plateau(const dt_json *plateau, dt_checkpoint_state *state) {
    DT_TRY(parse_string(plateau, "of", &state->plateau));
    DT_TRY(parse_f64(plateau, "best", &state->plateau_state.best));
    DT_TRY(dt_json_integer(plateau, "bad_epochs", 0, DT_MOST_COUNT, &state->plateau_state.n_bad));
    return dt_json_integer(plateau, "cooling_epochs", 0, DT_MOST_COUNT, &state->plateau_state.n_cooling);
}

/* An array of lines as one string. Where there is none the member stays NULL. */
static dt_status *parse_lines(const dt_json *root, const char *key, char **member) {
    dt_json lines;
    dt_text text = {0};
    int n;
    if (!dt_json_has(root, key)) return NULL;
    DT_TRY(dt_json_array(root, key, &lines, &n));
    dt_status *status = NULL;
    dt_text_append(&text, "");
    for (dt_json line = dt_json_first(&lines); line.value != NULL && status == NULL; dt_json_next(&line)) {
        const char *string = NULL;
        status = dt_json_as_string(&line, &string);
        if (status == NULL) dt_text_format(&text, "%s\n", string);
    }
    if (status == NULL && text.failed) status = dt_error_in(DT_RESOURCE_EXHAUSTED, root->document, 0, "out of memory");
    if (status == NULL) status = dt_checkpoint_state_set(member, text.data);
    dt_text_free(&text);
    return status;
}

static dt_status *parse_root(const dt_json *root, dt_checkpoint_state *state) {
    int64_t format;
    dt_json totals, sums, best, plateau;
    DT_TRY(dt_json_integer(root, "format", 1, INT64_MAX, &format));
    if (format != FORMAT)
        return dt_error_in(DT_FAILED_PRECONDITION, root->document, 0,
                           "is of format %" PRId64 ", this dtrun reads format %d: go on with the version that wrote it", format, FORMAT);
    DT_TRY(parse_string(root, "program_hash", &state->program_hash));
    DT_TRY(parse_string(root, "level", &state->level));
    DT_TRY(parse_lines(root, "libraries", &state->libraries));
    DT_TRY(parse_lines(root, "launch", &state->launch));
    DT_TRY(parse_string(root, "data", &state->data));
    if (dt_json_has(root, "place")) DT_TRY(parse_string(root, "place", &state->place));
#define X(member, least, most) DT_TRY(dt_json_integer(root, #member, least, most, &state->member));
    INTEGERS(X)
#undef X
    int n_totals;
    DT_TRY(dt_json_array(root, "totals", &totals, &n_totals));
    state->totals = dt_allocate_zeroed((size_t)n_totals, sizeof *state->totals);
    if (state->totals == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, root->document, 0, "out of memory");
    for (dt_json item = dt_json_first(&totals); item.value != NULL; dt_json_next(&item))
        DT_TRY(parse_total(&item, &state->totals[state->n_totals++]));
    if (dt_json_has(root, "best")) {
        DT_TRY(dt_json_member(root, "best", &best));
        DT_TRY(parse_best(&best, state));
    }
    if (dt_json_has(root, "plateau")) {
        DT_TRY(dt_json_member(root, "plateau", &plateau));
        DT_TRY(parse_plateau(&plateau, state));
    }
    DT_TRY(dt_json_member(root, "sha256", &sums));
    for (int f = 0; f < DT_CHECKPOINT_FILES; f++) DT_TRY(parse_ranges(&sums, dt_checkpoint_file_name(f), &state->files[f]));
    return NULL;
}

dt_status *dt_checkpoint_state_parse(const char *path, const char *text, size_t n, dt_checkpoint_state *state) {
    *state = (dt_checkpoint_state){0};
    cJSON *parsed = cJSON_ParseWithLength(text, n);
    if (parsed == NULL) return dt_error_in(DT_DATA_LOSS, path, 0, "is truncated or altered: it is not JSON");
    dt_json root = {.value = parsed, .document = path};
    dt_status *status = parse_root(&root, state);
    cJSON_Delete(parsed);
    return status;
}

static void print_total(dt_text *text, const dt_total *total) {
    char buffer[32];
    if (total->is_integer)
        dt_text_format(text, "{\"integer\": \"%" PRId64 "\"}", total->integer);
    else
        dt_text_format(text, "{\"number\": \"%s\"}", dt_text_from_f64(total->number, buffer));
}

static void print_best(dt_text *text, const dt_checkpoint_state *state) {
    char buffer[32];
    dt_text_append(text, "  \"best\": {\"metric\": ");
    dt_text_append_json_string(text, state->metric);
    if (state->has_best)
        dt_text_format(text, ", \"value\": \"%s\", \"step\": \"%" PRId64 "\"", dt_text_from_f64(state->best, buffer), state->best_step);
    dt_text_format(text, ", \"epochs_without_gain\": \"%" PRId64 "\"},\n", state->epochs_without_gain);
}

static void print_plateau(dt_text *text, const dt_checkpoint_state *state) {
    char buffer[32];
    dt_text_append(text, "  \"plateau\": {\"of\": ");
    dt_text_append_json_string(text, state->plateau);
    dt_text_format(text, ", \"best\": \"%s\", \"bad_epochs\": \"%" PRId64 "\", \"cooling_epochs\": \"%" PRId64 "\"},\n",
                   dt_text_from_f64(state->plateau_state.best, buffer), state->plateau_state.n_bad, state->plateau_state.n_cooling);
}

static void print_lines(dt_text *text, const char *key, const char *lines) {
    dt_text line = {0};
    dt_text_format(text, "  \"%s\": [", key);
    for (const char *at = lines, *end; *at != 0; at = end + (*end != 0)) {
        end = at + strcspn(at, "\n");
        dt_text_append_bytes(&line, at, (size_t)(end - at));
        dt_text_append(text, at != lines ? ",\n    " : "\n    ");
        dt_text_append_json_string(text, line.failed ? "" : line.data);
        text->failed |= line.failed;
        dt_text_free(&line);
    }
    dt_text_append(text, "],\n");
}

static void print_ranges(dt_text *text, const char *name, const dt_file_ranges *ranges, bool is_last) {
    dt_text_format(text, "    \"%s\": [", name);
    for (int r = 0; r < ranges->n; r++) {
        const dt_file_range *range = &ranges->items[r];
        dt_text_format(text, "%s\n      {\"first\": \"%" PRId64 "\", \"bytes\": \"%" PRId64 "\"", r > 0 ? "," : "", range->first, range->n_bytes);
        if (range->times > 1) dt_text_format(text, ", \"times\": \"%" PRId64 "\", \"stride\": \"%" PRId64 "\"", range->times, range->stride);
        dt_text_append(text, ", \"sha256\": \"");
        for (int i = 0; i < DT_SHA256_BYTES; i++) dt_text_format(text, "%02x", range->sha256[i]);
        dt_text_append(text, "\"}");
    }
    dt_text_append(text, is_last ? "]\n" : "],\n");
}

char *dt_checkpoint_state_print(const dt_checkpoint_state *state) {
    dt_text text = {0};
    dt_text_format(&text, "{\n  \"format\": %d,\n  \"program_hash\": ", FORMAT);
    dt_text_append_json_string(&text, state->program_hash);
    dt_text_append(&text, ",\n  \"level\": ");
    dt_text_append_json_string(&text, state->level);
    dt_text_append(&text, ",\n");
    if (state->libraries != NULL) print_lines(&text, "libraries", state->libraries);
    if (state->launch != NULL) print_lines(&text, "launch", state->launch);
    dt_text_append(&text, "  \"data\": ");
    dt_text_append_json_string(&text, state->data);
    dt_text_append(&text, ",\n");
    if (state->place != NULL) {
        dt_text_append(&text, "  \"place\": ");
        dt_text_append_json_string(&text, state->place);
        dt_text_append(&text, ",\n");
    }
#define X(member, least, most) dt_text_format(&text, "  \"" #member "\": \"%" PRId64 "\",\n", state->member);
    INTEGERS(X)
#undef X
    dt_text_append(&text, "  \"totals\": [");
    for (int i = 0; i < state->n_totals; i++) {
        if (i > 0) dt_text_append(&text, ", ");
        print_total(&text, &state->totals[i]);
    }
    dt_text_append(&text, "],\n");
    if (state->metric != NULL) print_best(&text, state);
    if (state->plateau != NULL) print_plateau(&text, state);
    dt_text_append(&text, "  \"sha256\": {\n");
    for (int f = 0; f < DT_CHECKPOINT_FILES; f++) print_ranges(&text, dt_checkpoint_file_name(f), &state->files[f], f + 1 == DT_CHECKPOINT_FILES);
    dt_text_append(&text, "  }\n}\n");
    return dt_text_take(&text);
}
