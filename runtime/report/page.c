/* page: see page.h. From the top: what came out, curves of all runs laid over each other, then of each run where its time and memory go, what it
 * makes, and what it is. */
#include "runtime/report/page.h"

#include "runtime/report/curves.h"
#include "runtime/report/html.h"
#include "runtime/report/run_parts.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum {
    N_COLOURS = 6,     /* run-0 to run-5 of page.css */
    MOST_REPORTS = 200 /* that are shown, of what a file names */
};

/* ---- names ---- */

static int colour(int run) { return run % N_COLOURS; }

static void append_dot(dt_text *page, int run) { dt_text_format(page, "<i class=\"dot run-%d\"></i>", colour(run)); }

/* A folder's last part, or all of it where another run has the same. */
static const char *name_of(const dt_run_record *runs, int n, int run, dt_arena *arena) {
    const char *folder = runs[run].folder;
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') length--;
    const char *whole = dt_arena_substring(arena, folder, length), *slash = strrchr(whole, '/');
    const char *last = slash != NULL && slash[1] != 0 ? slash + 1 : whole;
    for (int other = 0; other < n; other++) {
        const char *found = strstr(runs[other].folder, last);
        if (other != run && found != NULL && found[strlen(last) + strspn(found + strlen(last), "/")] == 0) return whole;
    }
    return last;
}

/* A number of dtrun's own, beside the reports of the program. */
static bool is_throughput(const char *report) { return strcmp(report, "examples_per_second") == 0; }
static const char *title_of(const char *report) { return is_throughput(report) ? "examples per second" : report; }

/* Evaluation computes less: its throughput is not to be compared. */
static bool is_shown(const dt_run_record *run, const dt_record_series *series) {
    return series->points.n > 0 && (!is_throughput(series->report) || strcmp(series->step, run->step) == 0);
}

static const char *state_of(const dt_run_record *run) {
    static const struct {
        const char *reason, *state;
    } states[] = {{"", "goes on, or was killed"},
                  {"epochs", "finished"},
                  {"max_steps", "reached its last step"},
                  {"signal", "stopped by a signal"},
                  {"no_gain", "stopped: no gain"},
                  {"output", "stopped: its output could not be written"},
                  {"regroup", "went on with other workers, or was killed"}};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strcmp(run->reason, states[i].reason) == 0) return states[i].state;
    return run->reason;
}

/* ---- what came out ---- */

static double last_of(const dt_record_series *series) { return series->points.items[series->points.n - 1].value; }

static void append_tile(dt_text *page, const char *name, const char *more) {
    dt_text_append(page, "<div><dt>");
    dt_html_text(page, name);
    if (*more != 0) dt_text_append(page, ", ");
    dt_html_text(page, more);
    dt_text_append(page, "</dt><dd>");
}

static void append_tiles(dt_text *page, const dt_run_record *run) {
    int n_shown = 0;
    dt_text_append(page, "<dl class=\"tiles\">");
    for (size_t i = 0; i < run->series.n && n_shown < MOST_REPORTS; i++) {
        const dt_record_series *series = run->series.items[i];
        if (series->of_steps || is_throughput(series->report) || !is_shown(run, series)) continue;
        n_shown++;
        append_tile(page, series->report, series->step);
        dt_html_number(page, last_of(series));
        dt_text_append(page, "</dd></div>");
    }
    const dt_record_series *rate = dt_run_record_find(run, "examples_per_second", run->step, false);
    if (rate != NULL && rate->points.n > 0) {
        append_tile(page, "throughput", "");
        dt_html_number(page, round(last_of(rate)));
        dt_text_append(page, "<small> examples/s</small></dd></div>");
    }
    append_tile(page, "steps", "");
    dt_html_number(page, run->number);
    dt_text_append(page, "</dd></div>");
    append_tile(page, "time", "");
    dt_html_duration(page, run->last_time - run->first_time);
    dt_text_append(page, "</dd></div></dl>\n");
}

