/* bench_profile: see the header. */
#include "runtime/bench_profile.h"

#include "base/arena.h"
#include "runtime/artifact/json_text.h"
#include "runtime/report/html.h"
#include "runtime/threads/clock.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the tree ---- */

/* A pass, a layer or nests. Children follow one another from `first` on, by `next`; -1 ends a list. */
typedef struct node {
    const char *name;
    int first, last, next, depth;
    double seconds, flops, bytes;
    const dt_bench_timer *timer; /* of nests; NULL: it has children */
} node;

typedef struct tree {
    dt_arena *arena;
    DT_LIST(node) nodes; /* node 0 is the step */
    double core_seconds; /* of a step, of all cores */
    const dt_peak *peak;
} tree;

static int add_node(tree *t, int parent, const char *name, const dt_bench_timer *timer) {
    int made = (int)t->nodes.n, depth = parent >= 0 ? t->nodes.items[parent].depth + 1 : 0;
    dt_list_push(t->arena, &t->nodes, ((node){.name = name, .first = -1, .last = -1, .next = -1, .depth = depth, .timer = timer}));
    if (parent < 0) return made;
    node *above = &t->nodes.items[parent];
    if (above->last >= 0)
        t->nodes.items[above->last].next = made;
    else
        above->first = made;
    above->last = made;
    return made;
}

static int find_child(tree *t, int parent, const char *name, size_t n) {
    for (int c = t->nodes.items[parent].first; c >= 0; c = t->nodes.items[c].next)
        if (t->nodes.items[c].timer == NULL && strlen(t->nodes.items[c].name) == n && memcmp(t->nodes.items[c].name, name, n) == 0) return c;
    return add_node(t, parent, dt_arena_substring(t->arena, name, n), NULL);
}

static void add_time(node *to, const dt_bench_timer *timer) {
    to->seconds += timer->seconds;
    to->flops += timer->flops;
    to->bytes += timer->bytes;
}

static const char *name_of_nests(tree *t, const dt_bench_timer *timer) {
    const dt_artifact_timer *of = timer->timer;
    const char *note = of->note != NULL ? of->note : "", *space = *note != 0 ? " " : "";
    if (of->n_nests == 1) return dt_arena_format(t->arena, "%s nest %d%s%s", timer->kernel, of->first, space, note);
    return dt_arena_format(t->arena, "%s nests %d-%d%s%s", timer->kernel, of->first, of->first + of->n_nests - 1, space, note);
}

static void add_timer(tree *t, const dt_bench_timer *timer) {
    int at = find_child(t, 0, timer->timer->part, strlen(timer->timer->part));
    add_time(&t->nodes.items[0], timer);
    add_time(&t->nodes.items[at], timer);
    for (const char *layer = timer->timer->layer; *layer != 0;) {
        size_t n = strcspn(layer, "/");
        at = find_child(t, at, layer, n);
        add_time(&t->nodes.items[at], timer);
        layer += n + (layer[n] == '/');
    }
    at = add_node(t, at, name_of_nests(t, timer), timer);
    add_time(&t->nodes.items[at], timer);
}

static void grow(tree *t, const dt_bench_result *result, const dt_peak *peak) {
    t->core_seconds = result->core_seconds;
    t->peak = peak;
    add_node(t, -1, result->step, NULL);
    for (int i = 0; i < result->n_timers; i++) add_timer(t, &result->timers[i]);
}

static double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

static dt_peak_share share_of_peak(const tree *t, const node *one) {
    return dt_peak_nearest(t->peak, rate(one->flops, one->seconds), rate(one->bytes, one->seconds));
}

/* ---- as text ---- */

static const double LEAST_SHARE = 5e-4; /* of a step: what takes less is not shown */

static void print_node(dt_text *text, const tree *t, int index) {
    const node *one = &t->nodes.items[index];
    if (one->seconds < LEAST_SHARE * t->core_seconds) return;
    dt_peak_share nearest = share_of_peak(t, one);
    const int indent = 2 * (one->depth - 1), width = 58 - indent;
    if (one->depth > 0)
        dt_text_format(text, "%*s%-*s %10.3f %6.1f%% %9.2f %9.2f %6.1f%% %-6s  %s\n", indent, "", width > 0 ? width : 0, one->name,
                       1e3 * one->seconds, 100 * one->seconds / t->core_seconds, 1e-9 * rate(one->flops, one->seconds),
                       1e-9 * rate(one->bytes, one->seconds), 100 * nearest.share, nearest.of, one->timer != NULL ? one->timer->timer->lines : "");
    for (int c = one->first; c >= 0; c = t->nodes.items[c].next) print_node(text, t, c);
}

