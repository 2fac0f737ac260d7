/* schedule: what all processes do fits together, gives everybody the tree's bits, and costs what the header says; by simulation of all of them. */
#include "tests/support/schedule_simulator.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    SMALL = 500, /* bytes: fewer units than most numbers of processes, and the last one is not whole */
    MOST_PROCESSES = 1024
};

static dt_arena *arena; /* of one case */

static dt_layout layout_of(dt_process_roles roles, int n_microbatches, dt_layout_needs needs, int64_t n_bytes) {
    if (arena == NULL) arena = dt_arena_create();
    return (dt_layout){.n = roles.n_processes,
                       .members = dt_layout_members(roles, n_microbatches, needs, arena),
                       .n_microbatches = n_microbatches,
                       .n_bytes = n_bytes};
}

static dt_layout all_reduce(int n_processes, int n_microbatches, int64_t n_bytes) {
    return layout_of((dt_process_roles){.n_processes = n_processes}, n_microbatches, DT_NEEDED_BY_ALL, n_bytes);
}

/* Parts that follow one another. */
static const dt_image_range *parts_of(const int64_t *bounds, int n) {
    dt_image_range *parts = DT_NEW_ARRAY(arena, dt_image_range, n);
    for (int p = 0; p < n; p++) parts[p] = (dt_image_range){bounds[p], bounds[p + 1]};
    return parts;
}

static void end_case(void) {
    dt_arena_destroy(arena);
    arena = NULL;
}

static void expect_sound(const dt_layout *layout, dt_schedule_algorithm algorithm) {
    const char *mistake = dt_simulate(layout, dt_schedules_of(layout, algorithm, arena), arena);
    if (mistake != NULL)
        fail_msg("%d processes, %lld microbatches, %lld bytes, algorithm %d: %s", layout->n, (long long)layout->n_microbatches,
                 (long long)layout->n_bytes, algorithm, mistake);
    end_case();
}

/* ---- nodes ---- */

/* Whether [first, end) is covered by nodes of which no two neighbours, or more, are one. */
static void check_nodes(int64_t first, int64_t end, int64_t n_leaves) {
    arena = dt_arena_create();
    int n;
    const dt_schedule_node *nodes = dt_schedule_nodes(first, end, n_leaves, arena, &n);
    int64_t next = first;
    for (int i = 0; i < n; i++) {
        assert_true(nodes[i].first == next && dt_simulated_is_node(next, nodes[i].span, 0, n_leaves));
        next += nodes[i].span;
        for (int before = 0; before < i; before++) assert_false(dt_simulated_is_node(nodes[before].first, next - nodes[before].first, 0, n_leaves));
    }
    assert_true(next == end);
    end_case();
}

static void nodes_are_the_largest_there_are(void **state) {
    (void)state;
    for (int64_t n_leaves = 1; n_leaves <= 40; n_leaves++)
        for (int64_t first = 0; first < n_leaves; first++)
            for (int64_t end = first + 1; end <= n_leaves; end++) check_nodes(first, end, n_leaves);
}

/* ---- the tree's bits ---- */

static void any_number_of_processes_has_the_bits_of_the_tree(void **state) {
    (void)state;
    for (int n = 1; n <= MOST_PROCESSES; n++) {
        dt_layout layout = all_reduce(n, n, SMALL);
        expect_sound(&layout, DT_SCHEDULE_AUTO);
    }
}

static void both_algorithms_have_the_bits_of_the_tree(void **state) {
    (void)state;
    static const int numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 96, 100, 127, 128, 129, 255, 257};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (int of_each = 1; of_each <= 4; of_each *= 4)
            for (int algorithm = DT_SCHEDULE_DIRECT; algorithm <= DT_SCHEDULE_HALVING; algorithm++) {
                dt_layout layout = all_reduce(numbers[i], of_each * numbers[i], 1 << 14);
                expect_sound(&layout, (dt_schedule_algorithm)algorithm);
            }
}

static void odd_cuts_have_the_bits_of_the_tree(void **state) {
    (void)state;
    static const int64_t numbers[] = {1, 2, 3, 5, 6, 7, 8, 12, 16, 24, 31, 32, 48, 96, 100, 128};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (int n_processes = 1; n_processes <= numbers[i] && n_processes <= 40; n_processes++) {
            dt_layout layout = all_reduce(n_processes, (int)numbers[i], 4096);
            expect_sound(&layout, DT_SCHEDULE_AUTO);
        }
}