/* Of several runs a row each: the last values of the first few reports that any of them has. */
static void append_table(dt_text *page, const dt_run_record *runs, int n, const char *const *names, dt_arena *arena) {
    enum {
        MOST_COLUMNS = 6
    };
    DT_LIST(const dt_record_series *) columns = {0};
    for (int last = 0; last < 2; last++) /* throughput comes after the reports */
        for (int r = 0; r < n; r++)
            for (size_t i = 0; i < runs[r].series.n && (columns.n < MOST_COLUMNS || last); i++) {
                const dt_record_series *series = runs[r].series.items[i];
                bool is_new = !series->of_steps && is_throughput(series->report) == (last != 0) && is_shown(&runs[r], series);
                for (size_t c = 0; c < columns.n; c++)
                    if (strcmp(columns.items[c]->report, series->report) == 0 && strcmp(columns.items[c]->step, series->step) == 0) is_new = false;
                if (is_new) dt_list_push(arena, &columns, series);
            }
    dt_text_append(page, "<div class=\"card scroll\" style=\"margin-top:26px\"><table><tr><th>run</th>");
    for (size_t c = 0; c < columns.n; c++) {
        dt_text_append(page, "<th class=\"n\">");
        dt_html_text(page, title_of(columns.items[c]->report));
        dt_text_append(page, "<br>");
        dt_html_text(page, columns.items[c]->step);
        dt_text_append(page, "</th>");
    }
    dt_text_append(page, "<th class=\"n\">steps</th><th class=\"n\">time</th></tr>\n");
    for (int r = 0; r < n; r++) {
        dt_text_append(page, "<tr><td>");
        append_dot(page, r);
        dt_text_append(page, " ");
        dt_html_text(page, names[r]);
        dt_text_append(page, "<small>");
        dt_html_text(page, state_of(&runs[r]));
        dt_text_append(page, "</small></td>");
        for (size_t c = 0; c < columns.n; c++) {
            const dt_record_series *series = dt_run_record_find(&runs[r], columns.items[c]->report, columns.items[c]->step, false);
            dt_text_append(page, "<td class=\"n\">");
            if (series == NULL || series->points.n == 0)
                dt_text_append(page, "–");
            else
                dt_html_number(page, is_throughput(series->report) ? round(last_of(series)) : last_of(series));
            dt_text_append(page, "</td>");
        }
        dt_text_append(page, "<td class=\"n\">");
        dt_html_number(page, runs[r].number);
        dt_text_append(page, "</td><td class=\"n\">");
        dt_html_duration(page, runs[r].last_time - runs[r].first_time);
        dt_text_append(page, "</td></tr>\n");
    }
    dt_text_append(page, "</table></div>\n");
}

static void append_notices(dt_text *page, const dt_run_record *runs, int n, const char *const *names) {
    for (int r = 0; r < n; r++) {
        for (size_t i = 0; i < runs[r].remarks.n; i++) {
            dt_text_append(page, "<p class=\"notice\">");
            dt_html_text(page, names[r]);
            dt_text_append(page, ": ");
            dt_html_text(page, runs[r].remarks.items[i]);
            dt_text_append(page, "</p>");
        }
        if (runs[r].n_bad_lines == 0) continue;
        dt_text_append(page, "<p class=\"notice\">");
        dt_html_text(page, names[r]);
        dt_text_format(page, ": %d line%s of run.jsonl %s no event, and left out</p>", runs[r].n_bad_lines, dt_plural(runs[r].n_bad_lines),
                       runs[r].n_bad_lines == 1 ? "is" : "are");
    }
}

/* ---- curves ---- */

static void append_key_of_kind(dt_text *page, const char *style, const char *name) {
    dt_text_format(
        page,
        "<li><svg class=\"plot\" width=\"26\" height=\"10\" viewBox=\"0 0 26 10\"><g class=\"run-5 %s\"><polyline points=\"1,5 25,5\"/></g>"
        "</svg>%s</li>",
        style, name);
}

static void append_key(dt_text *page, int n, const char *const *names) {
    dt_text_append(page, "<ul class=\"key\">");
    for (int r = 0; r < n && n > 1; r++) {
        dt_text_append(page, "<li>");
        append_dot(page, r);
        dt_html_text(page, names[r]);
        dt_text_append(page, "</li>");
    }
    append_key_of_kind(page, "solid", "training, epochs");
    append_key_of_kind(page, "faint", "training, steps");
    append_key_of_kind(page, "dashed", "evaluation");
    dt_text_append(page, "</ul>\n");
}

