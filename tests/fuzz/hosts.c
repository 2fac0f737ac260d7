/* The machines of a launch, from anywhere: the first byte says whether they are a list (--hosts) or a file (--hostfile), and of which launcher. Those
 * that are accepted are written for it such that they are read back. */
#include "runtime/commands/launch_hosts.h"
#include "tests/fuzz/scratch.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check_same(const dt_hosts *hosts, const char *path, dt_arena *arena) {
    dt_hosts again = {0};
    if (dt_hosts_read(path, arena, &again) != NULL || again.n != hosts->n) abort();
    for (size_t i = 0; i < hosts->n; i++)
        if (strcmp(hosts->items[i].name, again.items[i].name) != 0 || hosts->items[i].n_slots != again.items[i].n_slots) abort();
}

static dt_status *use(const uint8_t *bytes, size_t n, dt_arena *arena) {
    dt_mpirun mpirun = {.program = "mpirun", .is_hydra = bytes[0] / 2 % 2 != 0};
    dt_hosts hosts = {0};
    dt_words words = {0};
    const char *text = dt_arena_substring(arena, (const char *)bytes + 1, n - 1);
    mpirun.options = text;
    dt_mpirun_begin(&mpirun, 2, NULL, NULL, arena, &words);
    DT_TRY(bytes[0] % 2 == 0 ? dt_hosts_parse(text, arena, &hosts) : dt_hosts_read(scratch_write("hosts", bytes + 1, n - 1), arena, &hosts));
    if (hosts.n == 0 || dt_hosts_n_slots(&hosts) < 1) abort();
    DT_TRY(dt_hosts_write(&hosts, &mpirun, scratch_path("written")));
    check_same(&hosts, scratch_path("written"), arena);
    dt_text notes = {0};
    for (int i = 0; i < 3; i++) dt_hosts_leave_out(&hosts, hosts.items[hosts.n - 1].name, &notes);
    dt_text_free(&notes);
    if (dt_hosts_n_slots(&hosts) < 1) abort(); /* one always stays */
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    jmp_buf guard;
    if (n == 0) return 0;
    scratch_make();
    dt_arena *volatile arena = dt_arena_create();
    if (setjmp(guard) != 0) abort();
    dt_arena_guard(arena, &guard);
    dt_status_free(use(bytes, n, arena));
    dt_arena_destroy(arena);
    return 0;
}
