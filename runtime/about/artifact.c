/* artifact: what an artifact holds. Nothing of it is loaded or called. */
#include "runtime/about/about.h"
#include "runtime/artifact/type_text.h"
#include "runtime/execution/launch_values.h"

#include <inttypes.h>

static void say_tensor(dt_text *text, const dt_artifact_tensor *tensor) {
    if (tensor->name[0] != 0) dt_text_format(text, "%s: ", tensor->name);
    dt_text_append_type(text, tensor->dtype, tensor->n_dims, tensor->dims);
}

static void say_step(dt_text *text, const dt_artifact *artifact, const dt_artifact_step *step) {
    const dt_artifact_function *function = &artifact->functions[step->function];
    dt_text_format(text, "step %s(", step->name);
    for (int i = 0; i < function->n_inputs; i++) {
        if (i > 0) dt_text_append(text, ", ");
        say_tensor(text, &function->inputs[i]);
    }
    dt_text_append(text, ")");
    if (step->pipeline >= 0) dt_text_format(text, " from %s", artifact->pipelines[step->pipeline].name);
    if (step->every > 0) dt_text_format(text, " every %s", step->every == 1 ? "epoch" : "");
    if (step->every > 1) dt_text_format(text, "%" PRId64 " epochs", step->every);
    dt_text_format(text, "%s\n", step->trains ? ", trains" : "");
    for (int i = 0; i < step->n_reports; i++) {
        const dt_artifact_tensor *report = &artifact->functions[step->report].results[i].tensor;
        dt_text_format(text, "%s%s", i == 0 ? "    reports " : ", ", step->reports[i]);
        for (int d = 0; d < report->n_dims; d++) dt_text_format(text, d == 0 ? "[%" PRId64 : ", %" PRId64, report->dims[d]);
        if (report->n_dims > 0) dt_text_append(text, "]");
    }
    if (step->n_reports > 0) dt_text_append(text, "\n");
    for (int i = step->n_aggregates; i < function->n_results; i++) {
        dt_text_append(text, i == step->n_aggregates ? "    returns " : ", ");
        say_tensor(text, &function->results[i].tensor);
    }
    if (function->n_results > step->n_aggregates) dt_text_append(text, "\n");
    dt_text_format(text, "    %d kernel%s in %d segment%s\n", function->n_kernels, dt_plural(function->n_kernels), function->n_segments,
                   dt_plural(function->n_segments));
}

static void say_argument(dt_text *text, const dt_artifact_argument *argument) {
    char buffer[32];
    if (argument->name != NULL) dt_text_format(text, "%s: ", argument->name);
    switch (argument->kind) {
    case DT_ARGUMENT_INT: dt_text_format(text, "%" PRId64, argument->integer); break;
    case DT_ARGUMENT_FLOAT: dt_text_append(text, dt_text_from_f64(argument->number, buffer)); break;
    case DT_ARGUMENT_STRING: dt_text_format(text, "\"%s\"", argument->string); break;
    case DT_ARGUMENT_FUNCTION: dt_text_append(text, argument->string); break;
    }
}

static void say_pipeline(dt_text *text, const dt_artifact_pipeline *pipeline) {
    dt_text_format(text, "data %s =", pipeline->name);
    for (int s = 0; s < pipeline->n_stages; s++) {
        dt_text_format(text, "%s %s(", s > 0 ? " |" : "", pipeline->stages[s].kind);
        for (int i = 0; i < pipeline->stages[s].n_arguments; i++) {
            if (i > 0) dt_text_append(text, ", ");
            say_argument(text, &pipeline->stages[s].arguments[i]);
        }
        dt_text_append(text, ")");
    }
    dt_text_append(text, "\n");
}

static void say_variables(dt_text *text, const dt_artifact *artifact) {
    char commas[2][32];
    dt_text_format(text, "%s parameters, %s of them trained\n", dt_text_with_commas(artifact->n_parameters, commas[0]),
                   dt_text_with_commas(artifact->n_trainable, commas[1]));
    for (int i = 0; i < artifact->n_variables; i++) {
        const dt_artifact_variable *variable = &artifact->variables[i];
        if (variable->kind == DT_VARIABLE_SLOT || variable->kind == DT_VARIABLE_LAUNCH) continue;
        dt_text_format(text, "    %-32s ", variable->path);
        dt_text_append_type(text, variable->tensor.dtype, variable->tensor.n_dims, variable->tensor.dims);
        dt_text_format(text, "%s\n", variable->kind == DT_VARIABLE_STATE ? "  state" : variable->trainable ? "" : "  fixed");
    }
}

static void say_launch_values(dt_text *text, const dt_artifact *artifact) {
    char buffer[32];
    for (int v = 0; v < artifact->n_variables; v++) {
        const dt_artifact_variable *variable = &artifact->variables[v];
        if (variable->kind != DT_VARIABLE_LAUNCH) continue;
        dt_text_format(text, "launch %s = %s, %s\n", variable->path, dt_launch_print(variable, variable->launch_default, buffer),
                       dt_dtype_name(variable->tensor.dtype));
    }
}

static double in_mib(int64_t bytes) { return (double)bytes / (1 << 20); }

