"""nccl_order: whether processes use NCCL in one order, from what the fake noted of each (FAKE_NCCL_ORDER of fake_nccl.c).

A group ends when all its messages have arrived, and the next one of the process begins behind it. So groups that have a message in common are one
event, of all processes that it concerns; and in whatever order each process goes through its events, all of these are orders of one list: no event
comes before itself."""


def read_groups(path):
    """Of each line the messages, as (communicator, from, to, number), and the bytes of each, by whether it is sent."""
    for line in path.read_text().splitlines():
        name, rank, *messages = line.split()
        group = {}
        for one in messages:
            peer, number, n_bytes = map(int, one[1:].split(":"))
            ends = (int(rank), peer) if one[0] == "s" else (peer, int(rank))
            group[(name, *ends, number)] = (one[0], n_bytes)
        yield group


def disorder(paths):
    """What is not in one order; None: nothing is."""
    processes = [list(read_groups(path)) for path in paths]
    event, ends = {}, {}

    def root(one):
        while event[one] != one:
            one = event[one]
        return one

    for p, groups in enumerate(processes):
        for g, group in enumerate(groups):
            event[p, g] = (p, g)
            for message, (direction, n_bytes) in group.items():
                ends.setdefault(message, {})[direction] = (p, g), n_bytes
    for message, both in ends.items():
        if len(both) != 2 or both["s"][1] != both["r"][1]:
            return f"{message} is sent and received otherwise: {both}"
        event[root(both["s"][0])] = root(both["r"][0])
    before = {root(one): set() for one in event}
    for p, groups in enumerate(processes):
        for g in range(1, len(groups)):
            before[root((p, g))].add(root((p, g - 1)))
    while before:
        first = [one for one, others in before.items() if not others & before.keys()]
        if not first:
            return f"{len(before)} events wait for one another"
        for one in first:
            del before[one]
    return None
