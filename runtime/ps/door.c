/* door: see the header. */
#include "runtime/ps/door.h"

#include "base/memory.h"
#include "base/thread.h"
#include "runtime/ps/frames.h"
#include "runtime/threads/clock.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MONITORED = ZMQ_EVENT_LISTENING | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL,
    EVENT_BYTES = 6 /* which, and a number of 32 bits */
};

/* What the socket has said of a connection. */
typedef struct request {
    int descriptor;
    bool admits;
} request;

struct dt_ps_door {
    dt_ps_door_options options;
    void *monitor;
    int asked; /* an eventfd: there are requests, or the door closes */
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock; /* of what follows */
    bool closes;
    request *requests; /* [n_requests] */
    size_t n_requests, request_capacity;
    dt_ps_door_news news;

    /* The thread's own. */
    double *since; /* [n_known] by descriptor: when a stranger connected; 0: it is none */
    int n_known, n_strangers;
    request *taken; /* [n_taken] requests that are done next */
    size_t n_taken;
    struct sockaddr_storage here; /* where the listener listens */
    socklen_t here_bytes;
};

static void wake(int event) {
    const uint64_t one = 1;
    (void)!write(event, &one, sizeof one);
}

/* ---- strangers: the thread ---- */

static void forget(dt_ps_door *door, int descriptor) {
    if (descriptor < 0 || descriptor >= door->n_known || door->since[descriptor] == 0) return;
    door->since[descriptor] = 0;
    door->n_strangers--;
}

/* Whether the descriptor is still one of the listener's connections: it may have been closed, and given to something else. */
static bool is_of_listener(const dt_ps_door *door, int descriptor) {
    struct sockaddr_storage its = {0}; /* of a socket without a name nothing is filled in */
    socklen_t bytes = sizeof its;
    if (getsockname(descriptor, (struct sockaddr *)&its, &bytes) != 0 || its.ss_family != door->here.ss_family) return false;
    if (its.ss_family == AF_INET6) return ((struct sockaddr_in6 *)&its)->sin6_port == ((const struct sockaddr_in6 *)&door->here)->sin6_port;
    return its.ss_family == AF_INET && ((struct sockaddr_in *)&its)->sin_port == ((const struct sockaddr_in *)&door->here)->sin_port;
}

static void end_connection(dt_ps_door *door, int descriptor) {
    forget(door, descriptor);
    if (is_of_listener(door, descriptor)) shutdown(descriptor, SHUT_RDWR);
}

static int find_oldest(const dt_ps_door *door) {
    int oldest = -1;
    for (int d = 0; d < door->n_known; d++)
        if (door->since[d] != 0 && (oldest < 0 || door->since[d] < door->since[oldest])) oldest = d;
    return oldest;
}

static bool is_admitted(const request *requests, size_t n, int descriptor) {
    for (size_t i = 0; i < n; i++)
        if (requests[i].admits && requests[i].descriptor == descriptor) return true;
    return false;
}

/* Whether the socket knows by now who that is: what it has asked for may still wait. */
static bool is_known(dt_ps_door *door, int descriptor) {
    pthread_mutex_lock(&door->lock);
    bool is_waiting = is_admitted(door->requests, door->n_requests, descriptor);
    pthread_mutex_unlock(&door->lock);
    return is_waiting || is_admitted(door->taken, door->n_taken, descriptor);
}

static void count_crowded(dt_ps_door *door) {
    pthread_mutex_lock(&door->lock);
    door->news.n_crowded++;
    pthread_mutex_unlock(&door->lock);
    wake(door->options.wake);
}

