/* run_parts: the parts of a page that are of one run: where its time goes, its memory, pictures of what it makes, what it is. */
#ifndef DT_RUNTIME_REPORT_RUN_PARTS_H
#define DT_RUNTIME_REPORT_RUN_PARTS_H

#include "base/text.h"
#include "runtime/report/run_record.h"

/* name: for headings, where there are several runs; else NULL. colour: of run-0, …. */
void dt_report_run(dt_text *page, const dt_run_record *run, const char *name, int colour, dt_arena *arena);

#endif
