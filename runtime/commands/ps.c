/* ps: dtrun ps: one command line for all processes of a training with parameter servers. The launcher that people have starts it as often as it
 * likes; which server or worker a process is follows from its number: the first ones serve. What it does then is `dtrun ps-server` or `dtrun
 * ps-worker`. */
#include "runtime/comm/launcher_hosts.h"
#include "runtime/commands/dtrun.h"

#include <ctype.h>
#include <string.h>

enum {
    FIRST_PORT = 7077 /* of server 0, where nobody says another one */
};

typedef struct role {
    const dtrun_call *call;
    dt_arena *arena;
    dt_launcher launcher;
    int n_servers;
    const char **hosts; /* [n_servers] */
} role;

/* Splits "host0,host1". */
static void take_hosts(role *self, const char *list) {
    dtrun_words hosts = {0};
    char *rest = dt_arena_string(self->arena, list);
    for (char *host; (host = strsep(&rest, ",")) != NULL;) dt_list_push(self->arena, &hosts, host);
    self->hosts = hosts.items;
    self->n_servers = (int)hosts.n;
}

static dt_status *find_servers(role *self) {
    const dtrun_call *call = self->call;
    int n_processes = self->launcher.n_processes;
    bool is_one_machine = n_processes > 0 && self->launcher.n_processes_of_host == n_processes;
    if (call->servers != NULL) take_hosts(self, call->servers);
    if (call->servers == NULL) self->n_servers = call->n_servers;
    if (n_processes > 0 && self->n_servers >= n_processes)
        return dt_error(DT_INVALID_ARGUMENT, "--servers: %d of the %d processes that %s started would be servers, and no worker is left",
                        self->n_servers, n_processes, dt_launcher_name(&self->launcher));
    if (call->servers != NULL) return NULL;
    self->hosts = DT_NEW_ARRAY(self->arena, const char *, self->n_servers);
    for (int s = 0; s < self->n_servers && is_one_machine; s++) self->hosts[s] = "127.0.0.1";
    return is_one_machine ? NULL : dt_launcher_find_hosts(&self->launcher, self->n_servers, self->arena, self->hosts);
}

static bool is_this_machine(const char *host) { return strcmp(host, "127.0.0.1") == 0; }

static void add_server_options(const role *self, int first_port, dtrun_words *words) {
    int part = self->launcher.process, n_processes = self->launcher.n_processes;
    const char *interface = is_this_machine(self->hosts[part]) ? "127.0.0.1" : "*";
    dt_list_push(self->arena, words, dt_arena_format(self->arena, "--listen=tcp://%s:%d", interface, first_port + part));
    dt_list_push(self->arena, words, dt_arena_format(self->arena, "--part=%d/%d", part, self->n_servers));
    if (self->call->workers == 0 && n_processes > 0)
        dt_list_push(self->arena, words, dt_arena_format(self->arena, "--workers=%d", n_processes - self->n_servers));
}

static void make_words(const role *self, const char *program, dtrun_words *words) {
    dt_arena *arena = self->arena;
    bool serves = self->launcher.process < self->n_servers;
    int first_port = self->call->port > 0 ? self->call->port : FIRST_PORT;
    const char *servers = "";
    dt_list_push(arena, words, program);
    dt_list_push(arena, words, serves ? "ps-server" : "ps-worker");
    dtrun_list_given(self->call, serves ? DT_FOR_SERVER : DT_FOR_WORKER, arena, words);
    for (int s = 0; s < self->n_servers; s++)
        servers = dt_arena_format(arena, "%s%s%s:%d", servers, s > 0 ? "," : "", self->hosts[s], first_port + s);
    dt_list_push(arena, words, dt_arena_format(arena, "--servers=%s", servers));
    if (serves) add_server_options(self, first_port, words);
    dt_list_push(arena, words, self->call->program);
}

dt_status *dtrun_find_role(const dtrun_call *call, const char *program, dt_arena *arena, dtrun_words *words) {
    role self = {.call = call, .arena = arena};
    DT_TRY(dt_launcher_find_numbered(&self.launcher));
    if (self.launcher.kind == DT_LAUNCHER_NONE)
        return dt_error(
            DT_FAILED_PRECONDITION,
            "`dtrun ps` is started several times, by a launcher that numbers its processes: srun, mpirun, or Kubernetes with an index for each "
            "pod; on this machine alone: dtrun train --local-servers S --workers W");
    DT_TRY(find_servers(&self));
    make_words(&self, program, words);
    return NULL;
}