static void images_of_any_size(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 3, 4, 63, 64, 65, 127, 500, 1 << 12};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int n = 1; n <= 70; n += n < 9 ? 1 : 6)
            for (int algorithm = DT_SCHEDULE_DIRECT; algorithm <= DT_SCHEDULE_HALVING; algorithm++) {
                dt_layout layout = all_reduce(n, n, sizes[i]);
                expect_sound(&layout, (dt_schedule_algorithm)algorithm);
            }
}

/* ---- parts ---- */

/* Parts of so many units a process, times some bytes: uneven ones, the first, the last or all but one empty. */
static void parts_may_be_uneven_and_empty(void **state) {
    (void)state;
    static const int lengths[][4] = {{1, 1, 1, 1}, {3, 1, 4, 2}, {0, 2, 0, 5}, {0, 0, 7, 0}, {6, 0, 0, 1}};
    static const int64_t units[] = {64, 12, 1};
    for (int n = 1; n <= 18; n++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
                int64_t parts[20] = {0};
                for (int p = 0; p < n; p++) parts[p + 1] = parts[p] + lengths[l][p % 4] * units[u];
                for (int n_microbatches = n; n_microbatches <= 2 * n; n_microbatches += n > 2 ? n / 2 : 1) {
                    dt_layout scattered = layout_of((dt_process_roles){.n_processes = n}, n_microbatches, DT_NEEDED_BY_NOBODY, parts[n]);
                    scattered.parts = parts_of(parts, n);
                    expect_sound(&scattered, DT_SCHEDULE_AUTO);
                }
                for (int algorithm = DT_SCHEDULE_DIRECT; algorithm <= DT_SCHEDULE_STAR; algorithm++) {
                    dt_layout gathered = layout_of((dt_process_roles){.n_processes = n}, 0, DT_NEEDED_BY_ALL, parts[n]);
                    gathered.parts = parts_of(parts, n);
                    if (algorithm != DT_SCHEDULE_HALVING) expect_sound(&gathered, (dt_schedule_algorithm)algorithm);
                }
            }
}

/* ---- parameter servers ---- */

/* Servers have no nodes and own the parts, workers have nodes and own nothing: no worker sends anything to another. */
static void expect_sound_with_servers(const dt_layout *layout, int n_servers) {
    const dt_schedule *schedules = dt_schedules_of(layout, DT_SCHEDULE_AUTO, arena);
    for (int p = 0; p < layout->n; p++) {
        assert_true(schedules[p].algorithm == DT_SCHEDULE_DIRECT && (schedules[p].n_nodes > 0) == (p >= n_servers));
        for (int r = 0; r < schedules[p].n_rounds; r++)
            for (int m = 0; m < schedules[p].rounds[r].n_messages; m++)
                assert_true(p < n_servers || schedules[p].rounds[r].messages[m].peer < n_servers);
    }
    expect_sound(layout, DT_SCHEDULE_AUTO);
}

static void servers_give_workers_the_bits_of_the_tree(void **state) {
    (void)state;
    for (int n_servers = 1; n_servers <= 3; n_servers++)
        for (int n_workers = 1; n_workers <= 40; n_workers++)
            for (int64_t n_bytes = 60; n_bytes <= 4096; n_bytes += 1009 * 4) {
                dt_process_roles roles = {.n_processes = n_servers + n_workers, .n_servers = n_servers};
                dt_layout layout = layout_of(roles, n_workers + 3, DT_NEEDED_BY_ALL, n_bytes);
                expect_sound_with_servers(&layout, n_servers);
            }
}

static void servers_own_all_parts(void **state) {
    (void)state;
    int64_t parts[12] = {0, 128, 192};
    for (int p = 3; p < 12; p++) parts[p] = parts[2];
    for (int n_workers = 1; n_workers <= 9; n_workers++) {
        dt_process_roles roles = {.n_processes = 2 + n_workers, .n_servers = 2};
        dt_layout scattered = layout_of(roles, 2 * n_workers, DT_NEEDED_BY_NOBODY, parts[2]);
        scattered.parts = parts_of(parts, roles.n_processes);
        expect_sound_with_servers(&scattered, 2);
        dt_layout gathered = layout_of(roles, 0, DT_NEEDED_BY_ALL, parts[2]);
        gathered.parts = parts_of(parts, roles.n_processes);
        expect_sound(&gathered, DT_SCHEDULE_AUTO);
    }
}

