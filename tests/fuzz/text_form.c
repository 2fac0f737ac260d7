/* Any bytes as text form: refused with an error, or read, and then what is printed reads back to the same bytes. */
#include "ir/text_form.h"
#include "base/memory.h"
#include "ir/verify.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char *print(const dt_module *module) {
    dt_text text = {0};
    dt_module_print(&text, module);
    return dt_text_take(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dt_arena *arena = dt_arena_create();
    dt_module *module;
    dt_status *status = dt_module_parse(arena, "fuzz.ir", dt_arena_substring(arena, (const char *)data, n), &module);
    if (status == NULL) {
        dt_status_free(dt_verify(module));
        char *first = print(module);
        status = dt_module_parse(arena, "again.ir", first, &module);
        char *second = status == NULL ? print(module) : NULL;
        if (second == NULL || strcmp(first, second) != 0) abort();
        dt_release(first);
        dt_release(second);
    }
    dt_status_free(status);
    dt_arena_destroy(arena);
    return 0;
}
