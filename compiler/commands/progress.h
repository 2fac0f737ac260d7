/* progress: how much of a long piece of work is done, for who waits for it. On a terminal it is one line, drawn again as the work goes on and taken
 * away at its end; elsewhere a line every few seconds. */
#ifndef DT_COMMANDS_PROGRESS_H
#define DT_COMMANDS_PROGRESS_H

#include <stdbool.h>
#include <stdio.h>

typedef struct dt_progress {
    FILE *stream;
    bool live;             /* it is a terminal */
    double (*now)(void);   /* seconds */
    double start, told_at; /* by that clock */
    const char *what;
    bool line_shown;
} dt_progress;

/* Work begins; nothing is said yet. `what` must last until its end. */
void dt_progress_begin(dt_progress *progress, FILE *stream, bool live, double (*now)(void), const char *what);
void dt_progress_tell(dt_progress *progress, double done); /* 0 to 1 */
void dt_progress_end(dt_progress *progress);

#endif
