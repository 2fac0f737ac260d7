/* dtc bench-kernel: runs dtc-bench-kernel, which lies beside dtc. It is a program of its own because it loads and calls what was compiled: that is
 * the runtime's work, and the compiler holds none of the runtime. */
#include "base/status.h"
#include "compiler/commands/command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int dt_command_bench_kernel(int argc, char **argv) {
    static const char program[] = "dtc-bench-kernel";
    (void)argc;
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof program);
    if (n > 0) {
        path[n] = 0;
        strcpy(strrchr(path, '/') + 1, program);
        execv(path, argv);
    }
    int reason = errno;
    execvp(program, argv);
    return dt_command_finish(
        dt_error(DT_NOT_FOUND, "cannot run %s, which is built with dtc and belongs into its folder: %s", program, strerror(reason)));
}
