/* fake_cuda_graph: capture and graphs of the fake driver. What a stream captures are nodes, each behind the one before it in its stream and behind
 * the one that a wait names; a graph that runs takes any node whose predecessors are done. */
#include "tests/support/fake_cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct node {
    fake_operation operation;
    int behind[2]; /* nodes; -1: none */
} node;

/* Shared by a graph, what was instantiated from it, and what runs. */
typedef struct nodes {
    node *all;
    int n, capacity, n_users;
} nodes;

typedef struct fake_capture {
    fake_stream *origin;
    nodes *nodes;
    bool is_spoiled;
    int mode;
    pthread_t thread; /* that began it */
    struct fake_capture *next;
} capture;

typedef struct graph {
    fake_object object;
    nodes *nodes;
} graph;

typedef struct fake_graph_run {
    nodes *nodes;
    bool *done;
    fake_mark **marks; /* of its records, and those that its waits are for */
    void **works;      /* of what is shared with others */
    int n_done, number;
} fake_graph_run;

enum {      /* of capture: whom calls that it cannot take are forbidden to */
    GLOBAL, /* all threads */
    OF_THREAD,
    RELAXED /* nobody */
};

static capture *captures; /* those under way */

static void release(nodes *n) {
    if (n == NULL || --n->n_users > 0) return;
    for (int i = 0; i < n->n; i++) free(n->all[i].operation.taken);
    free(n->all);
    free(n);
}

/* ---- capture ---- */

static int add(fake_stream *stream, const fake_operation *operation, int other) {
    nodes *n = stream->capture->nodes;
    if (n->n == n->capacity) {
        n->capacity = 2 * n->capacity + 64;
        node *grown = fake_zeroed((size_t)n->capacity, sizeof *grown);
        if (n->n > 0) memcpy(grown, n->all, (size_t)n->n * sizeof *grown);
        free(n->all);
        n->all = grown;
    }
    n->all[n->n] = (node){.operation = *operation, .behind = {stream->captured, other}};
    return stream->captured = n->n++;
}

bool fake_capture_add(fake_stream *stream, const fake_operation *operation) {
    if (stream->capture == NULL) return false;
    add(stream, operation, -1);
    return true;
}

int fake_capture_record(fake_stream *stream) { return add(stream, &(fake_operation){.kind = FAKE_JOIN}, -1); }

int fake_capture_wait(fake_stream *stream, capture *of, int node) {
    capture *c = captures;
    while (c != NULL && c != of) c = c->next;
    if (c == NULL) return fake_misuse(FAKE_ERROR_CAPTURED_EVENT, "the event was recorded in a capture that has ended");
    if (stream->capture != NULL && stream->capture != of) return FAKE_ERROR_STREAM_CAPTURE_MERGE;
    if (stream->object.context != of->origin->object.context)
        return fake_misuse(FAKE_ERROR_NOT_SUPPORTED, "a capture over several GPUs is not known to the fake");
    if (stream->capture == NULL) stream->captured = -1;
    stream->capture = of;
    add(stream, &(fake_operation){.kind = FAKE_JOIN}, node);
    return 0;
}

void fake_capture_spoil(capture *c) { c->is_spoiled = true; }

bool fake_capture_forbids(void) {
    for (capture *c = captures; c != NULL; c = c->next) {
        if (c->mode == RELAXED || (c->mode == OF_THREAD && !pthread_equal(c->thread, pthread_self()))) continue;
        c->is_spoiled = true;
        fake_misuse(0, "a stream captures meanwhile");
        return true;
    }
    return false;
}

int cuStreamBeginCapture_v2(void *handle, int mode) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = error == 0 ? fake_object_here(FAKE_STREAM, handle) : NULL;
    if (error == 0 && (s == NULL || s->capture != NULL || mode < GLOBAL || mode > RELAXED)) error = FAKE_ERROR_INVALID_VALUE;
    if (error == 0) {
        capture *c = fake_zeroed(1, sizeof *c);
        *c = (capture){.origin = s, .nodes = fake_zeroed(1, sizeof *c->nodes), .mode = mode, .thread = pthread_self(), .next = captures};
        c->nodes->n_users = 1;
        captures = s->capture = c;
        s->captured = -1;
    }
    return fake_end(error, "stream %d", fake_number(handle));
}

