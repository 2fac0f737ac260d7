/* page: one HTML page of one or several runs, which needs nothing else: no network, no font, no script of anybody's but the one within, without which
 * it is readable too. */
#ifndef DT_RUNTIME_REPORT_PAGE_H
#define DT_RUNTIME_REPORT_PAGE_H

#include "base/text.h"
#include "runtime/report/run_record.h"

/* Appends the page of `n` runs, one or more. `page` and what is made on the way are of `arena`, whose guard is set. */
void dt_report_page(dt_text *page, const dt_run_record *runs, int n, dt_arena *arena);

/* The page of runs, one or more, each of which wrote to its folder, as the file `path`: whole or not at all. */
dt_status *dt_report_write(const char *const *folders, int n, const char *path);

/* Texts that are part of it: page.css and page.js. */
extern const char dt_report_style[], dt_report_script[];

#endif
