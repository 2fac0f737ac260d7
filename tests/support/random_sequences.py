"""Forms of random programs along an axis: orders, running sums, and scans whose bodies are random as well (random_programs.py has all others)."""

import re

from random_programs import cut, cut_reference, is_cut, partner
from random_values import DECISION, MOVEMENT, Value, dims, form


def axis_of(g, x, sizes):
    return g.random.choice([d for d in range(int(x.has_rows), len(x.shape)) if x.shape[d] in sizes])


def with_axis(g, holds, sizes):
    """A value and one of its axes, but the batch, of one of those sizes; or None twice."""
    x = g.pick(lambda v: v.size > 0 and any(d in sizes for d in v.shape[int(v.has_rows) :]) and holds(v))
    return (x, axis_of(g, x, sizes)) if x else (None, None)


@form(3, "plain trained edges")
def ordered(g):
    x, axis = with_axis(g, lambda v: v.dtype != "bool", (1, 3, 9))
    if not x:
        return
    down = g.random.choice((False, True))
    k = g.random.choice([k for k in (1, 3) if k <= x.shape[axis]])
    words, n = (f"axis: {axis}, descending: {str(down).lower()}", x.shape[axis]) if g.random.random() < 0.5 else (f"{k}, axis: {axis}", k)
    sorts = "descending" in words
    down, shape = down or not sorts, x.shape[:axis] + (n,) + x.shape[axis + 1 :]
    if (x.exact or g.kind == "edges") and g.random.random() < 0.4:
        g.add(f"argsort({x.name}, {words})" if sorts else f"top_k({x.name}, {words})[1]", "i64", shape, lambda j, v: j.first(j.order(v, axis, down), axis, n),
              (x,), 9, how=DECISION)  # fmt: skip
        return
    before = cut_reference(g, x)
    g.add(f"sort({cut(g, x)}, {words})" if sorts else f"top_k({cut(g, x)}, {words})[0]", x.dtype, shape, lambda j, v: j.ordered(before(j, v), axis, down, n),
          (x,), x.bound, x.quantum, slopes=not is_cut(g, x), how=MOVEMENT)  # fmt: skip


@form(2, "plain trained curved")
def running_sum(g):
    x, axis = with_axis(g, lambda v: True, (1, 3, 9))
    if x:
        back = g.random.choice((False, True))
        g.add(f"cumsum({x.name}, axis: {axis}, reverse: {str(back).lower()})", x.dtype if x.is_float else "i64", x.shape,
              lambda j, v: j.running_sum(j.integers(v), axis, back), (x,), x.bound * x.shape[axis], x.quantum, is_sum=True)  # fmt: skip


def expression(g, leaves, depth):
    """Text and meaning, a function of the language's words and of the leaves' values, by name."""
    if depth == 0:
        leaf = g.random.choice(leaves)
        return leaf, lambda j, of: of[leaf]
    a, left = expression(g, leaves, depth - 1)
    b, right = expression(g, leaves, g.random.randrange(depth))
    return g.random.choice((
        (f"({a} + {b})", lambda j, of: left(j, of) + right(j, of)), (f"({a} - {b})", lambda j, of: left(j, of) - right(j, of)),
        (f"({a} * {b})", lambda j, of: left(j, of) * right(j, of)), (f"(0.5 * {a})", lambda j, of: 0.5 * left(j, of)),
        (f"tanh({a})", lambda j, of: j.tanh(left(j, of))), (f"sin({a})", lambda j, of: j.np.sin(left(j, of))),
        (f"sigmoid({a})", lambda j, of: j.sigmoid(left(j, of)))))  # fmt: skip


