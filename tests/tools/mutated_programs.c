/* mutated_programs [--first SEED] [--count N] [--artifacts N] PROGRAM.dt…: programs with a few tokens, lines or bytes changed, through the whole
 * compiler, as an application has it (include/dtc.h).
 *
 * Each seed is one program, changed in one to three places. It is refused with the place of the mistake, or it compiles, and then the artifact opens
 * and says what is in it. Nothing else is right: no crash, no other error, no more than CPU_SECONDS and ADDRESS_SPACE. One in N of --artifacts is
 * made an artifact (default: 8), the others go as far as a plan, since code generation is most of the time. A seed that fails is printed with its
 * program;
 * `--first SEED --count 1`, over the same programs, is that one again. */
#include "base/file.h"
#include "include/dtc.h"
#include "include/dtrt.h"

#include <argp.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CPU_SECONDS = 60,
    BATCH = 25,      /* seeds of one process */
    MOST_ERRORS = 20 /* that are told, with their places; then one more says that there are others */
};
#define ADDRESS_SPACE ((rlim_t)4 << 30)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool limits_memory = false; /* sanitizers reserve more than there is */
#else
static const bool limits_memory = true;
#endif

typedef struct program {
    const char *path;
    char *text;
    size_t n;
} program;

typedef struct options {
    uint64_t first, count, artifacts;
    program *programs;
    size_t n_programs;
} options;

/* What a process is at, for whoever started it. */
typedef struct progress {
    uint64_t seed, n_compiled, n_refused, n_artifacts, n_failed;
} progress;

/* ---- random numbers, the same everywhere ---- */

