/* run_parts: see run_parts.h. */
#include "runtime/report/run_parts.h"

#include "runtime/report/html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_PARTS = 7, /* part-0 to part-6 of page.css, beside part-rest */
    MOST_KERNELS = 40,
    MOST_GROUPS = 6, /* of pictures */
    MOST_CELLS = 40  /* of a vector, and in each direction of a matrix */
};

static void append_heading(dt_text *page, const char *text, const char *name, int colour) {
    dt_text_append(page, "<h2>");
    dt_text_append(page, text);
    if (name != NULL) {
        dt_text_format(page, " <span class=\"soft\">· <i class=\"dot run-%d\"></i> ", colour);
        dt_html_text(page, name);
        dt_text_append(page, "</span>");
    }
    dt_text_append(page, "</h2>\n");
}

/* ---- parts of a whole ---- */

typedef struct part {
    const char *name;
    double amount;
    bool is_rest; /* drawn in grey */
} part;

typedef DT_LIST(part) part_list;

static int compare_parts(const void *a, const void *b) {
    const part *x = a, *y = b;
    return (x->amount < y->amount) - (x->amount > y->amount);
}

typedef void append_amount(dt_text *page, double amount);

/* A bar, and below it what its pieces are. The colour of each is its place in the list. */
static void append_parts(dt_text *page, const part *parts, size_t n, append_amount *append) {
    double all = 0;
    char colours[16];
    for (size_t i = 0; i < n; i++) all += parts[i].amount;
    dt_text_append(page, "<div class=\"bar\">");
    for (size_t i = 0; i < n && all > 0; i++) {
        if (parts[i].amount <= 0) continue;
        snprintf(colours, sizeof colours, parts[i].is_rest ? "rest" : "%zu", i);
        dt_text_format(page, "<i class=\"part-%s\" style=\"flex:%.4f\" title=\"", colours, parts[i].amount / all);
        dt_html_text(page, parts[i].name);
        dt_text_append(page, "\"></i>");
    }
    dt_text_append(page, "</div><table class=\"parts\">");
    for (size_t i = 0; i < n; i++) {
        if (parts[i].amount <= 0) continue;
        snprintf(colours, sizeof colours, parts[i].is_rest ? "rest" : "%zu", i);
        dt_text_format(page, "<tr><td><i class=\"square part-%s\"></i></td><td>", colours);
        dt_html_text(page, parts[i].name);
        dt_text_append(page, "</td><td class=\"n\">");
        append(page, parts[i].amount);
        dt_text_format(page, "</td><td class=\"n soft\">%.1f&nbsp;%%</td></tr>", 100 * parts[i].amount / all);
    }
    dt_text_append(page, "</table>");
}

/* ---- time ---- */

/* Of a step: the layers that take most, then the others, what crosses replicas, and the rest. */
static void append_time(dt_text *page, const dt_run_record *run, dt_arena *arena) {
    part_list layers = {0}, shown = {0};
    double in_kernels = 0, others = 0, steps = run->timed_steps;
    for (size_t k = 0; k < run->kernels.n; k++) {
        const dt_record_kernel *kernel = &run->kernels.items[k];
        const char *name = *kernel->layers != 0 ? kernel->layers : "without parameters";
        size_t at = 0;
        while (at < layers.n && strcmp(layers.items[at].name, name) != 0) at++;
        if (at == layers.n) dt_list_push(arena, &layers, ((part){.name = name}));
        layers.items[at].amount += kernel->seconds / steps;
        in_kernels += kernel->seconds;
    }
    if (layers.n > 0) qsort(layers.items, layers.n, sizeof *layers.items, compare_parts);
    for (size_t i = 0; i < layers.n; i++)
        if (i + 2 < N_PARTS)
            dt_list_push(arena, &shown, layers.items[i]);
        else
            others += layers.items[i].amount;
    dt_list_push(arena, &shown, ((part){.name = "other layers", .amount = others}));
    const char *meeting = run->replicas > 1 ? "sums over replicas, waiting for one another" : "sums over microbatches, cores that wait for one another";
    dt_list_push(arena, &shown, ((part){.name = meeting, .amount = run->exchanging_seconds / steps}));
    double rest = (run->timed_seconds - in_kernels - run->exchanging_seconds) / steps;
    dt_list_push(arena, &shown, ((part){.name = "launching, waiting for data", .amount = rest > 0 ? rest : 0, .is_rest = true}));
    append_parts(page, shown.items, shown.n, dt_html_duration);
}

