/* ps_frames: a message whose frames are interrupted by a signal is read whole, and one that fails in the middle leaves nothing. ZeroMQ is a table of
 * functions of this test. */
#include "runtime/ps/frames.h"
#include "tests/support/expect.h"

#include <errno.h>
#include <string.h>

/* What msg_recv does, in turn: an error's number, or 0: a frame comes, the last one of a message where `ends` says so. */
typedef struct arrival {
    int error;
    bool ends;
} arrival;

static const arrival *next;
static int n_held; /* frames with something in them */

static bool holds(const zmq_msg_t *frame) { return frame->_[0] != 0; }

static int fake_init(zmq_msg_t *frame) {
    memset(frame, 0, sizeof *frame);
    return 0;
}

static int fake_close(zmq_msg_t *frame) {
    n_held -= holds(frame);
    return fake_init(frame);
}

static int fake_move(zmq_msg_t *to, zmq_msg_t *from) {
    *to = *from;
    return fake_init(from);
}

static int fake_receive(zmq_msg_t *frame, void *from, int flags) {
    (void)from, (void)flags;
    const arrival *now = next++;
    if (now->error != 0) {
        errno = now->error;
        return -1;
    }
    frame->_[0] = 1;
    frame->_[1] = now->ends;
    n_held++;
    return 0;
}

static int fake_more(const zmq_msg_t *frame) { return holds(frame) && frame->_[1] == 0; }
static const char *fake_words(int number) { return strerror(number); }

static const dt_zeromq zeromq = {
    .msg_init = fake_init, .msg_close = fake_close, .msg_move = fake_move, .msg_recv = fake_receive, .msg_more = fake_more, .strerror = fake_words};

static void a_signal_between_two_frames_cuts_nothing(void **state) {
    (void)state;
    static const arrival arrivals[] = {{0, false}, {EINTR, false}, {0, true}, {EAGAIN, false}};
    dt_ps_frames frames;
    bool any;
    next = arrivals;
    expect_ok(dt_ps_frames_receive(&zeromq, NULL, &frames, &any));
    assert_true(any);
    assert_int_equal(frames.n, 2);
    dt_ps_frames_close(&zeromq, &frames);
    assert_int_equal(n_held, 0);
    expect_ok(dt_ps_frames_receive(&zeromq, NULL, &frames, &any));
    assert_false(any);
}

static void a_signal_before_the_first_frame_is_nothing_received(void **state) {
    (void)state;
    static const arrival arrivals[] = {{EINTR, false}};
    dt_ps_frames frames;
    bool any;
    next = arrivals;
    expect_ok(dt_ps_frames_receive(&zeromq, NULL, &frames, &any));
    assert_false(any);
}

static void what_fails_in_the_middle_leaves_nothing(void **state) {
    (void)state;
    static const arrival arrivals[] = {{0, false}, {ENOTSOCK, false}};
    dt_ps_frames frames;
    bool any;
    next = arrivals;
    expect_error(dt_ps_frames_receive(&zeromq, NULL, &frames, &any), DT_IO, "cannot receive");
    assert_int_equal(n_held, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_signal_between_two_frames_cuts_nothing),
                                       cmocka_unit_test(a_signal_before_the_first_frame_is_nothing_received),
                                       cmocka_unit_test(what_fails_in_the_middle_leaves_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
