/* option_names: how a sentence names options.
 *
 * Ours name them as they are typed: "--global-batch must be a multiple of --replicas". So dtc and dtrun print them. A caller of the libraries, who
 * types nothing and sets members of structs, reads "`global_batch` must be a multiple of `replicas`". Commands stay as they are typed: the next thing
 * to do may be to run one. */
#ifndef DT_BASE_OPTION_NAMES_H
#define DT_BASE_OPTION_NAMES_H

#include <stddef.h>

/* Writes `text` to `members`, with members' names in the place of options. Returns how many bytes that takes with the 0 at its end. `members` NULL:
 * nothing is written. */
size_t dt_option_names_to_members(const char *text, char *members);

#endif
