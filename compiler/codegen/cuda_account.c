/* cuda_account: for people, what each function of a program takes on an architecture: registers, memory, and what it spills. */
#include "compiler/codegen/codegen.h"

#include <string.h>

static const dt_cuda_module *module_of(const dt_cuda_code *code, const char *architecture, int source) {
    for (int m = 0; m < code->n_modules; m++) {
        const dt_cuda_module *module = &code->modules[m];
        if (module->unit == dt_cuda_unit_of(source) && strcmp(module->architecture, architecture) == 0) return module;
    }
    return NULL;
}

void dt_cuda_print_account(dt_text *text, const dt_cuda_program *program, const dt_cuda_code *code, const char *architecture) {
    for (int i = 0; i < program->n_sources; i++) {
        const dt_cuda_source *source = &program->sources[i];
        const dt_cuda_module *module = architecture != NULL ? module_of(code, architecture, i) : NULL;
        dt_cuda_usage usage = {.name = source->name};
        dt_text_format(text, "  %-56s %3d threads", source->name, source->threads);
        if (module != NULL && dt_cuda_read_usage(module->bytes, module->n_bytes, &usage, 1))
            dt_text_format(text, "  %3d registers  %5d bytes shared  %4d on the stack", usage.registers, usage.shared_bytes, usage.stack_bytes);
        if (module != NULL && dt_cuda_read_spills(module->remarks, &usage))
            dt_text_format(text, "  %4d spilled, %4d reloaded", usage.spilled_bytes, usage.reloaded_bytes);
        dt_text_append(text, "\n");
    }
}
