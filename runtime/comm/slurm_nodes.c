/* slurm_nodes: see the header. */
#include "runtime/comm/slurm_nodes.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef DT_LIST(const char *) names;

enum {
    MOST_NODES = 65536 /* Slurm's own limit is lower */
};

int dt_slurm_tasks_of_node(const char *list, int node) {
    while (*list != 0) {
        char *rest;
        long tasks = strtol(list, &rest, 10), repeated = 1;
        if (rest == list || tasks < 1 || tasks > INT_MAX) return 0;
        if (strncmp(rest, "(x", 2) == 0) repeated = strtol(rest + 2, &rest, 10), rest += *rest == ')';
        if (node < repeated) return (int)tasks;
        node -= (int)repeated;
        if (*rest != ',') return 0;
        list = rest + 1;
    }
    return 0;
}

/* "1-3,07" after `prefix`, up to the bracket; returns what follows that, NULL: it is no such list. */
static const char *add_range(dt_arena *arena, const char *prefix, const char *at, names *all) {
    for (;;) {
        char *end;
        if (!isdigit((unsigned char)*at)) return NULL;
        long first = strtol(at, &end, 10), last = first;
        int width = (int)(end - at);
        if (*end == '-') last = isdigit((unsigned char)end[1]) ? strtol(end + 1, &end, 10) : -1;
        if (last < first || last - first >= MOST_NODES || width > 18) return NULL;
        for (long i = first; i <= last; i++) dt_list_push(arena, all, dt_arena_format(arena, "%s%0*ld", prefix, width, i));
        if (*end == ']') return end + 1;
        if (*end != ',') return NULL;
        at = end + 1;
    }
}

static bool expand(dt_arena *arena, const char *list, names *all) {
    while (*list != 0) {
        size_t n = strcspn(list, "[,");
        const char *name = dt_arena_format(arena, "%.*s", (int)n, list);
        list += n;
        if (*list == '[') {
            list = add_range(arena, name, list + 1, all);
            if (list == NULL) return false;
        } else {
            dt_list_push(arena, all, name);
        }
        if (*list == ',')
            list++;
        else if (*list != 0)
            return false;
    }
    return all->n > 0;
}

/* Node after node, or one process of each node in turn. */
static int place(const char *tasks, int n_nodes, bool in_turn, int n, const char *const *nodes, const char **hosts) {
    int placed = 0;
    for (int round = 0; in_turn && placed < n; round++) {
        int before = placed;
        for (int node = 0; node < n_nodes && placed < n; node++)
            if (dt_slurm_tasks_of_node(tasks, node) > round) hosts[placed++] = nodes[node];
        if (placed == before) return placed;
    }
    for (int node = 0; !in_turn && node < n_nodes; node++)
        for (int i = dt_slurm_tasks_of_node(tasks, node); i > 0 && placed < n; i--) hosts[placed++] = nodes[node];
    return placed;
}

dt_status *dt_slurm_hosts(const char *nodes, const char *tasks, const char *order, int n, dt_arena *arena, const char **hosts) {
    names all = {0};
    bool in_turn = order != NULL && strncmp(order, "cyclic", 6) == 0;
    if (order != NULL && !in_turn && strncmp(order, "block", 5) != 0)
        return dt_error(DT_INVALID_ARGUMENT,
                        "srun has distributed its processes in the order \"%s\", which says nothing of where they are; use block or cyclic", order);
    if (!expand(arena, nodes, &all)) return dt_error(DT_INVALID_ARGUMENT, "SLURM_STEP_NODELIST=%s is no list of nodes", nodes);
    if (place(tasks, (int)all.n, in_turn, n, all.items, hosts) == n) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "SLURM_STEP_TASKS_PER_NODE=%s has fewer than %d processes on the %zu nodes of %s", tasks, n, all.n, nodes);
}