/* Is every node of the capture one that the origin's last is behind? */
static bool is_joined(const capture *c) {
    bool *reached = fake_zeroed((size_t)c->nodes->n, sizeof *reached), all = true;
    if (c->origin->captured >= 0) reached[c->origin->captured] = true;
    for (int i = c->nodes->n - 1; i >= 0; i--)
        for (int k = 0; k < 2 && reached[i]; k++)
            if (c->nodes->all[i].behind[k] >= 0) reached[c->nodes->all[i].behind[k]] = true;
    for (int i = 0; i < c->nodes->n; i++) all &= reached[i];
    free(reached);
    return all;
}

static void end_capture(capture *c) {
    for (fake_object *o = fake_first(FAKE_STREAM); o != NULL; o = o->next) {
        fake_stream *s = (fake_stream *)o;
        if (s->capture == c) s->capture = NULL;
    }
    for (capture **at = &captures; *at != NULL; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
}

int cuStreamEndCapture(void *handle, void **result) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = fake_object_here(FAKE_STREAM, handle);
    capture *c = s != NULL ? s->capture : NULL;
    *result = NULL;
    if (error == 0 && (c == NULL || c->origin != s)) error = FAKE_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (error == 0 && c->mode != RELAXED && !pthread_equal(c->thread, pthread_self()))
        error = fake_misuse(FAKE_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture was begun by another thread");
    if (error == 0 && c->is_spoiled) error = FAKE_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (error == 0 && !is_joined(c)) error = fake_misuse(FAKE_ERROR_STREAM_CAPTURE_UNJOINED, "a stream that joined the capture was not waited for");
    graph *g = NULL;
    if (c != NULL && c->origin == s) {
        end_capture(c);
        if (error == 0) {
            *result = g = fake_new(FAKE_GRAPH, sizeof *g);
            g->nodes = c->nodes;
        } else {
            release(c->nodes);
        }
        free(c);
    }
    return fake_end(error, "stream %d, graph %d of %d nodes", fake_number(handle), fake_number(g), g != NULL ? g->nodes->n : 0);
}

/* ---- graphs ---- */

int cuGraphInstantiateWithFlags(void **handle, void *of, unsigned long long flags) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    graph *from = error == 0 ? fake_object_here(FAKE_GRAPH, of) : NULL, *g = NULL;
    if (error == 0 && (from == NULL || flags != 0)) error = FAKE_ERROR_INVALID_VALUE;
    if (error == 0) {
        *handle = g = fake_new(FAKE_EXEC, sizeof *g);
        g->nodes = from->nodes;
        g->nodes->n_users++;
    }
    return fake_end(error, "exec %d from graph %d", fake_number(g), fake_number(of));
}

static int destroy(fake_kind kind, void *handle) {
    graph *g = fake_object_of(kind, handle);
    if (g == NULL) return FAKE_ERROR_INVALID_VALUE;
    g->object.is_live = false;
    release(g->nodes);
    g->nodes = NULL;
    return 0;
}

int cuGraphDestroy(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_START), other = destroy(FAKE_GRAPH, handle);
    return fake_end(error != 0 ? error : other, "graph %d", fake_number(handle));
}

int cuGraphExecDestroy(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_START), other = destroy(FAKE_EXEC, handle);
    return fake_end(error != 0 ? error : other, "exec %d", fake_number(handle));
}

/* Its records and waits are those of the launch: a wait is for the event's last record by then. */
static int begin_run(fake_stream *s, const graph *g, fake_graph_run **result) {
    const nodes *n = g->nodes;
    for (int i = 0; i < n->n; i++)
        if (n->all[i].operation.event != NULL && fake_object_of(FAKE_EVENT, n->all[i].operation.event) == NULL) return FAKE_ERROR_INVALID_HANDLE;
    fake_graph_run *run = *result = fake_zeroed(1, sizeof *run);
    *run = (fake_graph_run){.nodes = g->nodes, .number = g->object.number};
    run->done = fake_zeroed((size_t)n->n, sizeof *run->done);
    run->marks = fake_zeroed((size_t)n->n, sizeof(fake_mark *));
    run->works = fake_zeroed((size_t)n->n, sizeof(void *));
    for (int i = 0; i < n->n; i++) {
        const fake_operation *o = &n->all[i].operation;
        if (o->kind == FAKE_RECORD) run->marks[i] = fake_event_record(o->event, s);
        if (o->kind == FAKE_WAIT) run->marks[i] = fake_event_awaited(o->event, s);
    }
    g->nodes->n_users++;
    return 0;
}

