/* tokenize: a line of tokens for each line of standard input, as a stage of a pipeline would make them, and how fast.
 *
 *     tokenize wordpiece VOCAB LENGTH [LOWERCASE]
 *     tokenize bpe VOCAB MERGES LENGTH
 *
 * With TOKENIZE_SECONDS=1 in the environment it prints no tokens, but the seconds of a core that making them all took. */
#include "runtime/data/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of this thread's processor, whatever else runs on it. */
static double seconds_of_core(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int fail(dt_status *status) {
    fprintf(stderr, "tokenize: %s\n", dt_status_message(status));
    dt_status_free(status);
    return 1;
}

int main(int n_arguments, char **arguments) {
    dt_artifact_argument given[8] = {{0}};
    int n_given = n_arguments - 2;
    dt_stage_kind kind = n_arguments > 3 ? dt_stage_kind_from_name(arguments[1]) : DT_N_STAGE_KINDS;
    dt_tokenizer_opener *open = kind != DT_N_STAGE_KINDS ? dt_tokenizer_opener_of(kind) : NULL;
    int n_rows = 0;
    const dt_stage_argument_row *rows = dt_stage_argument_rows(kind, &n_rows);
    if (open == NULL || n_given > n_rows) return fputs("usage: tokenize wordpiece VOCAB LENGTH | bpe VOCAB MERGES LENGTH < lines\n", stderr), 2;
    for (int i = 0; i < n_rows; i++)
        given[i] = (dt_artifact_argument){.string = i < n_given ? arguments[i + 2] : NULL,
                                          .integer = i < n_given ? strtoll(arguments[i + 2], NULL, 10) : rows[i].standard};
    dt_tokenizer *tokenizer;
    dt_status *status = open(given, NULL, &tokenizer);
    if (status != NULL) return fail(status);

    dt_tokenizer_worker worker = {0};
    int32_t *tokens = calloc((size_t)tokenizer->length, sizeof *tokens);
    char *text = NULL;
    size_t capacity = 0;
    ssize_t n = getdelim(&text, &capacity, EOF, stdin); /* all of it: no text has that byte */
    double began = seconds_of_core();
    bool measures = getenv("TOKENIZE_SECONDS") != NULL;
    const char *end = text + (n > 0 ? n : 0);
    for (const char *line = text, *stop; line < end && status == NULL; line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL) stop = end;
        status = tokenizer->encode(tokenizer, &worker, line, (size_t)(stop - line), tokens);
        for (int64_t i = 0; i < tokenizer->length && !measures; i++) printf("%d%c", tokens[i], i + 1 < tokenizer->length ? ' ' : '\n');
    }
    double seconds = seconds_of_core() - began;
    if (measures) printf("%.6f\n", seconds);
    free(text);
    free(tokens);
    dt_tokenizer_worker_free(&worker);
    dt_tokenizer_close(tokenizer);
    return status != NULL ? fail(status) : 0;
}
