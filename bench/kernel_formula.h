/* kernel_formula: elementwise kernels, from an expression of the language: "relu(x + b)". The names in it that are not called are its inputs. */
#ifndef DT_BENCH_KERNEL_FORMULA_H
#define DT_BENCH_KERNEL_FORMULA_H

#include "base/arena.h"
#include "base/status.h"
#include "bench/kernel_case.h"

/* Finds the inputs of test->elementwise.formula, in the order in which they appear. Names live in `arena`.
 * DT_INVALID_ARGUMENT: it has none, or too many. */
dt_status *kernel_formula_find_inputs(dt_arena *arena, kernel_case *test);

/* A program with the step `f`. Inputs with a shape of their own are parameters: what a program adds to all rows. */
void kernel_formula_append_program(dt_text *text, const kernel_case *test);

/* Is the formula `function` of its only input, and nothing else? */
bool kernel_formula_is(const kernel_case *test, const char *function);

#endif
