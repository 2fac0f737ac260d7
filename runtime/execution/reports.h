/* reports: what a step reports, over any number of its steps.
 *
 * A step leaves aggregates (sums, counts, minima) that are already those of the whole global batch. Here they are added up over the epoch, in
 * float64 and int64, and the program's own arithmetic around them is run on the totals. One step's aggregates are totals as well: the same
 * function gives a step's own loss. */
#ifndef DT_RUNTIME_EXECUTION_REPORTS_H
#define DT_RUNTIME_EXECUTION_REPORTS_H

#include "runtime/artifact/artifact.h"
#include "runtime/artifact/kernels.h"

/* An aggregate or a total: integers stay integers. */
typedef struct dt_total {
    bool is_integer;
    union {
        int64_t integer;
        double number;
    };
} dt_total;

/* The scalar of type `dtype` at `data`. */
dt_total dt_total_from(dt_dtype dtype, const void *data);
double dt_total_as_f64(dt_total total);

typedef struct dt_reports dt_reports;

/* For step `step` of the artifact of `kernels`, which must outlive it. A step without reports gives a valid object with none. */
dt_status *dt_reports_create(const dt_kernels *kernels, int step, dt_reports **reports);
void dt_reports_destroy(dt_reports *reports); /* NULL is allowed */

int dt_reports_n(const dt_reports *reports);        /* reports */
int dt_reports_n_totals(const dt_reports *reports); /* numbers of all aggregates, in their order */
int dt_reports_n_values(const dt_reports *reports); /* numbers of all reports, in their order */
const char *dt_reports_name(const dt_reports *reports, int report);

void dt_reports_reset(dt_reports *reports);                           /* the start of an epoch */
void dt_reports_add(dt_reports *reports, const dt_total *aggregates); /* [n_totals] of one step */
const dt_total *dt_reports_totals(const dt_reports *reports);         /* [n_totals], for a checkpoint */
int64_t dt_reports_n_added(const dt_reports *reports);                /* steps since the last reset, for a checkpoint */
void dt_reports_restore(dt_reports *reports, const dt_total *totals, int64_t n_added);

/* values [n_values]: the program's arithmetic on `totals`; NULL: on those added so far. Before the first step they may be NaN. */
void dt_reports_evaluate(dt_reports *reports, const dt_total *totals, double *values);

#endif