/* What is for workers alone: each server sends its part to every worker, and nobody sends a server anything. */
static void servers_may_keep_their_parts_alone(void **state) {
    (void)state;
    enum {
        N_SERVERS = 3
    };
    static const int64_t parts[] = {0, 128, 128, 192, 192, 192, 192, 192, 192};
    for (int n_workers = 1; n_workers <= 5; n_workers++) {
        dt_process_roles roles = {.n_processes = N_SERVERS + n_workers, .n_servers = N_SERVERS};
        dt_layout layout = layout_of(roles, 0, DT_NEEDED_BY_HOLDERS, parts[N_SERVERS]);
        layout.parts = parts_of(parts, roles.n_processes);
        const dt_schedule *schedules = dt_schedules_of(&layout, DT_SCHEDULE_AUTO, arena);
        for (int p = 0; p < layout.n; p++) {
            bool is_server = p < N_SERVERS;
            int64_t own = parts[p + 1] - parts[p], n_bytes = 0;
            assert_int_equal(schedules[p].n_rounds, 1);
            const dt_schedule_round *round = &schedules[p].rounds[0];
            for (int m = 0; m < round->n_messages; m++) {
                assert_true(round->messages[m].sends == is_server && (round->messages[m].peer < N_SERVERS) != is_server);
                n_bytes += round->messages[m].n_bytes;
            }
            assert_int_equal(n_bytes, is_server ? own * n_workers : parts[N_SERVERS]);
            assert_int_equal(schedules[p].slots[0].n_bytes, is_server ? own : parts[N_SERVERS]);
        }
        expect_sound(&layout, DT_SCHEDULE_AUTO);
    }
}

/* ---- which algorithm ---- */

/* Halving is what it says wherever each process has one node, all of the same span, and only there. */
static void processes_with_other_nodes_cannot_halve(void **state) {
    (void)state;
    for (int64_t n_microbatches = 1; n_microbatches <= 100; n_microbatches++)
        for (int n = 1; n <= n_microbatches; n++) {
            dt_layout layout = all_reduce(n, (int)n_microbatches, 64);
            bool are_equal = true;
            int64_t span = 0;
            for (int p = 0; p < n; p++) {
                int n_nodes;
                const dt_schedule_node *nodes =
                    dt_schedule_nodes(p * n_microbatches / n, (p + 1) * n_microbatches / n, n_microbatches, arena, &n_nodes);
                are_equal = are_equal && n_nodes == 1 && (p == 0 || nodes[0].span == span);
                span = nodes[0].span;
            }
            assert_int_equal(dt_schedule_of(&layout, DT_SCHEDULE_HALVING, arena).algorithm, are_equal ? DT_SCHEDULE_HALVING : DT_SCHEDULE_DIRECT);
            end_case();
        }
}

/* An engine gets one sum of each process, whatever nodes it has. */
static void an_engine_adds_up_what_each_process_has(void **state) {
    (void)state;
    dt_layout layout = all_reduce(3, 8, 1 << 20);
    layout.place = 1;
    dt_schedule schedule = dt_schedule_of(&layout, DT_SCHEDULE_ENGINE, arena);
    assert_true(schedule.n_nodes == 1 && schedule.nodes[0].first == 2 && schedule.nodes[0].span == 3);
    assert_true(schedule.n_slots == 1 && schedule.n_rounds == 1 && schedule.rounds[0].n_messages == 0 && schedule.rounds[0].n_sums == 0);
    end_case();
}

static void few_processes_are_direct_and_many_halve(void **state) {
    (void)state;
    dt_layout few = all_reduce(8, 16, 1 << 20), many = all_reduce(512, 1024, 1 << 20), odd = all_reduce(512, 1023, 1 << 20);
    assert_int_equal(dt_schedule_of(&few, DT_SCHEDULE_AUTO, arena).algorithm, DT_SCHEDULE_DIRECT);
    assert_int_equal(dt_schedule_of(&many, DT_SCHEDULE_AUTO, arena).algorithm, DT_SCHEDULE_HALVING);
    assert_int_equal(dt_schedule_of(&odd, DT_SCHEDULE_AUTO, arena).algorithm, DT_SCHEDULE_DIRECT);
    end_case();
}

/* ---- what it costs ---- */

static int64_t slot_bytes(const dt_schedule *schedule) {
    int64_t n_bytes = 0;
    for (int i = 0; i < schedule->n_slots; i++) n_bytes += schedule->slots[i].n_bytes;
    return n_bytes;
}

