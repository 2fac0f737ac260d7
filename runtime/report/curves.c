/* curves: see curves.h. */
#include "runtime/report/curves.h"

#include "runtime/report/html.h"

#include <math.h>

enum {
    WIDTH = 400, /* of the picture, in its own units */
    HEIGHT = 236,
    LEFT = 46, /* margins: numbers stand there */
    RIGHT = 12,
    TOP = 10,
    BOTTOM = 26,
    MOST_POINTS = 240, /* of a curve */
    TICKS = 4          /* about as many intervals */
};

typedef struct axis {
    double least, most, tick; /* of what it shows; between two ticks */
    double from, to;          /* in the picture */
} axis;

static const char *const kinds[DT_N_CURVE_KINDS] = {"faint", "solid", "dashed"};

/* ---- axes ---- */

/* 1, 2 or 5 times a power of ten, so that there are about TICKS of them. */
static double nice_tick(double range) {
    double raw = range / TICKS, power = pow(10, floor(log10(raw)));
    double digit = raw / power;
    return (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10) * power;
}

/* Values from tick to tick; a single value gets a range of its size. What no picture can hold is at its border. */
static axis axis_of(double least, double most, bool is_whole, double from, double to) {
    static const double MOST = 1e300;
    least = fmax(least, -MOST);
    most = fmin(most, MOST);
    if (!(most > least)) {
        double room = least != 0 ? fabs(least) / 2 : 1;
        least -= room;
        most += room;
    }
    axis made = {.tick = nice_tick(most - least), .from = from, .to = to};
    if (is_whole && made.tick < 1) made.tick = 1;
    made.least = floor(least / made.tick + 1e-9) * made.tick;
    made.most = ceil(most / made.tick - 1e-9) * made.tick;
    return made;
}

static double place(const axis *axis, double value) {
    double inside = fmin(fmax(value, axis->least), axis->most);
    return axis->from + (inside - axis->least) / (axis->most - axis->least) * (axis->to - axis->from);
}

/* How many ticks there are after the first. */
static int n_ticks(const axis *axis) { return (int)fmin((axis->most - axis->least) / axis->tick + 1e-6, 10 * TICKS); }

/* "0.25", "2k", with as many decimals as ticks need. */
static void append_tick(dt_text *page, double value, double tick) {
    double size = fmax(fabs(value), tick);
    const char *unit = tick >= 1e6 ? "M" : tick >= 1e3 || (size >= 1e4 && tick >= 100) ? "k" : "";
    double scale = *unit == 'M' ? 1e6 : *unit == 'k' ? 1e3 : 1;
    int decimals = (int)fmin(fmax(ceil(-log10(tick / scale) - 1e-9), 0), 8);
    if (fabs(value) < tick / 2) value = 0;
    if (size < 1e-4)
        dt_text_format(page, "%.1e", value);
    else
        dt_text_format(page, "%.*f%s", decimals, value / scale, value == 0 ? "" : unit);
}

static void append_axes(dt_text *page, const axis *x, const axis *y) {
    for (int i = 0; i <= n_ticks(y); i++) {
        double value = y->least + i * y->tick, at = place(y, value);
        dt_text_format(page, "<line class=\"rule\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"y\" x=\"%d\" y=\"%.1f\">", LEFT,
                       WIDTH - RIGHT, at, at, LEFT - 7, at + 3.5);
        append_tick(page, value, y->tick);
        dt_text_append(page, "</text>");
    }
    for (int i = 0; i <= n_ticks(x); i++) {
        double value = x->least + i * x->tick;
        dt_text_format(page, "<text class=\"x\" x=\"%.1f\" y=\"%d\">", place(x, value), HEIGHT - 8);
        append_tick(page, value, x->tick);
        dt_text_append(page, "</text>");
    }
}

/* ---- curves ---- */

/* Point i of at most MOST_POINTS: the mean of as many as it stands for. */
static dt_record_point drawn(const dt_record_series *series, size_t i, size_t n) {
    size_t first = i * series->points.n / n, end = (i + 1) * series->points.n / n;
    dt_record_point sum = {0};
    for (size_t p = first; p < end; p++) {
        sum.number += series->points.items[p].number / (double)(end - first);
        sum.value += series->points.items[p].value / (double)(end - first);
    }
    return sum;
}

