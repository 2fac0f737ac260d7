/* thread_processes: the processes of a run, all in this one, over thread_transport. */
#ifndef DT_TESTS_SUPPORT_THREAD_PROCESSES_H
#define DT_TESTS_SUPPORT_THREAD_PROCESSES_H

#include "runtime/comm/processes.h"
#include "tests/support/thread_transport.h"

enum {
    MOST_THREAD_PROCESSES = 16
};

typedef struct thread_processes {
    thread_network *network;
    int n;
    thread_network_end ends[MOST_THREAD_PROCESSES];
    double deadline;
    dt_processes *all[MOST_THREAD_PROCESSES];
    dt_status *statuses[MOST_THREAD_PROCESSES]; /* of opening */
} thread_processes;

typedef struct thread_process {
    thread_processes *run;
    int process;
} thread_process;

static inline void *open_thread_process(void *argument) {
    const thread_process *self = argument;
    dt_processes_options options = {
        .open = thread_transport_open, .context = &self->run->ends[self->process], .deadline_seconds = self->run->deadline};
    self->run->statuses[self->process] = dt_processes_open(&options, &self->run->all[self->process]);
    return NULL;
}

static inline void thread_processes_prepare(thread_processes *run, dt_process_roles roles, double deadline) {
    int n = roles.n_processes;
    *run = (thread_processes){.network = thread_network_create(n), .n = n, .deadline = deadline};
    run->network->n_servers = roles.n_servers;
    for (int p = 0; p < n; p++) run->ends[p] = (thread_network_end){run->network, p};
}

static inline void thread_processes_find_one_another(thread_processes *run) {
    thread_process processes[MOST_THREAD_PROCESSES];
    pthread_t threads[MOST_THREAD_PROCESSES];
    for (int p = 0; p < run->n; p++) {
        processes[p] = (thread_process){run, p};
        pthread_create(&threads[p], NULL, open_thread_process, &processes[p]);
    }
    for (int p = 0; p < run->n; p++) pthread_join(threads[p], NULL);
}

static inline void thread_processes_open_roles(thread_processes *run, dt_process_roles roles, double deadline) {
    thread_processes_prepare(run, roles, deadline);
    thread_processes_find_one_another(run);
}

static inline void thread_processes_open(thread_processes *run, int n, double deadline) {
    thread_processes_open_roles(run, (dt_process_roles){.n_processes = n}, deadline);
}

static inline void thread_processes_close(thread_processes *run) {
    for (int p = 0; p < run->n; p++) dt_processes_close(run->all[p], 1);
    thread_network_free(run->network);
}

#endif