int cuGraphLaunch(void *handle, void *on) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    graph *g = error == 0 ? fake_object_here(FAKE_EXEC, handle) : NULL;
    fake_stream *s = g != NULL ? fake_object_here(FAKE_STREAM, on) : NULL;
    fake_graph_run *run = NULL;
    if (error == 0 && s == NULL) error = FAKE_ERROR_INVALID_HANDLE;
    if (error == 0 && s->capture != NULL) error = fake_misuse(FAKE_ERROR_NOT_SUPPORTED, "a graph within a graph is not known to the fake");
    if (error == 0) error = begin_run(s, g, &run);
    if (error == 0) error = fake_submit(s, &(fake_operation){.kind = FAKE_RUN_GRAPH, .graph = run});
    return fake_end(error, "exec %d on stream %d", fake_number(handle), fake_number(on));
}

static bool is_ready(const fake_graph_run *run, int i) {
    const node *n = &run->nodes->all[i];
    return !run->done[i] && (n->behind[0] < 0 || run->done[n->behind[0]]) && (n->behind[1] < 0 || run->done[n->behind[1]]);
}

/* What a node that is ready waits for yet; NULL: nothing. */
static fake_mark *awaited(const fake_graph_run *run, int i) {
    fake_mark *mark = run->nodes->all[i].operation.kind == FAKE_WAIT ? run->marks[i] : NULL;
    return mark != NULL && !mark->is_reached ? mark : NULL;
}

static bool can_run(const fake_graph_run *run, int i) {
    const fake_operation *operation = &run->nodes->all[i].operation;
    if (!is_ready(run, i) || operation->fault.hangs || awaited(run, i) != NULL) return false;
    return !fake_is_under_way(operation, &run->works[i]) || operation->shared->is_done(run->works[i]);
}

bool fake_graph_can_go_on(const fake_graph_run *run, fake_mark **missing) {
    *missing = NULL;
    for (int i = 0; i < run->nodes->n; i++) {
        if (can_run(run, i)) return true;
        if (*missing == NULL && is_ready(run, i)) *missing = awaited(run, i);
    }
    return run->n_done == run->nodes->n;
}

bool fake_graph_step(fake_graph_run *run, const fake_context *context) {
    char text[2 * FAKE_TEXT];
    int chosen = -1, n_ready = 0;
    if (run->n_done == run->nodes->n) return false;
    for (int i = 0; i < run->nodes->n; i++)
        if (can_run(run, i) && (chosen < 0 || (fake.seed != 0 && fake_random((unsigned)++n_ready + 1) == 0))) chosen = i;
    fake_operation *operation = &run->nodes->all[chosen].operation;
    operation->work = &run->works[chosen];
    if (operation->shared != NULL && run->works[chosen] == NULL) {
        fake_note("begins exec %d, node %d: %s", run->number, chosen, fake_operation_text(operation, text));
        fake_execute(context, operation);
        return true;
    }
    run->done[chosen] = true;
    bool goes_on = ++run->n_done < run->nodes->n;
    if (operation->kind == FAKE_RECORD) fake_mark_reach(run->marks[chosen]);
    if (operation->kind == FAKE_JOIN || operation->kind == FAKE_RECORD || operation->kind == FAKE_WAIT) return goes_on;
    fake_note("runs exec %d, node %d: %s", run->number, chosen, fake_operation_text(operation, text));
    fake_execute(context, operation); /* may drop all work, and this with it */
    return goes_on;
}

void fake_graph_end(fake_graph_run *run) {
    for (int i = 0; i < run->nodes->n; i++) fake_mark_release(run->marks[i]);
    release(run->nodes);
    free(run->marks);
    free(run->works);
    free(run->done);
    free(run);
}
