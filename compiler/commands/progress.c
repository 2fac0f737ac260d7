/* progress: see progress.h. */
#include "compiler/commands/progress.h"

#define SECONDS_BETWEEN_REDRAWS 0.1
#define SECONDS_BETWEEN_LINES 5

void dt_progress_begin(dt_progress *progress, FILE *stream, bool live, double (*now)(void), const char *what) {
    double start = now();
    *progress = (dt_progress){.stream = stream, .live = live, .now = now, .start = start, .told_at = start, .what = what};
}

void dt_progress_tell(dt_progress *progress, double done) {
    double now = progress->now();
    if (now < progress->told_at + (progress->live ? SECONDS_BETWEEN_REDRAWS : SECONDS_BETWEEN_LINES)) return;
    progress->told_at = now;
    if (progress->live)
        fprintf(progress->stream, "\r%s: %.0f %%\033[K", progress->what, 100 * done);
    else
        fprintf(progress->stream, "%s: %.0f %% after %.0f s\n", progress->what, 100 * done, now - progress->start);
    fflush(progress->stream);
    progress->line_shown = progress->live;
}

void dt_progress_end(dt_progress *progress) {
    if (!progress->line_shown) return;
    fputs("\r\033[K", progress->stream);
    fflush(progress->stream);
    progress->line_shown = false;
}
