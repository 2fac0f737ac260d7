/* json: a parsed document walked with a cursor that knows where it stands, so that what is wrong with a file can be said in one sentence:
 * "fashion.dtx: manifest.json: functions[3].plan.buffers[7].offset: expected a multiple of 64, found 70".
 *
 * A cursor is a value on the stack that points to its parent's; it lives as long as both. Nothing here allocates but the statuses. */
#ifndef DT_RUNTIME_ARTIFACT_JSON_H
#define DT_RUNTIME_ARTIFACT_JSON_H

#include "base/status.h"

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct dt_json {
    const cJSON *value;
    const struct dt_json *parent; /* NULL at the root */
    const char *key;              /* in the parent, or NULL: an item of an array */
    int index;
    const char *document; /* "fashion.dtx: manifest.json" */
} dt_json;

/* DT_DATA_LOSS: the document, the place, and the sentence. */
dt_status *dt_json_wrong(const dt_json *at, const char *format, ...) __attribute__((format(printf, 2, 3), returns_nonnull));

/* Whether `object` has a member `key` that is not null. */
bool dt_json_has(const dt_json *object, const char *key);

/* The member `key`, which must be there. */
dt_status *dt_json_member(const dt_json *object, const char *key, dt_json *member);
dt_status *dt_json_array(const dt_json *object, const char *key, dt_json *array, int *n);
dt_status *dt_json_integer(const dt_json *object, const char *key, int64_t least, int64_t most, int64_t *integer);
dt_status *dt_json_string(const dt_json *object, const char *key, const char **string); /* owned by the document */
dt_status *dt_json_bool(const dt_json *object, const char *key, bool *value);
dt_status *dt_json_number(const dt_json *object, const char *key, double *number);
/* The member `key` as one of `n` words; *choice is its position. */
dt_status *dt_json_word(const dt_json *object, const char *key, const char *const *words, int n, int *choice);

/* The value itself. Integers are numbers without a fraction below 2^53, or decimal strings of any int64. */
dt_status *dt_json_as_integer(const dt_json *value, int64_t least, int64_t most, int64_t *integer);
dt_status *dt_json_as_string(const dt_json *value, const char **string);
dt_status *dt_json_as_word(const dt_json *value, const char *const *words, int n, int *choice);

/* for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) */
dt_json dt_json_first(const dt_json *array);
void dt_json_next(dt_json *item);

#endif
