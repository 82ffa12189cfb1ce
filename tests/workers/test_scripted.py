"""The scripted agent's lines, with a turn that only writes down."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.domain.errors import QuestionClosed, UnknownStep
from coordinator.domain.records import Message, Ownership
from tests.workers.rig import until
from workers.agents.gates import Gates
from workers.agents.protocol import Prompt, TurnEnd
from workers.agents.scripted import ScriptedAgent

OWNERSHIP = Ownership("x", 7, "c")


class PaperTurn:
    """What the agent did with its turn."""

    def __init__(self) -> None:
        self.ownership = OWNERSHIP
        self.cancelled = asyncio.Event()
        self.cancel_cause = ""
        self.said: list[str] = []
        self.steering: list[str] = []
        self.reported: list[TurnEnd] = []
        self.asked_for: list[str] = []
        self.closes = False

    async def emit(self, text: str) -> None:
        self.said.append(text)

    async def take_steering(self) -> tuple[Message, ...]:
        batch, self.steering = self.steering, []
        return tuple(Message(f"m{i}", "next-step", "send", 0, body) for i, body in enumerate(batch))

    async def report(self, end: TurnEnd) -> bool:
        self.reported.append(end)
        return False

    async def ask(self, question: str) -> str:
        if self.closes:
            self.cancelled.set()
        if self.cancelled.is_set() or question == "nobody":
            raise QuestionClosed("it has expired")
        return question.upper()

    async def move(self, step: str) -> None:
        if step == "nowhere":
            raise UnknownStep("there is no such step")
        self.asked_for.append(step)

    async def signal(self) -> None:
        self.asked_for.append("signal")


class PaperGates(Gates):
    """Gates that a test opens without Redis."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        super().__init__(self._opened, interval=0.001)

    async def _opened(self, names: list[str]) -> set[str]:
        return self.open & set(names)


def begin(text: str, turn: PaperTurn, gates: Gates | None = None) -> asyncio.Task[TurnEnd]:
    prompt = Prompt("s", text, (), OWNERSHIP, 1, 1)
    return asyncio.create_task(ScriptedAgent(gates or PaperGates()).prompt(prompt, turn))  # type: ignore[arg-type]


async def play(text: str, turn: PaperTurn | None = None) -> tuple[TurnEnd, str]:
    turn = turn or PaperTurn()
    return await begin(text, turn), "".join(turn.said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("say one two", "one two"),
        ("anything else", "echo: anything else"),
        ("say a\nsay b\nc", "a\nb\necho: c"),
        ("say a\nsleep 0\nsay b", "ab"),
        ("", ""),
        ("\n\nhi\n", "echo: hi"),
        ("sleep soon", "echo: sleep soon"),
        ("sleep -1", "echo: sleep -1"),
        ("sleep nan", "echo: sleep nan"),
        ("hold", "echo: hold"),
        ("hold a b", "echo: hold a b"),
        ("step on it", "echo: step on it"),
        ("exit stage left", "echo: exit stage left"),
        ("Say x", "echo: Say x"),
        ("ask why", "answer: WHY"),
        ("say a\nask why\nsay b", "aanswer: WHY\nb"),
        ("ask", "echo: ask"),
        ("ask nobody\nsay b", "no answer: it has expired\nb"),
        ("move review\nsignal", ""),
        ("move nowhere", "move failed: there is no such step"),
        ("move it along", "echo: move it along"),
        ("signal left", "echo: signal left"),
        ("context", "context: turn 1 of nothing"),
        ("context free", "echo: context free"),
    ],
)
async def test_each_line_streams_what_it_is_to_stream(text: str, said: str) -> None:
    """Known words with their arguments do their thing; every other line is echoed; the turn completes."""
    assert await play(text) == (TurnEnd(OWNERSHIP), said)


async def test_fail_ends_the_turn_as_an_error_and_the_lines_after_it_do_not_run() -> None:
    """The message is the error."""
    assert await play("say a\nfail too bad\nsay b") == (TurnEnd(OWNERSHIP, "error", "too bad"), "a")


