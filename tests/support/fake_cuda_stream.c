/* fake_cuda_stream: streams and events of the fake driver. A stream is a queue; nothing in it runs before something waits for it, or a seed says so,
 * and then whatever no wait forbids may be first. */
#include "tests/support/fake_cuda.h"

#include <stdlib.h>
#include <time.h>

typedef struct event {
    fake_object object;
    bool has_time;
    fake_mark *mark;              /* of the last record; NULL: there was none */
    struct fake_capture *capture; /* the last record was captured, as this node */
    int node;
} event;

enum {
    NO_TIMING = 2,
    NON_BLOCKING = 1
};

/* ---- marks ---- */

void fake_mark_release(fake_mark *mark) {
    if (mark != NULL && --mark->n_users == 0) free(mark);
}

static fake_mark *use(fake_mark *mark) {
    mark->n_users++;
    return mark;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- whose turn it is ---- */

static void remove_first(fake_stream *stream) {
    fake_operation *o = stream->first;
    stream->first = o->next;
    if (stream->first == NULL) stream->last = NULL;
    if (o->graph != NULL) fake_graph_end(o->graph);
    fake_mark_release(o->mark);
    free(o->taken);
    free(o);
}

static bool is_blocked(const fake_stream *stream) { return stream->first->kind == FAKE_WAIT && !stream->first->mark->is_reached; }

/* Runs the first thing of a stream that is not blocked, or one node of it, if it is a graph. */
static void run_first(fake_stream *stream) {
    fake_operation *o = stream->first;
    char text[2 * FAKE_TEXT];
    if (o->kind == FAKE_RUN_GRAPH) {
        if (fake_graph_step(o->graph)) return;
        if (stream->first == NULL) return; /* it went wrong, and all was dropped */
    } else if (o->kind == FAKE_RECORD) {
        o->mark->is_reached = true;
        o->mark->seconds = now();
    } else if (o->kind != FAKE_WAIT) {
        fake_note("runs %d on stream %d: %s", o->call, stream->object.number, fake_operation_text(o, text));
        fake_execute(o);
        if (stream->first == NULL) return;
    }
    remove_first(stream);
}

/* One of the streams that can go on; NULL: all are empty. A wait is for what was submitted before it, so something always can. */
static fake_stream *any_stream(void) {
    fake_stream *chosen = NULL;
    unsigned n = 0;
    for (fake_object *o = fake_first(FAKE_STREAM); o != NULL; o = o->next) {
        fake_stream *s = (fake_stream *)o;
        if (s->first != NULL && !is_blocked(s) && fake_random(++n) == 0) chosen = s;
    }
    return chosen;
}

/* The stream that must go on for `stream` to: itself, or whom it waits for. */
static fake_stream *needed(fake_stream *stream) {
    while (is_blocked(stream)) stream = stream->first->mark->stream;
    return stream;
}

static void go_on(fake_stream *stream) { run_first(fake.seed == 0 ? needed(stream) : any_stream()); }

void fake_reach(fake_mark *mark) {
    fake_open_memory();
    while (!mark->is_reached && !fake_is_lost()) go_on(mark->stream);
    fake_close_memory();
}

void fake_finish_stream(fake_stream *stream) {
    if (stream != NULL ? stream->first == NULL : any_stream() == NULL) return;
    fake_open_memory();
    if (stream != NULL) {
        while (stream->first != NULL) go_on(stream);
    } else {
        for (fake_stream *s = any_stream(); s != NULL; s = any_stream()) run_first(s);
    }
    fake_close_memory();
}

void fake_wander(void) {
    if (fake.seed == 0 || fake_random(3) != 0 || any_stream() == NULL) return;
    fake_open_memory();
    for (unsigned n = fake_random(6); n > 0; n--) {
        fake_stream *s = any_stream();
        if (s != NULL) run_first(s);
    }
    fake_close_memory();
}

void fake_drop_all_work(void) {
    for (fake_object *o = fake_first(FAKE_STREAM); o != NULL; o = o->next) {
        fake_stream *s = (fake_stream *)o;
        while (s->first != NULL) remove_first(s);
    }
}

int fake_submit(fake_stream *stream, const fake_operation *operation) {
    if (fake_capture_add(stream, operation)) return 0;
    fake_operation *o = fake_zeroed(1, sizeof *o);
    *o = *operation;
    if (stream->last != NULL)
        stream->last->next = o;
    else
        stream->first = o;
    stream->last = o;
    return 0;
}

/* ---- streams ---- */

int cuStreamCreate(void **handle, unsigned flags) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = NULL;
    if (error == 0 && flags > NON_BLOCKING) error = FAKE_ERROR_INVALID_VALUE;
    if (error == 0) {
        s = fake_new(FAKE_STREAM, sizeof *s);
        s->captured = -1;
        *handle = s;
    }
    return fake_end(error, "stream %d", fake_number(s));
}