/* How many launches libraries can do instead. Whether they do is known on a GPU alone: dtrun bench says it. */
static void say_libraries(dt_text *text, const dt_artifact *program) {
    int n[DT_N_LIBRARY_CLASSES] = {0}, n_all = 0;
    for (int f = 0; f < program->n_functions; f++)
        for (int k = 0; k < program->functions[f].n_kernels; k++)
            for (int l = 0; l < program->functions[f].kernels[k].n_launches; l++, n_all++) {
                const dt_library_call *call = program->functions[f].kernels[k].launches[l].library;
                if (call != NULL) n[call->class] += (int)call->n_launches;
            }
    int n_products = n[DT_LIBRARY_PRODUCT], n_convolutions = n[DT_LIBRARY_CONVOLUTION] + n[DT_LIBRARY_INPUT_GRADIENT] + n[DT_LIBRARY_KERNEL_GRADIENT];
    if (n_products > 0) dt_text_format(text, "\n%s can do %d of the %d launches", dt_library_of_class(DT_LIBRARY_PRODUCT), n_products, n_all);
    if (n_convolutions > 0)
        dt_text_format(text, "\n%s can do %d of the %d launches", dt_library_of_class(DT_LIBRARY_CONVOLUTION), n_convolutions, n_all);
}

/* Each architecture once, and the memory of the plans for GPUs. */
static void say_gpus(dt_text *text, const dt_artifact_cuda *cuda) {
    dt_artifact_bytes bytes = dt_artifact_memory(cuda->program);
    dt_text_format(text, "\ncode for GPUs:");
    for (int m = 0, n = 0; m < cuda->n_modules; m++)
        if (cuda->modules[m].unit == 0) dt_text_format(text, "%s %s", n++ > 0 ? "," : "", cuda->modules[m].architecture);
    dt_text_format(text, ", by %s; memory: %.2f MiB + %.2f MiB for each replica + %.2f MiB for each of the log2(replicas) + 1 sums that are open",
                   cuda->compiler, in_mib(bytes.shared + bytes.core), in_mib(bytes.replica), in_mib(bytes.partial));
    say_libraries(text, cuda->program);
}

static void say_gathered(dt_text *text, const dt_artifact *artifact) {
    dt_artifact_bytes bytes = dt_artifact_gathered_memory(artifact);
    if (bytes.shared + bytes.core + bytes.partial + bytes.replica == 0) return;
    dt_text_format(
        text,
        "its steps pair rows of all replicas: each replica adds %.2f MiB, %.2f MiB for each core, %.2f MiB for each replica and %.2f MiB for "
        "each of those sums\n",
        in_mib(bytes.shared), in_mib(bytes.core), in_mib(bytes.replica), in_mib(bytes.partial));
}

static void say_row_form(dt_text *text, const dt_artifact *artifact, const dt_artifact_row_form *form) {
    const dt_artifact_variable *table = &artifact->variables[form->table];
    dt_text_format(text, "rows: %s takes rows of %s ", artifact->functions[form->of].name, table->path);
    dt_text_append_type(text, table->tensor.dtype, table->tensor.n_dims, table->tensor.dims);
    if (form->update >= 0)
        dt_text_format(text, "; update by rows: %s%s",
                       form->moves == NULL ? "yes, with equal bits"
                                           : "only with `dtrun train --lazy-rows`, for the update of a row without a gradient ",
                       form->moves == NULL ? "" : form->moves);
    dt_text_append(text, "\n");
}

void dt_about_artifact(const dt_artifact *artifact, dt_text *text) {
    dt_artifact_bytes bytes = dt_artifact_memory(artifact);
    dt_text_format(text, "%s: %s, compiled by %s (LLVM %s)", artifact->path, artifact->name, artifact->compiler, artifact->llvm);
    for (int i = 0; i < artifact->n_flags; i++) dt_text_format(text, " %s", artifact->flags[i]);
    dt_text_format(text, "\nsource %s, program %s\ncode for", artifact->source_hash, artifact->program_hash);
    for (int i = 0; i < artifact->n_objects; i++) {
        const dt_artifact_object *object = &artifact->objects[i];
        dt_text_format(text, "%s %s (%zu bytes)%s%s", i > 0 ? "," : "", object->level, object->n_bytes, object->cpu[0] != 0 ? " of " : "",
                       object->cpu);
    }
    if (artifact->cuda != NULL) say_gpus(text, artifact->cuda);
    dt_text_format(text, "\nup to %" PRId64 " rows for each replica; memory: %.2f MiB + %.2f MiB for each core + %.2f MiB for each replica",
                   artifact->capacity, in_mib(bytes.shared), in_mib(bytes.core), in_mib(bytes.replica));
    dt_text_format(text, " + %.2f MiB for each of the log2(microbatches) + 1 sums that a core has open\n", in_mib(bytes.partial));
    if (artifact->n_shards > 1)
        dt_text_format(
            text,
            "the model is split into %d shards, of which --shards-over K gives each process 1 / K; a core then has two microbatches under way, "
            "and takes 2 / K of what is said for it\n",
            artifact->n_shards);
    say_gathered(text, artifact);
    say_variables(text, artifact);
    say_launch_values(text, artifact);
    for (int i = 0; i < artifact->n_pipelines; i++) say_pipeline(text, &artifact->pipelines[i]);
    for (int i = 0; i < artifact->n_steps; i++) say_step(text, artifact, &artifact->steps[i]);
    for (int i = 0; i < artifact->n_row_forms; i++) say_row_form(text, artifact, &artifact->row_forms[i]);
}
