/* picture: see picture.h. */
#include "compiler/picture.h"

#include <stdlib.h>
#include <string.h>

/* ---- layers and their paths ---- */

static const dt_layer *find_layer(const dt_module *module, const char *path) {
    for (size_t i = 0; i < module->layers.n && path != NULL; i++)
        if (strcmp(module->layers.items[i].path, path) == 0) return &module->layers.items[i];
    return NULL;
}

/* Whether `path` is below `layer`: "Net/block/dense" of "Net". */
static bool is_below(const char *path, const char *layer) {
    size_t n = strlen(layer);
    return strncmp(path, layer, n) == 0 && path[n] == '/';
}

static bool has_layers(const dt_module *module, const char *path) {
    for (size_t i = 0; i < module->layers.n; i++)
        if (is_below(module->layers.items[i].path, path)) return true;
    return false;
}

/* "Net/block" of "Net/block/dense"; NULL of "Net". */
static const char *parent_of(dt_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? dt_arena_substring(arena, path, (size_t)(slash - path)) : NULL;
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool same_text(const char *a, const char *b) { return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0); }

/* ---- making ---- */

typedef struct maker {
    dt_arena *arena;
    dt_picture *picture;
    const dt_function *function;
    int *box_of;          /* [next_id] by value; -1: none */
    bool *from_gradients; /* [next_id] */
    bool *wanted;         /* [next_id] of the forward part */
    int *seen;            /* [next_id] by box: the last search that came there */
    int n_searches;
} maker;

static int add_box(maker *m, dt_picture_box box) {
    dt_list_push(m->arena, &m->picture->boxes, box);
    return (int)m->picture->boxes.n - 1;
}

static void add_arrow(maker *m, const dt_value *value, int to) {
    int from = m->box_of[value->id];
    if (from < 0 || from == to) return;
    for (size_t i = 0; i < m->picture->arrows.n; i++) {
        const dt_picture_arrow *arrow = &m->picture->arrows.items[i];
        if (arrow->from == from && arrow->to == to && arrow->dtype == value->dtype && dt_shape_equal(arrow->shape, value->shape)) return;
    }
    dt_picture_arrow arrow = {from, to, value->dtype, value->shape};
    dt_list_push(m->arena, &m->picture->arrows, arrow);
    dt_list_push(m->arena, &m->picture->boxes.items[from].next, to);
}

static bool leads_to(maker *m, int from, int to) {
    const dt_picture_box *box = &m->picture->boxes.items[from];
    if (from == to) return true;
    if (m->seen[from] == m->n_searches) return false;
    m->seen[from] = m->n_searches;
    for (size_t i = 0; i < box->next.n; i++)
        if (leads_to(m, box->next.items[i], to)) return true;
    return false;
}

/* Whether the value can be part of `box` without a circle: no other box that it takes something from comes after that one. */
static bool can_join(maker *m, const dt_value *value, int box) {
    m->n_searches++;
    for (int k = 0; k < value->n_operands; k++) {
        int from = m->box_of[value->operands[k]->id];
        if (from >= 0 && from != box && leads_to(m, box, from)) return false;
    }
    return true;
}

static dt_location location_of(const dt_value *value) { return value->n_locations > 0 ? value->locations[0] : (dt_location){.file = -1}; }

/* What a value is part of: its layer, or the one around that at the depth at which layers are boxes. */
static const char *shown_layer(const dt_picture *picture, const char *path) {
    int depth = 0;
    for (const char *at = path; at != NULL && *at != 0; at++) {
        if (*at != '/') continue;
        if (depth++ == picture->depth) return dt_arena_substring(picture->module->arena, path, (size_t)(at - path));
    }
    return path;
}

static int64_t parameters_in(const dt_module *module, const char *path) {
    int64_t n = 0;
    for (size_t i = 0; i < module->layers.n; i++) {
        const dt_layer *layer = &module->layers.items[i];
        if (strcmp(layer->path, path) == 0 || is_below(layer->path, path)) n += layer->n_parameters;
    }
    return n;
}

/* Of a box that stands for a value as that belongs to a layer, a function, or a line. */
static dt_picture_box describe(maker *m, const dt_value *value) {
    const dt_module *module = m->picture->module;
    const char *path = shown_layer(m->picture, value->layer);
    const dt_layer *layer = find_layer(module, path);
    dt_picture_box box = {.role = DT_PICTURE_LINE, .layer = path, .around = path, .call = value->call, .location = location_of(value)};
    if (path == NULL) return box;
    if (layer != NULL && (layer->depth == m->picture->depth || !has_layers(module, path))) {
        box.role = DT_PICTURE_LAYER;
        box.kind = layer->kind;
        box.n_parameters = parameters_in(module, path);
    } else if (layer == NULL) {
        box.role = DT_PICTURE_FUNCTION;
    }
    if (box.role == DT_PICTURE_LINE) return box;
    box.name = last_part(path);
    if (strchr(box.name, '#') != NULL) box.name = dt_arena_substring(m->arena, box.name, strcspn(box.name, "#"));
    box.around = parent_of(m->arena, path);
    return box;
}

