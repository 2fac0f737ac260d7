/* dtc pack: one file of a program and its weights. */
#include "compiler/commands/command.h"

typedef struct arguments {
    const char *artifact, *weights, *output;
} arguments;

static error_t parse(int key, char *argument, struct argp_state *state) {
    arguments *said = state->input;
    switch (key) {
    case 'o': said->output = argument; return 0;
    case ARGP_KEY_ARG:
        if (said->weights != NULL) argp_error(state, "an artifact and a file of weights, and no \"%s\"", argument);
        *(said->artifact == NULL ? &said->artifact : &said->weights) = argument;
        return 0;
    case ARGP_KEY_END:
        if (said->weights == NULL) argp_error(state, "which artifact, and which weights?");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {{"output", 'o', "FILE", 0, "Write FILE (default: the artifact itself)", 0}, {0}};
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "PROGRAM.dtx WEIGHTS.safetensors",
    .doc = "Puts weights into an artifact, in place of those that it has: what then evaluates, predicts or goes on to train it "
           "begins with them where nothing else is said.\vThe weights have each parameter and state of the program by its path, as "
           "model.safetensors of a checkpoint has."};

int dt_command_pack(int argc, char **argv) {
    arguments said = {0};
    if (dt_arguments_parse(&argp, argc, argv, 0, &said) != 0) return 2;
    return dt_command_finish(dtc_pack(said.artifact, said.weights, said.output));
}
