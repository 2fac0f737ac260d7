/* cuda: see cuda.h. */
#include "compiler/api/cuda.h"
#include "compiler/kernel/library.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* sm_90, sm_90a, compute_90 */
static bool is_architecture(const char *name) {
    const char *digits = strncmp(name, "sm_", 3) == 0 ? name + 3 : strncmp(name, "compute_", 8) == 0 ? name + 8 : "";
    size_t n = strspn(digits, "0123456789");
    if (n < 2 || n > 3 || *digits == '0') return false;
    digits += n;
    return *digits == 0 || (digits[1] == 0 && (*digits == 'a' || *digits == 'f'));
}

static bool is_named(const dt_api_cuda *cuda, const char *name) {
    for (int i = 0; i < cuda->n_architectures; i++)
        if (strcmp(cuda->architectures[i], name) == 0) return true;
    return false;
}

static dt_status *too_many(void) { return dt_error(DT_INVALID_ARGUMENT, "up to %d architectures at a time", (int)DT_API_MOST_ARCHITECTURES); }

dt_status *dt_api_cuda_parse_target(const char *target, dt_api_cuda *cuda) {
    char *rest = target[4] == ':' ? cuda->names : NULL;
    if (rest != NULL && snprintf(rest, sizeof cuda->names, "%s", target + 5) >= (int)sizeof cuda->names) return too_many();
    for (char *name; (name = strsep(&rest, ",")) != NULL;) {
        if (!is_architecture(name))
            return dt_error(DT_INVALID_ARGUMENT, "\"%s\" is no architecture: write cuda:sm_80,sm_90 for code, compute_90 for PTX", name);
        if (is_named(cuda, name)) continue;
        if (cuda->n_architectures == DT_API_MOST_ARCHITECTURES) return too_many();
        cuda->architectures[cuda->n_architectures++] = name;
    }
    return NULL;
}

/* Where none are named, those that this NVRTC makes code for. */
static dt_status *choose_architectures(dt_api_cuda *cuda) {
    _Static_assert((int)DT_CUDA_MOST_DEFAULT <= (int)DT_API_MOST_ARCHITECTURES, "there is room for the default ones");
    return cuda->n_architectures > 0 ? NULL : dt_cuda_default_architectures(cuda->architectures, &cuda->n_architectures);
}

/* The folder of the cache: NULL when there is no home for it. */
static char *cache_folder(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    dt_text path = {0};
    if (cache != NULL && *cache != 0)
        dt_text_format(&path, "%s/dtc/cuda", cache);
    else if (home != NULL && *home != 0)
        dt_text_format(&path, "%s/.cache/dtc/cuda", home);
    return dt_text_take(&path);
}

dt_status *dt_api_cuda_compile(dt_api_cuda *cuda, dt_text *warnings) {
    DT_TRY(choose_architectures(cuda));
    char *cache = cache_folder();
    dt_status *status = dt_cuda_compile(&cuda->program, cuda->architectures, cuda->n_architectures, cache, warnings, &cuda->code);
    free(cache);
    return status;
}

/* ---- the account ---- */

/* The last architecture that cubins are made for; NULL: there are none. */
static const char *cubin_architecture(const dt_api_cuda *cuda) {
    for (int i = cuda->n_architectures; i-- > 0;)
        if (strncmp(cuda->architectures[i], "sm_", 3) == 0) return cuda->architectures[i];
    return NULL;
}

/* Which calls a library can do instead, and what of it. */
static void print_libraries(dt_text *text, const dt_cuda_program *program) {
    int n[DT_N_LIBRARY_CLASSES] = {0};
    for (int i = 0; i < program->n_calls; i++)
        if (program->calls[i].library != NULL) n[program->calls[i].library->class]++;
    for (int class = 0; class < DT_N_LIBRARY_CLASSES; class ++) {
        if (n[class] == 0) continue;
        dt_text_format(text, "%s can do %d call%s of class %s\n", dt_library_of_class((dt_library_class) class), n[class], dt_plural(n[class]),
                       dt_library_class_names()[class]);
        for (int i = 0; i < program->n_calls; i++) {
            const dt_cuda_call *call = &program->calls[i];
            if (call->library == NULL || (int)call->library->class != class) continue;
            dt_text_format(text, "  %-56s ", call->name);
            dt_library_print(text, call->library);
            if (call->library->n_launches > 1) dt_text_format(text, ", for %" PRId64 " launches", call->library->n_launches);
            dt_text_append(text, "\n");
        }
    }
}

void dt_api_cuda_print_functions(dt_text *text, dt_api_cuda *cuda) {
    dt_status *status = choose_architectures(cuda);
    const char *architecture = cubin_architecture(cuda);
    char *cache = cache_folder();
    if (architecture != NULL) status = dt_cuda_compile(&cuda->program, &architecture, 1, cache, text, &cuda->code);
    free(cache);
    dt_text_format(text, "CUDA: %d functions, %d launches", cuda->program.n_sources, cuda->program.n_calls);
    if (status != NULL)
        dt_text_format(text, "; what they take is not known: %s", dt_status_message(status));
    else if (architecture != NULL)
        dt_text_format(text, "; %s, by %s", architecture, cuda->code.compiler);
    dt_text_append(text, "\n");
    dt_cuda_print_account(text, &cuda->program, &cuda->code, architecture);
    print_libraries(text, &cuda->program);
    dt_status_free(status);
}
