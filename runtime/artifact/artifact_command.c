/* artifact_command: the command that makes an artifact again with one option changed, for messages that suggest it: all other options stay as they
 * were, which is what the manifest keeps `flags` for. */
#include "base/text.h"
#include "runtime/artifact/artifact.h"

#include <string.h>

/* "--batch 8" is the option --batch; "-Dwidth=3" is -D. */
static bool is_option(const char *flag, const char *option) {
    size_t n = strcspn(flag, " ");
    return n == strlen(option) && memcmp(flag, option, n) == 0;
}

/* One word as a shell takes it. */
static void print_word(dt_text *text, const char *word) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=.,:/@%";
    if (word[strspn(word, plain)] == 0) {
        dt_text_append(text, word);
        return;
    }
    dt_text_append(text, "'");
    for (const char *c = word; *c != 0; c++)
        if (*c == '\'')
            dt_text_append(text, "'\\''");
        else
            dt_text_append_bytes(text, c, 1);
    dt_text_append(text, "'");
}

/* Of options only a definition, which is one word, may hold what a shell would cut or replace. */
static void print_flag(dt_text *text, const char *flag) {
    dt_text_append(text, " ");
    if (strncmp(flag, "-D", 2) == 0)
        print_word(text, flag);
    else
        dt_text_append(text, flag);
}

dt_status *dt_artifact_suggest(dt_status *status, const dt_artifact *artifact, const char *option, const char *value) {
    dt_text text = {0};
    dt_text_format(&text, "dtc compile %s.dt", artifact->name);
    for (int i = 0; i < artifact->n_flags; i++)
        if (option == NULL || !is_option(artifact->flags[i], option)) print_flag(&text, artifact->flags[i]);
    if (option != NULL) dt_text_format(&text, " %s %s", option, value);
    dt_text_append(&text, " -o ");
    print_word(&text, artifact->path);
    dt_status *longer = text.failed ? NULL : dt_error(dt_status_code(status), "%s: %s", dt_status_message(status), text.data);
    dt_text_free(&text);
    if (longer == NULL) return status;
    dt_status_free(status);
    return longer;
}