static void append_chart(dt_text *page, const dt_run_record *runs, int n, const char *const *names, const char *report, dt_arena *arena) {
    DT_LIST(dt_curve) curves = {0};
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < runs[r].series.n; i++) {
            const dt_record_series *series = runs[r].series.items[i];
            if (strcmp(series->report, report) != 0 || !is_shown(&runs[r], series)) continue;
            bool trains = strcmp(series->step, runs[r].step) == 0;
            dt_curve curve = {
                .name = dt_arena_format(arena, "%s%s%s%s", n > 1 ? names[r] : "", n > 1 ? ", " : "", series->step, series->of_steps ? ", steps" : ""),
                .run = colour(r),
                .kind = series->of_steps ? DT_CURVE_FAINT
                        : trains         ? DT_CURVE_SOLID
                                         : DT_CURVE_DASHED,
                .series = series};
            dt_list_push(arena, &curves, curve);
        }
    if (curves.n > 0) dt_curves_append(page, title_of(report), curves.items, (int)curves.n);
}

/* A figure for each report that any of the runs has; throughput after those of the program. */
static void append_curves(dt_text *page, const dt_run_record *runs, int n, const char *const *names, dt_arena *arena) {
    DT_LIST(const char *) reports = {0};
    bool is_cut = false;
    for (int last = 0; last < 2; last++)
        for (int r = 0; r < n; r++)
            for (size_t i = 0; i < runs[r].series.n; i++) {
                const char *report = runs[r].series.items[i]->report;
                bool is_new = is_throughput(report) == (last != 0);
                for (size_t k = 0; k < reports.n; k++) is_new = is_new && strcmp(reports.items[k], report) != 0;
                is_cut = is_cut || (is_new && !last && reports.n >= MOST_REPORTS);
                if (is_new && (last || reports.n < MOST_REPORTS)) dt_list_push(arena, &reports, report);
            }
    dt_text_append(page, "<h2>Curves</h2>\n");
    if (is_cut)
        dt_text_format(page, "<p class=\"notice\">More than %d reports have names of their own: the first of them are shown</p>", MOST_REPORTS);
    if (reports.n == 0) {
        dt_text_append(page, "<p class=\"soft\">No step has been reported yet.</p>");
        return;
    }
    append_key(page, n, names);
    dt_text_append(page, "<div class=\"grid\">\n");
    for (size_t i = 0; i < reports.n; i++) append_chart(page, runs, n, names, reports.items[i], arena);
    dt_text_append(page, "</div>\n");
}

/* ---- the page ---- */

/* Nothing where a damaged record has no such time. */
static void append_date(dt_text *page, double seconds) {
    static const double MOST_SECONDS = 1e12;
    if (!(fabs(seconds) <= MOST_SECONDS)) return;
    time_t when = (time_t)seconds;
    struct tm date;
    char text[40];
    if (gmtime_r(&when, &date) != NULL && strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &date) > 0) dt_text_append(page, text);
}

static void append_head(dt_text *page, const dt_run_record *runs, int n, const char *const *names, dt_arena *arena) {
    const char *title = runs[0].program;
    for (int r = 1; r < n; r++)
        if (strcmp(runs[r].program, title) != 0) title = dt_arena_format(arena, "%s and %d other runs", runs[0].program, n - 1);
    dt_text_append(page, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
                         "script-src 'unsafe-inline'\">\n<title>");
    dt_html_text(page, title);
    dt_text_append(page, " – training report</title>\n<style>\n");
    dt_text_append(page, dt_report_style);
    dt_text_append(page, "</style>\n</head>\n<body>\n<main>\n<header><h1>");
    dt_html_text(page, title);
    dt_text_append(page, "</h1><p class=\"lead\">");
    if (n > 1)
        dt_text_format(page, "%d runs", n);
    else {
        dt_html_text(page, names[0]);
        dt_text_append(page, " · ");
        dt_html_text(page, state_of(&runs[0]));
    }
    dt_text_append(page, " · ");
    append_date(page, runs[0].first_time);
    dt_text_append(page, "</p></header>\n");
}

void dt_report_page(dt_text *page, const dt_run_record *runs, int n, dt_arena *arena) {
    const char **names = DT_NEW_ARRAY(arena, const char *, n);
    for (int r = 0; r < n; r++) names[r] = name_of(runs, n, r, arena);
    append_head(page, runs, n, names, arena);
    if (n == 1)
        append_tiles(page, &runs[0]);
    else
        append_table(page, runs, n, names, arena);
    append_notices(page, runs, n, names);
    append_curves(page, runs, n, names, arena);
    for (int r = 0; r < n; r++) dt_report_run(page, &runs[r], n > 1 ? names[r] : NULL, colour(r), arena);
    dt_text_append(page, "<footer>Made by dtrun report. The page is whole: it asks for nothing from elsewhere.</footer>\n</main>\n<script>\n");
    dt_text_append(page, dt_report_script);
    dt_text_append(page, "</script>\n</body>\n</html>\n");
}
