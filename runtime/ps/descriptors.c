/* descriptors: see the header. */
#include "runtime/ps/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

enum {
    OF_ZEROMQ = 16,      /* of its context, a listening socket and what watches it */
    OF_SERVER = 8,       /* of a connection to one, and of the one before, which may still be closing */
    MOST_RESERVED = 128, /* for all else, */
    LEAST_RESERVED = 16,
    LEAST_CONNECTIONS = 4
};

/* All, where not even /proc can be opened any more; none, where it does not say. */
static int64_t count_open(void) {
    int64_t n = -3; /* the folder's own two names, and what reads it */
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) return errno == EMFILE ? INT64_MAX : 0;
    while (readdir(folder) != NULL) n++;
    closedir(folder);
    return n;
}

static int smaller(int64_t a, int b) { return a < b ? (int)a : b; }

dt_status *dt_ps_bound_connections(int n_servers, int *most_peers, int *most_strangers) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT32_MAX) return NULL;
    int64_t n_all = (int64_t)limit.rlim_cur, n_open = count_open(), n_needed = OF_ZEROMQ + (int64_t)n_servers * OF_SERVER;
    int64_t n_left = n_open < n_all ? n_all - n_open - n_needed : 0, least = LEAST_RESERVED + (most_peers != NULL ? LEAST_CONNECTIONS : 0);
    if (n_left < least)
        return dt_error(DT_RESOURCE_EXHAUSTED,
                        "parameter servers need %lld descriptors beside those that are open, for connections and files, and this process may have %lld "
                        "in all: raise the limit (ulimit -n)",
                        (long long)(n_needed + least), (long long)n_all);
    if (most_peers == NULL) return NULL;
    int64_t n_reserved = n_left / 2 < MOST_RESERVED ? n_left / 2 : MOST_RESERVED, n_connections = n_left - n_reserved;
    *most_peers = smaller(n_connections / 2, *most_peers);
    *most_strangers = smaller(n_connections / 2, *most_strangers);
    return NULL;
}