def scan(g, x, axis, body, init, state, bound, quantum, more=()):
    """`body`: texts of what a state becomes and of what is kept, and their meaning, a function of words, state, part of x and the operands in `more`.
    `init`: a value, or None: zeros. Both results have the state's shape, and what is kept all iterations along the axis."""
    g.loops = True
    begin = init.name if init else f"full({dims(state)}, 0, dtype: {x.dtype})"
    back, kept = g.random.choice((False, True)), g.random.random() < 0.6
    text = f"scan(fn(s, x) => [{body[0]}, {body[1]}], {begin}, {x.name}, axis: {axis}{', reverse: true' if back else ''})[{int(kept)}]"
    shape = state[:axis] + (x.shape[axis],) + state[axis:] if kept else state
    exact = quantum is not None and x.exact

    def reference(j, v, *others):
        first, others = (others[0], others[1:]) if init else (None, others)
        return j.scan(lambda j, s, part: body[2](j, s, part, *others), first, v, state, axis, back, kept, exact)

    following, keeping = (set(re.findall(r"\w+", part)) for part in body[:2])
    found = following if not kept else keeping | following if "s" in keeping else keeping
    operands = {"x": x, **({"s": init} if init else {}), **{w.name: w for w in more}}
    g.add(text, x.dtype, shape, reference, tuple(operands.values()), bound, quantum, slopes=[v for name, v in operands.items() if name in found])


@form(5, "plain trained curved")
def scanned(g):
    x, axis = with_axis(g, lambda v: v.dtype in ("f32", "f64") and v.has_rows and len(v.shape) >= 2 and v.bound <= 3, (3, 9))
    if not x:
        return
    state = x.shape[:axis] + x.shape[axis + 1 :]
    w = g.constant(x.dtype, ()) if g.random.random() < 0.3 else None
    init = partner(g, Value("", x.dtype, state), holds=lambda v: v.shape == state and v.bound <= 4) if g.random.random() < 0.5 else None
    leaves = ["s", "x", "s", "x", *([w.name] if w else [])]
    inner, following = expression(g, leaves, 2)
    own, outer = g.random.choice("sx"), g.random.choice(("tanh", "sin"))  # `own`: the next state is of its shape in any case. 0.0625: roundings do not grow
    keep, kept = expression(g, ["s", "x"], g.random.randrange(3))

    def body(j, s, part, *others):
        of = {"s": s, "x": part, **({w.name: others[0]} if w else {})}
        next_state = of[own] + 0.0625 * following(j, of)
        return j.tanh(next_state) if outer == "tanh" else j.np.sin(next_state), kept(j, of)

    scan(g, x, axis, (f"{outer}({own} + 0.0625 * {inner})", keep, body), init, state, 256, None, [w] if w else [])


@form(2, "plain trained curved")
def recurrent(g):
    """A cell with products, by what depends on the state and by what does not."""
    x = g.pick(lambda v: v.dtype in ("f32", "f64") and v.has_rows and len(v.shape) == 3 and v.size > 0 and v.bound <= 4 and v.shape[1] > 1)
    axis = x and g.random.choice([d for d in (1, 2) if x.shape[d] > 1])
    m = g.random.choice((1, 3, 9))
    w = x and g.constant(x.dtype, (x.shape[3 - axis], m))
    u = w and g.constant(x.dtype, (m, m))
    if u:
        meaning = lambda j, s, part, w, u: (j.tanh(part @ w + s @ u),) * 2  # noqa: E731
        text = f"tanh(x @ {w.name} + s @ {u.name})"
        scan(g, x, axis, (text, text, meaning), None, ("B", m), 1, None, [w, u])


@form(2)
def accumulated(g):
    """Sums, differences and products with the part of each iteration, all exact."""
    x, axis = with_axis(g, lambda v: v.exact and v.dtype != "bool" and v.has_rows and len(v.shape) >= 2, (3, 9))
    if x:
        n, op = x.shape[axis], g.random.choice("+-")
        after = (lambda s, v: s + v) if op == "+" else (lambda s, v: v - s)
        body = ("s + x" if op == "+" else "x - s", "s * x", lambda j, s, v: (after(s, v), s * v))
        scan(g, x, axis, body, None, x.shape[:axis] + x.shape[axis + 1 :], (x.bound * n) ** 2, 2 * (x.quantum or 0))
