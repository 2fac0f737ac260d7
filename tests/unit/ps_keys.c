/* ps_keys: keys are made once and kept secret, and read; who has one that is allowed joins, and nobody else. */
#include "runtime/ps/keys.h"

#include "runtime/ps/socket.h"
#include "runtime/ps/zeromq.h"
#include "runtime/threads/clock.h"
#include "tests/unit/scratch_folder.h"

#include <sys/stat.h>
#include <unistd.h>

static const double PATIENCE_SECONDS = 20; /* on a busy machine */

static int mode_of(const char *path) {
    struct stat file;
    return stat(path, &file) == 0 ? (int)(file.st_mode & 07777) : -1;
}

static char *text_of(const char *path) {
    char *text;
    size_t n;
    assert_ok(dt_file_read(path, &text, &n));
    return text;
}

static void keys_are_made_once_and_kept_secret(void **state) {
    (void)state;
    mode_t before = umask(0);
    assert_ok(dt_ps_keys_create(scratch_path("new/keys")));
    umask(before);
    assert_int_equal(mode_of(scratch_path("new/keys/server.secret")), 0600);
    assert_int_equal(mode_of(scratch_path("new/keys/worker.secret")), 0600);
    assert_int_equal(mode_of(scratch_path("new/keys/server.public")), 0644);
    char *made = text_of(scratch_path("new/keys/server.secret"));
    assert_fails(dt_ps_keys_create(scratch_path("new/keys")), DT_ALREADY_EXISTS, "keys are not overwritten");
    char *found = text_of(scratch_path("new/keys/server.secret"));
    assert_string_equal(found, made);
    free(made), free(found);
    unlink(scratch_path("new/keys/server.secret")); /* one that is there is enough, and then no other is made */
    assert_fails(dt_ps_keys_create(scratch_path("new/keys")), DT_ALREADY_EXISTS, "server.public is there already");
    assert_int_equal(mode_of(scratch_path("new/keys/server.secret")), -1);
    scratch_write("file", "", 0);
    assert_fails(dt_ps_keys_create(scratch_path("file/keys")), DT_NOT_FOUND, "file");
}

static void what_was_made_is_read(void **state) {
    (void)state;
    dt_ps_keys server, worker;
    assert_ok(dt_ps_keys_create(scratch_path("keys")));
    assert_ok(dt_ps_keys_load(scratch_path("keys"), DT_PS_SERVER, &server));
    assert_ok(dt_ps_keys_load(scratch_path("keys"), DT_PS_WORKER, &worker));
    assert_memory_equal(server.own_public, worker.server, DT_PS_KEY_BYTES);
    assert_memory_not_equal(server.own_secret, worker.own_secret, DT_PS_KEY_BYTES);
    dt_ps_role role;
    assert_int_equal(server.n_allowed, 1); /* the workers */
    assert_true(dt_ps_keys_allow(&server, worker.own_public, &role));
    assert_int_equal(role, DT_PS_WORKER);
    assert_true(dt_ps_keys_allow(&server, server.own_public, &role)); /* another server */
    assert_int_equal(role, DT_PS_SERVER);
    worker.own_public[31] ^= 1;
    assert_false(dt_ps_keys_allow(&server, worker.own_public, &role));
    dt_ps_keys_forget(&server);
    dt_ps_keys_forget(&worker);
    static const uint8_t zeros[DT_PS_KEY_BYTES];
    assert_memory_equal(worker.own_secret, zeros, DT_PS_KEY_BYTES);
}

/* Loading for a server, after `name` was written anew. */
static void expect_refused(const char *name, const char *text, dt_code code, const char *words) {
    dt_ps_keys keys;
    char *before = text_of(scratch_path(name));
    scratch_write(name, text, strlen(text));
    assert_fails(dt_ps_keys_load(scratch_path("wrong"), DT_PS_SERVER, &keys), code, words);
    dt_ps_keys_forget(&keys);
    scratch_write(name, before, strlen(before));
    free(before);
}