/* It may be broken after an underscore. */
static void append_identifier(dt_text *page, const char *name, dt_arena *arena) {
    for (const char *end; (end = strchr(name, '_')) != NULL; name = end + 1) {
        dt_html_text(page, dt_arena_substring(arena, name, (size_t)(end + 1 - name)));
        dt_text_append(page, "<wbr>");
    }
    dt_html_text(page, name);
}

static int compare_kernels(const void *a, const void *b) {
    const dt_record_kernel *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static void append_kernel(dt_text *page, const dt_run_record *run, const dt_record_kernel *kernel, double most, dt_arena *arena) {
    double share = run->timed_seconds > 0 ? kernel->seconds / run->timed_seconds : 0;
    dt_text_append(page, "<tr><td>");
    dt_html_text(page, *kernel->layers != 0 ? kernel->layers : "–");
    dt_text_append(page, "<small class=\"mono\">");
    append_identifier(page, kernel->name, arena);
    dt_text_append(page, "</small></td><td class=\"wide-only\">");
    dt_html_text(page, kernel->lines);
    dt_text_append(page, "</td><td class=\"n\">");
    if (run->timed_steps > 0) dt_html_duration(page, kernel->seconds / run->timed_steps);
    dt_text_append(page, "</td><td class=\"n wide-only\">");
    if (kernel->flops > 0 && kernel->seconds > 0) dt_text_format(page, "%.3g", kernel->flops * run->timed_steps / kernel->seconds * 1e-9);
    dt_text_format(page, "</td><td class=\"share\"><div><span><i style=\"width:%.1f%%\"></i></span><b>%.1f&nbsp;%%</b></div></td></tr>\n",
                   most > 0 ? 100 * kernel->seconds / most : 0, 100 * share);
}

static void append_kernels(dt_text *page, const dt_run_record *run, dt_arena *arena) {
    size_t n = run->kernels.n, n_shown = n < MOST_KERNELS ? n : MOST_KERNELS;
    dt_record_kernel *kernels = dt_arena_copy(arena, run->kernels.items, n * sizeof *kernels);
    qsort(kernels, n, sizeof *kernels, compare_kernels);
    dt_text_append(page,
                   "<div class=\"card scroll\" style=\"margin-top:16px\"><h3>Kernels by layer</h3><table class=\"kernels\"><tr><th>layer, kernel</th>"
                   "<th class=\"wide-only\">from</th><th class=\"n\">a step</th><th class=\"n wide-only\">GFLOP/s a core</th>"
                   "<th class=\"n\">of the time</th></tr>\n");
    for (size_t k = 0; k < n_shown; k++) append_kernel(page, run, &kernels[k], kernels[0].seconds, arena);
    dt_text_append(page, "</table>");
    if (n > n_shown) dt_text_format(page, "<p class=\"soft\">and %zu more, each shorter than these</p>", n - n_shown);
    dt_text_append(page, "</div>\n");
}

/* ---- memory ---- */

static void append_memory(dt_text *page, const dt_run_record *run, dt_arena *arena) {
    part_list parts = {0};
    for (size_t i = 0; i < run->memory.n && i < N_PARTS; i++)
        dt_list_push(arena, &parts, ((part){.name = run->memory.items[i].name, .amount = run->memory.items[i].bytes}));
    append_parts(page, parts.items, parts.n, dt_html_bytes);
}

static void append_plan(dt_text *page, const dt_run_record *run, const char *name, int colour, dt_arena *arena) {
    bool has_times = run->timed_steps > 0 && run->timed_seconds > 0;
    if (!has_times && run->memory.n == 0) return;
    append_heading(page, has_times ? "Where time and memory go" : "Where memory goes", name, colour);
    dt_text_append(page, "<div class=\"grid wide\">");
    if (has_times) {
        dt_text_append(page, "<div class=\"card\"><h3>Time of a step, on all cores together: ");
        dt_html_duration(page, run->timed_seconds / run->timed_steps);
        dt_text_append(page, "</h3>");
        append_time(page, run, arena);
        dt_text_append(page, "</div>");
    }
    if (run->memory.n > 0) {
        dt_text_append(page, "<div class=\"card\"><h3>Memory, allocated before the first step: ");
        dt_html_bytes(page, run->memory_bytes);
        dt_text_append(page, "</h3>");
        append_memory(page, run, arena);
        dt_text_append(page, "</div>");
    }
    dt_text_append(page, "</div>\n");
    if (has_times && run->kernels.n > 0) append_kernels(page, run, arena);
}

/* ---- pictures ---- */

static void append_group(dt_text *page, const dt_run_record *run, size_t first, size_t end) {
    dt_text_append(page, "<figure><figcaption>step ");
    dt_html_number(page, run->pictures.items[first].number);
    dt_text_append(page, "</figcaption><div>");
    for (size_t i = first; i < end; i++) {
        dt_text_append(page, "<img alt=\"");
        dt_html_text(page, run->pictures.items[i].name);
        dt_text_format(page, "\" width=\"%.0f\" height=\"%.0f\" src=\"data:image/png;base64,%s\">", run->pictures.items[i].width,
                       run->pictures.items[i].height, run->pictures.items[i].png);
    }
    dt_text_append(page, "</div></figure>\n");
}

/* Of the steps that pictures are of as many as there is room for, from the first to the last. */
static void append_pictures(dt_text *page, const dt_run_record *run, const char *name, int colour, dt_arena *arena) {
    DT_LIST(size_t) firsts = {0};
    size_t n = run->pictures.n;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || run->pictures.items[i].number != run->pictures.items[i - 1].number) dt_list_push(arena, &firsts, i);
    if (n == 0) return;
    append_heading(page, "Samples", name, colour);
    dt_text_append(page, "<div class=\"card\"><div class=\"pictures\">\n");
    size_t n_shown = firsts.n < MOST_GROUPS ? firsts.n : MOST_GROUPS;
    for (size_t s = 0; s < n_shown; s++) {
        size_t g = n_shown > 1 ? s * (firsts.n - 1) / (n_shown - 1) : 0;
        append_group(page, run, firsts.items[g], g + 1 < firsts.n ? firsts.items[g + 1] : n);
    }
    dt_text_append(page, "</div></div>\n");
}