async def test_step_takes_the_steering_in_order() -> None:
    """Each message is streamed; a boundary without messages streams nothing."""
    turn = PaperTurn()
    turn.steering = ["one", "two"]
    assert (await play("step\nstep", turn))[1] == "steered: one\nsteered: two"


async def test_exit_only_ends_the_process_when_that_is_switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can send messages must not be able to kill workers."""
    monkeypatch.delenv("COORDINATOR_SCRIPTED_EXIT", raising=False)
    end, said = await play("exit")
    assert end.reason == "completed"
    assert "COORDINATOR_SCRIPTED_EXIT=1" in said


async def test_hold_waits_until_its_gate_is_open() -> None:
    """And for no other gate."""
    turn, gates = PaperTurn(), PaperGates()
    task = begin("hold a\nsay through", turn, gates)
    gates.open.add("b")
    await asyncio.sleep(0.01)
    assert not task.done()
    gates.open.add("a")
    assert await asyncio.wait_for(task, 5) == TurnEnd(OWNERSHIP)
    assert turn.said == ["through"]


@pytest.mark.parametrize("line", ["sleep 60", "hold never"])
async def test_a_cancel_ends_a_wait_and_the_turn(line: str) -> None:
    """The lines after it do not run."""
    turn = PaperTurn()
    task = begin(f"{line}\nsay more", turn)
    await asyncio.sleep(0)
    turn.cancelled.set()
    assert await asyncio.wait_for(task, 5) == TurnEnd(OWNERSHIP, "cancelled")
    assert turn.said == []


async def test_a_cancel_between_lines_ends_the_turn() -> None:
    """Also when no line waits."""
    turn = PaperTurn()
    turn.cancelled.set()
    assert await play("say a", turn) == (TurnEnd(OWNERSHIP, "cancelled"), "")


async def test_a_stop_while_it_asks_ends_the_turn() -> None:
    """And one that ignores stops goes on without an answer."""
    turn = PaperTurn()
    turn.closes = True
    assert await play("ask why\nsay more", turn) == (TurnEnd(OWNERSHIP, "cancelled"), "")
    turn = PaperTurn()
    turn.closes = True
    assert await play("ignore-cancel\nask why\nsay more", turn) == (
        TurnEnd(OWNERSHIP),
        "no answer: it has expired\nmore",
    )


async def test_moves_and_signals_are_asked_for() -> None:
    """In their order."""
    turn = PaperTurn()
    await play("move review\nsignal", turn)
    assert turn.asked_for == ["review", "signal"]


async def test_ignore_cancel_goes_on_to_the_end() -> None:
    """From its line on, waits included."""
    turn, gates = PaperTurn(), PaperGates()
    task = begin("ignore-cancel\nhold a\nsay done", turn, gates)
    await asyncio.sleep(0)
    turn.cancelled.set()
    await asyncio.sleep(0.01)
    assert not task.done()
    gates.open.add("a")
    assert await asyncio.wait_for(task, 5) == TurnEnd(OWNERSHIP)


async def test_late_completes_some_time_after_the_cancel() -> None:
    """In silence, and as completed: the agent did not notice."""
    turn = PaperTurn()
    task = begin("late 0.02\nhold never", turn)
    await asyncio.sleep(0)
    turn.cancelled.set()
    assert await asyncio.wait_for(task, 5) == TurnEnd(OWNERSHIP)
    assert turn.reported == []


async def test_late_reports_by_itself_when_its_prompt_was_killed_meanwhile() -> None:
    """The completion comes from outside the prompt, with the prompt's own ownership."""
    turn = PaperTurn()
    task = begin("late 0.02\nhold never", turn)
    await asyncio.sleep(0)
    turn.cancelled.set()
    await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: bool(turn.reported))
    assert turn.reported == [TurnEnd(OWNERSHIP)]
