/* run.jsonl from anywhere, of two runs: a line of ten dashes parts their files. What is read becomes a page in which nothing that the files say is
 * markup. */
#include "runtime/report/page.h"
#include "tests/fuzz/scratch.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) n++;
    return n;
}

static void check_page(const dt_run_record *runs, int n, dt_arena *arena) {
    dt_text page = {.arena = arena};
    dt_report_page(&page, runs, n, arena);
    if (count(page.data, "<script") != 1 || count(page.data, "</script") != 1) abort();
    if (count(page.data, "<img") != count(page.data, " src=\"data:image/png;base64,")) abort();
    for (size_t i = 0; i < page.n; i += dt_text_character_bytes(page.data + i))
        if (page.data[i] == 0 || dt_text_character_bytes(page.data + i) == 0) abort(); /* no UTF-8 */
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char dashes[] = "----------\n";
    const uint8_t *cut = n > 0 ? memmem(bytes, n, dashes, sizeof dashes - 1) : NULL, *end = bytes + n;
    const uint8_t *first_end = cut != NULL ? cut : end, *second = cut != NULL ? cut + sizeof dashes - 1 : end;
    dt_run_record runs[2];
    jmp_buf guard;
    int n_runs = 0;
    scratch_make();
    dt_status_free(dt_file_make_folders(scratch_path("a")));
    dt_status_free(dt_file_make_folders(scratch_path("b")));
    scratch_write("a/run.jsonl", bytes, (size_t)(first_end - bytes));
    scratch_write("b/run.jsonl", second, (size_t)(end - second));
    dt_arena *arena = dt_arena_create();
    const char *folders[] = {scratch_path("a"), scratch_path("b")};
    for (int i = 0; i < 2; i++) {
        dt_status *status = dt_run_record_read(folders[i], arena, &runs[n_runs]);
        n_runs += status == NULL;
        dt_status_free(status);
    }
    if (setjmp(guard) != 0) abort();
    dt_arena_guard(arena, &guard);
    if (n_runs > 0) check_page(runs, n_runs, arena);
    dt_arena_destroy(arena);
    return 0;
}
