/* dtc: the compiler's command line. Each subcommand is a file NAME.c beside this one, which finds it. */
#include "abi/version.h"
#include "compiler/commands/command.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const dt_command commands[] = {
    {"compile", "compile a program into an artifact (.dtx), or print a stage of it", dt_command_compile},
    {"summary", "layers, shapes, parameters, FLOPs, memory, what crosses replicas", dt_command_summary},
    {"graph", "a picture of a step: layers, shapes, what crosses replicas", dt_command_graph},
    {"check", "gradients against slopes, three replicas against one", dt_command_check},
    {"fmt", "format programs: indentation, blanks, blank lines", dt_command_fmt},
    {"opt", "run one pass on a graph, or on plans, in text form", dt_command_opt},
    {"run", "run a plan in text form, element by element", dt_command_run_plan},
    {"ops", "the operations: signature, formula, gradient", dt_command_ops},
    {"pack", "weights into an artifact", dt_command_pack},
};
enum {
    n_commands = sizeof commands / sizeof *commands
};

static int print_usage(FILE *to, int code) {
    fprintf(to, "Usage: dtc COMMAND [OPTION...] [FILE]\n\nThe compiler of .dt programs.\n\n");
    for (int i = 0; i < n_commands; i++) fprintf(to, "  %-12s  %s\n", commands[i].name, commands[i].what);
    fprintf(to, "\n`dtc COMMAND --help` says what a command takes.\n");
    return code;
}

/* ---- memory that LLVM does not get ---- */

static void say_out_of_memory(void) {
    static atomic_flag is_said = ATOMIC_FLAG_INIT; /* levels are compiled at the same time */
    static const char message[] =
        "dtc: out of memory: LLVM, which generates code, got none; allow more (`ulimit -v`), or compile where there is more\n";
    if (!atomic_flag_test_and_set(&is_said)) (void)!write(STDERR_FILENO, message, sizeof message - 1);
    _exit(1);
}

/* What `new` calls where it gets nothing, and what LLVM calls where malloc gives it nothing: functions of C++, of which this program has none. They
   are the libraries' where those are linked in, else what LLVM brings. */
typedef void new_handler(void);
typedef void malloc_handler(void *user, const char *reason, bool wants_diagnostics);
extern new_handler *set_new_handler(new_handler *handler) __asm__("_ZSt15set_new_handlerPFvvE") __attribute__((weak));
extern void set_malloc_handler(malloc_handler *handler, void *user) __asm__("_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_")
    __attribute__((weak));

static void handle_malloc(void *user, const char *reason, bool wants_diagnostics) {
    (void)user, (void)reason, (void)wants_diagnostics;
    say_out_of_memory();
}

/* LLVM ends the process where it gets no memory: first it says so in our words. */
static void handle_out_of_memory(void) {
    new_handler *(*set_new)(new_handler *) = set_new_handler;
    void *found = set_new == NULL ? dlsym(RTLD_DEFAULT, "_ZSt15set_new_handlerPFvvE") : NULL;
    if (found != NULL) memcpy(&set_new, &found, sizeof set_new);
    if (set_new != NULL) set_new(say_out_of_memory);
    if (set_malloc_handler != NULL) set_malloc_handler(handle_malloc, NULL);
}

int main(int argc, char **argv) {
    argp_err_exit_status = 2;
    handle_out_of_memory();
    if (argc < 2) return print_usage(stderr, 2);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0 || strcmp(argv[1], "help") == 0) return print_usage(stdout, 0);
    if (strcmp(argv[1], "--version") == 0) {
        puts(DT_COMPILER_NAME);
        return 0;
    }
    const char *names[n_commands];
    for (int i = 0; i < n_commands; i++) {
        names[i] = commands[i].name;
        if (strcmp(argv[1], commands[i].name) != 0) continue;
        char name[64];
        snprintf(name, sizeof name, "dtc %s", argv[1]);
        argv[1] = name;
        return commands[i].run(argc - 1, argv + 1);
    }
    const char *nearest = dt_text_nearest(argv[1], names, n_commands);
    fprintf(stderr, "dtc: there is no command \"%s\"%s%s%s\n", argv[1], nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    return print_usage(stderr, 2);
}
