/* warnings: the names of all warnings, one row each in warnings.def. */
#ifndef DT_IR_WARNINGS_H
#define DT_IR_WARNINGS_H

#include <stddef.h>

typedef enum dt_warning_kind {
#define WARNING(enumerator, name, who, says) DT_WARN_##enumerator,
#include "ir/warnings.def"
#undef WARNING
    DT_N_WARNINGS
} dt_warning_kind;

typedef enum dt_warning_source {
    DT_WARNS_PROGRAM, /* the front end */
    DT_WARNS_PASS
} dt_warning_source;

const char *dt_warning_name(dt_warning_kind kind); /* "softmax-into-logits" */
dt_warning_source dt_warning_source_of(dt_warning_kind kind);
#define DT_NEEDLESS_ALLOW "allow: %s silences nothing here"
dt_warning_kind dt_warning_find(const char *name); /* DT_N_WARNINGS: there is none */

#endif
