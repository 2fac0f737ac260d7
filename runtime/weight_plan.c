/* weight_plan: see weight_plan.h. */
#include "runtime/weight_plan.h"

#include "runtime/artifact/type_text.h"
#include "runtime/weight_copy.h"

#include <stdarg.h>
#include <string.h>

enum {
    MOST_LISTED = 10
};

static void wrong(dt_weight_plan *plan, const dt_weight_rule *rule, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds a line to what does not fit, under the rule's place in the map: one a rule, for its tensors are wrong alike. */
static void wrong(dt_weight_plan *plan, const dt_weight_rule *rule, const char *format, ...) {
    if (plan->map->path != NULL && plan->last_wrong == rule) return;
    plan->last_wrong = rule;
    if (plan->n_wrong++ >= MOST_LISTED) return;
    dt_text_append(&plan->wrong, "\n  ");
    if (plan->map->path != NULL) dt_text_format(&plan->wrong, "%s:%d: ", plan->map->path, rule->line);
    va_list arguments;
    va_start(arguments, format);
    dt_text_vformat(&plan->wrong, format, arguments);
    va_end(arguments);
}

static const char *type_of(dt_arena *arena, dt_dtype dtype, int n_dims, const int64_t *dims) {
    dt_text text = {.arena = arena};
    if (dtype == DT_N_DTYPES) return "of a type that dtrun does not have";
    dt_text_append_type(&text, dtype, n_dims, dims);
    return text.data;
}

static const char *source_type(dt_weight_plan *plan, const dt_safetensor *source) {
    return type_of(plan->arena, source->dtype, source->n_dims, source->dims);
}

/* ---- pieces ---- */

/* What the ranges of a side are of a tensor with these dimensions; NULL after a message. */
static dt_weight_range *find_box(dt_weight_plan *plan, const dt_weight_rule *rule, const dt_weight_side *side, const char *name, int n_dims,
                                 const int64_t *dims) {
    dt_weight_range *box = DT_NEW_ARRAY(plan->arena, dt_weight_range, n_dims);
    if (side->n_ranges >= 0 && side->n_ranges != n_dims) {
        wrong(plan, rule, "%s has %d dimension%s, %s names %d range%s", name, n_dims, dt_plural(n_dims), side->text, side->n_ranges,
              dt_plural(side->n_ranges));
        return NULL;
    }
    for (int d = 0; d < n_dims; d++) {
        box[d] = side->n_ranges >= 0 ? side->ranges[d] : (dt_weight_range){.end = -1};
        if (box[d].end < 0) box[d].end = dims[d];
        if (box[d].end <= dims[d] && (box[d].begin < box[d].end || (box[d].begin == 0 && dims[d] == 0))) continue;
        wrong(plan, rule, "%s ends at %lld in dimension %d: the range %lld:%lld is not in it", name, (long long)dims[d], d, (long long)box[d].begin,
              (long long)box[d].end);
        return NULL;
    }
    return box;
}

/* Where elements of the shape `dims` go in a target that is as large as its pieces; NULL after a message. */
static dt_weight_range *place_box(dt_weight_plan *plan, const dt_weight_rule *rule, const dt_weight_side *side, int n_dims, const int64_t *dims) {
    dt_weight_range *box = DT_NEW_ARRAY(plan->arena, dt_weight_range, n_dims);
    if (side->n_ranges >= 0 && side->n_ranges != n_dims) {
        wrong(plan, rule, "what goes into %s has %d dimension%s", side->text, n_dims, dt_plural(n_dims));
        return NULL;
    }
    for (int d = 0; d < n_dims; d++) {
        box[d] = side->n_ranges >= 0 ? side->ranges[d] : (dt_weight_range){.end = -1};
        if (box[d].end < 0) box[d].end = box[d].begin + dims[d];
    }
    return box;
}

static void box_dims(int n_dims, const dt_weight_range *box, int64_t *dims) {
    for (int d = 0; d < n_dims; d++) dims[d] = box[d].end - box[d].begin;
}

static bool same_dims(int n, const int64_t *dims, int n_others, const int64_t *others) {
    if (n != n_others) return false;
    for (int d = 0; d < n; d++)
        if (dims[d] != others[d]) return false;
    return true;
}

/* Axes that would make the one shape of the other, as weights of PyTorch become ours. */
static const char *find_hint(dt_weight_plan *plan, int n_dims, const int64_t *dims, int n_wanted, const int64_t *wanted) {
    static const char *const usual[] = {"o i -> i o", "o i w -> w i o", "o i h w -> h w i o"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        const dt_weight_axes *axes = dt_weight_axes_parse(plan->arena, usual[i]);
        const dt_weight_order *there = &axes->orders[!plan->from];
        int64_t *sizes = DT_NEW_ARRAY(plan->arena, int64_t, axes->n), *made = DT_NEW_ARRAY(plan->arena, int64_t, there->n_dims);
        if (axes->orders[plan->from].n_dims != n_dims) continue;
        dt_status *status = dt_weight_axes_solve(axes, plan->from, n_dims, dims, sizes);
        if (status == NULL) dt_weight_axes_dims(axes, !plan->from, sizes, made);
        bool fits = status == NULL && same_dims(there->n_dims, made, n_wanted, wanted);
        dt_status_free(status);
        if (fits) return dt_arena_format(plan->arena, "; it would with ` : %s` at the end of the rule", usual[i]);
    }
    return "";
}

/* The sizes of the piece's axes and, in *n_made and *made, the shape that its elements have on the other side. */
static bool solve_axes(dt_weight_plan *plan, const dt_safetensor *source, dt_weight_piece *piece, int *n_made, int64_t **made) {
    const dt_weight_axes *axes = piece->rule->axes;
    int64_t *dims = DT_NEW_ARRAY(plan->arena, int64_t, source->n_dims);
    box_dims(source->n_dims, piece->from, dims);
    piece->n_axes = axes != NULL ? axes->n : source->n_dims;
    *n_made = axes != NULL ? axes->orders[!plan->from].n_dims : source->n_dims;
    *made = dims;
    piece->sizes = dims;
    if (axes == NULL) return true;
    int64_t *sizes = DT_NEW_ARRAY(plan->arena, int64_t, axes->n);
    piece->sizes = sizes;
    *made = DT_NEW_ARRAY(plan->arena, int64_t, *n_made);
    plan->refusal = dt_weight_axes_solve(axes, plan->from, source->n_dims, dims, sizes);
    if (plan->refusal == NULL) {
        dt_weight_axes_dims(axes, !plan->from, sizes, *made);
        return true;
    }
    wrong(plan, piece->rule, "%s %s: %s", source->name, source_type(plan, source), dt_status_message(plan->refusal));
    dt_status_free(plan->refusal);
    plan->refusal = NULL;
    return false;
}

/* Whether the elements can be those of the target, but for their shape. */
static bool check_types(dt_weight_plan *plan, const dt_weight_rule *rule, const dt_safetensor *source, const dt_weight_target *target) {
    if (!dt_weight_can_convert(source->dtype, target->dtype)) {
        wrong(plan, rule, "%s %s cannot become %s %s: only floats become floats, and whole numbers whole numbers", source->name,
              source_type(plan, source), target->name, dt_dtype_name(target->dtype));
        return false;
    }
    if (rule->scale != 1 && !dt_dtype_is_float(target->dtype)) {
        wrong(plan, rule, "%s is %s: only floats can be scaled", target->name, dt_dtype_name(target->dtype));
        return false;
    }
    return true;
}

static void add_piece(dt_weight_plan *plan, const dt_weight_rule *rule, int number, dt_weight_target *target, bool is_found) {
    const dt_safetensor *source = &plan->sources[number];
    const dt_weight_side *here = &rule->sides[plan->from], *there = &rule->sides[!plan->from];
    dt_weight_piece piece = {.rule = rule, .source = number};
    int n_made;
    int64_t *made;
    if (!check_types(plan, rule, source, target)) return;
    piece.from = find_box(plan, rule, here, source->name, source->n_dims, source->dims);
    if (piece.from == NULL || !solve_axes(plan, source, &piece, &n_made, &made)) return;
    if (is_found && target->n_dims < 0) {
        target->n_dims = n_made;
        target->dims = DT_NEW_ARRAY(plan->arena, int64_t, n_made);
    }
    dt_weight_range *to =
        is_found ? place_box(plan, rule, there, n_made, made) : find_box(plan, rule, there, target->name, target->n_dims, target->dims);
    if (to == NULL) return;
    int64_t *wanted = DT_NEW_ARRAY(plan->arena, int64_t, target->n_dims);
    if (n_made == target->n_dims || !is_found) box_dims(target->n_dims, to, wanted);
    if (!same_dims(n_made, made, target->n_dims, wanted)) {
        wrong(plan, rule, "%s %s does not fit %s %s%s", source->name, source_type(plan, source), target->name,
              type_of(plan->arena, target->dtype, target->n_dims, wanted),
              rule->axes == NULL ? find_hint(plan, n_made, made, target->n_dims, wanted) : "");
        return;
    }
    for (int d = 0; is_found && d < n_made; d++)
        if (to[d].end > target->dims[d]) target->dims[d] = to[d].end;
    piece.to = to;
    dt_list_push(plan->arena, &target->pieces, piece);
}

/* ---- targets ---- */

/* The target of this name; a new one where targets are found. NULL: there can be none. */
static dt_weight_target *find_target(dt_weight_plan *plan, const char *name, dt_dtype dtype, bool are_found) {
    for (size_t i = 0; i < plan->targets.n; i++)
        if (strcmp(plan->targets.items[i].name, name) == 0) return &plan->targets.items[i];
    if (!are_found) return NULL;
    dt_weight_target made = {.name = name, .dtype = dtype, .n_dims = -1};
    dt_list_push(plan->arena, &plan->targets, made);
    return &plan->targets.items[plan->targets.n - 1];
}

static void apply_rule(dt_weight_plan *plan, const dt_weight_rule *rule, bool are_found, bool *hit) {
    for (int i = 0; i < plan->n_sources; i++) {
        const char *name;
        if (!dt_weight_rule_matches(plan->arena, rule, plan->from, plan->sources[i].name, &name)) continue;
        *hit = true;
        if (name == NULL) {
            if (plan->unused[i] != NULL) plan->unused[i] = "";
            continue;
        }
        dt_weight_target *target = find_target(plan, name, plan->sources[i].dtype, are_found);
        if (target != NULL) {
            plan->unused[i] = NULL;
            add_piece(plan, rule, i, target, are_found);
        } else if (plan->unused[i] != NULL && plan->map->path != NULL)
            plan->unused[i] = dt_arena_format(plan->arena, ": there is no %s", name);
    }
}

/* Targets that the map says have no source. */
static void name_targets(dt_weight_plan *plan, const dt_weight_rule *rule, bool *hit) {
    for (size_t i = 0; i < plan->targets.n; i++) {
        const char *none;
        if (!dt_weight_rule_matches(plan->arena, rule, !plan->from, plan->targets.items[i].name, &none)) continue;
        plan->targets.items[i].is_named = true;
        *hit = true;
    }
}

int64_t dt_weight_target_elements(const dt_weight_target *target) {
    int64_t n = 1;
    for (int d = 0; d < target->n_dims; d++)
        if (__builtin_mul_overflow(n, target->dims[d], &n)) return INT64_MAX; /* ranges that are written may be anywhere */
    return n;
}

static bool overlap(int n_dims, const dt_weight_range *a, const dt_weight_range *b) {
    for (int d = 0; d < n_dims; d++)
        if (a[d].end <= b[d].begin || b[d].end <= a[d].begin) return false;
    return true;
}

/* Each element of the target must come from one piece: no two overlap, and together they are as many as it has. */
static void check_cover(dt_weight_plan *plan, const dt_weight_target *target) {
    int64_t covered = 0, n = dt_weight_target_elements(target);
    for (size_t i = 0; i < target->pieces.n; i++) {
        const dt_weight_piece *piece = &target->pieces.items[i];
        int64_t elements = 1;
        for (int k = 0; k < piece->n_axes; k++) elements *= piece->sizes[k];
        covered += elements;
        for (size_t j = 0; j < i; j++) {
            const dt_weight_piece *before = &target->pieces.items[j];
            if (elements == 0 || !overlap(target->n_dims, before->to, piece->to)) continue;
            wrong(plan, piece->rule, "%s is given twice: by %s (line %d) and by %s (line %d); make the pattern of one narrower", target->name,
                  plan->sources[before->source].name, before->rule->line, plan->sources[piece->source].name, piece->rule->line);
            return;
        }
    }
    if (covered < n)
        wrong(plan, target->pieces.items[0].rule, "of %s %s only %lld of %lld elements are given: add rules for the other ranges", target->name,
              type_of(plan->arena, target->dtype, target->n_dims, target->dims), (long long)covered, (long long)n);
}

void dt_weight_plan_make(dt_weight_plan *plan) {
    bool are_found = plan->targets.n == 0;
    bool *hit = DT_NEW_ARRAY(plan->arena, bool, plan->map->n_rules);
    plan->unused = DT_NEW_ARRAY(plan->arena, const char *, plan->n_sources);
    plan->rule_hit = hit;
    plan->wrong.arena = plan->arena;
    for (int i = 0; i < plan->n_sources; i++) plan->unused[i] = plan->map->path != NULL ? ": no rule names it" : ": there is none of this name";
    for (int r = 0; r < plan->map->n_rules; r++) {
        const dt_weight_rule *rule = &plan->map->rules[r];
        if (rule->sides[plan->from].is_none)
            name_targets(plan, rule, &hit[r]);
        else
            apply_rule(plan, rule, are_found, &hit[r]);
    }
    for (size_t i = 0; i < plan->targets.n; i++)
        if (plan->targets.items[i].pieces.n > 0) check_cover(plan, &plan->targets.items[i]);
    if (plan->n_wrong > MOST_LISTED) dt_text_format(&plan->wrong, "\n  and %d more", plan->n_wrong - MOST_LISTED);
}

/* ---- elements ---- */

/* Steps of a dense tensor's dimensions, and the element at which a box begins. */
static int64_t *dense_strides(dt_arena *arena, int n_dims, const int64_t *dims, const dt_weight_range *box, int64_t *first) {
    int64_t *strides = DT_NEW_ARRAY(arena, int64_t, n_dims), stride = 1;
    *first = 0;
    for (int d = n_dims - 1; d >= 0; d--) {
        strides[d] = stride;
        *first += box[d].begin * stride;
        stride *= dims[d];
    }
    return strides;
}

/* The steps of the piece's axes in a tensor of one side. */
static const int64_t *axis_strides(const dt_weight_plan *plan, const dt_weight_piece *piece, dt_weight_end side, const int64_t *dim_strides) {
    if (piece->rule->axes == NULL) return dim_strides;
    int64_t *strides = DT_NEW_ARRAY(plan->arena, int64_t, piece->n_axes);
    dt_weight_axes_strides(piece->rule->axes, side, piece->sizes, dim_strides, strides);
    return strides;
}

const dt_safetensor *dt_weight_plan_same(const dt_weight_plan *plan, const dt_weight_target *target) {
    if (target->pieces.n != 1) return NULL;
    const dt_weight_piece *piece = &target->pieces.items[0];
    const dt_safetensor *source = &plan->sources[piece->source];
    bool is_same = piece->rule->axes == NULL && piece->rule->scale == 1 && source->dtype == target->dtype && source->n_dims == target->n_dims;
    for (int d = 0; d < target->n_dims && is_same; d++) is_same = source->dims[d] == target->dims[d];
    return is_same ? source : NULL;
}

dt_status *dt_weight_plan_fill(const dt_weight_plan *plan, const dt_weight_target *target, void *data) {
    for (size_t i = 0; i < target->pieces.n; i++) {
        const dt_weight_piece *piece = &target->pieces.items[i];
        const dt_safetensor *source = &plan->sources[piece->source];
        int64_t from_first, to_first;
        const int64_t *from = dense_strides(plan->arena, source->n_dims, source->dims, piece->from, &from_first);
        const int64_t *to = dense_strides(plan->arena, target->n_dims, target->dims, piece->to, &to_first);
        dt_weight_view source_view = {source->dtype, axis_strides(plan, piece, plan->from, from)};
        dt_weight_view target_view = {target->dtype, axis_strides(plan, piece, !plan->from, to)};
        double scale = plan->from == DT_THEIRS ? piece->rule->scale : 1 / piece->rule->scale;
        if (dt_weight_target_elements(target) == 0) continue;
        const void *elements;
        DT_TRY(dt_safetensors_load(plan->file, source, &elements));
        dt_status *status =
            dt_weight_copy(piece->n_axes, piece->sizes, &source_view, (const char *)elements + from_first * (int64_t)dt_dtype_bytes(source->dtype),
                           &target_view, (char *)data + to_first * (int64_t)dt_dtype_bytes(target->dtype), scale);
        if (status != NULL) return dt_status_annotate(status, "%s to %s", source->name, target->name);
    }
    return NULL;
}

static void print_box(int n_dims, const int64_t *dims, const dt_weight_range *box, dt_text *text) {
    bool is_all = true;
    for (int d = 0; d < n_dims; d++) is_all &= box[d].begin == 0 && box[d].end == dims[d];
    for (int d = 0; d < n_dims && !is_all; d++) {
        dt_text_append(text, d > 0 ? ", " : "[");
        if (box[d].begin == 0 && box[d].end == dims[d])
            dt_text_append(text, ":");
        else
            dt_text_format(text, "%lld:%lld", (long long)box[d].begin, (long long)box[d].end);
    }
    if (!is_all) dt_text_append(text, "]");
}

static void print_tensor(const char *name, dt_dtype dtype, int n_dims, const int64_t *dims, const dt_weight_range *box, dt_text *text) {
    dt_text_format(text, "%s ", name);
    dt_text_append_type(text, dtype, n_dims, dims);
    print_box(n_dims, dims, box, text);
}

void dt_weight_plan_print(const dt_weight_plan *plan, const dt_weight_target *target, const dt_weight_piece *piece, dt_text *text) {
    const dt_safetensor *source = &plan->sources[piece->source];
    char buffer[32];
    for (int side = 0; side < DT_N_WEIGHT_ENDS; side++) {
        if (side == DT_OURS) dt_text_append(text, " -> ");
        if (side == (int)plan->from)
            print_tensor(source->name, source->dtype, source->n_dims, source->dims, piece->from, text);
        else
            print_tensor(target->name, target->dtype, target->n_dims, target->dims, piece->to, text);
    }
    if (piece->rule->axes != NULL) dt_text_format(text, " : %s", piece->rule->axes->text);
    if (piece->rule->scale != 1) dt_text_format(text, ", scale=%s", dt_text_from_f64(piece->rule->scale, buffer));
}