int cuStreamDestroy_v2(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = fake_object_of(FAKE_STREAM, handle);
    if (s == NULL) return fake_end(FAKE_ERROR_INVALID_HANDLE, "stream %d", fake_number(handle));
    if (s->capture != NULL) fake_capture_spoil(s->capture);
    s->capture = NULL;
    if (!fake_is_lost()) fake_finish_stream(s);
    s->object.is_live = false;
    return fake_end(error, "stream %d", s->object.number);
}

int cuStreamSynchronize(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = error == 0 ? fake_object_of(FAKE_STREAM, handle) : NULL;
    if (error == 0 && s == NULL) error = FAKE_ERROR_INVALID_HANDLE;
    if (error == 0 && s->capture != NULL) {
        fake_capture_spoil(s->capture);
        error = fake_misuse(FAKE_ERROR_STREAM_CAPTURE_UNSUPPORTED, "stream %d is capturing", s->object.number);
    }
    if (error == 0) {
        fake_finish_stream(s);
        error = fake_lost_error();
    }
    return fake_end(error, "stream %d", fake_number(handle));
}

/* ---- events ---- */

int cuEventCreate(void **handle, unsigned flags) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    event *e = NULL;
    if (error == 0 && flags > 3) error = FAKE_ERROR_INVALID_VALUE;
    if (error == 0) {
        e = fake_new(FAKE_EVENT, sizeof *e);
        e->has_time = !(flags & NO_TIMING);
        *handle = e;
    }
    return fake_end(error, "event %d", fake_number(e));
}

int cuEventDestroy_v2(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    event *e = fake_object_of(FAKE_EVENT, handle);
    if (e == NULL) return fake_end(FAKE_ERROR_INVALID_HANDLE, "event %d", fake_number(handle));
    e->object.is_live = false;
    fake_mark_release(e->mark);
    e->mark = NULL;
    return fake_end(error, "event %d", e->object.number);
}

int cuEventRecord(void *handle, void *on) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    event *e = error == 0 ? fake_object_of(FAKE_EVENT, handle) : NULL;
    fake_stream *s = e != NULL ? fake_object_of(FAKE_STREAM, on) : NULL;
    if (error == 0 && s == NULL) error = FAKE_ERROR_INVALID_HANDLE;
    if (error == 0) {
        fake_mark_release(e->mark);
        e->mark = NULL;
        e->capture = s->capture;
        if (s->capture != NULL) {
            e->node = fake_capture_record(s);
        } else {
            e->mark = fake_zeroed(1, sizeof *e->mark);
            *e->mark = (fake_mark){.stream = s, .n_users = 1};
            error = fake_submit(s, &(fake_operation){.kind = FAKE_RECORD, .mark = use(e->mark)});
        }
    }
    return fake_end(error, "event %d on stream %d", fake_number(handle), fake_number(on));
}

int cuStreamWaitEvent(void *handle, void *of, unsigned flags) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = error == 0 ? fake_object_of(FAKE_STREAM, handle) : NULL;
    event *e = s != NULL ? fake_object_of(FAKE_EVENT, of) : NULL;
    if (error == 0 && e == NULL) error = FAKE_ERROR_INVALID_HANDLE;
    if (error == 0 && flags != 0) error = FAKE_ERROR_INVALID_VALUE;
    if (error == 0 && e->capture != NULL)
        error = fake_capture_wait(s, e->capture, e->node);
    else if (error == 0 && s->capture != NULL && e->mark != NULL) {
        fake_capture_spoil(s->capture);
        error = fake_misuse(FAKE_ERROR_STREAM_CAPTURE_UNSUPPORTED, "stream %d is capturing, and event %d was recorded outside", fake_number(s),
                            fake_number(e));
    } else if (error == 0 && e->mark != NULL && !fake.ignores_waits)
        error = fake_submit(s, &(fake_operation){.kind = FAKE_WAIT, .mark = use(e->mark)});
    return fake_end(error, "stream %d for event %d", fake_number(handle), fake_number(of));
}

int cuEventSynchronize(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    event *e = error == 0 ? fake_object_of(FAKE_EVENT, handle) : NULL;
    if (error == 0 && e == NULL) error = FAKE_ERROR_INVALID_HANDLE;
    if (error == 0 && e->capture != NULL) error = fake_misuse(FAKE_ERROR_CAPTURED_EVENT, "event %d was recorded in a capture", fake_number(e));
    if (error == 0 && e->mark != NULL) {
        fake_mark *mark = use(e->mark);
        fake_reach(mark);
        fake_mark_release(mark);
        error = fake_lost_error();
    }
    return fake_end(error, "event %d", fake_number(handle));
}

int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    event *a = error == 0 ? fake_object_of(FAKE_EVENT, from) : NULL, *b = a != NULL ? fake_object_of(FAKE_EVENT, to) : NULL;
    if (error == 0 && (b == NULL || !a->has_time || !b->has_time || a->mark == NULL || b->mark == NULL)) error = FAKE_ERROR_INVALID_HANDLE;
    if (error == 0 && !(a->mark->is_reached && b->mark->is_reached)) error = FAKE_ERROR_NOT_READY;
    if (error == 0) *milliseconds = (float)(1e3 * (b->mark->seconds - a->mark->seconds));
    return fake_end(error, "event %d to event %d", fake_number(from), fake_number(to));
}