/* Shares are rounded to units, once for each level. */
static void check_halving(int n, int64_t n_bytes) {
    dt_layout layout = all_reduce(n, n, n_bytes);
    const dt_schedule *schedules = dt_schedules_of(&layout, DT_SCHEDULE_HALVING, arena);
    int n_levels = 0;
    while (1 << n_levels < n) n_levels++;
    for (int p = 0; p < n; p++) {
        assert_int_equal(schedules[p].n_rounds, 2 * n_levels);
        assert_true(schedules[p].n_sent_bytes <= 2 * n_bytes + n_levels * DT_SCHEDULE_UNIT);
        assert_true(slot_bytes(&schedules[p]) <= n_bytes + n_bytes / 2 + DT_SCHEDULE_UNIT);
    }
    end_case();
}

static void halving_sends_at_most_the_image_twice(void **state) {
    (void)state;
    for (int n = 1; n <= MOST_PROCESSES; n += n < 140 ? 1 : 17) check_halving(n, 400 << 20);
}

static void a_thousand_processes_take_twenty_rounds(void **state) {
    (void)state;
    dt_layout layout = all_reduce(1000, 1000, 1 << 15);
    const dt_schedule *schedules = dt_schedules_of(&layout, DT_SCHEDULE_AUTO, arena);
    int64_t most = 0;
    for (int p = 0; p < layout.n; p++) {
        assert_int_equal(schedules[p].n_rounds, 20);
        if (most < schedules[p].n_sent_bytes) most = schedules[p].n_sent_bytes;
    }
    assert_int_equal(most, 2 * layout.n_bytes);
    assert_null(dt_simulate(&layout, schedules, arena));
    end_case();
}

/* A group is any of the run's processes, in any order: all that is said of places holds of their ranks. */
static void members_may_be_any_processes(void **state) {
    (void)state;
    static const int ranks[] = {9, 2, 7, 0, 4, 12};
    for (int n = 2; n <= 6; n++)
        for (int algorithm = DT_SCHEDULE_DIRECT; algorithm <= DT_SCHEDULE_HALVING; algorithm++) {
            dt_layout layout = all_reduce(n, 2 * n, 4096);
            dt_layout_member *members = dt_arena_copy(arena, layout.members, (size_t)n * sizeof *members);
            for (int m = 0; m < n; m++) members[m].rank = ranks[m];
            layout.members = members;
            expect_sound(&layout, (dt_schedule_algorithm)algorithm);
        }
}

/* Of some only who needs it is sent it. */
static void who_does_not_need_it_is_sent_nothing(void **state) {
    (void)state;
    static const int64_t bounds[] = {0, 100, 100, 500, 777};
    for (int needs = 1; needs < 15; needs++) {
        dt_layout layout = layout_of((dt_process_roles){.n_processes = 4}, 0, DT_NEEDED_BY_NOBODY, bounds[4]);
        dt_layout_member *members = dt_arena_copy(arena, layout.members, 4 * sizeof *members);
        for (int m = 0; m < 4; m++) members[m].needs = (needs >> m & 1) != 0;
        layout.members = members;
        layout.parts = parts_of(bounds, 4);
        dt_schedule *schedules = dt_schedules_of(&layout, DT_SCHEDULE_AUTO, arena);
        for (int m = 0; m < 4; m++)
            for (int i = 0; i < schedules[m].rounds[0].n_messages; i++) assert_true(schedules[m].rounds[0].messages[i].sends || members[m].needs);
        expect_sound(&layout, DT_SCHEDULE_AUTO);
    }
}

/* What one sends the other receives, and nothing is of no bytes. */
static void all_to_all_is_one_round(void **state) {
    (void)state;
    static const int64_t sizes[3][3] = {{0, 5, 0}, {7, 0, 1}, {0, 0, 0}}; /* of whom, to whom */
    for (int p = 0; p < 3; p++) {
        arena = dt_arena_create();
        int64_t from[3];
        for (int other = 0; other < 3; other++) from[other] = sizes[other][p];
        dt_schedule schedule = dt_schedule_all_to_all(3, sizes[p], from, arena);
        int64_t sent = 0, received = 0;
        assert_int_equal(schedule.n_rounds, 1);
        for (int m = 0; m < schedule.rounds[0].n_messages; m++) {
            const dt_schedule_message *one = &schedule.rounds[0].messages[m];
            assert_int_equal(one->slot, one->sends ? 3 + one->peer : one->peer);
            assert_int_equal(one->n_bytes, one->sends ? sizes[p][one->peer] : from[one->peer]);
            *(one->sends ? &sent : &received) += one->n_bytes;
        }
        assert_true(sent == sizes[p][0] + sizes[p][1] + sizes[p][2] && received == from[0] + from[1] + from[2] && sent == schedule.n_sent_bytes);
        end_case();
    }
}

