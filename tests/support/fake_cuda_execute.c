/* fake_cuda_execute: copies and launches of the fake driver, when their turn has come. A kernel that touches what is not there is stopped as a GPU
 * stops it: the context is lost. */
#include "tests/support/fake_cuda.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static sigjmp_buf before_kernel;
static FAKE_THREAD_LOCAL volatile sig_atomic_t is_in_kernel;
static uint64_t fault_address;
static struct sigaction earlier[2];

static const char *short_text(const fake_operation *o) {
    switch (o->kind) {
    case FAKE_LAUNCH: return o->function->name;
    case FAKE_CALL: return o->what;
    case FAKE_FILL: return "a fill";
    case FAKE_RUN_GRAPH: return "a graph";
    case FAKE_RECORD: return "a record";
    case FAKE_WAIT: return "a wait";
    default: return "a copy";
    }
}

const char *fake_operation_text(const fake_operation *o, char text[2 * FAKE_TEXT]) {
    char a[FAKE_TEXT], b[FAKE_TEXT];
    size_t n = 0;
    if (o->kind == FAKE_FILL) {
        snprintf(text, 2 * FAKE_TEXT, "%s with %d bytes %zu", fake_place(a, o->to), o->value, o->bytes);
    } else if (o->kind == FAKE_CALL) {
        snprintf(text, 2 * FAKE_TEXT, "%s", o->what);
    } else if (o->kind != FAKE_LAUNCH) {
        snprintf(text, 2 * FAKE_TEXT, "%s from %s bytes %zu", fake_place(a, o->to), fake_place(b, o->from), o->bytes);
    } else {
        n = (size_t)snprintf(text, 2 * FAKE_TEXT, "%.120s %dx%d", o->function->name, o->blocks, o->threads);
        for (size_t i = 0; o->function->signature[i] != 0 && n < 2 * FAKE_TEXT; i++) {
            const char *argument = "a number";
            if (o->function->signature[i] == 'p') argument = fake_place(a, (uint64_t)(uintptr_t)o->arguments[i]);
            n += (size_t)snprintf(text + n, 2 * FAKE_TEXT - n, "%s%s", i == 0 ? ": " : ", ", argument);
        }
    }
    return text;
}

/* ---- kernels ---- */

/* In a kernel, back to who launched it. Elsewhere it is the host that goes where it must not: said, and left to whoever was there before. */
static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    if (is_in_kernel) {
        is_in_kernel = 0;
        fault_address = address;
        siglongjmp(before_kernel, 1);
    }
    if (fake_is_device_address(address)) {
        char place[FAKE_TEXT];
        fprintf(stderr, "fake driver: the host touches device memory, %s\n", fake_place(place, address));
    }
    sigaction(signal, &earlier[signal == SIGBUS], NULL);
}

void fake_watch_faults(void) {
    static char stack[1 << 16];
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t here, other = {.ss_sp = stack, .ss_size = sizeof stack};
    if (sigaltstack(NULL, &here) == 0 && (here.ss_flags & SS_DISABLE)) sigaltstack(&other, NULL);
    sigaction(SIGSEGV, &action, &earlier[0]);
    sigaction(SIGBUS, &action, &earlier[1]);
}

static const char *call(const fake_operation *o) {
    if (o->kind == FAKE_LAUNCH)
        return fake_call_kernel(o->function, o->arguments, o->blocks, o->threads, fake.seed == 0 ? 0 : 2, fake_random(1u << 30));
    if (o->shared == NULL) {
        o->run(o->taken);
    } else if (*o->work == NULL) {
        *o->work = o->shared->begin(o->taken);
    } else {
        o->shared->end(*o->work);
        *o->work = NULL;
    }
    return NULL;
}

/* A launch, or a library's function. */
static void run_kernel(const fake_context *context, const fake_operation *o) {
    char place[FAKE_TEXT];
    if (o->kind == FAKE_LAUNCH && !fake_function_is_live(o->function)) {
        fake_lose(context, FAKE_ERROR_LAUNCH_FAILED, "%s is to run, and its module was unloaded", o->function->name);
        return;
    }
    if (sigsetjmp(before_kernel, 1) == 0) {
        is_in_kernel = 1;
        const char *wrong = call(o);
        is_in_kernel = 0;
        if (wrong != NULL) fake_lose(context, FAKE_ERROR_LAUNCH_FAILED, "%s: %s", o->function->name, wrong);
    } else {
        fake_lose(context, FAKE_ERROR_ILLEGAL_ADDRESS, "%s touches %s", short_text(o), fake_place(place, fault_address));
    }
}

/* ---- all ---- */

/* What was right when it was asked for may have been freed since. */
static int check_again(const fake_context *context, const fake_operation *o) {
    bool is_pinned;
    int error = 0;
    if (o->kind == FAKE_CALL) return 0;
    if (o->kind != FAKE_COPY_TO_HOST && o->kind != FAKE_LAUNCH) error = fake_check_device("the destination", context, o->to, o->bytes);
    if (o->kind == FAKE_COPY_TO_HOST) error = fake_check_host("the destination", (void *)(uintptr_t)o->to, o->bytes, &is_pinned);
    if (error == 0 && o->kind == FAKE_COPY_TO_DEVICE && o->taken == NULL)
        error = fake_check_host("the source", (void *)(uintptr_t)o->from, o->bytes, &is_pinned);
    if (error == 0 && (o->kind == FAKE_COPY_TO_HOST || o->kind == FAKE_COPY_ON_DEVICE))
        error = fake_check_device("the source", context, o->from, o->bytes);
    for (size_t i = 0; error == 0 && o->kind == FAKE_LAUNCH && o->function->signature[i] != 0; i++)
        if (o->function->signature[i] == 'p') error = fake_check_device(o->function->name, context, (uint64_t)(uintptr_t)o->arguments[i], 0);
    return error;
}

void fake_execute(const fake_context *context, const fake_operation *o) {
    const char *who = short_text(o);
    if (o->fault.error != 0) {
        fake_lose(context, o->fault.error, "%s fails, as the test wants", who);
        return;
    }
    if (check_again(context, o) != 0) {
        fake_lose(context, FAKE_ERROR_ILLEGAL_ADDRESS, "%s, at its turn", who);
        return;
    }
    const void *from = o->taken != NULL ? o->taken : (const void *)(uintptr_t)o->from;
    if (o->kind == FAKE_LAUNCH) usleep((useconds_t)fake.delay_milliseconds * 1000);
    if (o->kind == FAKE_LAUNCH || o->kind == FAKE_CALL)
        run_kernel(context, o);
    else if (o->kind == FAKE_FILL)
        memset((void *)(uintptr_t)o->to, o->value, o->bytes);
    else
        memcpy((void *)(uintptr_t)o->to, from, o->bytes);
    if (fake_lost_error(context) == 0) fake_check_memory(who);
}
