/* timeline: see timeline.h. */
#include "runtime/threads/timeline.h"

#include "base/memory.h"
#include "base/text.h"

enum {
    MAIN_SPANS = 8, /* of the main thread, a step */
    MORE_SPANS = 64 /* of each thread, than those of whole steps */
};

dt_status *dt_timeline_create(int64_t n_steps, dt_timeline **timeline) {
    dt_timeline *made = dt_allocate_zeroed(1, sizeof *made);
    dt_recorder *recorder;
    *timeline = NULL;
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->n_steps = n_steps;
    dt_status *status = dt_timeline_add_thread(made, MAIN_SPANS, &recorder, "main");
    if (status == NULL)
        *timeline = made;
    else
        dt_timeline_destroy(made);
    return status;
}

static void free_recorder(dt_recorder *recorder) {
    if (recorder == NULL) return;
    dt_release((char *)(uintptr_t)recorder->name);
    dt_release(recorder->spans);
    dt_release(recorder);
}

void dt_timeline_destroy(dt_timeline *timeline) {
    if (timeline == NULL) return;
    for (dt_recorder *one = timeline->first, *next; one != NULL; one = next) {
        next = one->next;
        free_recorder(one);
    }
    dt_release(timeline);
}

/* Memory that is not zeroed is taken from the machine when it is written to. */
static dt_recorder *new_recorder(char *name, int64_t capacity) {
    dt_recorder *made = name != NULL ? dt_allocate_zeroed(1, sizeof *made) : NULL;
    if (made == NULL) {
        dt_release(name);
        return NULL;
    }
    made->name = name;
    made->capacity = capacity;
    made->spans = dt_allocate((size_t)capacity * sizeof *made->spans);
    if (made->spans != NULL) return made;
    free_recorder(made);
    return NULL;
}

dt_status *dt_timeline_add_thread(dt_timeline *timeline, int64_t n_spans, dt_recorder **recorder, const char *name, ...) {
    int64_t capacity;
    dt_text text = {0};
    va_list arguments;
    *recorder = NULL;
    if (timeline == NULL) return NULL;
    if (__builtin_mul_overflow(timeline->n_steps, n_spans, &capacity) || capacity > INT64_MAX / (int64_t)sizeof(dt_span) / 2)
        return dt_error(DT_RESOURCE_EXHAUSTED, "a timeline of %lld steps, of %lld spans each, is too long: use fewer --timeline-steps",
                        (long long)timeline->n_steps, (long long)n_spans);
    va_start(arguments, name);
    dt_text_vformat(&text, name, arguments);
    va_end(arguments);
    *recorder = new_recorder(dt_text_take(&text), capacity + MORE_SPANS);
    if (*recorder == NULL)
        return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for a timeline of %lld steps, of %lld spans each: use fewer --timeline-steps",
                        (long long)timeline->n_steps, (long long)n_spans);
    dt_recorder **end = &timeline->first;
    while (*end != NULL) end = &(*end)->next;
    *end = *recorder;
    return NULL;
}
