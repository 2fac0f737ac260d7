/* artifact: the zip around the manifest, see the header. Members are stored, not compressed, so that the file can be mapped. */
#include "compiler/artifact.h"
#include "base/file.h"
#include "base/memory.h"
#include "compiler/kernel/kernel.h"
#include "ir/text_form.h"

#include <minizip/zip.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *dt_object_file_name(const dt_object_file *object, char buffer[64]) {
    snprintf(buffer, 64, "cpu-%s.o", object->level);
    return buffer;
}

const char *dt_cuda_module_file_name(const dt_cuda_module *module, char buffer[64]) {
    bool ptx = strncmp(module->architecture, "compute_", 8) == 0;
    snprintf(buffer, 64, "cuda-%s-%d.%s", module->architecture, module->unit, ptx ? "ptx" : "cubin");
    return buffer;
}

static dt_status *add_member(zipFile zip, const char *path, const char *name, const char *bytes, size_t n_bytes) {
    /* A fixed date: the same program gives the same file. */
    zip_fileinfo info = {.tmz_date = {.tm_year = 1980, .tm_mday = 1}};
    bool added = zipOpenNewFileInZip(zip, name, &info, NULL, 0, NULL, 0, NULL, 0, 0) == ZIP_OK &&
                 zipWriteInFileInZip(zip, bytes, (unsigned)n_bytes) == ZIP_OK && zipCloseFileInZip(zip) == ZIP_OK;
    return added ? NULL : dt_error(DT_IO, "%s: cannot write its member %s; is the disk full?", path, name);
}

static dt_status *add_cuda(zipFile zip, const char *path, const dt_cuda_files *cuda) {
    dt_text text = {0}, plans = {0};
    char name[64];
    dt_cuda_print(&text, cuda->program, 0, cuda->program->n_sources);
    for (int i = 0; i < cuda->compilation->n_plans; i++) dt_plan_print(&plans, cuda->compilation->plans[i]);
    dt_status *status = text.failed || plans.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory while writing %s", path) : NULL;
    if (status == NULL) status = add_member(zip, path, DT_CUDA_TEXT_FILE, text.data, text.n);
    if (status == NULL) status = add_member(zip, path, "cuda-plan.txt", plans.data, plans.n);
    for (int i = 0; i < cuda->code->n_modules && status == NULL; i++) {
        const dt_cuda_module *module = &cuda->code->modules[i];
        status = add_member(zip, path, dt_cuda_module_file_name(module, name), module->bytes, module->n_bytes);
    }
    dt_text_free(&text);
    dt_text_free(&plans);
    return status;
}

static dt_status *add_members(zipFile zip, const char *path, const dt_artifact_contents *contents, const dt_text *manifest, const dt_text *graph,
                              const dt_text *plans) {
    DT_TRY(add_member(zip, path, "manifest.json", manifest->data, manifest->n));
    DT_TRY(add_member(zip, path, "program.dt", contents->source, strlen(contents->source)));
    DT_TRY(add_member(zip, path, "program.ir", graph->data, graph->n));
    DT_TRY(add_member(zip, path, "plan.txt", plans->data, plans->n));
    for (size_t i = 0; i < contents->n_objects; i++) {
        char name[64];
        const dt_object_file *object = &contents->objects[i];
        DT_TRY(add_member(zip, path, dt_object_file_name(object, name), object->bytes, object->n_bytes));
    }
    return contents->cuda != NULL ? add_cuda(zip, path, contents->cuda) : NULL;
}

static dt_status *write_zip(const char *path, const char *temporary, const dt_artifact_contents *contents, const dt_text *manifest,
                            const dt_text *graph, const dt_text *plans) {
    zipFile zip = zipOpen64(temporary, APPEND_STATUS_CREATE);
    if (zip == NULL) return dt_error(DT_IO, "%s: cannot be created; does its folder exist, and may it be written?", path);
    dt_status *status = add_members(zip, path, contents, manifest, graph, plans);
    if (zipClose(zip, NULL) != ZIP_OK) status = dt_status_first(status, dt_error(DT_IO, "%s: cannot be finished; is the disk full?", path));
    if (status == NULL && rename(temporary, path) != 0) status = dt_error(DT_IO, "%s: cannot take its name: %m", path);
    if (status) unlink(temporary);
    return status;
}

static dt_status *write_to(const char *path, const dt_artifact_contents *contents) {
    dt_text graph = {0}, plans = {0}, manifest = {0}, temporary = {0};
    dt_module_print(&graph, contents->compilation->module);
    for (int i = 0; i < contents->compilation->n_plans; i++) dt_plan_print(&plans, contents->compilation->plans[i]);
    dt_text_format(&temporary, "%s.%ld.tmp", path, (long)getpid());
    dt_status *status = NULL;
    if (graph.failed || plans.failed || temporary.failed) status = dt_error(DT_RESOURCE_EXHAUSTED, "out of memory while writing %s", path);
    if (status == NULL) status = dt_manifest_write(&manifest, contents, graph.data);
    if (status == NULL) status = write_zip(path, temporary.data, contents, &manifest, &graph, &plans);
    dt_text_free(&graph);
    dt_text_free(&plans);
    dt_text_free(&manifest);
    dt_text_free(&temporary);
    return status;
}

dt_status *dt_artifact_write(const char *path, const dt_artifact_contents *contents) {
    char *place;
    bool is_plain;
    DT_TRY(dt_file_find_place(path, &place, &is_plain));
    dt_status *status = is_plain ? write_to(place, contents)
                                 : dt_error(DT_INVALID_ARGUMENT, "%s is a pipe or a device, and an artifact is a file; name one with -o", path);
    dt_release(place);
    return status;
}