static size_t n_drawn(const dt_record_series *series) { return series->points.n < MOST_POINTS ? series->points.n : MOST_POINTS; }

static void append_curve(dt_text *page, const dt_curve *curve, const axis *x, const axis *y) {
    size_t n = n_drawn(curve->series);
    dt_text_format(page, "<g class=\"run-%d %s\"><polyline points=\"", curve->run, kinds[curve->kind]);
    for (size_t i = 0; i < n; i++) {
        dt_record_point point = drawn(curve->series, i, n);
        dt_text_format(page, "%s%.1f,%.1f", i > 0 ? " " : "", place(x, point.number), place(y, point.value));
    }
    dt_text_append(page, "\"/>");
    for (size_t i = 0; i < n && (curve->kind != DT_CURVE_FAINT || n == 1) && n <= 40; i++) {
        dt_record_point point = drawn(curve->series, i, n);
        dt_text_format(page, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>", place(x, point.number), place(y, point.value));
    }
    dt_text_append(page, "</g>");
}

/* What the script needs: for each point the place, the step and the value, which are numbers. */
static void append_data(dt_text *page, const dt_curve *curve, const axis *x) {
    size_t n = n_drawn(curve->series);
    char buffer[32];
    dt_text_format(page, "<i hidden class=\"run-%d %s\" data-name=\"", curve->run, kinds[curve->kind]);
    dt_html_text(page, curve->name);
    dt_text_append(page, "\" data-points=\"");
    for (size_t i = 0; i < n; i++) {
        dt_record_point point = drawn(curve->series, i, n);
        dt_text_format(page, "%s%.1f,%.0f,%s", i > 0 ? " " : "", place(x, point.number), point.number, dt_text_from_f32((float)point.value, buffer));
    }
    dt_text_append(page, "\"></i>");
}

/* ---- the figure ---- */

static void find_range(const dt_curve *curves, int n, double *least_x, double *most_x, double *least_y, double *most_y) {
    *least_x = *least_y = INFINITY;
    *most_x = *most_y = -INFINITY;
    for (int c = 0; c < n; c++) {
        size_t n_points = n_drawn(curves[c].series);
        for (size_t i = 0; i < n_points; i++) {
            dt_record_point point = drawn(curves[c].series, i, n_points);
            *least_x = fmin(*least_x, point.number);
            *most_x = fmax(*most_x, point.number);
            *least_y = fmin(*least_y, point.value);
            *most_y = fmax(*most_y, point.value);
        }
    }
}

void dt_curves_append(dt_text *page, const char *title, const dt_curve *curves, int n) {
    double least_x, most_x, least_y, most_y;
    find_range(curves, n, &least_x, &most_x, &least_y, &most_y);
    axis x = axis_of(fmin(least_x, 0), most_x, true, LEFT, WIDTH - RIGHT);
    axis y = axis_of(least_y, most_y, false, HEIGHT - BOTTOM, TOP);
    x.most = fmax(most_x, x.least + 1); /* the curves end where the picture does */
    dt_text_append(page, "<figure class=\"curves\"><figcaption>");
    dt_html_text(page, title);
    dt_text_format(page, "</figcaption><div class=\"plot\"><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    dt_html_text(page, title);
    dt_text_append(page, " over steps\">");
    append_axes(page, &x, &y);
    for (int kind = 0; kind < DT_N_CURVE_KINDS; kind++) /* the faint ones below */
        for (int c = 0; c < n; c++)
            if ((int)curves[c].kind == kind) append_curve(page, &curves[c], &x, &y);
    dt_text_format(page, "<line class=\"cursor\" y1=\"%d\" y2=\"%d\"/></svg>", TOP, HEIGHT - BOTTOM);
    for (int c = 0; c < n; c++) append_data(page, &curves[c], &x);
    dt_text_append(page, "<div class=\"tip\" hidden></div></div></figure>\n");
}
