/* artifact: the zip around the manifest, see the header. Members are stored, not compressed, so that the file can be mapped. */
#include "compiler/artifact.h"
#include "compiler/kernel/kernel.h"
#include "compiler/zip_memory.h"
#include "ir/text_form.h"

#include <minizip/zip.h>
#include <stdio.h>
#include <string.h>

const char *dt_object_file_name(const dt_object_file *object, char buffer[64]) {
    snprintf(buffer, 64, "cpu-%s.o", object->level);
    return buffer;
}

const char *dt_cuda_module_file_name(const dt_cuda_module *module, char buffer[64]) {
    bool ptx = strncmp(module->architecture, "compute_", 8) == 0;
    snprintf(buffer, 64, "cuda-%s-%d.%s", module->architecture, module->unit, ptx ? "ptx" : "cubin");
    return buffer;
}

static dt_status *add_member(zipFile zip, const char *artifact, const char *name, const char *bytes, size_t n_bytes) {
    /* A fixed date: the same program gives the same file. */
    zip_fileinfo info = {.tmz_date = {.tm_year = 1980, .tm_mday = 1}};
    bool added = zipOpenNewFileInZip(zip, name, &info, NULL, 0, NULL, 0, NULL, 0, 0) == ZIP_OK &&
                 zipWriteInFileInZip(zip, bytes, (unsigned)n_bytes) == ZIP_OK && zipCloseFileInZip(zip) == ZIP_OK;
    return added ? NULL : dt_error_in(DT_RESOURCE_EXHAUSTED, artifact, 0, "no memory for its member %s", name);
}

static dt_status *add_cuda(zipFile zip, const char *artifact, const dt_cuda_files *cuda) {
    dt_text text = {0}, plans = {0};
    char name[64];
    dt_cuda_print(&text, cuda->program, 0, cuda->program->n_sources);
    for (int i = 0; i < cuda->compilation->n_plans; i++) dt_plan_print(&plans, cuda->compilation->plans[i]);
    dt_status *status = text.failed || plans.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory while writing %s", artifact) : NULL;
    if (status == NULL) status = add_member(zip, artifact, DT_CUDA_TEXT_FILE, text.data, text.n);
    if (status == NULL) status = add_member(zip, artifact, "cuda-plan.txt", plans.data, plans.n);
    for (int i = 0; i < cuda->code->n_modules && status == NULL; i++) {
        const dt_cuda_module *module = &cuda->code->modules[i];
        status = add_member(zip, artifact, dt_cuda_module_file_name(module, name), module->bytes, module->n_bytes);
    }
    dt_text_free(&text);
    dt_text_free(&plans);
    return status;
}

static dt_status *add_members(zipFile zip, const char *artifact, const dt_artifact_contents *contents, const dt_text *manifest, const dt_text *graph,
                              const dt_text *plans) {
    DT_TRY(add_member(zip, artifact, "manifest.json", manifest->data, manifest->n));
    DT_TRY(add_member(zip, artifact, "program.dt", contents->source, strlen(contents->source)));
    DT_TRY(add_member(zip, artifact, "program.ir", graph->data, graph->n));
    DT_TRY(add_member(zip, artifact, "plan.txt", plans->data, plans->n));
    for (size_t i = 0; i < contents->n_objects; i++) {
        char name[64];
        const dt_object_file *object = &contents->objects[i];
        DT_TRY(add_member(zip, artifact, dt_object_file_name(object, name), object->bytes, object->n_bytes));
    }
    return contents->cuda != NULL ? add_cuda(zip, artifact, contents->cuda) : NULL;
}

static dt_status *write_zip(dt_text *bytes, const char *artifact, const dt_artifact_contents *contents, const dt_text *manifest, const dt_text *graph,
                            const dt_text *plans) {
    dt_zip_memory memory = {.bytes = bytes};
    zipFile zip = dt_zip_open(&memory);
    if (zip == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, artifact, 0, "no memory to write it");
    dt_status *status = add_members(zip, artifact, contents, manifest, graph, plans);
    if (zipClose(zip, NULL) != ZIP_OK || bytes->failed)
        status = dt_status_first(status, dt_error_in(DT_RESOURCE_EXHAUSTED, artifact, 0, "no memory to finish it"));
    return status;
}

dt_status *dt_artifact_write(dt_text *bytes, const char *name, const dt_artifact_contents *contents) {
    dt_text graph = {0}, plans = {0}, manifest = {0};
    dt_module_print(&graph, contents->compilation->module);
    for (int i = 0; i < contents->compilation->n_plans; i++) dt_plan_print(&plans, contents->compilation->plans[i]);
    dt_status *status = NULL;
    if (graph.failed || plans.failed) status = dt_error(DT_RESOURCE_EXHAUSTED, "out of memory while writing %s", name);
    if (status == NULL) status = dt_manifest_write(&manifest, contents, graph.data);
    if (status == NULL) status = write_zip(bytes, name, contents, &manifest, &graph, &plans);
    dt_text_free(&graph);
    dt_text_free(&plans);
    dt_text_free(&manifest);
    return status;
}