static uint64_t next(uint64_t *state) {
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static size_t below(uint64_t *state, size_t n) { return n == 0 ? 0 : next(state) % n; }
static size_t at_most(size_t x, size_t limit) { return x < limit ? x : limit; }

/* ---- changes ---- */

typedef struct span {
    size_t begin, end;
} span;

/* A token begins at or after a random place: a name, a number, a string, or a mark. */
static span random_token(const char *text, size_t n, uint64_t *state) {
    size_t begin = below(state, n);
    while (begin > 0 && (isalnum((unsigned char)text[begin]) || text[begin] == '_') &&
           (isalnum((unsigned char)text[begin - 1]) || text[begin - 1] == '_'))
        begin--;
    while (begin < n && isspace((unsigned char)text[begin])) begin++;
    size_t end = begin;
    if (end < n && text[end] == '"') {
        for (end++; end < n && text[end] != '"' && text[end] != '\n'; end++) {
        }
        end += end < n;
    } else {
        while (end < n && (isalnum((unsigned char)text[end]) || text[end] == '_')) end++;
        if (end == begin && end < n) end++;
    }
    return (span){begin, end};
}

static span random_line(const char *text, size_t n, uint64_t *state) {
    size_t begin = below(state, n), end = begin;
    while (begin > 0 && text[begin - 1] != '\n') begin--;
    while (end < n && text[end] != '\n') end++;
    return (span){begin, end < n ? end + 1 : end};
}

/* text with `at` replaced; the old one is freed. */
static char *replaced(char *text, size_t *n, span at, const char *by, size_t n_by) {
    char *changed = malloc(*n + n_by + 1);
    if (changed == NULL) abort();
    memcpy(changed, text, at.begin);
    memcpy(changed + at.begin, by, n_by);
    memcpy(changed + at.begin + n_by, text + at.end, *n - at.end);
    *n = *n - (at.end - at.begin) + n_by;
    changed[*n] = '\0';
    free(text);
    return changed;
}

static const char *const numbers[] = {
    "0", "1", "-1", "2", "7", "0.5", "1e308", "65536", "2147483648", "9223372036854775807", "9223372036854775808", "1e999"};
static const char *const words[] = {
    "+",     "-",      "*",      "/",      "//",      "%",           "**",      "@",      "==",       "<",      "and",  "not",
    "(",     ")",      "[",      "]",      "{",       "}",           ",",       ":",      ":=",       "=",      "..",   "...",
    "->",    "=>",     "|",      "if",     "else",    "for",         "in",      "fn",     "return",   "true",   "none", "B",
    "f32",   "i64",    "bool",   "bf16",   "newaxis", "model",       "layer",   "step",   "param",    "state",  "use",  "data",
    "grad",  "sum",    "mean",   "argmax", "ops",     "batch",       "where",   "x",      "\"\"",     "f64",    "u8",   "params",
    "const", "launch", "option", "apply",  "max",     "concatenate", "reshape", "gather", "minimize", "report", "int",  "training"};

static char *change(char *text, size_t *n, const options *options, uint64_t *state) {
    span token = random_token(text, *n, state), line = random_line(text, *n, state);
    const program *other = below(state, 4) == 0 ? &options->programs[below(state, options->n_programs)] : &(program){NULL, text, *n};
    span from = random_token(other->text, other->n, state), from_line = random_line(other->text, other->n, state);
    char *copy = strndup(other->text + from.begin, from.end - from.begin),
         *copy_line = strndup(other->text + from_line.begin, from_line.end - from_line.begin);
    if (copy == NULL || copy_line == NULL) abort();
    const char *word = words[below(state, sizeof words / sizeof *words)], *number = numbers[below(state, sizeof numbers / sizeof *numbers)];
    char byte = (char)below(state, 256);
    switch (below(state, 10)) {
    case 0: text = replaced(text, n, token, "", 0); break;
    case 1: text = replaced(text, n, line, "", 0); break;
    case 2: text = replaced(text, n, (span){line.begin, line.begin}, copy_line, strlen(copy_line)); break;
    case 3: text = replaced(text, n, line, copy_line, strlen(copy_line)); break;
    case 4: text = replaced(text, n, (span){token.begin, token.begin}, word, strlen(word)); break;
    case 5: text = replaced(text, n, token, word, strlen(word)); break;
    case 6: text = replaced(text, n, (span){token.begin, at_most(token.begin + below(state, 2), *n)}, &byte, byte != '\0'); break;
    case 7: /* a number, where there is one soon */
        for (int tries = 0; tries < 50 && !(token.begin < *n && isdigit((unsigned char)text[token.begin])); tries++)
            token = random_token(text, *n, state);
        text = replaced(text, n, token, number, strlen(number));
        break;
    default: text = replaced(text, n, token, copy, strlen(copy)); break;
    }
    free(copy), free(copy_line);
    return text;
}

/* The program of a seed; *origin: that it was. The caller frees it. */
static char *mutated(const options *options, uint64_t seed, const program **origin) {
    uint64_t state = seed * 0x5851F42D4C957F2Du;
    *origin = &options->programs[below(&state, options->n_programs)];
    size_t n = (*origin)->n;
    char *text = strndup((*origin)->text, n);
    if (text == NULL) abort();
    for (size_t i = 1 + below(&state, 3); i > 0; i--) text = change(text, &n, options, &state);
    return text;
}

/* ---- what has to hold ---- */

typedef struct findings {
    int n_errors, n_without_place;
} findings;

static int count(void *context, const dtc_diagnostic *diagnostic) {
    findings *found = context;
    bool placed = diagnostic->line > 0 && diagnostic->column > 0 && diagnostic->file[0] != '\0' && diagnostic->message[0] != '\0';
    found->n_errors += diagnostic->severity == DTC_ERROR;
    found->n_without_place += diagnostic->severity == DTC_ERROR && !placed;
    return 0;
}

/* What `dtrun info` asks. NULL, or what is wrong. */
static dt_status *describe(dtrt_program *opened) {
    dtrt_program_info info = {.size = sizeof info};
    dt_status *status = dtrt_program_describe(opened, &info);
    for (int i = 0; status == NULL && i < info.n_variables; i++) status = dtrt_describe_variable(opened, i, &DTRT_INIT(dtrt_tensor));
    for (int s = 0; status == NULL && s < info.n_steps; s++) {
        dtrt_step_info step = {.size = sizeof step};
        status = dtrt_describe_step(opened, s, &step);
        for (int i = 0; status == NULL && i < step.n_inputs; i++) status = dtrt_describe_input(opened, s, i, &DTRT_INIT(dtrt_tensor));
        for (int i = 0; status == NULL && i < step.n_results; i++) status = dtrt_describe_result(opened, s, i, &DTRT_INIT(dtrt_tensor));
    }
    char *text = NULL;
    if (status == NULL) status = dtrt_program_text(opened, "program.dt", &text);
    dtrt_free(text);
    return status;
}

static bool fail(uint64_t seed, const program *origin, const char *text, const char *what) {
    printf("FAILED: --first %llu: %s: %s\n---- the program\n%s\n----\n", (unsigned long long)seed, origin->path, what, text);
    fflush(stdout);
    return false;
}

static bool compiles_or_says_why(const options *options, uint64_t seed, progress *now) {
    const program *origin;
    char *text = mutated(options, seed, &origin);
    findings found = {0};
    bool whole = seed % options->artifacts == 0;
    dtc_program program = {.size = sizeof program, .path = origin->path, .source = text, .diagnostic = count, .context = &found};
    dtc_compile_options compile = {.size = sizeof compile, .cpu = "x86-64-v3", .emit = whole ? NULL : "plan"};
    dtc_bytes bytes = {0};
    dt_status *status = dtc_compile(&program, &compile, &bytes);
    bool holds = true;
    if (status != NULL) {
        now->n_refused++;
        bool placed = status->line > 0 && status->column > 0 && status->file[0] != '\0' && found.n_errors > 0 &&
                      found.n_without_place <= (found.n_errors > MOST_ERRORS);
        if (status->code != DT_INVALID_ARGUMENT || !placed) holds = fail(seed, origin, text, status->message);
    } else {
        now->n_compiled++;
        dtrt_program *opened = NULL;
        dt_status *wrong = NULL;
        if (found.n_errors > 0) holds = fail(seed, origin, text, "it has mistakes and is compiled");
        if (whole) wrong = dtrt_open_memory("mutated.dtx", bytes.data, bytes.n_bytes, NULL, &opened), now->n_artifacts++;
        if (whole && wrong == NULL) wrong = describe(opened);
        if (wrong != NULL) holds = fail(seed, origin, text, wrong->message);
        dtrt_status_free(wrong);
        dtrt_close(opened);
    }
    dtc_status_free(status);
    dtc_free(bytes.data);
    free(text);
    return holds;
}

/* ---- processes ---- */

static void run_batch(const options *options, uint64_t first, uint64_t end, progress *now) {
    struct rlimit no_core = {0, 0}, memory = {ADDRESS_SPACE, ADDRESS_SPACE};
    setrlimit(RLIMIT_CORE, &no_core);
    if (limits_memory) setrlimit(RLIMIT_AS, &memory);
    for (now->seed = first; now->seed < end; now->seed++) {
        setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {CPU_SECONDS, 0}}, NULL); /* ends the process */
        now->n_failed += !compiles_or_says_why(options, now->seed, now);
    }
    fflush(stdout);
    _exit(0);
}

