/* dtrun_compile: a .dt is compiled by the dtc beside this program, and what came out is kept.
 *
 * The name in the cache is a hash of all that the artifact depends on: the program, every .dt beside it (a `use` may name one), dtc itself, the
 * flags. So a change of any of them compiles again and nothing else does. */
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/commands/dtrun.h"
#include "runtime/devices/spec.h"
#include "runtime/dtrt/program.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <pwd.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool is_source(const char *name) {
    size_t n = strlen(name);
    return n > 3 && strcmp(name + n - 3, ".dt") == 0;
}

static char *format_path(const char *folder, const char *name) {
    dt_text text = {0};
    dt_text_format(&text, "%s/%s", folder, name);
    return dt_text_take(&text);
}

/* The dtc in the folder of this program, else the one of PATH. Debian's packages call it dt-dtc: a dtc beside that compiles device trees. */
static dt_status *find_compiler(char **compiler) {
    static const char *const names[] = {"dt-dtc", "dtc"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    const char *folder = dirname(self);
    for (size_t i = 0; n > 0 && i < sizeof names / sizeof *names; i++) {
        *compiler = format_path(folder, names[i]);
        if (*compiler == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
        if (access(*compiler, X_OK) == 0) return NULL;
        dt_release(*compiler);
    }
    dt_text name = {0};
    dt_text_append(&name, "dtc");
    *compiler = dt_text_take(&name);
    return *compiler != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
}

/* Of every .dt in the program's folder, whatever the order in which they are listed. */
static dt_status *hash_folder(const char *program, uint64_t *hash) {
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", program);
    const char *folder = dirname(copy);
    DIR *directory = opendir(folder);
    if (directory == NULL) return dt_error(DT_IO, "%s: cannot open: %s", folder, strerror(errno));
    dt_status *status = NULL;
    uint64_t sum = 0;
    for (struct dirent *entry; status == NULL && (entry = readdir(directory)) != NULL;) {
        if (!is_source(entry->d_name)) continue;
        uint64_t one = dt_hash_bytes(entry->d_name, strlen(entry->d_name), DT_HASH_SEED);
        char *path = format_path(folder, entry->d_name);
        status = path != NULL ? dt_file_hash(path, &one) : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
        sum += one;
        dt_release(path);
    }
    closedir(directory);
    *hash = dt_hash_bytes(&sum, sizeof sum, *hash);
    return status;
}

/* A compiler is known by its size and the time of its last change: hashing it would take longer than loading the artifact. */
static void hash_compiler(const char *compiler, uint64_t *hash) {
    struct stat about = {0};
    if (stat(compiler, &about) == 0) {
        *hash = dt_hash_bytes(&about.st_size, sizeof about.st_size, *hash);
        *hash = dt_hash_bytes(&about.st_mtim, sizeof about.st_mtim, *hash);
    }
}

/* $HOME, else what the list of users says; NULL: neither. */
static const char *home_folder(void) {
    const char *home = getenv("HOME");
    if (home != NULL && home[0] == '/') return home;
    const struct passwd *user = getpwuid(getuid());
    return user != NULL && user->pw_dir[0] == '/' ? user->pw_dir : NULL;
}

static dt_status *check_cache(const char *folder) {
    DT_TRY(dt_file_make_folders(folder));
    return access(folder, W_OK | X_OK) == 0 ? NULL : dt_error(DT_IO, "%s: cannot be written: %s", folder, strerror(errno));
}

/* The folder that compiled programs are kept in; *folder is NULL where there is none, which is said: only time is lost. */
static dt_status *find_cache(char **folder) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = home_folder();
    dt_text text = {0};
    dt_status *status = NULL;
    if (cache != NULL && cache[0] == '/')
        dt_text_format(&text, "%s/dtrun", cache);
    else if (home != NULL)
        dt_text_format(&text, "%s/.cache/dtrun", home);
    else
        status = dt_error(DT_NOT_FOUND, "neither XDG_CACHE_HOME nor HOME is set, and this user has no home folder");
    *folder = dt_text_take(&text);
    if (status == NULL && *folder == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (status == NULL) status = check_cache(*folder);
    if (status == NULL) return NULL;
    fprintf(stderr, "dtrun: note: the compiled program is not kept for the next time: %s\n", dt_status_message(status));
    dt_status_free(status);
    dt_release(*folder);
    *folder = NULL;
    return NULL;
}

/* A folder of this process's own. */
static dt_status *make_scratch(char **folder) {
    const char *parent = getenv("TMPDIR");
    *folder = format_path(parent != NULL && parent[0] != 0 ? parent : "/tmp", "dtrun-XXXXXX");
    if (*folder == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (mkdtemp(*folder) != NULL) return NULL;
    dt_status *status = dt_error(DT_IO, "%s: cannot create a folder to compile in: %s", *folder, strerror(errno));
    dt_release(*folder);
    *folder = NULL;
    return status;
}

/* Waits until it has ended. While it runs, this process gets on. */
static int wait_for(pid_t process, dt_progress *progress, int *result) {
    for (;;) {
        int ended = waitpid(process, result, progress != NULL ? WNOHANG : 0);
        if (ended > 0 || (ended < 0 && errno != EINTR)) return ended;
        dt_progress_count(progress);
        if (ended == 0) nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
    }
}

/* Runs it to its end; its diagnostics are its own. */
static dt_status *spawn(char *const *arguments, dt_progress *progress) {
    pid_t process;
    int result, code = posix_spawnp(&process, arguments[0], NULL, NULL, arguments, environ);
    if (code != 0)
        return dt_error(DT_NOT_FOUND, "cannot run %s, which compiles .dt programs: %s; compile with `dtc compile` and give the .dtx", arguments[0],
                        strerror(code));
    if (wait_for(process, progress, &result) < 0) return dt_error(DT_IO, "cannot wait for %s: %s", arguments[0], strerror(errno));
    if (WIFSIGNALED(result)) return dt_error(DT_ABORTED, "%s: was not compiled: signal %d ended dtc", arguments[2], WTERMSIG(result));
    if (WEXITSTATUS(result) == 0) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "%s: was not compiled", arguments[2]);
}

/* What depends on how the program is run: the most rows of a replica, and whether it is for a GPU; "" where nothing is asked for. */
typedef struct flags {
    char batch[32];
    const char *target;
} flags;

static dt_status *find_flags(const dtrun_call *call, flags *found) {
    int64_t replicas = call->run.replicas != 0 ? call->run.replicas : 1;
    dt_device_spec spec = {0};
    *found = (flags){.target = ""};
    if (call->run.global_batch != 0) snprintf(found->batch, sizeof found->batch, "%" PRId64, (call->run.global_batch - 1) / replicas + 1);
    if (call->run.devices != NULL) DT_TRY(dt_device_spec_parse(call->run.devices, &spec));
    if (spec.kind != NULL && spec.kind->is_gpu) found->target = spec.kind->name;
    return NULL;
}

/* dtc compile PROGRAM -o OUTPUT [--batch N] [--target cuda] [--precision TYPE] [-D …]... */
static dt_status *compile(const dtrun_call *call, const char *named, const char *compiler, const flags *flags, const char *output) {
    char **arguments = dt_allocate_zeroed(12 + 2 * (size_t)call->n_defines, sizeof *arguments);
    if (arguments == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    const char *fixed[] = {compiler, "compile", named, "-o", output};
    int n = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) arguments[n++] = (char *)(uintptr_t)fixed[i];
    if (flags->batch[0] != 0) {
        arguments[n++] = (char *)(uintptr_t) "--batch";
        arguments[n++] = (char *)(uintptr_t)flags->batch;
    }
    if (flags->target[0] != 0) {
        arguments[n++] = (char *)(uintptr_t) "--target";
        arguments[n++] = (char *)(uintptr_t)flags->target;
    }
    if (call->precision != NULL) {
        arguments[n++] = (char *)(uintptr_t) "--precision";
        arguments[n++] = (char *)(uintptr_t)call->precision;
    }
    for (int i = 0; i < call->n_defines; i++) {
        arguments[n++] = (char *)(uintptr_t) "-D";
        arguments[n++] = (char *)(uintptr_t)call->defines[i];
    }
    dt_status *status = spawn(arguments, dt_processes_progress(call->run.processes));
    dt_release(arguments);
    return status;
}

/* Into `folder`, unless it is there. */
static dt_status *compile_into(const dtrun_call *call, const char *named, const char *compiler, const char *folder, char **path) {
    flags flags;
    DT_TRY(find_flags(call, &flags));
    uint64_t hash = dt_hash_bytes(named, strlen(named), DT_HASH_SEED);
    DT_TRY(dt_file_hash(named, &hash));
    DT_TRY(hash_folder(named, &hash));
    hash_compiler(compiler, &hash);
    hash = dt_hash_bytes(flags.batch, strlen(flags.batch) + 1, hash);
    hash = dt_hash_bytes(flags.target, strlen(flags.target) + 1, hash);
    if (call->precision != NULL) hash = dt_hash_bytes(call->precision, strlen(call->precision) + 1, hash);
    for (int i = 0; i < call->n_defines; i++) hash = dt_hash_bytes(call->defines[i], strlen(call->defines[i]) + 1, hash);

    dt_text kept = {0}, fresh = {0};
    dt_text_format(&kept, "%s/%016" PRIx64 ".dtx", folder, hash);
    dt_text_format(&fresh, "%s/%016" PRIx64 ".%ld.dtx", folder, hash, (long)getpid());
    dt_status *status = kept.failed || fresh.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    if (status == NULL && !dt_file_exists(kept.data)) {
        status = compile(call, named, compiler, &flags, fresh.data);
        if (status == NULL && rename(fresh.data, kept.data) != 0) status = dt_error(DT_IO, "%s: cannot rename: %s", fresh.data, strerror(errno));
        if (status != NULL) unlink(fresh.data);
    }
    dt_text_free(&fresh);
    *path = status == NULL ? dt_text_take(&kept) : NULL;
    dt_text_free(&kept);
    return status;
}

/* A .dt becomes program->path, in the cache or in program->scratch. */
static dt_status *compile_program(const dtrun_call *call, const char *named, dtrun_program *program) {
    char *compiler = NULL, *cache = NULL;
    dt_status *status = find_compiler(&compiler);
    if (status == NULL) status = find_cache(&cache);
    if (status == NULL && cache == NULL) status = make_scratch(&program->scratch);
    if (status == NULL) status = compile_into(call, named, compiler, cache != NULL ? cache : program->scratch, &program->path);
    dt_release(cache);
    dt_release(compiler);
    return status;
}

static dt_status *take_compiled(const dtrun_call *call, const char *named, dtrun_program *program) {
    dt_text same = {0};
    if (call->n_defines > 0 || call->precision != NULL)
        return dt_error(DT_INVALID_ARGUMENT, "%s: is compiled already: %s is for a .dt", named, call->n_defines > 0 ? "-D" : "--precision");
    dt_text_append(&same, named);
    program->path = dt_text_take(&same);
    return program->path != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
}

dt_status *dtrun_open_program(const dtrun_call *call, const char *named, dtrun_program *program) {
    *program = (dtrun_program){0};
    dt_status *status = is_source(named) ? compile_program(call, named, program) : take_compiled(call, named, program);
    dtrt_open_options options = {.size = sizeof options, .level = call->level, .perf_map = call->perf_map};
    if (status == NULL) status = dtrt_open(program->path, &options, &program->program);
    if (status != NULL) dtrun_close_program(program);
    return status;
}

void dtrun_remove_scratch(dtrun_program *program) {
    if (program->scratch != NULL) dt_status_free(dt_file_remove_tree(program->scratch));
    dt_release(program->scratch);
    program->scratch = NULL;
}

void dtrun_close_program(dtrun_program *program) {
    dtrt_close(program->program);
    dtrun_remove_scratch(program);
    dt_release(program->path);
    *program = (dtrun_program){0};
}
