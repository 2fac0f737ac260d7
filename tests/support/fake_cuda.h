/* fake_cuda: NVIDIA's driver as a shared library for tests, which runs kernels on the CPU by emulation.
 *
 *     DT_CUDA_DRIVER=build/tests/libfake_cuda.so FAKE_CUDA_KERNELS=kernels.so dtrun train m.dtx --devices cuda:0
 *
 * It exists so that a runtime's mistakes show where there is no GPU. Whatever the driver's rules leave open, it does in the least convenient way:
 * work is queued and runs as late as is allowed, or at any earlier moment that a seed chooses, and what nothing has ordered runs in any order;
 * pinned memory is read when the copy runs, not when it is asked for. Device memory cannot be touched by the host at all: it is mapped while kernels
 * and copies run only. A misuse is refused with a number of the driver's, and told on stderr with the call's name; the process cannot end with
 * success after one, nor with anything left that was not given back.
 *
 * Several GPUs have a context, memory and streams each. What belongs to another context than the thread's is refused, where it gets work, is changed
 * or is given back; waiting for it and asking after it are allowed. A kernel or a copy reaches its own GPU's memory, and a peer's after
 * cuCtxEnablePeerAccess: what it may not touch is closed while it runs, so that pointers within memory are held to this as its arguments are.
 *
 * A query says that work is not done the first time that it is asked, and then does it (with a seed: now and then). Work that hangs never ends:
 * queries say so for ever, and a call that waits for it ends the process after FAKE_CUDA_PATIENCE. Whoever leaves a hanging GPU need not give back
 * what it holds. A GPU that is lost loses its own work alone; whether events in it are ever reached by another GPU that waits for them is open:
 * never, or as a seed says.
 *
 * Any number of threads may call: one call runs at a time, so that it is the threads, and with them the seed, that say in which order.
 *
 * Environment, read by cuInit:
 *   FAKE_CUDA_KERNELS      the library of the emulated kernels, as tests/support/emulated_kernels.py makes it
 *   FAKE_CUDA_COUNT        how many GPUs there are (1); at most 16
 *   FAKE_CUDA_NAME, _CAPABILITY (9.0), _MULTIPROCESSORS, _DRIVER (13000)     what they are
 *   FAKE_CUDA_MEMORY       bytes of each; 3000,1000: of the first, and of all others
 *   FAKE_CUDA_PEERS        0: no GPU can access another one's memory
 *   FAKE_CUDA_FAIL         17=2: the 17th call fails with error 2; cuMemAlloc_v2:3=2: the third call of it does; cuMemAlloc_v2@1:3=2: the third for
 *                          GPU 1; several with commas between
 *   FAKE_CUDA_FAIL_LATE    cuLaunchKernel@1:3=700: what this call asks for fails when its turn comes, and its GPU is lost
 *   FAKE_CUDA_HANG         cuLaunchKernel@1:3: what this call asks for never ends
 *   FAKE_CUDA_DELAY        milliseconds that each kernel takes at least (0)
 *   FAKE_CUDA_PATIENCE     seconds that a call waits for what never ends (20)
 *   FAKE_CUDA_LOG          a file that gets a line for each call and for each thing that is run; a % at its end is the process id
 *   FAKE_CUDA_SEED         0: all as late as possible, in the order of waiting; else any order that waits allow
 *   FAKE_CUDA_IGNORE_WAITS 1: a stream does not wait for an event, as if the runtime had forgotten to say so: a test sees whether it would notice;
 *                          peers: for an event of another GPU
 *
 *   fake_cuda_calls.c      what every call begins and ends with: numbers, failures, the log, errors, what is left at exit
 *   fake_cuda_device.c     GPUs and contexts
 *   fake_cuda_memory.c     device memory and pinned memory: addresses, borders, protection
 *   fake_cuda_module.c     cubins, PTX, functions
 *   fake_cuda_stream.c     streams: queues, and whose turn it is
 *   fake_cuda_event.c      events
 *   fake_cuda_graph.c      capture and graphs
 *   fake_cuda_submit.c     copies and launches: what is checked when they are asked for
 *   fake_cuda_execute.c    copies and launches: how they run
 *
 * It does not know: the default stream, managed memory, synchronous copies, a capture over several GPUs, kernels that wait for one another; arguments
 * of kernels are pointers and numbers. */
#ifndef DT_TESTS_SUPPORT_FAKE_CUDA_H
#define DT_TESTS_SUPPORT_FAKE_CUDA_H

