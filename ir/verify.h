/* verify: what every pass may rely on, and must leave behind.
 *
 * Operands are defined before use and in the same function; types and shapes are what the row infers; attributes are in range; variables read and
 * written exist with that type; inputs come first; results exist; ids are unique. An error names function, value and rule. */
#ifndef DT_IR_VERIFY_H
#define DT_IR_VERIFY_H

#include "ir/graph.h"

dt_status *dt_verify(dt_module *module);

#endif