static bool are_alike(const dt_picture_box *a, const dt_picture_box *b) {
    bool same = a->role == b->role && a->call == b->call && same_text(a->layer, b->layer);
    return same && (a->role != DT_PICTURE_LINE || (a->location.file == b->location.file && a->location.line == b->location.line));
}

/* What says nothing of what is computed. */
static bool is_plain(const dt_value *value) {
    static const char *const names[] = {"convert", "broadcast", "reshape", "stop_gradient", "slice", "transpose"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (dt_value_is(value, names[i])) return true;
    return false;
}

static bool holds_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; at != NULL; at = strstr(at, ", ") != NULL ? strstr(at, ", ") + 2 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == 0 || at[n] == ',')) return true;
    return false;
}

/* The box of a line is called by what it computes. A plain name gives way to one that says something. */
static void name_line(maker *m, dt_picture_box *box, const dt_value *value) {
    const char *op = value->op->name;
    bool was_plain = box->kind != NULL; /* while it is made: the only names are those of plain ops */
    if (box->name != NULL && (holds_word(box->name, op) || (is_plain(value) && !was_plain))) return;
    bool replaces = box->name == NULL || (was_plain && !is_plain(value));
    box->name = replaces ? op : dt_arena_format(m->arena, "%s, %s", box->name, op);
    box->kind = is_plain(value) ? "" : NULL;
}

static int place(maker *m, const dt_value *value) {
    dt_picture_box wanted = describe(m, value);
    int box = -1;
    if (wanted.role != DT_PICTURE_LINE) {
        for (size_t i = m->picture->boxes.n; i-- > 0 && box < 0;)
            if (are_alike(&m->picture->boxes.items[i], &wanted) && can_join(m, value, (int)i)) box = (int)i;
    }
    for (int k = 0; k < value->n_operands && box < 0; k++) {
        int from = m->box_of[value->operands[k]->id];
        if (from >= 0 && are_alike(&m->picture->boxes.items[from], &wanted) && can_join(m, value, from)) box = from;
    }
    if (box < 0) box = add_box(m, wanted);
    if (wanted.role == DT_PICTURE_LINE) name_line(m, &m->picture->boxes.items[box], value);
    return box;
}

/* Values that only constants and parameters go into have no box; nor have the random numbers of a layer. */
static void place_value(maker *m, const dt_value *value) {
    bool has_box = false;
    m->box_of[value->id] = -1;
    if (!m->wanted[value->id]) return;
    for (int k = 0; k < value->n_operands; k++) has_box |= m->box_of[value->operands[k]->id] >= 0;
    if (dt_value_is(value, "input")) {
        m->box_of[value->id] = add_box(m, (dt_picture_box){.role = DT_PICTURE_INPUT, .name = value->name, .location = location_of(value)});
        return;
    }
    if (!has_box && (value->op->class != DT_CLASS_RANDOM || describe(m, value).role == DT_PICTURE_LAYER)) return;
    m->box_of[value->id] = place(m, value);
    for (int k = 0; k < value->n_operands; k++) add_arrow(m, value->operands[k], m->box_of[value->id]);
}

static bool is_gradient(const dt_value *value) { return value->op->class == DT_CLASS_CONTROL && dt_value_is(value, "gradient"); }

/* What results need, and what gradients are taken of, without what is made of gradients. */
static void find_forward_part(maker *m) {
    for (const dt_value *value = m->function->first; value != NULL; value = value->next) {
        m->from_gradients[value->id] = is_gradient(value);
        for (int k = 0; k < value->n_operands; k++) m->from_gradients[value->id] |= m->from_gradients[value->operands[k]->id];
    }
    for (size_t i = 0; i < m->function->results.n; i++)
        m->wanted[m->function->results.items[i].value->id] = !m->from_gradients[m->function->results.items[i].value->id];
    for (const dt_value *value = m->function->last; value != NULL; value = value->previous) {
        m->wanted[value->id] |= dt_value_is(value, "input");
        if (is_gradient(value)) m->wanted[value->operands[0]->id] = !m->from_gradients[value->operands[0]->id];
        for (int k = 0; k < value->n_operands && m->wanted[value->id]; k++) m->wanted[value->operands[k]->id] = true;
    }
}