/* ---- vectors and matrices ---- */

/* The greatest finite number; 0: none is above it. */
static double greatest_of(const dt_record_array *array) {
    double greatest = 0;
    for (int i = 0; i < (array->n_rows > 0 ? array->n_rows : 1) * array->n_columns; i++)
        if (isfinite(array->values[i])) greatest = fmax(greatest, array->values[i]);
    return greatest;
}

/* A row for each of the array, below the numbers of its columns; in a matrix the greater a number the darker its place. */
static void append_array(dt_text *page, const dt_record_array *array) {
    double greatest = array->n_rows > 0 ? greatest_of(array) : 0;
    int n_rows = array->n_rows > 0 ? array->n_rows : 1;
    dt_text_append(page, "<p>");
    dt_html_text(page, array->report);
    dt_text_append(page, " <span class=\"soft\">");
    dt_html_text(page, array->step);
    dt_text_append(page, "</span></p><div class=\"scroll\"><table><tr><th></th>");
    for (int c = 0; c < array->n_columns && c < MOST_CELLS; c++) dt_text_format(page, "<th class=\"n\">%d</th>", c);
    dt_text_append(page, "</tr>");
    for (int r = 0; r < n_rows && r < MOST_CELLS; r++) {
        dt_text_append(page, "<tr><th>");
        if (array->n_rows > 0) dt_text_format(page, "%d", r);
        dt_text_append(page, "</th>");
        for (int c = 0; c < array->n_columns && c < MOST_CELLS; c++) {
            double value = array->values[(size_t)r * (size_t)array->n_columns + (size_t)c];
            double share = greatest > 0 && value > 0 ? fmin(value / greatest, 1) : 0;
            dt_text_format(page, "<td class=\"n\" style=\"background:rgb(66 105 208/%.2f)\">", 0.6 * share);
            if (isfinite(value))
                dt_html_number(page, value);
            else
                dt_text_append(page, "–");
            dt_text_append(page, "</td>");
        }
        dt_text_append(page, "</tr>");
    }
    dt_text_append(page, "</table></div>");
}