/* One more; of too many the oldest is ended. Who has something to say has said it sooner. */
static void add_stranger(dt_ps_door *door, int descriptor) {
    if (descriptor < 0) return;
    if (descriptor >= door->n_known) {
        int n = 2 * descriptor + 64;
        double *grown = dt_reallocate(door->since, (size_t)n * sizeof *grown);
        if (grown == NULL) {
            end_connection(door, descriptor); /* nobody could end it later */
            return;
        }
        memset(grown + door->n_known, 0, (size_t)(n - door->n_known) * sizeof *grown);
        door->since = grown;
        door->n_known = n;
    }
    forget(door, descriptor);
    while (door->n_strangers > 0 && door->n_strangers >= door->options.most_strangers) {
        int oldest = find_oldest(door);
        if (is_known(door, oldest)) {
            forget(door, oldest);
            continue;
        }
        end_connection(door, oldest);
        count_crowded(door);
    }
    door->since[descriptor] = dt_seconds_now();
    door->n_strangers++;
}

/* Those who have been strangers for too long. Returns when to look again. */
static double end_late(dt_ps_door *door) {
    double now = dt_seconds_now(), next = INFINITY;
    for (int d = 0; d < door->n_known && door->n_strangers > 0; d++) {
        if (door->since[d] == 0) continue;
        if (now - door->since[d] >= door->options.seconds)
            end_connection(door, d);
        else
            next = fmin(next, door->since[d] + door->options.seconds);
    }
    return next;
}

/* ---- what the monitor says: the thread ---- */

static void note_failure(dt_ps_door *door, uint16_t event) {
    pthread_mutex_lock(&door->lock);
    door->news.n_failed++;
    door->news.failure = event;
    pthread_mutex_unlock(&door->lock);
    wake(door->options.wake);
}

static void note_gone(dt_ps_door *door) {
    pthread_mutex_lock(&door->lock);
    door->news.any_gone = true;
    pthread_mutex_unlock(&door->lock);
    wake(door->options.wake);
}

static void handle(dt_ps_door *door, uint16_t event, int number) {
    switch (event) {
    case ZMQ_EVENT_LISTENING:
        door->here_bytes = sizeof door->here;
        if (getsockname(number, (struct sockaddr *)&door->here, &door->here_bytes) != 0) door->here.ss_family = AF_UNSPEC;
        break;
    case ZMQ_EVENT_ACCEPTED: add_stranger(door, number); break;
    case ZMQ_EVENT_DISCONNECTED:
    case ZMQ_EVENT_CLOSED:
        forget(door, number);
        note_gone(door);
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL: note_failure(door, event); break;
    default: break;
    }
}

/* Until there is nothing more to read. */
static dt_status *read_monitor(dt_ps_door *door) {
    const dt_zeromq *zeromq = door->options.zeromq;
    for (;;) {
        dt_ps_frames frames;
        bool any;
        DT_TRY(dt_ps_frames_receive(zeromq, door->monitor, &frames, &any));
        if (!any) return NULL;
        uint16_t event;
        int32_t number;
        bool is_whole = zeromq->msg_size(&frames.items[0]) >= EVENT_BYTES;
        if (is_whole) {
            memcpy(&event, zeromq->msg_data(&frames.items[0]), sizeof event);
            memcpy(&number, (char *)zeromq->msg_data(&frames.items[0]) + sizeof event, sizeof number);
        }
        dt_ps_frames_close(zeromq, &frames);
        if (is_whole) handle(door, event, number);
    }
}

/* ---- the thread ---- */

/* What was asked for is done once the monitor has been read: it has told of a connection before the socket knew of it. *closes: the door does. */
static dt_status *do_requests(dt_ps_door *door, bool *closes) {
    uint64_t n_asked;
    (void)!read(door->asked, &n_asked, sizeof n_asked);
    pthread_mutex_lock(&door->lock);
    *closes = door->closes;
    door->taken = door->requests;
    door->n_taken = door->n_requests;
    door->requests = NULL;
    door->n_requests = door->request_capacity = 0;
    pthread_mutex_unlock(&door->lock);
    dt_status *status = read_monitor(door);
    for (size_t i = 0; i < door->n_taken; i++)
        if (door->taken[i].admits)
            forget(door, door->taken[i].descriptor);
        else
            add_stranger(door, door->taken[i].descriptor);
    dt_release(door->taken);
    door->taken = NULL;
    door->n_taken = 0;
    return status;
}

