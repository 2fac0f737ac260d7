/* arguments: see arguments.h. */
#include "base/arguments.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_OPTIONS = 256
};

/* Rows that describe an option are a name at least; headings and rows of documentation are none. */
static bool is_option(const struct argp_option *row) { return row->name != NULL && !(row->flags & OPTION_DOC); }
static bool ends(const struct argp_option *row) { return row->name == NULL && row->key == 0 && row->doc == NULL && row->group == 0; }

/* The row of a long option that is written in whole or begun; NULL: there is none. */
static const struct argp_option *find_long(const struct argp_option *rows, const char *name, size_t n) {
    const struct argp_option *found = NULL;
    for (; rows != NULL && !ends(rows); rows++) {
        if (!is_option(rows) || strncmp(rows->name, name, n) != 0) continue;
        if (rows->name[n] == '\0') return rows;
        found = rows;
    }
    return found;
}

/* Whether the argument after -x, -xyz is the value of the last of them. */
static bool takes_next(const struct argp_option *rows, const char *cluster) {
    for (; rows != NULL && !ends(rows); rows++)
        if (is_option(rows) && rows->key == cluster[strlen(cluster) - 1]) return rows->arg != NULL && !(rows->flags & OPTION_ARG_OPTIONAL);
    return false;
}

static error_t refuse(const struct argp_option *rows, const char *program, const char *argument, size_t n) {
    static const char *const everywhere[] = {"help", "usage"};
    const char *names[MOST_OPTIONS] = {everywhere[0], everywhere[1]};
    size_t n_names = 2;
    for (; rows != NULL && !ends(rows) && n_names < MOST_OPTIONS; rows++)
        if (is_option(rows)) names[n_names++] = rows->name;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n, argument);
    const char *nearest = dt_text_nearest(name, names, n_names);
    fprintf(stderr, "%s: there is no option --%.*s%s%s%s `%s --help` lists them\n", program, (int)n, argument,
            nearest != NULL ? "; did you mean --" : ":", nearest != NULL ? nearest : "", nearest != NULL ? "?" : "", program);
    return EINVAL;
}

error_t dt_arguments_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input) {
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "--") == 0 || (argument[0] != '-' && (flags & ARGP_IN_ORDER))) break;
        if (argument[0] != '-' || argument[1] == '\0') continue;
        if (argument[1] != '-') {
            i += takes_next(argp->options, argument) && argument[2] == '\0';
            continue;
        }
        size_t n = strcspn(argument + 2, "=");
        if (strncmp("help", argument + 2, n) == 0 || strncmp("usage", argument + 2, n) == 0) continue;
        const struct argp_option *row = find_long(argp->options, argument + 2, n);
        if (row == NULL) return refuse(argp->options, argv[0], argument + 2, n);
        i += row->arg != NULL && !(row->flags & OPTION_ARG_OPTIONAL) && argument[2 + n] != '=';
    }
    return argp_parse(argp, argc, argv, flags, NULL, input);
}
