/* cuda_remarks: what NVRTC and its assembler have said of a unit: warnings, and what each function spills. A cubin does not say the latter, so that
 * the remarks are kept beside it. With -v the assembler writes, in versions 12 and 13,
 *
 *     ptxas info    : Function properties for NAME
 *     ptxas         .     1000 bytes stack frame, 1104 bytes spill stores, 1248 bytes spill loads */
#include "compiler/codegen/cuda.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The next line; *line points past it. Returns its length, without the newline; -1: there is none. */
static int next_line(const char **rest, const char **line) {
    if (*rest == NULL || **rest == 0) return -1;
    size_t n = strcspn(*rest, "\n");
    *line = *rest;
    *rest += n + ((*rest)[n] == '\n');
    return (int)n;
}

static bool holds(const char *line, int n, const char *word) { return memmem(line, (size_t)n, word, strlen(word)) != NULL; }

bool dt_cuda_read_spills(const char *remarks, dt_cuda_usage *usage) {
    static const char head[] = "Function properties for ";
    const char *line;
    for (int n; (n = next_line(&remarks, &line)) >= 0;) {
        const char *name = memmem(line, (size_t)n, head, strlen(head));
        if (name == NULL) continue;
        name += strlen(head);
        size_t n_name = (size_t)(line + n - name);
        if (n_name != strlen(usage->name) || memcmp(name, usage->name, n_name) != 0) continue;
        n = next_line(&remarks, &line);
        const char *numbers = n >= 0 ? memmem(line, (size_t)n, " . ", 3) : NULL;
        return numbers != NULL && sscanf(numbers, " . %*d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &usage->spilled_bytes,
                                         &usage->reloaded_bytes) == 2;
    }
    return false;
}

static bool is_of_a_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Not as a part of a longer name: run_1 is not in a line about run_10. */
static bool names(const char *line, int n, const char *function) {
    size_t length = strlen(function);
    const char *end = line + n;
    for (const char *at = line; (at = memmem(at, (size_t)(end - at), function, length)) != NULL; at++)
        if ((at == line || !is_of_a_name(at[-1])) && (at + length == end || !is_of_a_name(at[length]))) return true;
    return false;
}

static bool names_one(const char *line, int n, const dt_cuda_source *sources, int n_sources) {
    for (int i = 0; i < n_sources; i++)
        if (names(line, n, sources[i].name)) return true;
    return false;
}

void dt_cuda_add_warnings(dt_text *warnings, const char *remarks, const char *architecture, const dt_cuda_source *sources, int n_sources) {
    static const char information[] = "ptxas info"; /* where a function may be called so */
    const char *line;
    for (int n; (n = next_line(&remarks, &line)) >= 0;) {
        if (!holds(line, n, "warning") || strncmp(line, information, strlen(information)) == 0) continue;
        dt_text_format(warnings, "%s: %.*s", architecture, n, line);
        for (int i = 0; i < n_sources && !names_one(line, n, sources, n_sources); i++)
            dt_text_format(warnings, "%s%s", i == 0 ? ", in " : i + 1 < n_sources ? ", " : " or ", sources[i].name);
        dt_text_append(warnings, "\n");
    }
}
