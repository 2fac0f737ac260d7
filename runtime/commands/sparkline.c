/* sparkline: see sparkline.h. When all columns are full each two become one. */
#include "runtime/commands/sparkline.h"

#include <math.h>

static int64_t values_of_column(const dt_sparkline *line) { return line->n_of_column > 0 ? line->n_of_column : 1; }

static void halve(dt_sparkline *line) {
    for (int i = 0; i < DT_SPARKLINE_COLUMNS / 2; i++) line->columns[i] = (line->columns[2 * i] + line->columns[2 * i + 1]) / 2;
    line->n = DT_SPARKLINE_COLUMNS / 2;
    line->n_of_column = 2 * values_of_column(line);
}

void dt_sparkline_add(dt_sparkline *line, double value) {
    if (!isfinite(value)) return;
    if (line->n == DT_SPARKLINE_COLUMNS) halve(line);
    line->sum += value;
    if (++line->n_of_sum < values_of_column(line)) return;
    line->columns[line->n++] = line->sum / (double)line->n_of_sum;
    line->sum = 0;
    line->n_of_sum = 0;
}

void dt_sparkline_append(const dt_sparkline *line, dt_text *text) {
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    double least = INFINITY, most = -INFINITY;
    for (int i = 0; i < line->n; i++) {
        least = fmin(least, line->columns[i]);
        most = fmax(most, line->columns[i]);
    }
    double range = most - least;
    for (int i = 0; i < line->n && line->n > 1; i++) {
        double height = range > 0 && isfinite(range) ? (line->columns[i] - least) / range : 0;
        dt_text_append(text, blocks[(int)(height * 7 + 0.5)]);
    }
}