/* Nests of equal layers: of the same lines, in the same pass. */
typedef struct kind {
    const dt_artifact_timer *of;
    int n;
    double seconds, flops, beyond; /* beyond: seconds, without what the arithmetic takes at the peak */
} kind;

static bool is_same_kind(const dt_artifact_timer *a, const dt_artifact_timer *b) {
    const char *note_a = a->note != NULL ? a->note : "", *note_b = b->note != NULL ? b->note : "";
    return strcmp(a->part, b->part) == 0 && strcmp(a->lines, b->lines) == 0 && strcmp(note_a, note_b) == 0 && a->n_nests == b->n_nests;
}

static int compare_kinds(const void *a, const void *b) {
    double x = ((const kind *)a)->beyond, y = ((const kind *)b)->beyond;
    return (x < y) - (x > y);
}

static void print_kinds(dt_text *text, const tree *t, const dt_bench_result *result) {
    enum {
        MOST_SHOWN = 12
    };
    DT_LIST(kind) kinds = {0};
    for (int i = 0; i < result->n_timers; i++) {
        const dt_bench_timer *one = &result->timers[i];
        size_t k = 0;
        while (k < kinds.n && !is_same_kind(kinds.items[k].of, one->timer)) k++;
        if (k == kinds.n) dt_list_push(t->arena, &kinds, ((kind){.of = one->timer}));
        kinds.items[k].n++;
        kinds.items[k].seconds += one->seconds;
        kinds.items[k].flops += one->flops;
        kinds.items[k].beyond += one->seconds - rate(one->flops, t->peak->flops);
    }
    qsort(kinds.items, kinds.n, sizeof *kinds.items, compare_kinds);
    dt_text_format(text, "\n%-58s %10s %7s %9s  %s\n", "beyond its arithmetic at the peak, equal layers together", "ms", "share", "GFLOP/s", "lines");
    for (size_t k = 0; k < kinds.n && k < MOST_SHOWN; k++) {
        const kind *one = &kinds.items[k];
        const char *note = one->of->note != NULL ? one->of->note : "";
        const char *name = dt_arena_format(t->arena, "%s %s%s%s, %d time%s", one->of->part, one->of->layer, *note != 0 ? " " : "", note, one->n,
                                           one->n == 1 ? "" : "s");
        dt_text_format(text, "%-58s %10.3f %6.1f%% %9.2f  %s\n", name, 1e3 * one->beyond, 100 * one->beyond / t->core_seconds,
                       1e-9 * rate(one->flops, one->seconds), one->of->lines);
    }
}

/* What one reading takes: as generated code does it, one after the other. */
static double seconds_of_reading(void) {
    enum {
        N = 100000
    };
#ifdef __x86_64__
    volatile int64_t counters[2] = {0};
    double began = dt_seconds_now();
    for (int i = 0; i < N; i++) {
        counters[0] += (int64_t)__builtin_ia32_rdtsc();
        counters[1]++;
    }
    return (dt_seconds_now() - began) / N;
#else
    return 0;
#endif
}

static void print(dt_text *text, tree *t, const dt_bench_result *result) {
    double n_readings = 0;
    dt_text_format(text, "%-58s %10s %7s %9s %9s %14s  %s\n", "within kernels", "ms", "share", "GFLOP/s", "GB/s", "of peak", "lines");
    print_node(text, t, 0);
    print_kinds(text, t, result);
    for (int i = 0; i < result->n_timers; i++) n_readings += result->timers[i].readings;
    dt_text_format(text, "\nthe clock is read %.0f times a step, which takes %.2f%% of it\n\n", n_readings,
                   100 * n_readings * seconds_of_reading() / t->core_seconds);
}

/* ---- as a picture ---- */

enum {
    PICTURE_WIDTH = 1600,
    ROW_HEIGHT = 20,
    LETTER_WIDTH = 7
};

/* Red, yellow, green. */
static void color_of(char color[8], double share) {
    double part = share > 1 ? 1 : share;
    int red = part < 0.5 ? 235 : (int)(235 - 2 * (part - 0.5) * 130), green = part < 0.5 ? (int)(110 + 2 * part * 100) : 210;
    snprintf(color, 8, "#%02x%02x%02x", red, green, 100);
}

