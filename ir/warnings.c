/* warnings: see warnings.h. */
#include "ir/warnings.h"

#include <string.h>

static const struct {
    const char *name;
    dt_warning_source source;
} rows[] = {
#define WARNING(enumerator, name, who, says) {name, DT_WARNS_##who},
#include "ir/warnings.def"
#undef WARNING
};

const char *dt_warning_name(dt_warning_kind kind) { return rows[kind].name; }
dt_warning_source dt_warning_source_of(dt_warning_kind kind) { return rows[kind].source; }

dt_warning_kind dt_warning_find(const char *name) {
    int kind = 0;
    while (kind < DT_N_WARNINGS && strcmp(rows[kind].name, name) != 0) kind++;
    return (dt_warning_kind)kind;
}