static void *run(void *argument) {
    dt_ps_door *door = argument;
    for (bool closes = false; !closes;) {
        dt_status *status = do_requests(door, &closes);
        if (status != NULL) break; /* of ZeroMQ, which is at its end */
        double left = end_late(door) - dt_seconds_now();
        zmq_pollitem_t items[] = {{.socket = door->monitor, .events = ZMQ_POLLIN}, {.fd = door->asked, .events = ZMQ_POLLIN}};
        if (!closes) door->options.zeromq->poll(items, 2, isfinite(left) ? (long)(fmax(left, 0) * 1000) + 1 : -1);
    }
    return NULL;
}

/* ---- opening and closing ---- */

static dt_status *watch(dt_ps_door *door) {
    static const char name[] = "inproc://door";
    const dt_zeromq *zeromq = door->options.zeromq;
    if (zeromq->socket_monitor(door->options.listener, name, MONITORED) == 0) {
        door->monitor = zeromq->socket(door->options.context, ZMQ_PAIR);
        if (door->monitor != NULL && zeromq->connect(door->monitor, name) == 0) return NULL;
    }
    return dt_error(errno == EMFILE ? DT_RESOURCE_EXHAUSTED : DT_IO, "cannot watch who connects: %s", zeromq->strerror(errno));
}

dt_status *dt_ps_door_open(const dt_ps_door_options *options, dt_ps_door **door) {
    *door = NULL;
    dt_ps_door *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->options = *options;
    pthread_mutex_init(&made->lock, NULL);
    made->asked = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    dt_status *status = made->asked >= 0 ? watch(made) : dt_error(DT_RESOURCE_EXHAUSTED, "no file for events: %s", strerror(errno));
    if (status == NULL) {
        int reason = pthread_create(&made->thread, NULL, run, made);
        made->has_thread = reason == 0;
        if (reason != 0) status = dt_thread_error(reason);
    }
    if (status != NULL)
        dt_ps_door_close(made);
    else
        *door = made;
    return status;
}

void dt_ps_door_close(dt_ps_door *door) {
    if (door == NULL) return;
    door->options.zeromq->socket_monitor(door->options.listener, NULL, 0); /* while somebody reads it: ZeroMQ may wait for that */
    if (door->has_thread) {
        pthread_mutex_lock(&door->lock);
        door->closes = true;
        pthread_mutex_unlock(&door->lock);
        wake(door->asked);
        pthread_join(door->thread, NULL);
    }
    if (door->monitor != NULL) door->options.zeromq->close(door->monitor);
    if (door->asked >= 0) close(door->asked);
    pthread_mutex_destroy(&door->lock);
    dt_release(door->requests);
    dt_release(door->since);
    dt_release(door);
}

/* ---- what the socket says and asks ---- */

static void ask(dt_ps_door *door, request asked) {
    if (door == NULL || asked.descriptor < 0) return;
    pthread_mutex_lock(&door->lock);
    if (door->n_requests == door->request_capacity) {
        size_t capacity = 2 * door->request_capacity + 16;
        request *grown = dt_reallocate(door->requests, capacity * sizeof *grown);
        if (grown != NULL) door->requests = grown, door->request_capacity = capacity;
    }
    if (door->n_requests < door->request_capacity) door->requests[door->n_requests++] = asked; /* else it is ended, and comes again */
    pthread_mutex_unlock(&door->lock);
    wake(door->asked);
}

void dt_ps_door_admit(dt_ps_door *door, int descriptor) { ask(door, (request){descriptor, true}); }
void dt_ps_door_dismiss(dt_ps_door *door, int descriptor) { ask(door, (request){descriptor, false}); }

void dt_ps_door_take_news(dt_ps_door *door, dt_ps_door_news *news) {
    pthread_mutex_lock(&door->lock);
    *news = door->news;
    door->news = (dt_ps_door_news){0};
    pthread_mutex_unlock(&door->lock);
}
