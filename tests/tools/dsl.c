/* dsl FILE [-D name=value]…: the module that a program becomes, as text; its diagnostics on standard error. Exits with 1 when it has errors. */
#include "frontends/dsl/dsl.h"
#include "base/file.h"
#include "ir/text_form.h"
#include "ir/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_DEFINES = 16
};

static int fail(dt_status *status) {
    fprintf(stderr, "dsl: %s\n", dt_status_message(status));
    dt_status_free(status);
    return 2;
}

int main(int n_arguments, char **arguments) {
    dt_dsl_define defines[MOST_DEFINES];
    dt_dsl_options options = {.defines = defines};
    const char *path = NULL;
    for (int i = 1; i < n_arguments; i++) {
        char *equals = strchr(arguments[i], '=');
        if (equals == NULL || options.n_defines == MOST_DEFINES) {
            path = arguments[i];
            continue;
        }
        *equals = '\0';
        defines[options.n_defines++] = (dt_dsl_define){arguments[i] + (strncmp(arguments[i], "-D", 2) == 0 ? 2 : 0), equals + 1};
    }
    char *source;
    size_t n_bytes;
    if (path == NULL) return fail(dt_error(DT_INVALID_ARGUMENT, "which program?"));
    dt_status *status = dt_file_read(path, &source, &n_bytes);
    if (status != NULL) return fail(status);
    dt_arena *arena = dt_arena_create();
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    dt_module *module;
    status = dt_dsl_compile(arena, path, source, &options, diagnostics, &module);
    dt_text text = {0};
    dt_diagnostics_print(&text, diagnostics);
    if (text.data != NULL) fputs(text.data, stderr);
    dt_text_free(&text);
    if (status == NULL && module != NULL) status = dt_verify(module);
    if (status == NULL && module != NULL) {
        dt_module_print(&text, module);
        fputs(text.data, stdout);
        dt_text_free(&text);
    }
    int code = status != NULL ? fail(status) : module == NULL;
    dt_arena_destroy(arena);
    free(source);
    return code;
}
