/* fake_cuda_event: events of the fake driver. A record makes a mark in its stream; a wait is for the mark that the event has when it is asked for,
 * and later records do not change that. In a capture both are an order between nodes, or, where they are external, nodes of their own. */
#include "tests/support/fake_cuda.h"

#include <stdlib.h>
#include <time.h>

enum {
    NO_TIMING = 2,
    EXTERNAL = 1
};

/* ---- marks ---- */

static fake_mark *use(fake_mark *mark) {
    mark->n_users++;
    return mark;
}

void fake_mark_release(fake_mark *mark) {
    if (mark != NULL && --mark->n_users == 0) free(mark);
}

void fake_mark_reach(fake_mark *mark) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    mark->is_reached = true;
    mark->seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

fake_mark *fake_event_record(fake_event *event, fake_stream *stream) {
    fake_mark_release(event->mark);
    event->capture = NULL;
    event->mark = fake_zeroed(1, sizeof *event->mark);
    *event->mark = (fake_mark){.stream = stream, .n_users = 1};
    return use(event->mark);
}

fake_mark *fake_event_awaited(const fake_event *event, const fake_stream *by) {
    if (event->mark == NULL || fake.ignores_waits) return NULL;
    if (fake.ignores_peers && event->object.context != by->object.context) return NULL;
    return use(event->mark);
}

/* ---- events ---- */

int cuEventCreate(void **handle, unsigned flags) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_event *e = NULL;
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
    fake_event *e = fake_object_here(FAKE_EVENT, handle);
    if (e == NULL) return fake_end(FAKE_ERROR_INVALID_HANDLE, "event %d", fake_number(handle));
    e->object.is_live = false;
    fake_mark_release(e->mark);
    e->mark = NULL;
    return fake_end(error, "event %d", e->object.number);
}

static int record(const char *call, void *handle, void *on, unsigned flags) {
    int error = fake_begin(call, FAKE_NEEDS_CONTEXT);
    fake_event *e = error == 0 ? fake_object_here(FAKE_EVENT, handle) : NULL;
    fake_stream *s = e != NULL ? fake_object_here(FAKE_STREAM, on) : NULL;
    if (error == 0 && s == NULL) error = FAKE_ERROR_INVALID_HANDLE;
    if (error == 0 && (flags > EXTERNAL || (flags == EXTERNAL && s->capture == NULL)))
        error = fake_misuse(FAKE_ERROR_INVALID_VALUE, "stream %d is not capturing, for which this flag is", fake_number(s));
    if (error == 0 && flags == EXTERNAL) {
        error = fake_submit(s, &(fake_operation){.kind = FAKE_RECORD, .event = e});
    } else if (error == 0 && s->capture != NULL) {
        fake_mark_release(e->mark);
        e->mark = NULL;
        e->capture = s->capture;
        e->node = fake_capture_record(s);
    } else if (error == 0) {
        error = fake_submit(s, &(fake_operation){.kind = FAKE_RECORD, .mark = fake_event_record(e, s)});
    }
    return fake_end(error, "event %d on stream %d", fake_number(handle), fake_number(on));
}

int cuEventRecord(void *handle, void *on) { return record(__func__, handle, on, 0); }
int cuEventRecordWithFlags(void *handle, void *on, unsigned flags) { return record(__func__, handle, on, flags); }

/* A wait without a flag, of a stream that does not capture or for an event that was captured with it. */
static int wait_for(fake_stream *s, const fake_event *e) {
    if (e->capture != NULL) return fake_capture_wait(s, e->capture, e->node);
    if (s->capture != NULL && e->mark != NULL) {
        fake_capture_spoil(s->capture);
        return fake_misuse(FAKE_ERROR_STREAM_CAPTURE_UNSUPPORTED, "stream %d is capturing, and event %d was recorded outside", fake_number(s),
                           fake_number(e));
    }
    int error = fake_lost_error(e->object.context);
    fake_mark *mark = error == 0 ? fake_event_awaited(e, s) : NULL;
    return mark != NULL ? fake_submit(s, &(fake_operation){.kind = FAKE_WAIT, .mark = mark}) : error;
}

int cuStreamWaitEvent(void *handle, void *of, unsigned flags) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = error == 0 ? fake_object_here(FAKE_STREAM, handle) : NULL;
    fake_event *e = s != NULL ? fake_object_of(FAKE_EVENT, of) : NULL;
    if (error == 0 && e == NULL) error = FAKE_ERROR_INVALID_HANDLE;
    if (error == 0 && (flags > EXTERNAL || (flags == EXTERNAL && s->capture == NULL)))
        error = fake_misuse(FAKE_ERROR_INVALID_VALUE, "stream %d is not capturing, for which this flag is", fake_number(s));
    if (error == 0 && flags == EXTERNAL && e->capture != NULL)
        error = fake_misuse(FAKE_ERROR_CAPTURED_EVENT, "event %d was recorded in a capture", fake_number(e));
    if (error == 0) error = flags == EXTERNAL ? fake_submit(s, &(fake_operation){.kind = FAKE_WAIT, .event = e}) : wait_for(s, e);
    return fake_end(error, "stream %d for event %d", fake_number(handle), fake_number(of));
}

/* The event, where it may be waited for. */
static fake_event *waited_for(void *handle, int *error) {
    fake_event *e = *error == 0 ? fake_object_of(FAKE_EVENT, handle) : NULL;
    if (*error == 0 && e == NULL) *error = FAKE_ERROR_INVALID_HANDLE;
    if (*error == 0 && e->capture != NULL) *error = fake_misuse(FAKE_ERROR_CAPTURED_EVENT, "event %d was recorded in a capture", fake_number(e));
    return e;
}

int cuEventSynchronize(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_event *e = waited_for(handle, &error);
    if (error == 0 && e->mark != NULL) {
        fake_mark *mark = use(e->mark);
        fake_await((fake_goal){.mark = mark});
        fake_mark_release(mark);
    }
    if (error == 0) error = fake_lost_error(e->object.context);
    return fake_end(error, "event %d", fake_number(handle));
}

int cuEventQuery(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_event *e = waited_for(handle, &error);
    if (error == 0 && fake_capture_forbids()) error = FAKE_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (error == 0) {
        bool done = e->mark == NULL || fake_ask((fake_goal){.mark = e->mark}, &e->mark->was_asked);
        error = fake_lost_error(e->object.context);
        if (error == 0 && !done) error = FAKE_ERROR_NOT_READY;
    }
    return fake_end(error, "event %d", fake_number(handle));
}

int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_event *a = error == 0 ? fake_object_of(FAKE_EVENT, from) : NULL, *b = a != NULL ? fake_object_of(FAKE_EVENT, to) : NULL;
    if (error == 0 && (b == NULL || !a->has_time || !b->has_time || a->mark == NULL || b->mark == NULL)) error = FAKE_ERROR_INVALID_HANDLE;
    if (error == 0 && a->object.context != b->object.context) error = fake_misuse(FAKE_ERROR_INVALID_HANDLE, "the events are of two GPUs");
    if (error == 0 && !(a->mark->is_reached && b->mark->is_reached)) error = FAKE_ERROR_NOT_READY;
    if (error == 0) *milliseconds = (float)(1e3 * (b->mark->seconds - a->mark->seconds));
    return fake_end(error, "event %d to event %d", fake_number(from), fake_number(to));
}
