/* object_loader: objects of the system's compiler loaded and called, objects that ask for more refused, damaged ones refused without a crash;
 * and the choice among an artifact's objects. */
#include "runtime/artifact/object_loader.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "runtime/artifact/kernels.h"
#include "tests/support/artifact_fixture.h"
#include "tests/support/expect.h"

#include <elf.h>

/* Code in two sections that call each other, read-only data, a table in it. */
static const char text[] = "static const int primes[] = {2, 3, 5, 7, 11, 13, 17, 19};\n"
                           "static const double scale = 1.5;\n"
                           "__attribute__((section(\".text.other\"), noinline)) int prime(int i) { return primes[i & 7]; }\n"
                           "double scaled_prime(int i) { return prime(i) * scale; }\n"
                           "const char *word(int i) {\n"
                           "    switch (i) { case 0: return \"zero\"; case 1: return \"one\"; case 2: return \"two\"; case 3: return \"three\";\n"
                           "                 case 4: return \"four\"; case 5: return \"five\"; default: return \"many\"; }\n"
                           "}\n"
                           "static int hidden(void) { return 1; }\n"
                           "int (*unused(void))(void) { return hidden; }\n";

static void compiled_functions_run(void **state) {
    (void)state;
    char *bytes;
    size_t n_bytes;
    dt_object *object;
    fixture_compile_text(text, "-fno-jump-tables", &bytes, &n_bytes);
    assert_null(dt_object_load("good.o", bytes, n_bytes, &object));
    memset(bytes, 0xcc, n_bytes); /* nothing of the file is needed any more */
    free(bytes);
    double (*scaled_prime)(int) = (double (*)(int))dt_object_find(object, "scaled_prime");
    const char *(*word)(int) = (const char *(*)(int))dt_object_find(object, "word");
    assert_non_null(scaled_prime);
    assert_true(scaled_prime(4) == 16.5);
    assert_string_equal(word(3), "three");
    assert_string_equal(word(99), "many");
    assert_null(dt_object_find(object, "hidden"));
    assert_null(dt_object_find(object, "primes"));
    assert_null(dt_object_find(object, ""));
    dt_object_free(object);
}

static void an_object_is_never_writable_and_executable(void **state) {
    (void)state;
    char *bytes, line[512];
    size_t n_bytes;
    dt_object *object;
    fixture_compile_text(text, "", &bytes, &n_bytes);
    assert_null(dt_object_load("good.o", bytes, n_bytes, &object));
    free(bytes);
    uintptr_t code = (uintptr_t)dt_object_find(object, "prime");
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long start, end;
        char access[8];
        if (sscanf(line, "%lx-%lx %7s", &start, &end, access) != 3) continue;
        assert_true(strchr(access, 'w') == NULL || strchr(access, 'x') == NULL);
        if (code >= start && code < end) found = true, assert_string_equal(access, "r-xp");
    }
    fclose(maps);
    assert_true(found);
    dt_object_free(object);
}

static void what_kernels_never_need_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *flags, *sentence;
    } cases[] = {
        {"int f(void) { static int n; return ++n; }", "", "holds variables; compiled kernels have none"},
        {"int n = 3; int f(void) { return n; }", "", "holds variables"},
        {"extern int g(void); int f(void) { return g() + 1; }", "", "the object imports g; compiled kernels import nothing"},
        {"#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t); void f(char *a, char *b, size_t n) { memcpy(a, b, n); }", "",
         "the object imports memcpy"},
        {"static const int t[4] = {1, 2, 3, 4}; const int *f(long i) { return t + i; }", "-fno-pic -mcmodel=large", "relocation type 1 in .text"},
        {"int f(void) { return 1; }", "-m32", ""},
        {"const int t[] = {1};", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bytes;
        size_t n_bytes;
        dt_object *object;
        fixture_compile_text(cases[i].text, cases[i].flags, &bytes, &n_bytes);
        dt_status *status = dt_object_load("bad.o", bytes, n_bytes, &object);
        assert_null(object);
        assert_non_null(status);
        if (strstr(dt_status_message(status), cases[i].sentence) == NULL) fail_msg("%s", dt_status_message(status));
        dt_status_free(status);
        free(bytes);
    }
}

/* Each byte changed, in a copy of its own size. The code may then be nonsense, which nobody calls: loading must not go astray. */
static void a_damaged_object_is_loaded_or_refused_but_never_followed(void **state) {
    (void)state;
    char *bytes;
    size_t n_bytes, n_refused = 0;
    fixture_compile_text(text, "", &bytes, &n_bytes);
    static const unsigned char changes[] = {0x01, 0x80, 0xff};
    for (size_t at = 0; at < n_bytes; at++)
        for (size_t c = 0; c < sizeof changes; c++) {
            dt_object *object;
            bytes[at] ^= (char)changes[c];
            dt_status *status = dt_object_load("altered.o", bytes, n_bytes, &object);
            bytes[at] ^= (char)changes[c];
            if (object != NULL) dt_object_find(object, "word");
            n_refused += status != NULL;
            dt_status_free(status);
            dt_object_free(object);
        }
    assert_true(n_refused > 100);
    for (size_t n = 0; n < n_bytes; n += n < 64 ? 1 : 13) {
        dt_object *object;
        char *copy = malloc(n + 1);
        memcpy(copy, bytes, n);
        expect_error(dt_object_load("cut.o", copy, n, &object), DT_DATA_LOSS, "cut.o: the object is damaged");
        assert_null(object);
        free(copy);
    }
    free(bytes);
}

