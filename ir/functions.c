/* functions: the rows of functions.def, see formula.h. */
#include "ir/formula.h"

#include <math.h>

#define FUNCTION(name, arguments, oracle, f32, f64, f32_ulp, f64_ulp, domain)                                                                        \
    static double oracle_##name(double x, double y) {                                                                                                \
        (void)y;                                                                                                                                     \
        return oracle;                                                                                                                               \
    }
#include "ir/functions.def"
#undef FUNCTION

static const dt_scalar_function functions[] = {
#define FUNCTION(name, arguments, oracle, f32, f64, f32_ulp, f64_ulp, domain) {#name, arguments, oracle_##name, f32, f64, f32_ulp, f64_ulp, domain},
#include "ir/functions.def"
#undef FUNCTION
};
const size_t dt_n_scalar_functions = sizeof functions / sizeof *functions;

const dt_scalar_function *dt_scalar_function_at(size_t i) { return &functions[i]; }

dt_status *dt_scalar_function_expansion(dt_arena *arena, size_t i, dt_dtype dtype, dt_formula **formula) {
    static const char *const names[] = {"x", "y"};
    const char *text = dtype == DT_F64 ? functions[i].f64 : functions[i].f32;
    return dt_formula_parse(arena, text, names, functions[i].n_arguments, NULL, 0, formula);
}
