"""The figures as people and programs read them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

_HEAD: Final = ("what", "figure", "floor", "bare arq", "ratio", "goal", "met")


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. `ratio` is what the goal speaks of: against the floor, against arq, or the figure itself."""

    name: str
    value: float
    unit: str
    p95: float | None = None
    floor: float | None = None
    arq: float | None = None
    ratio: float | None = None
    against: str = ""
    goal: str = ""
    met: bool | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    server: str
    quick: bool
    seconds: float
    figures: tuple[Figure, ...]
    details: dict[str, Any]
    """What the figures were made of."""


def table(report: Report) -> str:
    """One line a figure, in columns."""
    rows = [_HEAD, *map(_row, report.figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*lines, "", f"{report.server}, {report.seconds:.0f} s; floor and arq were measured in between."])


def _row(figure: Figure) -> tuple[str, ...]:
    p95 = "" if figure.p95 is None else f" (p95 {_number(figure.p95)})"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f} x {figure.against}".rstrip(" x")
    met = "" if figure.met is None else ("yes" if figure.met else "no")
    return (
        figure.name,
        f"{_number(figure.value)} {figure.unit}{p95}",
        _number(figure.floor),
        _number(figure.arq),
        ratio,
        figure.goal,
        met,
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 and value != int(value) else f"{value:.3g}"
