/* json: see json.h. */
#include "runtime/artifact/json.h"

#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void print_place(dt_text *text, const dt_json *at) {
    if (at->parent == NULL) return;
    print_place(text, at->parent);
    if (at->key == NULL)
        dt_text_format(text, "[%d]", at->index);
    else
        dt_text_format(text, "%s%s", at->parent->parent != NULL ? "." : "", at->key);
}

dt_status *dt_json_wrong(const dt_json *at, const char *format, ...) {
    dt_text place = {0}, sentence = {0};
    va_list arguments;
    va_start(arguments, format);
    dt_text_vformat(&sentence, format, arguments);
    va_end(arguments);
    print_place(&place, at);
    dt_status *status = dt_error_in(DT_DATA_LOSS, at->document, 0, "%s%s%s", place.data != NULL ? place.data : "", place.n != 0 ? ": " : "",
                                    sentence.data != NULL ? sentence.data : "damaged");
    dt_text_free(&place);
    dt_text_free(&sentence);
    return status;
}

static const char *kind_name(const cJSON *value) {
    return cJSON_IsObject(value)   ? "an object"
           : cJSON_IsArray(value)  ? "an array"
           : cJSON_IsString(value) ? "a string"
           : cJSON_IsNumber(value) ? "a number"
           : cJSON_IsBool(value)   ? "a bool"
                                   : "null";
}

bool dt_json_has(const dt_json *object, const char *key) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object->value, key);
    return value != NULL && !cJSON_IsNull(value);
}

dt_status *dt_json_member(const dt_json *object, const char *key, dt_json *member) {
    if (!cJSON_IsObject(object->value)) return dt_json_wrong(object, "expected an object, found %s", kind_name(object->value));
    *member = (dt_json){cJSON_GetObjectItemCaseSensitive(object->value, key), object, key, 0, object->document};
    if (member->value == NULL) return dt_json_wrong(object, "\"%s\" is missing", key);
    return NULL;
}

dt_status *dt_json_array(const dt_json *object, const char *key, dt_json *array, int *n) {
    DT_TRY(dt_json_member(object, key, array));
    if (!cJSON_IsArray(array->value)) return dt_json_wrong(array, "expected an array, found %s", kind_name(array->value));
    *n = cJSON_GetArraySize(array->value);
    return NULL;
}

dt_status *dt_json_as_integer(const dt_json *value, int64_t least, int64_t most, int64_t *integer) {
    static const double exact = 9007199254740991.0; /* 2^53 - 1: from the next on a float64 no longer tells neighbours apart */
    if (cJSON_IsNumber(value->value)) {
        double number = value->value->valuedouble;
        if (!(number >= -exact && number <= exact) || number != (double)(int64_t)number)
            return dt_json_wrong(value, "expected an integer, found %.17g", number);
        *integer = (int64_t)number;
    } else if (cJSON_IsString(value->value)) {
        const char *digits = value->value->valuestring;
        char *end;
        errno = 0;
        *integer = strtoll(digits, &end, 10);
        if (errno != 0 || end == digits || *end != '\0') return dt_json_wrong(value, "expected an integer, found \"%.40s\"", digits);
    } else {
        return dt_json_wrong(value, "expected an integer, found %s", kind_name(value->value));
    }
    if (*integer < least) return dt_json_wrong(value, "expected at least %" PRId64 ", found %" PRId64, least, *integer);
    if (*integer > most) return dt_json_wrong(value, "expected at most %" PRId64 ", found %" PRId64, most, *integer);
    return NULL;
}

dt_status *dt_json_integer(const dt_json *object, const char *key, int64_t least, int64_t most, int64_t *integer) {
    dt_json member;
    DT_TRY(dt_json_member(object, key, &member));
    return dt_json_as_integer(&member, least, most, integer);
}

dt_status *dt_json_as_string(const dt_json *value, const char **string) {
    if (!cJSON_IsString(value->value)) return dt_json_wrong(value, "expected a string, found %s", kind_name(value->value));
    *string = value->value->valuestring;
    return NULL;
}

dt_status *dt_json_string(const dt_json *object, const char *key, const char **string) {
    dt_json member;
    DT_TRY(dt_json_member(object, key, &member));
    return dt_json_as_string(&member, string);
}

dt_status *dt_json_bool(const dt_json *object, const char *key, bool *value) {
    dt_json member;
    DT_TRY(dt_json_member(object, key, &member));
    if (!cJSON_IsBool(member.value)) return dt_json_wrong(&member, "expected true or false, found %s", kind_name(member.value));
    *value = cJSON_IsTrue(member.value);
    return NULL;
}

dt_status *dt_json_number(const dt_json *object, const char *key, double *number) {
    dt_json member;
    DT_TRY(dt_json_member(object, key, &member));
    if (!cJSON_IsNumber(member.value)) return dt_json_wrong(&member, "expected a number, found %s", kind_name(member.value));
    *number = member.value->valuedouble;
    return NULL;
}

dt_status *dt_json_as_word(const dt_json *value, const char *const *words, int n, int *choice) {
    const char *string = NULL;
    DT_TRY(dt_json_as_string(value, &string));
    for (int i = 0; i < n; i++) {
        if (strcmp(words[i], string) != 0) continue;
        *choice = i;
        return NULL;
    }
    dt_text known = {0};
    for (int i = 0; i < n; i++) dt_text_format(&known, "%s%s", i == 0 ? "" : ", ", words[i]);
    dt_status *status = dt_json_wrong(value, "\"%.40s\" is none of %s", string, known.data != NULL ? known.data : "the known words");
    dt_text_free(&known);
    return status;
}

dt_status *dt_json_word(const dt_json *object, const char *key, const char *const *words, int n, int *choice) {
    dt_json member;
    DT_TRY(dt_json_member(object, key, &member));
    return dt_json_as_word(&member, words, n, choice);
}

dt_json dt_json_first(const dt_json *array) {
    return (dt_json){cJSON_IsArray(array->value) ? array->value->child : NULL, array, NULL, 0, array->document};
}

void dt_json_next(dt_json *item) {
    item->value = item->value->next;
    item->index++;
}