/* (k + 1) N (P - 1) / P, where the image is as many units as shares can be even. */
static void direct_sends_each_node_once_and_the_sum(void **state) {
    (void)state;
    static const int64_t numbers[] = {2, 6, 7, 16, 24, 96, 100};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (int n = 2; n <= numbers[i] && n <= 40; n++) {
            int64_t share = 3 * DT_SCHEDULE_UNIT, n_all_nodes = 0;
            dt_layout layout = all_reduce(n, (int)numbers[i], n * share);
            const dt_schedule *schedules = dt_schedules_of(&layout, DT_SCHEDULE_DIRECT, arena);
            for (int p = 0; p < n; p++) n_all_nodes += schedules[p].n_nodes;
            for (int p = 0; p < n; p++) {
                int64_t k = schedules[p].n_nodes;
                assert_int_equal(schedules[p].n_rounds, 2);
                assert_int_equal(schedules[p].n_sent_bytes, (k + 1) * (n - 1) * share);
                assert_int_equal(slot_bytes(&schedules[p]), k * n * share + (n_all_nodes - k) * share);
            }
            end_case();
        }
}

/* ---- the simulator finds what is wrong ---- */

/* Each is a mistake in the schedule of one process of several. */
static dt_schedule_message *message_of(dt_schedule *schedule, int round, bool sends) {
    const dt_schedule_round *at = &schedule->rounds[round];
    int m = 0;
    while (at->messages[m].sends != sends) m++;
    return (dt_schedule_message *)&at->messages[m];
}

static dt_schedule_round *round_of(dt_schedule *schedule, int round) { return (dt_schedule_round *)&schedule->rounds[round]; }
static dt_schedule_sum *sum_of(dt_schedule *schedule) { return (dt_schedule_sum *)&schedule->rounds[0].sums[0]; }

static void forget_a_message(dt_schedule *schedule) { round_of(schedule, 0)->n_messages--; }
static void forget_a_sum(dt_schedule *schedule) { round_of(schedule, 0)->n_sums = 0; }
static void forget_a_round(dt_schedule *schedule) { schedule->n_rounds--; }
static void send_to_another_process(dt_schedule *schedule) { message_of(schedule, 0, true)->peer = 4; }
static void send_to_oneself(dt_schedule *schedule) { message_of(schedule, 0, true)->peer = 1; }
static void send_another_range(dt_schedule *schedule) { message_of(schedule, 0, true)->first += message_of(schedule, 0, true)->first > 0 ? -64 : 64; }
static void send_less(dt_schedule *schedule) { message_of(schedule, 0, true)->n_bytes -= 64; }
static void send_part_of_a_unit(dt_schedule *schedule) { message_of(schedule, 0, true)->n_bytes -= 4; }
static void send_what_is_not_there(dt_schedule *schedule) { message_of(schedule, 0, true)->slot = schedule->n_slots - 1; }
static void receive_elsewhere(dt_schedule *schedule) { message_of(schedule, 0, false)->slot = 0; }
static void receive_in_no_slot(dt_schedule *schedule) { message_of(schedule, 0, false)->slot = schedule->n_slots; }
static void send_where_others_receive(dt_schedule *schedule) { message_of(schedule, 1, true)->sends = false; }

static void exchange_rounds(dt_schedule *schedule) {
    dt_schedule_round first = schedule->rounds[0];
    *round_of(schedule, 0) = schedule->rounds[1];
    *round_of(schedule, 1) = first;
}

static void receive_where_it_is_sent_from(dt_schedule *schedule) {
    dt_schedule_message *message = message_of(schedule, schedule->n_rounds - 1, false);
    message_of(schedule, schedule->n_rounds - 1, true)->first = message->first;
    message_of(schedule, schedule->n_rounds - 1, true)->n_bytes = message->n_bytes;
}

static void exchange_messages_of_a_pair(dt_schedule *schedule) {
    dt_schedule_message *messages = message_of(schedule, 0, true), first = messages[0];
    messages[0] = messages[1];
    messages[1] = first;
}

static void add_up_in_another_order(dt_schedule *schedule) {
    int *sources = (int *)sum_of(schedule)->sources, first = sources[0];
    sources[0] = sources[1];
    sources[1] = first;
}

