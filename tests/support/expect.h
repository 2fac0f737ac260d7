/* expect: what unit tests say of a status. */
#ifndef DT_TESTS_SUPPORT_EXPECT_H
#define DT_TESTS_SUPPORT_EXPECT_H

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static inline void expect_ok(dt_status *status) {
    if (status != NULL) fail_msg("%s", dt_status_message(status));
}

/* An error of that code whose message holds `words`. Frees it. */
static inline void expect_error(dt_status *status, dt_code code, const char *words) {
    if (dt_status_code(status) != code || strstr(dt_status_message(status), words) == NULL)
        fail_msg("expected %s, \"%s\"; found %s: %s", dt_code_name(code), words, dt_code_name(dt_status_code(status)), dt_status_message(status));
    dt_status_free(status);
}

#endif
