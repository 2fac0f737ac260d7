/* fake_cuda_stream: streams of the fake driver. A stream is a queue; nothing in it runs before something waits for it, or a seed says so, and then
 * whatever no wait forbids may be first, on any GPU. */
#include "tests/support/fake_cuda.h"

#include <stdlib.h>
#include <time.h>

enum {
    NON_BLOCKING = 1,
    EARLY = 3, /* one call of so many runs something on the way; by the seed */
    LATE = 30
};

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

/* Can the first thing of a stream be run? false: *missing is what it waits for; NULL: it hangs. */
static bool can_go_on(const fake_stream *stream, fake_mark **missing) {
    const fake_operation *o = stream->first;
    *missing = NULL;
    if (o->fault.hangs) return false;
    if (o->kind == FAKE_RUN_GRAPH) return fake_graph_can_go_on(o->graph, missing);
    if (fake_is_under_way(o, o->work)) return o->shared->is_done(*o->work);
    if (o->kind != FAKE_WAIT || o->mark->is_reached) return true;
    *missing = o->mark;
    return false;
}

/* Runs the first thing of a stream that can go on, or one node of it, if it is a graph. */
static void run_first(fake_stream *stream) {
    fake_operation *o = stream->first;
    const fake_context *context = stream->object.context;
    char text[2 * FAKE_TEXT];
    fake_open_memory(context);
    if (o->fault.error != 0) {
        fake_execute(context, o);
        return; /* all was dropped */
    }
    if (o->kind == FAKE_RUN_GRAPH) {
        if (fake_graph_step(o->graph, context)) return;
        if (stream->first != o) return; /* it went wrong, and all was dropped */
    } else if (o->kind == FAKE_RECORD) {
        fake_mark_reach(o->mark);
    } else if (o->kind != FAKE_WAIT) {
        fake_note("runs %d on stream %d: %s", o->call, stream->object.number, fake_operation_text(o, text));
        fake_execute(context, o);
        if (stream->first != o || fake_is_under_way(o, o->work)) return;
    }
    remove_first(stream);
}

/* One of the streams that can go on; NULL: none can. */
static fake_stream *any_stream(void) {
    fake_stream *chosen = NULL;
    fake_mark *missing;
    unsigned n = 0;
    for (fake_object *o = fake_first(FAKE_STREAM); o != NULL; o = o->next) {
        fake_stream *s = (fake_stream *)o;
        if (s->first != NULL && can_go_on(s, &missing) && fake_random(++n) == 0) chosen = s;
    }
    return chosen;
}

/* The stream that must go on for `stream` to: itself, or whom it waits for. A wait is for what was submitted before it, so there is one; NULL: what
 * is waited for hangs, or was dropped with its GPU. */
static fake_stream *needed(fake_stream *stream) {
    fake_mark *missing;
    while (stream->first != NULL && !can_go_on(stream, &missing)) {
        if (missing == NULL) return NULL;
        stream = missing->stream;
    }
    return stream->first != NULL ? stream : NULL;
}

/* ---- waiting ---- */

/* A stream of the context that can be made to go on; *is_idle: it has no work. */
static fake_stream *needed_by(const fake_context *context, bool *is_idle) {
    fake_stream *found = NULL;
    *is_idle = true;
    for (fake_object *o = fake_first(FAKE_STREAM); o != NULL && found == NULL; o = o->next) {
        fake_stream *s = (fake_stream *)o;
        if (o->context != context || s->first == NULL) continue;
        *is_idle = false;
        found = needed(s);
    }
    return found;
}

static bool is_met(fake_goal goal) {
    bool is_idle;
    if (goal.mark != NULL) return goal.mark->is_reached || fake_lost_error(goal.mark->stream->object.context) != 0;
    if (goal.stream != NULL) return goal.stream->first == NULL;
    needed_by(goal.context, &is_idle);
    return is_idle;
}

static fake_stream *next_stream(fake_goal goal) {
    bool is_idle;
    if (fake.seed != 0) return any_stream();
    if (goal.mark != NULL) return needed(goal.mark->stream);
    if (goal.stream != NULL) return needed(goal.stream);
    return needed_by(goal.context, &is_idle);
}

bool fake_run_towards(fake_goal goal) {
    bool met;
    for (fake_stream *s; !(met = is_met(goal)) && (s = next_stream(goal)) != NULL;) run_first(s);
    fake_open_memory(NULL);
    return met;
}