#include "runtime/devices/cuda/driver.h"
#include "tests/support/fake_cuda_library.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The runtime's table is the list of what is exported, with its types: a call that is not here does not link, one that differs does not compile. */
#define X(symbol, arguments) FAKE_EXPORT int symbol arguments;
DT_CUDA_DRIVER_SYMBOLS(X)
#undef X

/* X(number, name, text): the driver's errors that are used here, or asked for by tests. */
#define FAKE_ERRORS(X)                                                                                                                               \
    X(0, SUCCESS, "no error")                                                                                                                        \
    X(1, ERROR_INVALID_VALUE, "invalid argument")                                                                                                    \
    X(2, ERROR_OUT_OF_MEMORY, "out of memory")                                                                                                       \
    X(3, ERROR_NOT_INITIALIZED, "initialization error")                                                                                              \
    X(100, ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                                                                    \
    X(101, ERROR_INVALID_DEVICE, "invalid device ordinal")                                                                                           \
    X(200, ERROR_INVALID_IMAGE, "device kernel image is invalid")                                                                                    \
    X(201, ERROR_INVALID_CONTEXT, "invalid device context")                                                                                          \
    X(209, ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device")                                                      \
    X(214, ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered")                                                                           \
    X(217, ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices")                                                  \
    X(218, ERROR_INVALID_PTX, "a PTX JIT compilation failed")                                                                                        \
    X(222, ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain.")                                            \
    X(302, ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found")                                                                   \
    X(400, ERROR_INVALID_HANDLE, "invalid resource handle")                                                                                          \
    X(500, ERROR_NOT_FOUND, "named symbol not found")                                                                                                \
    X(600, ERROR_NOT_READY, "device not ready")                                                                                                      \
    X(700, ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                                                                        \
    X(701, ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")                                                                 \
    X(704, ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled")                                                                      \
    X(719, ERROR_LAUNCH_FAILED, "unspecified launch failure")                                                                                        \
    X(801, ERROR_NOT_SUPPORTED, "operation not supported")                                                                                           \
    X(803, ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver combination")                                          \
    X(900, ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")                                                     \
    X(901, ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture")                                              \
    X(902, ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences")                                            \
    X(903, ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not initiated in this stream")                                                               \
    X(904, ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                                                                      \
    X(907, ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream")                                          \
    X(908, ERROR_STREAM_CAPTURE_WRONG_THREAD, "attempt to terminate a thread-local capture sequence from another thread")                            \
    X(999, ERROR_UNKNOWN, "unknown error")

enum {
#define X(number, name, text) FAKE_##name = number,
    FAKE_ERRORS(X)
#undef X
    /* not the driver's */
    FAKE_EXIT_CODE = 86, /* of a process that leaves something behind, or misused the driver */
    FAKE_TEXT = 160,
    FAKE_MOST_DEVICES = 16,
    FAKE_THREADS_DEVICE = -1 /* that of the context that the thread has made current */
};

/* In static TLS, though this is a library that is loaded late: LeakSanitizer misreads the size of what such a library has elsewhere. */
#define FAKE_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

/* ---- calls (fake_cuda_calls.c) ---- */

typedef struct fake_settings {
    char name[100];
    int count, major, minor, multiprocessors, driver_version;
    size_t memory_bytes[FAKE_MOST_DEVICES];
    bool has_peers;
    uint64_t seed;
    bool ignores_waits, ignores_peers; /* all waits; those for another GPU */
    int patience_seconds, delay_milliseconds;
    const char *kernels, *failing, *failing_late, *hanging; /* NULL: none */
} fake_settings;

extern fake_settings fake;
void fake_read_settings(void);

/* What a call needs to be allowed at all. */
typedef enum fake_need {
    FAKE_NEEDS_NOTHING,
    FAKE_NEEDS_START,   /* cuInit was called */
    FAKE_NEEDS_CONTEXT, /* and the thread has a context */
} fake_need;

/* Begins a call: takes the one lock, counts, and says what it fails with before it did anything: 0, what a test has asked for, what it needs, or the
 * error that a GPU once lost gives to all. fake_end ends it, after an error too: the format is the call's arguments for the log. */
int fake_begin(const char *call, fake_need need);
int fake_begin_on(int device, const char *call, fake_need need); /* it is about this GPU, whichever is current */
int fake_end(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Lets other threads' calls go on for a moment, within a call. */
void fake_pause(void);

/* The caller has misused the driver: says why on stderr and returns `error`. */
int fake_misuse(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says on stderr what cannot go on, and ends the process. */
_Noreturn void fake_give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* From here on the context's GPU is lost: all calls for it fail with `error`. Says why on stderr. */
struct fake_context;
void fake_lose(const struct fake_context *context, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));
int fake_call_number(void);
/* What a test wants of the work that this call asks for. */
typedef struct fake_fault {
    bool hangs;
    int error; /* at its turn; 0: none */
} fake_fault;
fake_fault fake_call_fault(void);
/* A line of the log that is no call. */
void fake_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A number below n, from the seed. */
unsigned fake_random(unsigned n);

/* ---- what a program holds ---- */

typedef enum fake_kind {
    FAKE_DEVICE_MEMORY,
    FAKE_PINNED_MEMORY,
    FAKE_MODULE,
    FAKE_FUNCTION,
    FAKE_STREAM,
    FAKE_EVENT,
    FAKE_GRAPH,
    FAKE_EXEC,
    FAKE_CONTEXT,
    FAKE_KINDS
} fake_kind;

/* The head of all that has a handle. None is ever freed, so that a stale handle is known as what it was. */
typedef struct fake_object {
    fake_kind kind;
    int number; /* from 1 in each kind */
    bool is_live;
    struct fake_context *context; /* that was current when it was made; pinned memory belongs to all */
    struct fake_object *next;
} fake_object;

void *fake_new(fake_kind kind, size_t bytes); /* zeroed, and live */
/* The live object behind a handle; NULL after having said what is wrong. */
void *fake_object_of(fake_kind kind, const void *handle);
void *fake_object_here(fake_kind kind, const void *handle); /* and of the thread's context */
int fake_number(const void *handle);                        /* for the log: 0 if it is no object */
fake_object *fake_first(fake_kind kind);
void *fake_zeroed(size_t n, size_t bytes); /* memory that is there: a test that lacks some cannot go on */

/* ---- contexts (fake_cuda_device.c) ---- */

/* The primary context of a GPU. */
typedef struct fake_context {
    fake_object object;
    int device, n_users;
    bool has_access[FAKE_MOST_DEVICES]; /* to the memory of these peers */
} fake_context;

fake_context *fake_current(void); /* this thread's; NULL: it has none */
bool fake_can_access(const fake_context *context, const fake_context *memory_of);
int fake_lost_error(const fake_context *context); /* 0: its GPU is not lost */
void fake_set_lost(int device, int error);

/* ---- memory (fake_cuda_memory.c) ---- */

typedef struct fake_memory {
    fake_object object;
    uint64_t address; /* of the first byte that was asked for */
    size_t bytes;
    char *from; /* the whole pages around it */
    size_t whole_bytes;
    bool is_open; /* can be touched; pinned memory always can */
} fake_memory;

bool fake_is_device_address(uint64_t address);
/* Writes what an address is, as "d3+16", "h1+0" or "host". Returns `text`. */
const char *fake_place(char text[FAKE_TEXT], uint64_t address);
/* Are these bytes all in one live allocation on a GPU that `context` may touch; on the host, in one pinned allocation or in none? Says what is wrong
 * of `what`. */
int fake_check_device(const char *what, const fake_context *context, uint64_t address, size_t bytes);
int fake_check_host(const char *what, const void *address, size_t bytes, bool *is_pinned);
/* From here on what `context` may touch can be touched, and no other device memory; NULL: none. */
void fake_open_memory(const fake_context *context);
void fake_check_memory(const char *who); /* looks at all borders of open memory; what was written there is told, with `who` */
size_t fake_used_bytes(const fake_context *context);

/* ---- functions (fake_cuda_module.c) ---- */

typedef struct fake_function {
    fake_object object;
    struct fake_module *module;
    char name[200];
    const char *signature; /* of its arguments: tests/support/cuda_emulation.h */
    int registers, shared_bytes, stack_bytes;
} fake_function;

/* Runs it; NULL, or what is wrong. */
const char *fake_call_kernel(const fake_function *function, void *const *arguments, int blocks, int threads, int how, unsigned seed);
int fake_most_blocks(const fake_function *function, int threads, size_t dynamic_bytes); /* on a multiprocessor */
bool fake_function_is_live(const fake_function *function);

/* ---- operations ---- */

typedef enum fake_operation_kind {
    FAKE_COPY_TO_DEVICE,
    FAKE_COPY_TO_HOST,
    FAKE_COPY_ON_DEVICE,
    FAKE_FILL,
    FAKE_LAUNCH,
    FAKE_CALL, /* of a library's function */
    FAKE_RECORD,
    FAKE_WAIT,
    FAKE_RUN_GRAPH,
    FAKE_JOIN /* of a graph: nothing but an order */
} fake_operation_kind;

/* A point of a stream that others wait for. */
typedef struct fake_mark {
    struct fake_stream *stream;
    int n_users; /* the event, the record, the waits */
    bool is_reached, was_asked;
    double seconds;
} fake_mark;

typedef struct fake_operation {
    fake_operation_kind kind;
    int call; /* the number of the call that asked for it */
    uint64_t to, from;
    size_t bytes;
    void *taken; /* of the operation: the source of a copy that is not pinned, or what a library's function gets; NULL: nothing was taken along */
    const char *what;                    /* the library's function */
    void (*run)(const void *);           /* NULL: it is shared */
    const fake_cuda_shared_work *shared; /* with others; `work`: what it has begun, NULL before */
    void **work;
    unsigned char value;
    fake_function *function;
    int blocks, threads;
    void *arguments[512]; /* a launch takes 4096 bytes of them */
    fake_mark *mark;
    struct fake_event *event; /* of a record or a wait in a graph, that gets its mark by the launch */
    struct fake_graph_run *graph;
    fake_fault fault;
    void *own_work;
    struct fake_operation *next; /* in its stream */
} fake_operation;

/* Any but record, wait, graph; memory is open. Of what is shared with others the beginning, and when it is called again the end. */
void fake_execute(const fake_context *context, const fake_operation *operation);
static inline bool fake_is_under_way(const fake_operation *operation, void *const *work) { return operation->shared != NULL && *work != NULL; }
void fake_watch_faults(void); /* of kernels, and of a host that touches device memory */
const char *fake_operation_text(const fake_operation *operation, char text[2 * FAKE_TEXT]);

/* ---- streams and events (fake_cuda_stream.c, fake_cuda_event.c) ---- */

typedef struct fake_stream {
    fake_object object;
    fake_operation *first, *last;
    bool was_asked;               /* since it last got something */
    struct fake_capture *capture; /* NULL: it is not capturing */
    int captured;                 /* its last node there; -1: none */
} fake_stream;

typedef struct fake_event {
    fake_object object;
    bool has_time;
    fake_mark *mark;              /* of the last record; NULL: there was none */
    struct fake_capture *capture; /* the last record was captured, as this node */
    int node;
} fake_event;

/* What is waited for or asked after: one of these. */
typedef struct fake_goal {
    const fake_context *context; /* all its streams are empty */
    fake_stream *stream;         /* it is empty */
    fake_mark *mark;             /* it is reached */
} fake_goal;

/* Puts a copy of `operation` behind what the stream holds, or into what it captures. */
int fake_submit(fake_stream *stream, const fake_operation *operation);
/* Runs what is needed; where something hangs, the process ends when patience does. The GPU may be lost afterwards. */
void fake_await(fake_goal goal);
/* Is it met? Runs something, or nothing: *was_asked remembers that it was asked after. */
bool fake_ask(fake_goal goal, bool *was_asked);
bool fake_run_towards(fake_goal goal); /* false: something hangs */
void fake_wander(void);                /* runs a few things, or none, as the seed says */
void fake_drop_work(int device);
bool fake_something_hangs(void);

/* An event's record on a stream: a new mark, used by the event and whoever runs the record. */
fake_mark *fake_event_record(fake_event *event, fake_stream *stream);
/* What a wait of the stream that is asked for now is to wait for; NULL: nothing. */
fake_mark *fake_event_awaited(const fake_event *event, const fake_stream *by);
void fake_mark_reach(fake_mark *mark);
void fake_mark_release(fake_mark *mark);

/* ---- graphs (fake_cuda_graph.c) ---- */

bool fake_capture_add(fake_stream *stream, const fake_operation *operation); /* false: the stream is not capturing */
/* In a capture a record is a node, and a wait an order between nodes. */
int fake_capture_record(fake_stream *stream);
int fake_capture_wait(fake_stream *stream, struct fake_capture *capture, int node);
void fake_capture_spoil(struct fake_capture *capture);
/* Something is asked for that neither a capture of this thread nor one that is on guard against all threads can take. */
bool fake_capture_forbids(void);
/* Can a node be run, or is the end reached? false: *missing is what one waits for; NULL: all that is left hangs. */
bool fake_graph_can_go_on(const struct fake_graph_run *run, fake_mark **missing);
bool fake_graph_step(struct fake_graph_run *run, const fake_context *context); /* runs one node; false: that was the last */
void fake_graph_end(struct fake_graph_run *run);

#endif
