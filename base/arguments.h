/* arguments: a command line, read by glibc's argp; an option that is not there is told with what was meant and what to do next. */
#ifndef DT_BASE_ARGUMENTS_H
#define DT_BASE_ARGUMENTS_H

#include <argp.h>

/* argp_parse(argp, argc, argv, flags, NULL, input). An unknown long option is told on standard error, "dtrun train: there is no option --epoch; did
 * you mean --epochs? `dtrun train --help` lists them", where argv[0] is "dtrun train"; then nothing is parsed, and the result is not 0. */
error_t dt_arguments_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

#endif
