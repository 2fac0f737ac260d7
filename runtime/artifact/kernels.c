/* kernels: see kernels.h. */
#include "runtime/artifact/kernels.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/artifact/object_loader.h"

#include <stdint.h>
#include <string.h>

struct dt_kernels {
    const dt_artifact *artifact;
    const char *level; /* the artifact's */
    dt_object *object;
    int *first_entries;       /* [n_functions]: where a function's kernels begin in `entries` */
    dt_kernel_entry *entries; /* kernels of all functions */
};

/* How good an object is for this machine: 0 for one that does not run here. "native" code of the same processor beats every level. */
static int worth(const dt_artifact_object *object, int machine_level, const char *machine_name) {
    if (strcmp(object->level, "native") == 0) return *machine_name != '\0' && strcmp(object->cpu, machine_name) == 0 ? INT32_MAX : 0;
    int level = dt_cpu_level_from_name(object->level);
    return level <= machine_level ? level : 0;
}

static dt_status *nothing_runs_here(const dt_artifact *artifact, const char *wanted, int machine_level, const char *machine_name) {
    dt_text levels = {0};
    for (int i = 0; i < artifact->n_objects; i++) dt_text_format(&levels, "%s%s", i == 0 ? "" : ", ", artifact->objects[i].level);
    dt_status *status =
        dt_error_in(DT_FAILED_PRECONDITION, artifact->path, 0, "%s%s%s on this machine (%s, %s): the artifact holds code for %s; compile it here",
                    wanted != NULL ? "no code for " : "none of its code runs", wanted != NULL ? wanted : "", wanted != NULL ? " that runs" : "",
                    machine_level != 0 ? dt_cpu_level_name(machine_level) : "not x86-64", machine_name, levels.n != 0 ? levels.data : "no processor");
    dt_text_free(&levels);
    return dt_artifact_suggest(status, artifact, "--cpu", "native");
}

/* How good the best one is; *object is that one. */
static int choose_best(const dt_artifact *artifact, const char *wanted, int machine_level, const char *machine_name,
                       const dt_artifact_object **object) {
    int best = 0;
    for (int i = 0; i < artifact->n_objects; i++) {
        const dt_artifact_object *candidate = &artifact->objects[i];
        if (wanted != NULL && strcmp(candidate->level, wanted) != 0) continue;
        int candidate_worth = worth(candidate, machine_level, machine_name);
        if (candidate_worth > best) best = candidate_worth, *object = candidate;
    }
    return best;
}

static dt_status *choose(const dt_artifact *artifact, const char *wanted, const dt_artifact_object **object) {
    char name[80];
    int level = dt_cpu_level();
    dt_cpu_name(name);
    return choose_best(artifact, wanted, level, name, object) > 0 ? NULL : nothing_runs_here(artifact, wanted, level, name);
}

int dt_kernels_best_level(const dt_artifact *artifact) {
    char name[80];
    const dt_artifact_object *object;
    return choose_best(artifact, NULL, dt_cpu_level(), dt_cpu_name(name), &object);
}

static dt_status *out_of_memory(const dt_artifact *artifact) {
    return dt_error_in(DT_RESOURCE_EXHAUSTED, artifact->path, 0, "not enough memory to load its code");
}

/* The kernel of each plan, by name. */
static dt_status *find_entries(dt_kernels *kernels) {
    const dt_artifact *artifact = kernels->artifact;
    size_t n = 0;
    kernels->first_entries = dt_allocate_zeroed((size_t)artifact->n_functions, sizeof *kernels->first_entries);
    if (kernels->first_entries == NULL) return out_of_memory(artifact);
    for (int i = 0; i < artifact->n_functions; i++) {
        kernels->first_entries[i] = (int)n;
        n += (size_t)artifact->functions[i].n_kernels;
    }
    kernels->entries = dt_allocate_zeroed(n, sizeof *kernels->entries);
    if (kernels->entries == NULL) return out_of_memory(artifact);
    for (int i = 0; i < artifact->n_functions; i++) {
        const dt_artifact_function *function = &artifact->functions[i];
        for (int k = 0; k < function->n_kernels; k++) {
            dt_kernel_entry entry = (dt_kernel_entry)dt_object_find(kernels->object, function->kernels[k].name);
            if (entry == NULL)
                return dt_error_in(DT_DATA_LOSS, artifact->path, 0, "the code for %s lacks the kernel %s of %s; compile it again", kernels->level,
                                   function->kernels[k].name, function->name);
            kernels->entries[kernels->first_entries[i] + k] = entry;
        }
    }
    return NULL;
}

static dt_status *load(dt_kernels *kernels, const dt_artifact_object *chosen, bool perf_map) {
    dt_text name = {0};
    dt_text_format(&name, "%s: %s", kernels->artifact->path, chosen->file);
    dt_status *status = dt_object_load(name.data != NULL ? name.data : chosen->file, chosen->bytes, chosen->n_bytes, &kernels->object);
    dt_text_free(&name);
    DT_TRY(status);
    DT_TRY(find_entries(kernels));
    return perf_map ? dt_object_write_perf_map(kernels->object) : NULL;
}

dt_status *dt_kernels_load(const dt_artifact *artifact, const dt_kernels_options *options, dt_kernels **kernels) {
    static const dt_kernels_options none = {0};
    const dt_artifact_object *chosen = NULL;
    if (options == NULL) options = &none;
    *kernels = NULL;
    DT_TRY(choose(artifact, options->level, &chosen));
    dt_kernels *loaded = dt_allocate_zeroed(1, sizeof *loaded);
    if (loaded == NULL) return out_of_memory(artifact);
    loaded->artifact = artifact;
    loaded->level = chosen->level;
    dt_status *status = load(loaded, chosen, options->perf_map);
    if (status == NULL)
        *kernels = loaded;
    else
        dt_kernels_free(loaded);
    return status;
}

void dt_kernels_free(dt_kernels *kernels) {
    if (kernels == NULL) return;
    dt_object_free(kernels->object);
    dt_release(kernels->first_entries);
    dt_release(kernels->entries);
    dt_release(kernels);
}

const dt_artifact *dt_kernels_artifact(const dt_kernels *kernels) { return kernels->artifact; }
const char *dt_kernels_level(const dt_kernels *kernels) { return kernels->level; }
dt_kernel_entry dt_kernels_entry(const dt_kernels *kernels, int function, int kernel) {
    return kernels->entries[kernels->first_entries[function] + kernel];
}