static void what_is_no_key_is_refused(void **state) {
    (void)state;
    static const char key[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCD";
    char text[200];
    dt_ps_keys keys;
    assert_ok(dt_ps_keys_create(scratch_path("wrong")));
    expect_refused("wrong/server.secret", "", DT_DATA_LOSS, "wrong/server.secret:1: no key of 40 characters");
    expect_refused("wrong/server.public", "short\n", DT_DATA_LOSS, "wrong/server.public:1: no key");
    snprintf(text, sizeof text, "%s0\n", key);
    expect_refused("wrong/server.public", text, DT_DATA_LOSS, "no key");
    snprintf(text, sizeof text, "# ours\n\n%s host7\n%s,\n", key, key);
    expect_refused("wrong/allowed", text, DT_DATA_LOSS, "wrong/allowed:4: no public key");
    snprintf(text, sizeof text, "%s a note\r\n  \n# and another\n%s", key, key);
    scratch_write("wrong/allowed", text, strlen(text));
    assert_ok(dt_ps_keys_load(scratch_path("wrong"), DT_PS_SERVER, &keys));
    assert_int_equal(keys.n_allowed, 2);
    dt_ps_keys_forget(&keys);
    unlink(scratch_path("wrong/allowed"));
    assert_fails(dt_ps_keys_load(scratch_path("wrong"), DT_PS_SERVER, &keys), DT_NOT_FOUND, "wrong/allowed");
    dt_ps_keys_forget(&keys);
    chmod(scratch_path("wrong/server.secret"), 0640);
    assert_fails(dt_ps_keys_load(scratch_path("wrong"), DT_PS_SERVER, &keys), DT_FAILED_PRECONDITION, "chmod 600");
    dt_ps_keys_forget(&keys);
}

/* ---- who joins ---- */

typedef struct pair {
    dt_ps_socket *server, *worker;
} pair;

static pair open_pair_as(const dt_ps_keys *of_server, const dt_ps_keys *of_worker, dt_ps_role role) {
    pair opened;
    dt_ps_socket_options server = {.listen = "127.0.0.1:*", .hello = {.role = DT_PS_SERVER, .name = "one"}, .keys = of_server};
    assert_ok(dt_ps_socket_open(&server, &opened.server));
    const char *address = dt_ps_socket_address(opened.server);
    dt_ps_socket_options worker = {
        .servers = &address, .n_servers = 1, .hello = {.role = (uint8_t)role, .part = 1, .name = "two"}, .keys = of_worker};
    assert_ok(dt_ps_socket_open(&worker, &opened.worker));
    return opened;
}

static pair open_pair(const dt_ps_keys *of_server, const dt_ps_keys *of_worker) { return open_pair_as(of_server, of_worker, DT_PS_WORKER); }

static void close_pair(pair *opened) {
    dt_ps_socket_close(opened->worker, 0);
    dt_ps_socket_close(opened->server, 0);
}

/* The first event at each end. */
static void meet(pair *opened, dt_ps_event *at_server, dt_ps_event *at_worker) {
    at_server->kind = at_worker->kind = DT_PS_NOTHING;
    for (double end = dt_seconds_now() + PATIENCE_SECONDS; dt_seconds_now() < end;) {
        if (at_server->kind == DT_PS_NOTHING) assert_ok(dt_ps_receive(opened->server, 0.01, at_server));
        if (at_worker->kind == DT_PS_NOTHING) assert_ok(dt_ps_receive(opened->worker, 0.01, at_worker));
        if (at_server->kind != DT_PS_NOTHING && at_worker->kind != DT_PS_NOTHING) return;
    }
    fail_msg("at the server %d %s, at the worker %d %s", at_server->kind, at_server->text, at_worker->kind, at_worker->text);
}

static void expect_kept_out(const dt_ps_keys *of_server, const dt_ps_keys *of_worker, const char *at_server, const char *at_worker, bool is_final) {
    dt_ps_event here, there;
    pair opened = open_pair(of_server, of_worker);
    meet(&opened, &here, &there);
    assert_int_equal(here.kind, DT_PS_REFUSED);
    assert_int_equal(there.kind, DT_PS_REFUSED);
    if (strstr(here.text, at_server) == NULL) fail_msg("%s", here.text);
    if (strstr(there.text, at_worker) == NULL) fail_msg("%s", there.text);
    assert_int_equal(there.is_final, is_final);
    close_pair(&opened);
}

static void who_has_an_allowed_key_joins_and_nobody_else(void **state) {
    (void)state;
    dt_ps_keys server, worker, other, mixed;
    dt_ps_event here, there;
    assert_ok(dt_ps_keys_create(scratch_path("ours")));
    assert_ok(dt_ps_keys_create(scratch_path("theirs")));
    assert_ok(dt_ps_keys_load(scratch_path("ours"), DT_PS_SERVER, &server));
    assert_ok(dt_ps_keys_load(scratch_path("ours"), DT_PS_WORKER, &worker));
    assert_ok(dt_ps_keys_load(scratch_path("theirs"), DT_PS_WORKER, &other));
    pair opened = open_pair(&server, &worker);
    meet(&opened, &here, &there);
    assert_int_equal(here.kind, DT_PS_JOINED);
    assert_int_equal(there.kind, DT_PS_JOINED);
    close_pair(&opened);
    static const char not_spoken[] =
        "somebody who has connected: the other side "; /* speaks no ZeroMQ, or ends the handshake: who notices it first */
    mixed = other;
    memcpy(mixed.server, worker.server, DT_PS_KEY_BYTES); /* knows the servers, and is not known to them */
    expect_kept_out(&server, &mixed, "with the public key ", "the key of this process is not one that the server allows", true);
    expect_kept_out(&server, &other, not_spoken, "the other side has ended the handshake", false); /* looks for other servers */
    expect_kept_out(&server, NULL, not_spoken, "", false);
    expect_kept_out(NULL, &worker, not_spoken, "", false);
    dt_ps_keys_forget(&server);
    dt_ps_keys_forget(&worker);
    dt_ps_keys_forget(&other);
}

/* Who has a worker's key is no server, whatever it says. */
static void a_key_is_for_one_role(void **state) {
    (void)state;
    dt_ps_keys server, worker;
    dt_ps_event here, there;
    assert_ok(dt_ps_keys_create(scratch_path("roles")));
    assert_ok(dt_ps_keys_load(scratch_path("roles"), DT_PS_SERVER, &server));
    assert_ok(dt_ps_keys_load(scratch_path("roles"), DT_PS_WORKER, &worker));
    for (int says_server = 0; says_server < 2; says_server++)
        for (int has_servers = 0; has_servers < 2; has_servers++) {
            pair opened = open_pair_as(&server, has_servers ? &server : &worker, says_server ? DT_PS_SERVER : DT_PS_WORKER);
            meet(&opened, &here, &there);
            bool fits = says_server == has_servers;
            assert_int_equal(here.kind, fits ? DT_PS_JOINED : DT_PS_REFUSED);
            assert_int_equal(there.kind, fits ? DT_PS_JOINED : DT_PS_REFUSED);
            assert_true(fits || (there.is_final && strstr(here.text, "its key is for a ") != NULL));
            close_pair(&opened);
        }
    dt_ps_keys_forget(&server);
    dt_ps_keys_forget(&worker);
}

static void keys_lead_beyond_this_machine(void **state) {
    (void)state;
    dt_ps_keys keys;
    dt_ps_socket *socket;
    assert_ok(dt_ps_keys_create(scratch_path("far")));
    assert_ok(dt_ps_keys_load(scratch_path("far"), DT_PS_SERVER, &keys));
    dt_ps_socket_options far = {.listen = "192.0.2.1:*"}; /* of RFC 5737: nobody has it, so that the attempt fails where it is made */
    assert_fails(dt_ps_socket_open(&far, &socket), DT_FAILED_PRECONDITION, "--keys DIR encrypts it");
    far.insecure = true;
    assert_fails(dt_ps_socket_open(&far, &socket), DT_IO, "cannot listen on 192.0.2.1:*");
    far.insecure = false;
    far.keys = &keys;
    assert_fails(dt_ps_socket_open(&far, &socket), DT_IO, "cannot listen on 192.0.2.1:*");
    dt_ps_keys_forget(&keys);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_made_once_and_kept_secret),
        cmocka_unit_test(what_was_made_is_read),
        cmocka_unit_test(what_is_no_key_is_refused),
        cmocka_unit_test(who_has_an_allowed_key_joins_and_nobody_else),
        cmocka_unit_test(a_key_is_for_one_role),
        cmocka_unit_test(keys_lead_beyond_this_machine),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
