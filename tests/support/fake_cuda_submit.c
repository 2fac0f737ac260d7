/* fake_cuda_submit: copies and launches of the fake driver, as they are asked for: what is checked at once, and what is left to the moment when they
 * run. The arguments of a launch are copied by the call; a copy reads pinned memory when it runs. */
#include "tests/support/fake_cuda.h"

#include <stdlib.h>
#include <string.h>

static fake_stream *stream_of(void *handle, int *error) {
    fake_stream *s = *error == 0 ? fake_object_here(FAKE_STREAM, handle) : NULL;
    if (*error == 0 && s == NULL) *error = FAKE_ERROR_INVALID_HANDLE;
    return s;
}

static int keep_first(int error, int other) { return error != 0 ? error : other; }

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *handle) {
    char a[FAKE_TEXT], b[FAKE_TEXT];
    bool is_pinned = false;
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = stream_of(handle, &error);
    if (error == 0)
        error =
            keep_first(fake_check_device("the destination", s->object.context, to, bytes), fake_check_host("the source", from, bytes, &is_pinned));
    if (error == 0 && bytes > 0) {
        fake_operation o = {.kind = FAKE_COPY_TO_DEVICE, .call = fake_call_number(), .to = to, .from = (uint64_t)(uintptr_t)from, .bytes = bytes};
        if (!is_pinned && s->capture == NULL) { /* the driver takes such memory along before it returns */
            o.taken = fake_zeroed(1, bytes);
            memcpy(o.taken, from, bytes);
        }
        error = fake_submit(s, &o);
    }
    return fake_end(error, "stream %d %s from %s bytes %zu", fake_number(handle), fake_place(a, to), fake_place(b, (uint64_t)(uintptr_t)from), bytes);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *handle) {
    char a[FAKE_TEXT], b[FAKE_TEXT];
    bool is_pinned = false;
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = stream_of(handle, &error);
    if (error == 0)
        error =
            keep_first(fake_check_host("the destination", to, bytes, &is_pinned), fake_check_device("the source", s->object.context, from, bytes));
    if (error == 0 && bytes > 0) {
        fake_operation o = {.kind = FAKE_COPY_TO_HOST, .call = fake_call_number(), .to = (uint64_t)(uintptr_t)to, .from = from, .bytes = bytes};
        error = fake_submit(s, &o);
        if (!is_pinned && s->capture == NULL) { /* the driver waits */
            fake_await((fake_goal){.stream = s});
            error = fake_lost_error(s->object.context);
        }
    }
    return fake_end(error, "stream %d %s from %s bytes %zu", fake_number(handle), fake_place(a, (uint64_t)(uintptr_t)to), fake_place(b, from), bytes);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *handle) {
    char a[FAKE_TEXT], b[FAKE_TEXT];
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = stream_of(handle, &error);
    if (error == 0)
        error = keep_first(fake_check_device("the destination", s->object.context, to, bytes),
                           fake_check_device("the source", s->object.context, from, bytes));
    if (error == 0 && to < from + bytes && from < to + bytes) error = fake_misuse(FAKE_ERROR_INVALID_VALUE, "source and destination overlap");
    if (error == 0 && bytes > 0)
        error = fake_submit(s, &(fake_operation){.kind = FAKE_COPY_ON_DEVICE, .call = fake_call_number(), .to = to, .from = from, .bytes = bytes});
    return fake_end(error, "stream %d %s from %s bytes %zu", fake_number(handle), fake_place(a, to), fake_place(b, from), bytes);
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *handle) {
    char a[FAKE_TEXT];
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = stream_of(handle, &error);
    if (error == 0) error = fake_check_device("the destination", s->object.context, to, bytes);
    if (error == 0 && bytes > 0)
        error = fake_submit(s, &(fake_operation){.kind = FAKE_FILL, .call = fake_call_number(), .to = to, .value = value, .bytes = bytes});
    return fake_end(error, "stream %d %s with %d bytes %zu", fake_number(handle), fake_place(a, to), value, bytes);
}