static void run_all(const options *options, progress *now) {
    uint64_t end = options->first + options->count;
    for (uint64_t seed = options->first; seed < end;) {
        uint64_t until = seed + BATCH < end ? seed + BATCH : end;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) run_batch(options, seed, until, now);
        int how;
        if (child < 0 || waitpid(child, &how, 0) != child) exit(2);
        seed = until;
        if (WIFEXITED(how) && WEXITSTATUS(how) == 0) continue;
        const program *origin;
        char *text = mutated(options, now->seed, &origin), what[64];
        snprintf(what, sizeof what, WIFSIGNALED(how) ? "ended by signal %d" : "exit status %d", WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
        fail(now->seed, origin, text, what);
        free(text);
        now->n_failed++;
        seed = now->seed + 1;
    }
}

/* ---- the command line ---- */

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *options = state->input;
    switch (key) {
    case 'f': options->first = strtoull(argument, NULL, 10); return 0;
    case 'c': options->count = strtoull(argument, NULL, 10); return 0;
    case 'a': options->artifacts = strtoull(argument, NULL, 10); return 0;
    case ARGP_KEY_ARG: {
        program *program = &options->programs[options->n_programs++];
        program->path = argument;
        dt_status *status = dt_file_read(argument, &program->text, &program->n);
        if (status != NULL) argp_failure(state, 2, 0, "%s", status->message);
        return 0;
    }
    case ARGP_KEY_END:
        if (options->n_programs == 0 || options->artifacts == 0) argp_usage(state);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv) {
    static const struct argp_option rows[] = {{"first", 'f', "SEED", 0, "The first seed (default: 1)", 0},
                                              {"count", 'c', "N", 0, "How many (default: 300)", 0},
                                              {"artifacts", 'a', "N", 0, "One in N becomes an artifact (default: 8)", 0},
                                              {0}};
    static const struct argp argp = {rows, parse, "PROGRAM.dt…", NULL, NULL, NULL, NULL};
    options options = {.first = 1, .count = 300, .artifacts = 8, .programs = calloc((size_t)argc, sizeof(program))};
    progress *now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (options.programs == NULL || now == MAP_FAILED) return free(options.programs), 2;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    run_all(&options, now);
    printf("%llu programs refused, %llu compiled, %llu of them to artifacts, %llu failed\n", (unsigned long long)now->n_refused,
           (unsigned long long)now->n_compiled, (unsigned long long)now->n_artifacts, (unsigned long long)now->n_failed);
    for (size_t i = 0; i < options.n_programs; i++) free(options.programs[i].text);
    free(options.programs);
    return now->n_failed > 0 || now->n_refused == 0 || now->n_compiled == 0;
}
