/* curves: numbers over steps as a picture, SVG within a page.
 *
 * Readable as it is; the page's script shows the values under the pointer, for which the figure holds them as data. The colours are those of the
 * page's style: class run-R of the curve's run. */
#ifndef DT_RUNTIME_REPORT_CURVES_H
#define DT_RUNTIME_REPORT_CURVES_H

#include "base/text.h"
#include "runtime/report/run_record.h"

typedef enum dt_curve_kind {
    DT_CURVE_FAINT,  /* single steps */
    DT_CURVE_SOLID,  /* epochs of training */
    DT_CURVE_DASHED, /* epochs of evaluation */
    DT_N_CURVE_KINDS
} dt_curve_kind;

typedef struct dt_curve {
    const char *name; /* "runs/a, evaluate" */
    int run;          /* from 0 */
    dt_curve_kind kind;
    const dt_record_series *series; /* with one point or more */
} dt_curve;

/* A figure of one or more curves. Of a series with more points than pixels, means are drawn. */
void dt_curves_append(dt_text *page, const char *title, const dt_curve *curves, int n);

#endif