/* Copies the values of a launch's arguments, and looks at its pointers. */
static int take_arguments(fake_operation *operation, const fake_context *context, void **parameters) {
    const char *signature = operation->function->signature;
    size_t n = strlen(signature);
    if (n > sizeof operation->arguments / sizeof *operation->arguments || (n > 0 && parameters == NULL))
        return fake_misuse(FAKE_ERROR_INVALID_VALUE, "%s has %zu arguments", operation->function->name, n);
    for (size_t i = 0; i < n; i++) {
        char what[FAKE_TEXT];
        size_t bytes = signature[i] == 'p' ? sizeof(void *) : (size_t)(signature[i] - '0');
        memcpy(&operation->arguments[i], parameters[i], bytes);
        snprintf(what, sizeof what, "argument %zu of %.100s", i, operation->function->name);
        if (signature[i] == 'p' && fake_check_device(what, context, (uint64_t)(uintptr_t)operation->arguments[i], 0) != 0)
            return FAKE_ERROR_INVALID_VALUE;
    }
    return 0;
}

int cuLaunchKernel(void *kernel, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,
                   void *handle, void **parameters, void **extra) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_stream *s = stream_of(handle, &error);
    fake_function *f = error == 0 ? fake_object_here(FAKE_FUNCTION, kernel) : NULL;
    fake_operation o = {.kind = FAKE_LAUNCH, .call = fake_call_number(), .function = f, .blocks = (int)x, .threads = (int)threads};
    char text[2 * FAKE_TEXT] = "nothing";
    if (error == 0 && f == NULL) error = FAKE_ERROR_INVALID_HANDLE;
    if (error == 0 && !fake_function_is_live(f)) error = fake_misuse(FAKE_ERROR_INVALID_HANDLE, "the module of %s was unloaded", f->name);
    if (error == 0 && (y != 1 || z != 1 || threads_y != 1 || threads_z != 1 || shared_bytes != 0 || extra != NULL))
        error = fake_misuse(FAKE_ERROR_NOT_SUPPORTED, "grids of more dimensions, and shared memory by launch, are not known to the fake");
    if (error == 0 && (x == 0 || x > 0x7fffffff || threads == 0 || threads > 1024))
        error = fake_misuse(FAKE_ERROR_INVALID_VALUE, "%u blocks of %u threads", x, threads);
    if (error == 0 && fake_most_blocks(f, (int)threads, 0) == 0)
        error = fake_misuse(FAKE_ERROR_LAUNCH_OUT_OF_RESOURCES, "%s: %d registers and %d bytes of shared memory for %u threads", f->name,
                            f->registers, f->shared_bytes, threads);
    if (error == 0) error = take_arguments(&o, s->object.context, parameters);
    if (error == 0) {
        error = fake_submit(s, &o);
        fake_operation_text(&o, text);
    }
    return fake_end(error, "stream %d %s", fake_number(handle), text);
}

static int submit(void *handle, const char *call, const fake_cuda_range *ranges, size_t n_ranges, void (*run)(const void *data),
                  const fake_cuda_shared_work *shared, const void *data, size_t bytes) {
    char text[2 * FAKE_TEXT] = "", place[FAKE_TEXT];
    size_t n = 0;
    int error = fake_begin(call, FAKE_NEEDS_CONTEXT);
    fake_stream *s = stream_of(handle, &error);
    for (size_t i = 0; i < n_ranges; i++) {
        if (error == 0) error = fake_check_device("an argument", s->object.context, ranges[i].address, ranges[i].bytes);
        if (n < sizeof text) n += (size_t)snprintf(text + n, sizeof text - n, " %s bytes %zu", fake_place(place, ranges[i].address), ranges[i].bytes);
    }
    if (error == 0) {
        fake_operation o = {
            .kind = FAKE_CALL, .call = fake_call_number(), .what = call, .run = run, .shared = shared, .taken = fake_zeroed(1, bytes)};
        memcpy(o.taken, data, bytes);
        error = fake_submit(s, &o);
    }
    return fake_end(error, "stream %d%s", fake_number(handle), text);
}

int fake_cuda_submit(void *handle, const char *call, const fake_cuda_range *ranges, size_t n_ranges, void (*run)(const void *data), const void *data,
                     size_t bytes) {
    return submit(handle, call, ranges, n_ranges, run, NULL, data, bytes);
}

int fake_cuda_submit_shared(void *handle, const char *call, const fake_cuda_range *ranges, size_t n_ranges, const fake_cuda_shared_work *how,
                            const void *data, size_t bytes) {
    return submit(handle, call, ranges, n_ranges, NULL, how, data, bytes);
}
