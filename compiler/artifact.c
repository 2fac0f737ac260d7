/* artifact: the zip around the manifest, see the header. Members are stored, not compressed, so that the file can be mapped. */
#include "compiler/artifact.h"
#include "compiler/kernel/kernel.h"
#include "compiler/zip_memory.h"
#include "ir/text_form.h"

#include <minizip/zip.h>
#include <stdio.h>
#include <string.h>

const char *const dt_artifact_text_names[DT_N_ARTIFACT_TEXTS] = {"program.dt", "program.ir", "plan.txt", "cuda.cu", "cuda-plan.txt"};

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

static dt_status *add_members(zipFile zip, const char *artifact, const dt_artifact_contents *contents, const dt_text *manifest,
                              const dt_text texts[DT_N_ARTIFACT_TEXTS]) {
    char name[64];
    DT_TRY(add_member(zip, artifact, "manifest.json", manifest->data, manifest->n));
    for (int t = 0; t < DT_N_ARTIFACT_TEXTS; t++)
        if (texts[t].n > 0) DT_TRY(add_member(zip, artifact, dt_artifact_text_names[t], texts[t].data, texts[t].n));
    for (size_t i = 0; i < contents->n_objects; i++) {
        const dt_object_file *object = &contents->objects[i];
        DT_TRY(add_member(zip, artifact, dt_object_file_name(object, name), object->bytes, object->n_bytes));
    }
    for (int i = 0; contents->cuda != NULL && i < contents->cuda->code->n_modules; i++) {
        const dt_cuda_module *module = &contents->cuda->code->modules[i];
        DT_TRY(add_member(zip, artifact, dt_cuda_module_file_name(module, name), module->bytes, module->n_bytes));
    }
    return NULL;
}

static dt_status *write_zip(dt_text *bytes, const char *artifact, const dt_artifact_contents *contents, const dt_text *manifest,
                            const dt_text texts[DT_N_ARTIFACT_TEXTS]) {
    dt_zip_memory memory = {.bytes = bytes};
    zipFile zip = dt_zip_open(&memory);
    if (zip == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, artifact, 0, "no memory to write it");
    dt_status *status = add_members(zip, artifact, contents, manifest, texts);
    if (zipClose(zip, NULL) != ZIP_OK || bytes->failed)
        status = dt_status_first(status, dt_error_in(DT_RESOURCE_EXHAUSTED, artifact, 0, "no memory to finish it"));
    return status;
}

static void print_plans(dt_text *text, const dt_compilation *compilation) {
    for (int i = 0; i < compilation->n_plans; i++) dt_plan_print(compilation->arena, text, compilation->plans[i], NULL);
}

dt_status *dt_artifact_write(dt_text *bytes, const char *name, const dt_artifact_contents *contents) {
    dt_text manifest = {0}, texts[DT_N_ARTIFACT_TEXTS] = {0};
    const dt_cuda_files *cuda = contents->cuda;
    dt_text_append(&texts[DT_TEXT_SOURCE], contents->source);
    dt_module_print(&texts[DT_TEXT_GRAPH], contents->compilation->module);
    print_plans(&texts[DT_TEXT_PLANS], contents->compilation);
    if (cuda != NULL) dt_cuda_print(&texts[DT_TEXT_CUDA], cuda->program, 0, cuda->program->n_sources);
    if (cuda != NULL) print_plans(&texts[DT_TEXT_CUDA_PLANS], cuda->compilation);
    bool failed = false;
    for (int t = 0; t < DT_N_ARTIFACT_TEXTS; t++) failed |= texts[t].failed;
    dt_status *status = failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory while writing %s", name) : NULL;
    if (status == NULL) status = dt_manifest_write(&manifest, contents, texts);
    if (status == NULL) status = write_zip(bytes, name, contents, &manifest, texts);
    for (int t = 0; t < DT_N_ARTIFACT_TEXTS; t++) dt_text_free(&texts[t]);
    dt_text_free(&manifest);
    return status;
}
