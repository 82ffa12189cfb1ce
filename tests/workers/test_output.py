"""How a prompt's text reaches its log: batched, cut, numbered, and refused when it does not count any more."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.domain.errors import Superseded
from workers.output import LIMIT, Output


class Tape:
    """Records writes; can hold them up, and refuse them."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, str]] = []
        self.lost = 0
        self.refuses = False
        self.fails = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.output = Output(self.write, self.lose)

    async def write(self, number: int, text: str) -> bool:
        await self.gate.wait()
        if self.fails:
            raise RuntimeError("no")
        self.writes.append((number, text))
        return not self.refuses

    def lose(self) -> None:
        self.lost += 1


async def test_what_is_said_at_once_travels_with_the_end() -> None:
    """A short turn writes nothing but its acceptance: the last text is part of the finish."""
    tape = Tape()
    assert await tape.output.accept()
    await tape.output.emit("a")
    await tape.output.emit("b")
    assert await tape.output.rest() == (2, "ab")
    assert tape.writes == [(1, "")]


async def test_nothing_said_is_nothing_to_carry() -> None:
    """Number 0 means no output."""
    assert await Tape().output.rest() == (0, "")


async def test_text_is_written_after_a_short_while() -> None:
    """Followers do not wait for the end of the turn."""
    tape = Tape()
    await tape.output.emit("a")
    await tape.output.emit("b")
    await asyncio.sleep(0.06)
    assert tape.writes == [(1, "ab")]
    assert await tape.output.rest() == (0, "")


async def test_a_full_batch_is_written_at_once_and_holds_the_agent_up() -> None:
    """An agent that is faster than Redis waits for it, with one batch in memory."""
    tape = Tape()
    tape.gate.clear()
    emit = asyncio.create_task(tape.output.emit("x" * LIMIT))
    await asyncio.sleep(0.01)
    assert not emit.done()
    tape.gate.set()
    await emit
    assert tape.writes == [(1, "x" * LIMIT)]


@pytest.mark.parametrize("text", ["ab" * LIMIT, "é" * LIMIT, "a" + "€" * LIMIT, "😀" * LIMIT])
async def test_pieces_are_within_the_limit_and_no_character_is_cut(text: str) -> None:
    """In bytes, not in characters; together they are the text."""
    tape = Tape()
    await tape.output.emit(text)
    number, rest = await tape.output.rest()
    pieces = [piece for _, piece in tape.writes] + [rest]
    assert "".join(pieces) == text
    assert max(len(piece.encode()) for piece in pieces) <= LIMIT
    assert [n for n, _ in tape.writes] == list(range(1, len(tape.writes) + 1))
    assert number in {0, len(tape.writes) + 1}


async def test_a_refused_write_ends_the_stream() -> None:
    """The owner hears of it once; whoever goes on emitting is refused, and nothing more is sent."""
    tape = Tape()
    tape.refuses = True
    await tape.output.emit("a")
    with pytest.raises(Superseded):
        await tape.output.flush()
    with pytest.raises(Superseded):
        await tape.output.emit("b")
    assert await tape.output.rest() == (0, "")
    assert (tape.lost, len(tape.writes)) == (1, 1)


async def test_a_refused_acceptance_is_told() -> None:
    """The agent is not called then."""
    tape = Tape()
    tape.refuses = True
    assert not await tape.output.accept()
    assert tape.lost == 1


async def test_a_write_that_breaks_gives_the_prompt_up_instead_of_losing_text_unseen() -> None:
    """Whatever breaks it: the agent is told at its next word."""
    tape = Tape()
    tape.fails = True
    await tape.output.emit("a")
    with pytest.raises(Superseded):
        await tape.output.flush()
    assert tape.lost == 1


async def test_a_cancelled_flush_still_writes_what_was_said() -> None:
    """Stopping an agent loses none of its words."""
    tape = Tape()
    tape.gate.clear()
    await tape.output.emit("a")
    flush = asyncio.create_task(tape.output.flush())
    await asyncio.sleep(0)
    flush.cancel()
    await asyncio.gather(flush, return_exceptions=True)
    tape.gate.set()
    assert await tape.output.rest() == (0, "")
    assert tape.writes == [(1, "a")]


async def test_after_the_end_nothing_is_taken() -> None:
    """A task that outlives its turn can't write into the next one."""
    tape = Tape()
    await tape.output.rest()
    with pytest.raises(Superseded, match="has ended"):
        await tape.output.emit("late")