static void without_memory_nothing_is_loaded(void **state) {
    (void)state;
    char *bytes;
    size_t n_bytes;
    dt_object *object;
    fixture_compile_text(text, "", &bytes, &n_bytes);
    for (int n = 0;; n++) {
        dt_memory_fail_after(n);
        dt_status *status = dt_object_load("good.o", bytes, n_bytes, &object);
        dt_memory_fail_after(-1);
        if (status == NULL) break;
        assert_null(object);
        expect_error(status, DT_RESOURCE_EXHAUSTED, "");
        assert_true(n < 100);
    }
    dt_object_free(object);
    free(bytes);
}

static void a_perf_map_names_the_functions(void **state) {
    (void)state;
    char *bytes, *map, path[64];
    size_t n_bytes;
    dt_object *object;
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    fixture_compile_text(text, "", &bytes, &n_bytes);
    assert_null(dt_object_load("good.o", bytes, n_bytes, &object));
    free(bytes);
    assert_null(dt_object_write_perf_map(object));
    assert_null(dt_file_read(path, &map, &n_bytes));
    unlink(path);
    assert_non_null(strstr(map, " scaled_prime\n"));
    assert_null(strstr(map, "hidden"));
    free(map);
    dt_object_free(object);
}

/* ---- which object of an artifact ---- */

/* The artifact `line` whose one object claims to be for `level`; the kernels load or are refused. */
static dt_status *load_for(const char *level, const dt_kernels_options *options, char loaded[32]) {
    char *manifest, *object;
    size_t n_bytes;
    dt_artifact *artifact;
    dt_kernels *kernels;
    dt_text text = {0};
    fixture_line(&manifest, &object, &n_bytes);
    char *place = strstr(manifest, "\"level\": \"x86-64\"");
    dt_text_append_bytes(&text, manifest, (size_t)(place - manifest));
    dt_text_format(&text, "%s, \"file\": \"kernels.o\", \"sha256\": \"@\"}, {\"level\": \"x86-64-v9\"%s", level,
                   place + strlen("\"level\": \"x86-64\""));
    assert_null(dt_artifact_open(fixture_artifact("level.dtx", text.data, object, n_bytes), &artifact));
    dt_text_free(&text);
    free(manifest);
    free(object);
    dt_status *status = dt_kernels_load(artifact, options, &kernels);
    *loaded = '\0';
    if (status == NULL) snprintf(loaded, 32, "%s", dt_kernels_level(kernels));
    dt_kernels_free(kernels);
    dt_artifact_close(artifact);
    return status;
}

static void the_object_that_this_machine_runs_is_taken(void **state) {
    (void)state;
    char level[128], loaded[32], name[80];
    int machine = dt_cpu_level();
    if (machine == 0) {
        print_message("skipped: this machine is not x86-64\n");
        skip();
    }
    snprintf(level, sizeof level, "\"level\": \"%s\"", dt_cpu_level_name(machine));
    assert_null(load_for(level, NULL, loaded));
    assert_string_equal(loaded, dt_cpu_level_name(machine));
    assert_null(load_for(level, &(dt_kernels_options){.level = dt_cpu_level_name(machine)}, loaded));
    expect_error(load_for(level, &(dt_kernels_options){.level = "x86-64-v9"}, loaded), DT_FAILED_PRECONDITION,
                 "no code for x86-64-v9 that runs on this machine");
    expect_error(load_for("\"level\": \"x86-64-v8\"", NULL, loaded), DT_FAILED_PRECONDITION, "none of its code runs on this machine");
    snprintf(level, sizeof level, "\"level\": \"native\", \"cpu\": \"%s\"", dt_cpu_name(name));
    assert_null(load_for(level, NULL, loaded));
    assert_string_equal(loaded, "native");
    expect_error(load_for("\"level\": \"native\", \"cpu\": \"Z80\"", NULL, loaded), DT_FAILED_PRECONDITION, "dtc compile line.dt --cpu native -o ");
}

static void levels_have_names(void **state) {
    (void)state;
    for (int level = 1; level <= 4; level++) assert_int_equal(dt_cpu_level_from_name(dt_cpu_level_name(level)), level);
    assert_int_equal(dt_cpu_level_from_name("x86-64-v5"), 0);
    assert_int_equal(dt_cpu_level_from_name("native"), 0);
}

static int remove_folder(void **state) {
    (void)state;
    fixture_remove_folder();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled_functions_run),
        cmocka_unit_test(an_object_is_never_writable_and_executable),
        cmocka_unit_test(what_kernels_never_need_is_refused),
        cmocka_unit_test(a_damaged_object_is_loaded_or_refused_but_never_followed),
        cmocka_unit_test(without_memory_nothing_is_loaded),
        cmocka_unit_test(a_perf_map_names_the_functions),
        cmocka_unit_test(the_object_that_this_machine_runs_is_taken),
        cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
