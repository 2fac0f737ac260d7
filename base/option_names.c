/* option_names: see option_names.h. */
#include "base/option_names.h"

#include <stdbool.h>
#include <string.h>

/* Members that are not called like the option; of two options that begin alike, the longer one first. All others are: --global-batch, global_batch.
 * tests/structure/option_names.py knows whether include/ has those that are listed. */
static const struct {
    const char *option, *member;
} others[] = {{"--bad-index=ignore", "ignore_bad_index"},
              {"--bad-index", "ignore_bad_index"},
              {"--batches", "n_batches"},
              {"--init", "dtrt_load_weights"},
              {"--input", "inputs"},
              {"--library=none", "no_libraries"},
              {"--library none", "no_libraries"},
              {"--processes", "n_processes"},
              {"--reduce=fast", "fast_sums"},
              {"--set", "dtrt_set_launch"},
              {"--steps", "n_steps"},
              {"-D", "defines"},
              {"-O", "optimize"},
              {"-o", "output"}};

typedef struct writer {
    char *to; /* NULL: only counted */
    size_t n;
} writer;

static void put(writer *writer, const char *text, size_t n) {
    if (writer->to != NULL) memcpy(writer->to + writer->n, text, n);
    writer->n += n;
}

static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
static bool is_of_name(char c) { return is_lower(c) || (c >= 'A' && c <= 'Z') || c == '-' || c == '_'; }

/* How many bytes at the word `text` are a command, which ends with the backquotes that it may be in; 0: it begins none. */
static size_t command_bytes(const char *text, bool is_quoted) {
    static const char *const programs[] = {"dtc ", "dtrun ", "mpirun ", "srun "};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strncmp(text, programs[i], strlen(programs[i])) == 0) return is_quoted ? strcspn(text, "`") : strlen(text);
    return 0;
}

static void put_member(writer *writer, const char *member) {
    put(writer, "`", 1);
    put(writer, member, strlen(member));
    put(writer, "`", 1);
}

/* The member for the option that the word `text` is. Returns the option's bytes; 0: it is none. */
static size_t put_option(writer *writer, const char *text) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t n = strlen(others[i].option);
        if (strncmp(text, others[i].option, n) != 0 || is_of_name(text[n])) continue;
        put_member(writer, others[i].member);
        return n;
    }
    if (text[0] != '-' || text[1] != '-' || !is_lower(text[2])) return 0;
    size_t n = 2;
    put(writer, "`", 1);
    for (; is_lower(text[n]) || text[n] == '-'; n++) put(writer, text[n] == '-' ? "_" : &text[n], 1);
    put(writer, "`", 1);
    return n;
}

size_t dt_option_names_to_members(const char *text, char *members) {
    writer writer = {.to = members};
    for (const char *at = text; *at != '\0';) {
        bool begins_word = at == text || strchr(" (`\"", at[-1]) != NULL;
        size_t n = begins_word ? command_bytes(at, at != text && at[-1] == '`') : 0;
        if (n > 0)
            put(&writer, at, n);
        else if (begins_word)
            n = put_option(&writer, at);
        if (n == 0) put(&writer, at, n = 1);
        at += n;
    }
    put(&writer, "", 1);
    return writer.n;
}