void fake_await(fake_goal goal) {
    time_t begin = time(NULL);
    while (!fake_run_towards(goal)) {
        if (time(NULL) - begin > fake.patience_seconds) fake_give_up("waits for what never ends, since %d seconds", fake.patience_seconds);
        fake_pause();
    }
}

/* Nobody who asks waits for more than one kernel that takes long. */
static void run_a_little(fake_goal goal) {
    fake_stream *s = is_met(goal) ? NULL : next_stream(goal);
    if (s != NULL) run_first(s);
    fake_open_memory(NULL);
}

bool fake_ask(fake_goal goal, bool *was_asked) {
    bool runs = fake.seed == 0 ? *was_asked : fake_random(2) == 0;
    if (runs && fake.delay_milliseconds > 0) run_a_little(goal);
    if (runs && fake.delay_milliseconds == 0) fake_run_towards(goal);
    *was_asked = true;
    return is_met(goal);
}

void fake_wander(void) {
    if (fake.seed == 0 || fake_random(fake.seed % 2 == 0 ? LATE : EARLY) != 0) return;
    for (unsigned n = fake_random(6); n > 0; n--) {
        fake_stream *s = any_stream();
        if (s != NULL) run_first(s);
    }
    fake_open_memory(NULL);
}

/* With the work go its records: whether another GPU that waits for one goes on is not known. */
void fake_drop_work(int device) {
    for (fake_object *o = fake_first(FAKE_STREAM); o != NULL; o = o->next) {
        fake_stream *s = (fake_stream *)o;
        while (o->context->device == device && s->first != NULL) {
            if (s->first->kind == FAKE_RECORD && fake.seed != 0 && fake_random(2) == 0) fake_mark_reach(s->first->mark);
            remove_first(s);
        }
    }
}

bool fake_something_hangs(void) {
    for (fake_object *o = fake_first(FAKE_STREAM); o != NULL; o = o->next)
        if (((fake_stream *)o)->first != NULL && needed((fake_stream *)o) == NULL) return true;
    return false;
}

int fake_submit(fake_stream *stream, const fake_operation *operation) {
    fake_operation *o = fake_zeroed(1, sizeof *o);
    *o = *operation;
    o->work = &o->own_work;
    o->fault = fake_call_fault();
    if (fake_capture_add(stream, o)) return free(o), 0;
    if (stream->last != NULL)
        stream->last->next = o;
    else
        stream->first = o;
    stream->last = o;
    stream->was_asked = false;
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
    return fake_end(error, "stream %d of GPU %d", fake_number(s), s != NULL ? s->object.context->device : 0);
}

int cuStreamDestroy_v2(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = fake_object_here(FAKE_STREAM, handle);
    if (s == NULL) return fake_end(FAKE_ERROR_INVALID_HANDLE, "stream %d", fake_number(handle));
    if (s->capture != NULL) fake_capture_spoil(s->capture);
    s->capture = NULL;
    fake_run_towards((fake_goal){.stream = s}); /* what hangs stays: this does not wait for it */
    s->object.is_live = false;
    return fake_end(error, "stream %d", s->object.number);
}

/* The stream, where it may be waited for. */
static fake_stream *waited_for(void *handle, int *error) {
    fake_stream *s = *error == 0 ? fake_object_of(FAKE_STREAM, handle) : NULL;
    if (*error == 0 && s == NULL) *error = FAKE_ERROR_INVALID_HANDLE;
    if (*error == 0 && s->capture != NULL) {
        fake_capture_spoil(s->capture);
        *error = fake_misuse(FAKE_ERROR_STREAM_CAPTURE_UNSUPPORTED, "stream %d is capturing", s->object.number);
    }
    return s;
}

int cuStreamSynchronize(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = waited_for(handle, &error);
    if (error == 0) {
        fake_await((fake_goal){.stream = s});
        error = fake_lost_error(s->object.context);
    }
    return fake_end(error, "stream %d", fake_number(handle));
}

int cuStreamQuery(void *handle) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = waited_for(handle, &error);
    if (error == 0 && fake_capture_forbids()) error = FAKE_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (error == 0) {
        bool done = fake_ask((fake_goal){.stream = s}, &s->was_asked);
        error = fake_lost_error(s->object.context);
        if (error == 0 && !done) error = FAKE_ERROR_NOT_READY;
    }
    return fake_end(error, "stream %d", fake_number(handle));
}
