"""What notebooks show: a program's layers, a training's table with curves. Colours are the notebook's own, in light and dark."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from dt import _dt

if TYPE_CHECKING:
    from dt.program import Program
    from dt.training import Report

_COLORS = ("#4269d0", "#d9730d", "#3a9a5b", "#b04fc0", "#c0392b", "#7f7f7f")  # distinct on white and on black
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 360, 170, 60, 18, 20


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> str:
    """A table of texts; columns from `numbers` on are right-aligned."""
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f'<{tag} style="text-align:{"left" if i < numbers else "right"}">{escape(cell)}</{tag}>' for i, cell in enumerate(row))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def _layers(described: Program) -> str:
    """Each layer with its output, variables and number of parameters; where the source is not at hand, those that have variables."""
    variables: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for tensor in described.variables.values():
        if tensor.kind == "slot":
            continue
        layer, _, name = tensor.name.rpartition("/")
        variables.setdefault(layer, []).append(f"{name} {tensor.type}")
        sizes[layer] = sizes.get(layer, 0) + (tensor.size if tensor.kind == "parameter" else 0)
    try:
        layers = described.layers
    except _dt.Error:  # an artifact does not hold the modules of its own that a program uses
        return _table(("layer", "variables", "parameters"), [(layer, ", ".join(names), f"{sizes[layer]:,}") for layer, names in variables.items()], 2)
    rows = [("\u2003" * layer.depth + (layer.path.rpartition("/")[2] if layer.depth else layer.path), layer.kind, layer.output,
             ", ".join(variables.get(layer.path, ())), f"{layer.n_parameters:,}") for layer in layers]
    return _table(("layer", "kind", "output", "variables", "parameters"), rows, 4)


def program(described: Program) -> str:
    """Its layers, and below them its steps."""
    frozen = described.n_parameters - described.n_trainable
    layers = _layers(described)
    steps = _table(("step", "inputs", "results", "reports", "data"),
                   [(step.name, ", ".join(map(str, step.inputs)), ", ".join(map(str, step.results)), ", ".join(step.reports), step.data or "")
                    for step in described.steps.values()], 5)
    return (f"<div><b>{escape(described.name)}</b>: {described.n_parameters:,} parameters, {described.n_trainable:,} trainable, {frozen:,} frozen"
            f"{layers}{steps}</div>")


def number(value: float) -> str:
    """A report for people: with four decimals, or as many digits where those would say nothing of it, as of a learning rate."""
    return f"{value:.4f}" if value == 0 or 0.01 <= abs(value) < 1e6 or value != value or abs(value) == float("inf") else f"{value:.4g}"


def _curves(title: str, epochs: Sequence[int], curves: dict[str, list[float | None]]) -> str:
    """Curves of one kind over the epochs, as an SVG with a scale of its own."""
    known = [value for values in curves.values() for value in values if value is not None and abs(value) != float("inf") and value == value]
    if not known:
        return ""
    low, high = min(known), max(known)
    span = high - low or abs(high) or 1.0
    across = max(epochs[-1] - epochs[0], 1)

    def place(epoch: int, value: float) -> str:
        x = _LEFT + (epoch - epochs[0]) / across * (_WIDTH - _LEFT - 10)
        y = _HEIGHT - _BOTTOM - (value - low) / span * (_HEIGHT - _BOTTOM - _TOP - 6)
        return f"{x:.1f},{y:.1f}"

    parts = [f'<text x="{_LEFT}" y="12" font-weight="bold">{escape(title)}</text>',
             f'<path d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - 6}" fill="none" stroke="currentColor" opacity="0.4"/>']
    for value, y in ((high, _TOP + 8), (low, _HEIGHT - _BOTTOM)):
        parts.append(f'<text x="{_LEFT - 4}" y="{y}" text-anchor="end">{value:.4g}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 4}">{epochs[0]}</text>'
                 f'<text x="{_WIDTH - 6}" y="{_HEIGHT - 4}" text-anchor="end">{epochs[-1]}</text>')
    names = []
    for i, (name, values) in enumerate(curves.items()):
        color = _COLORS[i % len(_COLORS)]
        points = [place(epoch, value) for epoch, value in zip(epochs, values) if value is not None and value == value and abs(value) != float("inf")]
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        parts += [f'<circle cx="{point.split(",")[0]}" cy="{point.split(",")[1]}" r="2" fill="{color}"/>' for point in points]
        names.append(f'<tspan fill="{color}" dx="6">{escape(name)}</tspan>')
    parts.append(f'<text x="{_WIDTH - 6}" y="12" text-anchor="end">{"".join(names)}</text>')
    return (f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="10" fill="currentColor" '
            f'role="img" aria-label="{escape(title)} over epochs">{"".join(parts)}</svg>')


def training(reports: Sequence[Report]) -> str:
    """A row for each epoch; below, for each kind of report, its curves of training and evaluation."""
    if not reports:
        return "<div>a training that has not begun</div>"
    names = list(dict.fromkeys(name for report in reports for name in report if isinstance(report[name], float)))
    rows = [[str(report.epoch), *(number(report[name]) if name in report else "" for name in names), f"{report.examples:,}", f"{report.seconds:.2f}",
             f"{report.examples_per_second:,.0f}"] for report in reports]
    table = _table(["epoch", *names, "examples", "seconds", "examples/s"], rows, 0)
    kinds = dict.fromkeys(name.rpartition(".")[2] for name in names)
    epochs = [report.epoch for report in reports]
    charts = [_curves(kind, epochs, {name.rpartition(".")[0] or "train": [report.get(name) for report in reports]
                                     for name in names if name.rpartition(".")[2] == kind}) for kind in kinds]
    return f"<div>{table}<div>{''.join(charts)}</div></div>"
