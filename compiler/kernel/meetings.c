/* meetings: see the header. */
#include "compiler/kernel/meetings.h"

#include "compiler/kernel/analysis.h"

/* Whether a nest loads from, or stores to, memory that another one stores to. */
static bool touches(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, const dt_nest *writer) {
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD && dt_nest_stores_into(plan, kernel, writer, nest->instructions[i].address.buffer))
            return true;
    for (int s = 0; s < nest->n_stores; s++)
        if (dt_nest_stores_into(plan, kernel, writer, nest->stores[s].address.buffer)) return true;
    return false;
}

bool dt_nest_has_to_meet(const dt_plan *plan, const dt_kernel_function *kernel, int n) {
    const dt_nest *nests = kernel->nests;
    if (n == 0 || dt_nest_begins_rows(kernel, n)) return true;
    if (!nests[n].in_rows && nests[n - 1].in_rows) return false; /* they have met after the last row */
    for (int before = n - 1; before >= 0; before--) {
        bool by_one = nests[before].part_iterations == 0 && nests[n].part_iterations == 0; /* part 0 does both */
        if (!by_one && (touches(plan, kernel, &nests[n], &nests[before]) || touches(plan, kernel, &nests[before], &nests[n]))) return true;
        if (nests[before].meets || (before > 0 && nests[before].in_rows != nests[before - 1].in_rows)) return false;
    }
    return false;
}
