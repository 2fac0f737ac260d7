/* base_shared_library: a library is found in each place where vendors' libraries lie, in the order of the places, and nowhere else. */
#include "base/shared_library.h"
#include "tests/unit/scratch_folder.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"libdt_sought.so.13", "libdt_sought.so.12", NULL};

/* A library that every machine with this test has, under the sought name. */
static void put(const char *folder, const char *name) {
    Dl_info self;
    char *bytes;
    size_t n_bytes;
    assert_int_not_equal(dladdr((void *)(uintptr_t)_assert_true, &self), 0);
    assert_ok(dt_file_read(self.dli_fname, &bytes, &n_bytes));
    assert_ok(dt_file_make_folders(scratch_path(folder)));
    char path[120];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(dt_file_write_atomic(scratch_path(path), bytes, n_bytes));
    free(bytes);
}

/* The path below the scratch folder of what is found, "" for nothing. */
static const char *found(void) {
    static char path[256];
    Dl_info what;
    void *library;
    assert_ok(dt_shared_library_open("DT_SOUGHT", names, &library));
    if (library == NULL) return "";
    assert_int_not_equal(dladdr(dlsym(library, "_assert_true"), &what), 0);
    assert_memory_equal(what.dli_fname, scratch, strlen(scratch));
    snprintf(path, sizeof path, "%s", what.dli_fname + strlen(scratch) + 1);
    dlclose(library);
    return path;
}

/* An environment in which nothing is found: the real one may hold anything. */
static void nowhere(void) {
    static const char *const variables[] = {"DT_SOUGHT", "CUDA_HOME", "CUDA_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
    setenv("HOME", scratch_path("nobody"), 1);
    setenv("PATH", scratch_path("nothing"), 1);
}

static void there_may_be_none(void **state) {
    (void)state;
    nowhere();
    assert_string_equal(found(), "");
}

static void a_variable_is_the_last_word(void **state) {
    (void)state;
    nowhere();
    put("given", "any_name.so");
    setenv("DT_SOUGHT", scratch_path("given/any_name.so"), 1);
    assert_string_equal(found(), "given/any_name.so");
    setenv("DT_SOUGHT", scratch_path("given/other.so"), 1);
    void *library;
    dt_status *status = dt_shared_library_open("DT_SOUGHT", names, &library);
    assert_non_null(status);
    assert_non_null(strstr(dt_status_message(status), "given/other.so cannot be loaded: "));
    dt_status_free(status);
}

static void each_place_before_the_next(void **state) {
    (void)state;
    nowhere();
    put("me/.local/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib", names[1]);
    setenv("HOME", scratch_path("me"), 1);
    assert_string_equal(found(), "me/.local/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libdt_sought.so.12");

    put("conda/lib/python3.12/site-packages/nvidia/cublas/lib", names[1]);
    setenv("CONDA_PREFIX", scratch_path("conda"), 1);
    assert_memory_equal(found(), "conda/", 6);

    put("venv/lib/python3.13/site-packages/nvidia/cu13/lib", names[0]);
    setenv("VIRTUAL_ENV", scratch_path("venv"), 1);
    assert_memory_equal(found(), "venv/", 5);

    put("packages/nvidia/cudnn/lib", names[0]);
    char list[600];
    snprintf(list, sizeof list, "%s::%s", scratch_path("none"), scratch_path("packages"));
    setenv("PYTHONPATH", list, 1);
    assert_memory_equal(found(), "packages/", 9);

    put("toolkit/lib64", names[1]);
    setenv("CUDA_PATH", scratch_path("toolkit"), 1);
    assert_string_equal(found(), "toolkit/lib64/libdt_sought.so.12");
    put("toolkit/lib64", names[0]);
    assert_string_equal(found(), "toolkit/lib64/libdt_sought.so.13");
}

/* python3 of PATH is a link to that of an environment, and this one a link to the system's, which has what the environment has not. */
static void beside_python(void **state) {
    (void)state;
    nowhere();
    assert_ok(dt_file_make_folders(scratch_path("local/bin")));
    assert_ok(dt_file_make_folders(scratch_path("environment/bin")));
    assert_ok(dt_file_make_folders(scratch_path("system/bin")));
    FILE *python = fopen(scratch_path("system/bin/python3.12"), "w");
    assert_non_null(python);
    fclose(python);
    assert_int_equal(chmod(scratch_path("system/bin/python3.12"), 0755), 0);
    assert_int_equal(symlink(scratch_path("environment/bin/python3"), scratch_path("local/bin/python3")), 0);
    assert_int_equal(symlink("../../system/bin/python3.12", scratch_path("environment/bin/python3")), 0);
    setenv("PATH", scratch_path("local/bin"), 1);
    assert_string_equal(found(), "");
    put("system/lib/python3/dist-packages/nvidia/cuda_nvrtc/lib", names[0]);
    assert_non_null(strstr(found(), "system/bin/../lib/python3/dist-packages/nvidia/cuda_nvrtc/lib/libdt_sought.so.13"));
    put("environment/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib", names[0]);
    assert_string_equal(found(), "environment/bin/../lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libdt_sought.so.13");
}

static void a_companion_in_the_same_folder(void **state) {
    (void)state;
    void *library;
    nowhere();
    put("together", names[0]);
    put("together", "libdt_companion.so");
    setenv("DT_SOUGHT", scratch_path("together/libdt_sought.so.13"), 1);
    assert_ok(dt_shared_library_open("DT_SOUGHT", names, &library));
    assert_null(dlopen(scratch_path("together/libdt_companion.so"), RTLD_NOW | RTLD_NOLOAD));
    dt_shared_library_load_beside(dlsym(library, "_assert_true"), "libdt_nobody.so");
    dt_shared_library_load_beside(dlsym(library, "_assert_true"), "libdt_companion.so");
    assert_non_null(dlopen(scratch_path("together/libdt_companion.so"), RTLD_NOW | RTLD_NOLOAD));
    dlclose(library);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_may_be_none), cmocka_unit_test(a_variable_is_the_last_word),    cmocka_unit_test(each_place_before_the_next),
        cmocka_unit_test(beside_python),     cmocka_unit_test(a_companion_in_the_same_folder),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
