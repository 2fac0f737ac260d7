/* connection: see the header. */
#include "runtime/ps/connection.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

dt_ps_introduction dt_ps_of_hello(const dt_ps_hello *hello) {
    return (dt_ps_introduction){hello->role, hello->part, hello->artifact, hello->settings, hello->name};
}

dt_ps_introduction dt_ps_of_welcome(const dt_ps_welcome *welcome) {
    return (dt_ps_introduction){welcome->role, welcome->part, welcome->artifact, welcome->settings, welcome->name};
}

void dt_ps_print_name(const dt_ps_introduction *introduction, const char *address, char *name, size_t bytes) {
    int n = introduction->role == DT_PS_WORKER ? snprintf(name, bytes, "worker %s", introduction->name)
                                               : snprintf(name, bytes, "server %" PRIu32 ", %s", introduction->part, introduction->name);
    if (address != NULL && (size_t)n < bytes) snprintf(name + n, bytes - (size_t)n, " (%s)", address);
}

/* ---- the order of messages ---- */

dt_status *dt_ps_check_head(dt_ps_connection *connection, const dt_ps_head *head) {
    uint64_t expected = connection->n_received;
    if (head->session != connection->session) return dt_error(DT_DATA_LOSS, "a message of another connection, sent again");
    if (head->version != connection->version)
        return dt_error(DT_DATA_LOSS, "a message in version %d of the protocol, where %d was agreed on", head->version, connection->version);
    if (head->sequence != expected)
        return dt_error(DT_DATA_LOSS, "message %" PRIu64 " of the connection, where %" PRIu64 " is the next: one is %s", head->sequence, expected,
                        head->sequence < expected ? "sent again" : "missing");
    connection->n_received++;
    return NULL;
}

dt_ps_head dt_ps_next_head(dt_ps_connection *connection) {
    return (dt_ps_head){.version = connection->version, .session = connection->session, .sequence = connection->n_sent++};
}

/* ---- what has to be the same ---- */

static const char *name_of(const dt_ps_hello *hello, char name[DT_PS_NAME_BYTES]) {
    dt_ps_introduction introduction = dt_ps_of_hello(hello);
    dt_ps_print_name(&introduction, NULL, name, DT_PS_NAME_BYTES);
    return name;
}

dt_status *dt_ps_agree_on_version(const dt_ps_hello *ours, const dt_ps_hello *theirs, uint16_t *version) {
    uint16_t lowest = ours->lowest_version > theirs->lowest_version ? ours->lowest_version : theirs->lowest_version;
    uint16_t highest = ours->highest_version < theirs->highest_version ? ours->highest_version : theirs->highest_version;
    char name[DT_PS_NAME_BYTES];
    *version = highest;
    if (lowest <= highest) return NULL;
    return dt_error(DT_FAILED_PRECONDITION, "it speaks versions %d to %d of the protocol, and %s %d to %d: start the same dtrun everywhere",
                    theirs->lowest_version, theirs->highest_version, name_of(ours, name), ours->lowest_version, ours->highest_version);
}

/* Whether one of the lines of `lines` is `line`, of n bytes. */
static bool has_line(const char *lines, const char *line, size_t n) {
    while (*lines != 0) {
        size_t length = strcspn(lines, "\n");
        if (length == n && memcmp(lines, line, n) == 0) return true;
        lines += length + (lines[length] != 0);
    }
    return false;
}

/* The lines of `all`, which are settings, that are not among those of `others`, beside one another. */
static void print_others(const char *all, const char *others, char text[sizeof((dt_ps_hello *)NULL)->settings]) {
    size_t n = 0;
    for (size_t length; *all != 0; all += length + (all[length] != 0)) {
        length = strcspn(all, "\n");
        if (length == 0 || has_line(others, all, length)) continue;
        if (n > 0) text[n++] = ' ';
        memcpy(text + n, all, length);
        n += length;
    }
    text[n] = 0;
    dt_text_make_printable(text);
}

static void print_sum(const uint8_t sum[32], char text[17]) {
    for (int i = 0; i < 8; i++) snprintf(text + 2 * i, 3, "%02x", sum[i]);
}

dt_status *dt_ps_compare(const dt_ps_hello *ours, const dt_ps_introduction *theirs, dt_ps_refused *why) {
    char here[sizeof ours->settings], there[sizeof ours->settings], name[DT_PS_NAME_BYTES];
    *why = DT_PS_REFUSED_ARTIFACT;
    if (memcmp(ours->artifact, theirs->artifact, sizeof ours->artifact) != 0) {
        print_sum(ours->artifact, here);
        print_sum(theirs->artifact, there);
        return dt_error(DT_FAILED_PRECONDITION, "its artifact has the SHA-256 %s…, that of %s %s…: start all with the same file", there,
                        name_of(ours, name), here);
    }
    *why = DT_PS_REFUSED_SETTINGS;
    if (ours->settings[0] != 0 && theirs->settings[0] != 0 && strcmp(ours->settings, theirs->settings) != 0) {
        print_others(theirs->settings, ours->settings, there);
        print_others(ours->settings, theirs->settings, here);
        return dt_error(DT_FAILED_PRECONDITION, "its settings are others: \"%s\" where %s has \"%s\": start all servers alike", there,
                        name_of(ours, name), here);
    }
    return NULL;
}