static void draw_node(dt_text *svg, const tree *t, int index, double left) {
    const node *one = &t->nodes.items[index];
    const double width = PICTURE_WIDTH * one->seconds / t->core_seconds, top = (one->depth + 1) * ROW_HEIGHT + 10;
    const dt_peak_share nearest = share_of_peak(t, one);
    const int n_letters = (int)((width - 6) / LETTER_WIDTH);
    char color[8];
    if (width < 0.5) return;
    color_of(color, nearest.share);
    dt_text_format(svg, "<g><title>");
    dt_html_text(svg, one->name);
    dt_text_format(svg, ": %.3f ms, %.1f%%, %.1f GFLOP/s, %.1f GB/s, %.1f%% of peak (%s) ", 1e3 * one->seconds, 100 * one->seconds / t->core_seconds,
                   1e-9 * rate(one->flops, one->seconds), 1e-9 * rate(one->bytes, one->seconds), 100 * nearest.share, nearest.of);
    dt_html_text(svg, one->timer != NULL ? one->timer->timer->lines : "");
    dt_text_format(svg, "</title><rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>", left, top, width, ROW_HEIGHT - 1, color);
    if (n_letters >= 3) {
        dt_text_format(svg, "<text x=\"%.1f\" y=\"%.0f\">", left + 3, top + ROW_HEIGHT - 6);
        dt_html_text(svg, dt_arena_substring(t->arena, one->name, strnlen(one->name, (size_t)n_letters)));
        dt_text_append(svg, "</text>");
    }
    dt_text_append(svg, "</g>\n");
    for (int c = one->first; c >= 0; c = t->nodes.items[c].next) {
        draw_node(svg, t, c, left);
        left += PICTURE_WIDTH * t->nodes.items[c].seconds / t->core_seconds;
    }
}

static void draw(dt_text *svg, tree *t, const char *title) {
    int deepest = 0;
    for (size_t i = 0; i < t->nodes.n; i++)
        if (t->nodes.items[i].depth > deepest) deepest = t->nodes.items[i].depth;
    dt_text_format(svg,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"monospace\" font-size=\"11\">\n"
                   "<style>rect { stroke: white } text { pointer-events: none }</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                   "<text x=\"3\" y=\"20\" font-size=\"13\">",
                   PICTURE_WIDTH, (deepest + 2) * ROW_HEIGHT + 20);
    dt_html_text(svg, title);
    dt_text_format(svg, ": %.3f ms of cores a step; green is near the peak; point at a part for its figures</text>\n", 1e3 * t->core_seconds);
    draw_node(svg, t, 0, 0);
    dt_text_append(svg, "</svg>\n");
}

/* ---- all of it ---- */

/* Without memory for the tree the text fails. */
static void with_tree(dt_text *text, const char *title, const dt_bench_result *result, const dt_peak *peak) {
    tree t = {.arena = dt_arena_create()};
    jmp_buf guard;
    if (t.arena == NULL || setjmp(guard) != 0) {
        text->failed = true;
        dt_arena_destroy(t.arena);
        return;
    }
    dt_arena_guard(t.arena, &guard);
    grow(&t, result, peak);
    if (title != NULL)
        draw(text, &t, title);
    else
        print(text, &t, result);
    dt_arena_destroy(t.arena);
}

void dt_profile_print(dt_text *text, const dt_bench_result *result, const dt_peak *peak) { with_tree(text, NULL, result, peak); }

void dt_profile_draw(dt_text *svg, const char *title, const dt_bench_result *result, const dt_peak *peak) { with_tree(svg, title, result, peak); }

static void say_string(dt_text *text, const char *key, const char *string) {
    dt_text_format(text, ", \"%s\": ", key);
    dt_text_append_json_string(text, string);
}

static void say_number(dt_text *text, const char *key, double value) {
    dt_text_format(text, ", \"%s\": ", key);
    dt_text_append_json_number(text, value);
}

void dt_profile_print_json(dt_text *text, const dt_bench_result *result) {
    dt_text_append(text, ", \"timers\": [");
    for (int i = 0; i < result->n_timers; i++) {
        const dt_bench_timer *one = &result->timers[i];
        dt_text_append(text, i > 0 ? ", {\"kernel\": " : "{\"kernel\": ");
        dt_text_append_json_string(text, one->kernel);
        dt_text_format(text, ", \"first\": %d, \"nests\": %d", one->timer->first, one->timer->n_nests);
        say_string(text, "part", one->timer->part);
        say_string(text, "layer", one->timer->layer);
        say_string(text, "lines", one->timer->lines);
        say_string(text, "note", one->timer->note != NULL ? one->timer->note : "");
        say_number(text, "seconds", one->seconds);
        say_number(text, "readings", one->readings);
        say_number(text, "flops", one->flops);
        say_number(text, "bytes", one->bytes);
        dt_text_append(text, "}");
    }
    dt_text_append(text, "]");
}