static void add_up_less(dt_schedule *schedule) { sum_of(schedule)->n_bytes -= 64; }
static void add_up_too_few(dt_schedule *schedule) { sum_of(schedule)->n_sources--; }
static void add_up_by_another_tree(dt_schedule *schedule) { sum_of(schedule)->n_leaves++; }
static void add_up_elsewhere(dt_schedule *schedule) { sum_of(schedule)->target = 1; }
static void hold_other_microbatches(dt_schedule *schedule) { ((dt_schedule_node *)schedule->nodes)->span++; }
static void count_other_bytes(dt_schedule *schedule) { schedule->n_sent_bytes++; }

static void mistakes_are_found(void **state) {
    (void)state;
    enum {
        OF_DIRECT = 1,
        OF_HALVING = 2,
        OF_ALL = OF_DIRECT | OF_HALVING
    };
    static const struct {
        const char *name;
        void (*make)(dt_schedule *schedule);
        int of;
    } mistakes[] = {
#define MISTAKE(name, of) {#name, name, of}
        MISTAKE(forget_a_message, OF_ALL),
        MISTAKE(forget_a_sum, OF_ALL),
        MISTAKE(forget_a_round, OF_ALL),
        MISTAKE(send_to_another_process, OF_ALL),
        MISTAKE(send_to_oneself, OF_ALL),
        MISTAKE(send_another_range, OF_ALL),
        MISTAKE(send_less, OF_ALL),
        MISTAKE(send_part_of_a_unit, OF_ALL),
        MISTAKE(send_what_is_not_there, OF_ALL),
        MISTAKE(receive_elsewhere, OF_ALL),
        MISTAKE(receive_in_no_slot, OF_ALL),
        MISTAKE(send_where_others_receive, OF_ALL),
        MISTAKE(exchange_rounds, OF_ALL),
        MISTAKE(receive_where_it_is_sent_from, OF_ALL),
        MISTAKE(exchange_messages_of_a_pair, OF_DIRECT), /* in the same direction */
        MISTAKE(add_up_in_another_order, OF_ALL),
        MISTAKE(add_up_less, OF_ALL),
        MISTAKE(add_up_too_few, OF_ALL),
        MISTAKE(add_up_by_another_tree, OF_ALL),
        MISTAKE(add_up_elsewhere, OF_ALL),
        MISTAKE(hold_other_microbatches, OF_ALL),
        MISTAKE(count_other_bytes, OF_ALL),
#undef MISTAKE
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        for (dt_schedule_algorithm algorithm = DT_SCHEDULE_DIRECT; algorithm <= DT_SCHEDULE_HALVING; algorithm++) {
            bool halves = algorithm == DT_SCHEDULE_HALVING;
            if (!(mistakes[i].of & (halves ? OF_HALVING : OF_DIRECT))) continue;
            /* 6 processes with a node each; 5 with 1, 2 or 3 */
            dt_layout layout = all_reduce(halves ? 6 : 5, halves ? 6 : 9, 4096);
            dt_schedule *schedules = dt_schedules_of(&layout, algorithm, arena);
            mistakes[i].make(&schedules[1]);
            if (dt_simulate(&layout, schedules, arena) == NULL) fail_msg("not found: %s", mistakes[i].name);
            end_case();
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_the_largest_there_are),
        cmocka_unit_test(any_number_of_processes_has_the_bits_of_the_tree),
        cmocka_unit_test(both_algorithms_have_the_bits_of_the_tree),
        cmocka_unit_test(odd_cuts_have_the_bits_of_the_tree),
        cmocka_unit_test(images_of_any_size),
        cmocka_unit_test(parts_may_be_uneven_and_empty),
        cmocka_unit_test(servers_give_workers_the_bits_of_the_tree),
        cmocka_unit_test(servers_own_all_parts),
        cmocka_unit_test(servers_may_keep_their_parts_alone),
        cmocka_unit_test(processes_with_other_nodes_cannot_halve),
        cmocka_unit_test(an_engine_adds_up_what_each_process_has),
        cmocka_unit_test(few_processes_are_direct_and_many_halve),
        cmocka_unit_test(halving_sends_at_most_the_image_twice),
        cmocka_unit_test(a_thousand_processes_take_twenty_rounds),
        cmocka_unit_test(members_may_be_any_processes),
        cmocka_unit_test(who_does_not_need_it_is_sent_nothing),
        cmocka_unit_test(all_to_all_is_one_round),
        cmocka_unit_test(direct_sends_each_node_once_and_the_sum),
        cmocka_unit_test(mistakes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
