/* switches: see the header. */
#include "compiler/kernel/switches.h"

#include <string.h>

static const char *const names[DT_N_SWITCHES] = {
#define X(enumerator, name, what) name,
    DT_SWITCHES(X)
#undef X
};

static dt_status *parse_one(const char *word, size_t n, dt_switches *off) {
    static const char no[] = "no-";
    bool is_off = n > strlen(no) && strncmp(word, no, strlen(no)) == 0;
    const char *name = is_off ? word + strlen(no) : word;
    size_t length = n - (size_t)(name - word);
    for (int i = 0; i < DT_N_SWITCHES; i++) {
        if (strlen(names[i]) != length || strncmp(names[i], name, length) != 0) continue;
        *off = is_off ? *off | 1u << i : *off & ~(1u << i);
        return NULL;
    }
    char wrong[32] = {0};
    memcpy(wrong, name, length < sizeof wrong ? length : sizeof wrong - 1);
    const char *nearest = dt_text_nearest(wrong, names, DT_N_SWITCHES);
    return dt_error(DT_INVALID_ARGUMENT, "there is nothing to switch called \"%s\"%s%s%s", wrong, nearest ? "; did you mean \"no-" : "",
                    nearest ? nearest : "", nearest ? "\"?" : "");
}

dt_status *dt_switches_parse(const char *list, dt_switches *off) {
    for (;;) {
        size_t n = strcspn(list, ",");
        DT_TRY(parse_one(list, n, off));
        if (list[n] == 0) return NULL;
        list += n + 1;
    }
}

void dt_switches_print(dt_text *text, dt_switches off) {
    const char *comma = "";
    for (int i = 0; i < DT_N_SWITCHES; i++) {
        if (dt_switch_is_on(off, (dt_switch)i)) continue;
        dt_text_format(text, "%sno-%s", comma, names[i]);
        comma = ",";
    }
}
