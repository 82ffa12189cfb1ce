"""How the demo is shown: a live display on a terminal, plain lines elsewhere, objects with --json."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from coordinator.cli.output import harmless
from coordinator.domain.errors import CoordinatorError

if TYPE_CHECKING:
    from types import TracebackType

    from coordinator.cli.demo_audit import Audit
    from coordinator.cli.output import Output
    from coordinator.client import Coordinator
    from coordinator.overview import SessionRow

_REFRESH: Final = 0.25
_STORY: Final = 3
_FRAME: Final = 4


class View(Protocol):
    """What the demo tells, and to whom."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def scene(self, title: str) -> None:
        """A new scene begins."""

    def say(self, text: str) -> None:
        """Something happened."""

    def summary(self, found: Audit) -> None:
        """The end."""

    def watch(self, coord: Coordinator) -> None:
        """Show the sessions of this coordinator from now on."""

    async def unwatch(self) -> None:
        """Show them no more."""


class Lines:
    """Plain lines, or one object a line."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._title = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def scene(self, title: str) -> None:
        """Print a heading."""
        self._title = title
        if not self._out.json:
            self._out.line(f"\n{title}")

    def say(self, text: str) -> None:
        """Print what happened."""
        if self._out.json:
            self._out.record({"scene": self._title, "text": text})
        else:
            self._out.line(f"   {text}")

    def summary(self, found: Audit) -> None:
        """Print the counts, last."""
        if self._out.json:
            self._out.record(found)
        else:
            self._out.line(f"\n{found.line}")

    def watch(self, coord: Coordinator) -> None:
        """Begin to show the sessions, where that is possible."""

    async def unwatch(self) -> None:
        """End that."""


class Display:
    """A live display: the sessions as they are now, above the story so far."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._story: list[str] = []
        self._rows: list[SessionRow] = []
        self._watching: asyncio.Task[None] | None = None
        self._summary = ""

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        # The live picture shows only what fits; the whole story stays on the screen.
        for line in self._story:
            self._console.print(line)
        if self._summary:
            self._console.print(f"\n{self._summary}", markup=False)

    def scene(self, title: str) -> None:
        """Print a heading."""
        self._tell(f"[bold cyan]{_plain(title)}[/]")

    def say(self, text: str) -> None:
        """Print what happened."""
        style = "bold red" if text.startswith("FAILED") else "default"
        self._tell(f"   [{style}]{_plain(text)}[/]")

    def summary(self, found: Audit) -> None:
        """Print the counts, last."""
        self._summary = found.line

    def watch(self, coord: Coordinator) -> None:
        """Begin to show the sessions, where that is possible."""
        self._watching = asyncio.create_task(self._watch(coord))

    async def unwatch(self) -> None:
        """End that."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching}, timeout=1)

    async def _watch(self, coord: Coordinator) -> None:
        while True:
            with suppress(CoordinatorError):
                self._rows = sorted(await coord.sessions(), key=lambda row: row.session_id)
                self._draw()
            await asyncio.sleep(_REFRESH)

    def _tell(self, line: str) -> None:
        self._story.append(line)
        self._draw()

    def _draw(self) -> None:
        self._live.update(self._picture(), refresh=True)

    def _picture(self) -> Any:
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table

        table = Table(expand=True, box=None)
        for column in ("session", "status", "turn", "generation", "waiting", "step", "worker"):
            table.add_column(column)
        for row in self._rows:
            style = "green" if row.status == "running" else "dim"
            at = (row.step or "-", row.worker_id or "-")
            cells = (row.session_id, row.status, row.turn, row.generation, row.pending, *at)
            table.add_row(*(str(cell) for cell in cells), style=style)
        story = "\n".join(self._story[-max(_STORY, self._console.height - len(self._rows) - _FRAME) :])
        return Group(Panel(table, title="coordinator demo", border_style="cyan"), story)


def make_view(out: Output) -> View:
    """The display that suits where stdout leads."""
    return Display() if sys.stdout.isatty() and not out.json else Lines(out)


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(harmless(text))