static void add_gradients(maker *m) {
    int box = -1;
    for (const dt_value *value = m->function->first; value != NULL; value = value->next) {
        if (!is_gradient(value)) continue;
        if (box < 0) box = add_box(m, (dt_picture_box){.role = DT_PICTURE_GRADIENTS, .name = "gradients, update", .location = location_of(value)});
        add_arrow(m, value->operands[0], box);
    }
}

static void add_results(maker *m) {
    const dt_step *step = m->picture->step;
    dt_text names = {.arena = m->arena};
    for (size_t i = 0; step->report != NULL && i < step->report->results.n; i++)
        dt_text_format(&names, "%s%s", i > 0 ? ", " : "", step->report->results.items[i].name);
    int reports = names.data != NULL ? add_box(m, (dt_picture_box){.role = DT_PICTURE_REPORTS, .name = names.data, .location = step->location}) : -1;
    for (size_t i = 0; i < m->function->results.n; i++) {
        const dt_result *result = &m->function->results.items[i];
        bool is_aggregate = (int)i < step->n_aggregates;
        int box = is_aggregate ? reports : add_box(m, (dt_picture_box){.role = DT_PICTURE_RESULT, .name = result->name, .location = step->location});
        if (box >= 0) add_arrow(m, result->value, box);
    }
}

void dt_picture_make(dt_arena *arena, const dt_module *module, const dt_step *step, int depth, dt_picture *picture) {
    const dt_function *function = step->function;
    *picture = (dt_picture){.module = module, .step = step, .depth = depth};
    maker m = {.arena = arena,
               .picture = picture,
               .function = function,
               .box_of = DT_NEW_ARRAY(arena, int, function->next_id),
               .from_gradients = DT_NEW_ARRAY(arena, bool, function->next_id),
               .wanted = DT_NEW_ARRAY(arena, bool, function->next_id),
               .seen = DT_NEW_ARRAY(arena, int, function->next_id)};
    find_forward_part(&m);
    for (const dt_value *value = function->first; value != NULL; value = value->next) place_value(&m, value);
    add_gradients(&m);
    add_results(&m);
}

/* ---- what crosses ---- */

/* The box that a collective is for. */
static dt_picture_box *box_of(dt_picture *picture, const dt_function *function, const dt_collective *collective) {
    const dt_value *value = function->first;
    while (value->id != collective->value) value = value->next;
    bool is_gradient = dt_module_find_variable(picture->module, collective->label) != NULL, is_report = strncmp(collective->label, "report ", 7) == 0;
    dt_picture_box *gradients = NULL, *reports = NULL, *of_layer = NULL, *of_line = NULL;
    for (size_t i = 0; i < picture->boxes.n; i++) {
        dt_picture_box *box = &picture->boxes.items[i];
        if (box->role == DT_PICTURE_GRADIENTS) gradients = box;
        if (box->role == DT_PICTURE_REPORTS) reports = box;
        bool same_layer = box->role != DT_PICTURE_INPUT && box->call == value->call && same_text(box->layer, shown_layer(picture, value->layer));
        bool same_line = box->location.file == location_of(value).file && box->location.line == location_of(value).line;
        if (same_layer && value->layer != NULL && of_layer == NULL) of_layer = box;
        if (same_layer && same_line && of_line == NULL && box->role != DT_PICTURE_REPORTS) of_line = box;
    }
    if (is_gradient || (value->call == DT_BACKWARD && !is_report)) return gradients;
    if (is_report) return reports;
    return of_line != NULL ? of_line : of_layer != NULL ? of_layer : gradients;
}

void dt_picture_mark_crossing(dt_picture *picture, const dt_compilation *compilation) {
    for (int p = 0; p < compilation->n_plans; p++) {
        const dt_plan *plan = compilation->plans[p];
        const dt_function *function = compilation->module->functions.items[p];
        for (int s = 0; s < plan->n_segments && function == picture->step->function; s++)
            for (int c = 0; c < plan->segments[s].n_collectives; c++) {
                const dt_collective *collective = &plan->segments[s].collectives[c];
                const dt_buffer *source = &plan->buffers[collective->source];
                dt_picture_box *box = box_of(picture, function, collective);
                if (box == NULL) continue;
                int64_t capacity = picture->module->capacity;
                box->n_crossing++;
                box->crossing_bytes += dt_shape_elements(source->shape, capacity, capacity) * (int64_t)dt_dtype_bytes(source->dtype);
            }
    }
}
