/* shared_library: see the header. */
#include "base/shared_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE,
    MOST_LINKS = 16
};

/* The value of a variable of the environment, NULL for an empty one. */
static const char *setting(const char *variable) {
    const char *value = getenv(variable);
    return value != NULL && *value != 0 ? value : NULL;
}

/* The first file that FOLDER/BELOW/NAME matches, for each name, and that loads. BELOW may hold what glob knows. */
static void *open_below(const char *folder, const char *below, const char *const *names) {
    void *library = NULL;
    for (; library == NULL && *names != NULL; names++) {
        char pattern[PATH_MAX];
        glob_t found;
        if ((size_t)snprintf(pattern, sizeof pattern, "%s/%s/%s", folder, below, *names) >= sizeof pattern) continue;
        if (glob(pattern, 0, NULL, &found) != 0) continue;
        for (size_t i = 0; library == NULL && i < found.gl_pathc; i++) library = dlopen(found.gl_pathv[i], FLAGS);
        globfree(&found);
    }
    return library;
}

static void *open_by_system(const char *const *names) {
    void *library = NULL;
    for (; library == NULL && *names != NULL; names++) library = dlopen(*names, FLAGS);
    return library;
}

static void *open_in_toolkits(const char *const *names) {
    const char *const folders[] = {setting("CUDA_HOME"), setting("CUDA_PATH"), "/usr/local/cuda"};
    void *library = NULL;
    for (size_t i = 0; library == NULL && i < sizeof folders / sizeof *folders; i++) {
        if (folders[i] == NULL) continue;
        library = open_below(folders[i], "lib64", names);
        if (library == NULL) library = open_below(folders[i], "lib", names);
    }
    return library;
}

/* In an installation of Python: PREFIX/lib/python3.N/site-packages. Debian calls the folder dist-packages. */
static void *open_in_prefix(const char *prefix, const char *const *names) {
    if (prefix == NULL) return NULL;
    void *library = open_below(prefix, "lib/python3*/site-packages/nvidia/*/lib", names);
    return library != NULL ? library : open_below(prefix, "lib/python3*/dist-packages/nvidia/*/lib", names);
}

/* Calls open_in(part, …) for each part of a list with colons between. */
static void *open_in_list(const char *list, void *(*open_in)(const char *part, const char *const *names), const char *const *names) {
    void *library = NULL;
    while (library == NULL && *list != 0) {
        char part[PATH_MAX];
        size_t n = strcspn(list, ":");
        if (n > 0 && n < sizeof part) {
            memcpy(part, list, n);
            part[n] = 0;
            library = open_in(part, names);
        }
        list += n + (list[n] == ':');
    }
    return library;
}

static void *open_in_packages(const char *packages, const char *const *names) { return open_below(packages, "nvidia/*/lib", names); }

/* Beside the python3 of a folder of PATH. It may be a link to that of an environment, which again is one to that of the system: each has packages. */
static void *open_beside_python(const char *folder, const char *const *names) {
    char python[PATH_MAX], target[PATH_MAX];
    void *library = NULL;
    if ((size_t)snprintf(python, sizeof python, "%s/python3", folder) >= sizeof python || access(python, X_OK) != 0) return NULL;
    for (int link = 0; library == NULL && link < MOST_LINKS; link++) {
        char *last = strrchr(python, '/'), prefix[PATH_MAX];
        if ((size_t)snprintf(prefix, sizeof prefix, "%.*s/..", (int)(last - python), python) < sizeof prefix) library = open_in_prefix(prefix, names);
        ssize_t n = readlink(python, target, sizeof target - 1);
        if (n <= 0) break;
        target[n] = 0;
        size_t room = sizeof python - (size_t)(last + 1 - python);
        if (target[0] != '/' && (size_t)n >= room) break;
        strcpy(target[0] == '/' ? python : last + 1, target);
    }
    return library;
}

static void *open_in_python(const char *const *names) {
    const char *home = setting("HOME"), *packages = setting("PYTHONPATH"), *path = setting("PATH");
    char local[PATH_MAX];
    void *library = packages != NULL ? open_in_list(packages, open_in_packages, names) : NULL;
    if (library == NULL) library = open_in_prefix(setting("VIRTUAL_ENV"), names);
    if (library == NULL) library = open_in_prefix(setting("CONDA_PREFIX"), names);
    if (library == NULL) library = open_in_list(path != NULL ? path : "/usr/local/bin:/usr/bin", open_beside_python, names);
    if (library == NULL && home != NULL && (size_t)snprintf(local, sizeof local, "%s/.local", home) < sizeof local)
        library = open_in_prefix(local, names);
    return library != NULL ? library : open_in_prefix("/usr/local", names);
}

dt_status *dt_shared_library_open(const char *variable, const char *const *names, void **library) {
    const char *given = setting(variable);
    if (given != NULL) {
        *library = dlopen(given, FLAGS);
        return *library != NULL ? NULL
                                : dt_error(DT_NOT_FOUND, "%s=%s cannot be loaded: %s; without %s it is looked for where it is usually installed",
                                           variable, given, dlerror(), variable);
    }
    *library = open_by_system(names);
    if (*library == NULL) *library = open_in_toolkits(names);
    if (*library == NULL) *library = open_in_python(names);
    return NULL;
}

void dt_shared_library_load_beside(const void *symbol, const char *name) {
    Dl_info self;
    char path[PATH_MAX];
    const char *last = dladdr(symbol, &self) != 0 && self.dli_fname != NULL ? strrchr(self.dli_fname, '/') : NULL;
    if (last != NULL && (size_t)snprintf(path, sizeof path, "%.*s/%s", (int)(last - self.dli_fname), self.dli_fname, name) < sizeof path)
        dlopen(path, FLAGS);
}