static void append_arrays(dt_text *page, const dt_run_record *run, const char *name, int colour) {
    if (run->arrays.n == 0) return;
    append_heading(page, "Vectors and matrices, after the last epoch", name, colour);
    dt_text_append(page, "<div class=\"card\">");
    for (size_t i = 0; i < run->arrays.n; i++) append_array(page, &run->arrays.items[i]);
    dt_text_append(page, "</div>\n");
}

/* ---- what it is ---- */

static void begin_fact(dt_text *page, const char *name) { dt_text_format(page, "<div><dt>%s</dt><dd>", name); }

static void add_text(dt_text *page, const char *name, const char *value) {
    if (*value == 0) return;
    begin_fact(page, name);
    dt_html_text(page, value);
    dt_text_append(page, "</dd></div>");
}

static void add_number(dt_text *page, const char *name, double value) {
    begin_fact(page, name);
    dt_html_number(page, value);
    dt_text_append(page, "</dd></div>");
}

static void append_facts(dt_text *page, const dt_run_record *run, const char *name, int colour) {
    append_heading(page, "The run", name, colour);
    dt_text_append(page, "<div class=\"card\"><dl class=\"facts\">");
    add_text(page, "program", run->program);
    add_text(page, "step", run->step);
    begin_fact(page, "seed");
    dt_text_format(page, "%.0f</dd></div>", run->seed);
    add_number(page, "replicas", run->replicas);
    add_text(page, "devices", run->devices);
    add_text(page, "instruction set", run->level);
    add_number(page, "global batch", run->global_batch);
    add_number(page, "examples an epoch", run->examples);
    add_number(page, "epochs asked for", run->epochs);
    add_number(page, "parameters", run->parameters);
    if (run->trainable != run->parameters) add_number(page, "of them trained", run->trainable);
    add_text(page, "compiler", run->compiler);
    add_text(page, "LLVM", run->llvm);
    add_text(page, "hash of the program", run->program_hash);
    if (run->n_starts > 1) add_number(page, "times resumed", run->n_starts - 1);
    add_text(page, "folder", run->folder);
    dt_text_append(page, "</dl>");
    if (*run->source != 0) {
        dt_text_append(page, "<details><summary>The program</summary><pre>");
        dt_html_text(page, run->source);
        dt_text_append(page, "</pre></details>");
    }
    dt_text_append(page, "</div>\n");
}

void dt_report_run(dt_text *page, const dt_run_record *run, const char *name, int colour, dt_arena *arena) {
    append_arrays(page, run, name, colour);
    append_pictures(page, run, name, colour, arena);
    append_plan(page, run, name, colour, arena);
    append_facts(page, run, name, colour);
}
