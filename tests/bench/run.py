"""One run: everything on one server, the reference points between what they are compared with."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from coordinator.session import Session
from tests.bench import costs
from tests.bench.bare_arq import BareArq
from tests.bench.floor import PLAIN, Floor
from tests.bench.latency import Latency
from tests.bench.plan import Plan
from tests.bench.report import Figure, Report
from tests.bench.rig import Rig, rig
from tests.bench.stops import Stopped, Stops
from tests.bench.throughput import Throughput

PARTS: Final = ("latency", "throughput", "scripts", "idle", "memory")


class Run:
    """Collects figures; each part adds its own."""

    def __init__(self, rig: Rig, plan: Plan) -> None:
        self.figures: list[Figure] = []
        self.details: dict[str, Any] = {}
        self._rig = rig
        self._plan = plan
        self._beside: tuple[Floor, BareArq] | None = None

    async def beside(self) -> tuple[Floor, BareArq]:
        """What the product is compared with."""
        self._beside = self._beside or (await Floor.start(self._rig), await BareArq.start(self._rig))
        return self._beside

    async def latency(self) -> None:
        """The floor, turns, placements and stops, block by block."""
        floor, arq = await self.beside()
        plan, worker = self._plan, await self._rig.worker("tests.bench.agents:Stamping")
        latency, plain = await Latency.start(self._rig), await Floor.start(self._rig, PLAIN)
        stops, stopped = await Stops.start(self._rig), Stopped([], [])
        floors: list[float] = []
        plains: list[float] = []
        turns: list[float] = []
        placements: list[float] = []
        for _ in range(plan.blocks):
            floors += await floor.latencies(plan.floors)
            plains += await plain.latencies(plan.floors)
            turns += await latency.turns(plan.turns)
            placements += await latency.placements(plan.placements)
            more = await stops.rounds(plan.stops)
            stopped.aborts.extend(more.aborts)
            stopped.outcomes.extend(more.outcomes)
        await worker.terminate()
        starts = await arq.latencies(plan.arq_starts)
        low, other = statistics.median(floors), statistics.median(starts)
        for name, found in (
            ("floor: append, wake, claim", floors),
            ("the same by redis-py as it comes", plains),
            ("bare arq: start of a job", starts),
        ):
            self.figures.append(Figure(name=name, value=statistics.median(found), unit="ms", p95=_p95(found)))
        for name, found, most in (
            ("start of a turn on a live execution", turns, 1.5),
            ("first placement through arq", placements, 4.0),
            ("cancel to the agent's abort event", stopped.aborts, 2.0),
        ):
            value = statistics.median(found)
            self.figures.append(
                Figure(
                    name=name, value=value, unit="ms", p95=_p95(found), floor=low, arq=other, ratio=value / low,
                    against="floor", goal=f"<= {most:g} x floor", met=value <= most * low,
                )
            )  # fmt: skip

        ends = stopped.outcomes
        self.figures.append(
            Figure(
                name="cancel to its outcome, the agent obeys", value=statistics.median(ends), unit="ms", p95=_p95(ends),
                floor=low, ratio=statistics.median(ends) / low, against="floor",
            )
        )  # fmt: skip

    async def throughput(self, throughput: Throughput) -> None:
        """The floor, arq and full turns, all by one client and one process on the other side."""
        floor, arq = await self.beside()
        floors, turns = [], []
        for _ in range(self._plan.rounds):
            floors.append(await floor.throughput(self._plan.floor_items))
            turns.append(await throughput.turns_a_second())
        jobs = await arq.throughput(self._plan.arq_jobs)
        low, value = statistics.median(floors), statistics.median(turns)
        self.details["turns_a_second"] = turns
        self.figures += [
            Figure(name="floor: appended and claimed", value=low, unit="/s"),
            Figure(name="bare arq: jobs that do nothing", value=jobs, unit="/s"),
            Figure(
                name="full turns, fenced and settled", value=value, unit="/s", floor=low, arq=jobs, ratio=value / jobs,
                against="arq", goal=">= 2 x arq", met=value >= 2 * jobs,
            ),
            Figure(name="first turns, each placed first", value=throughput.placed, unit="/s", floor=low, arq=jobs),
        ]  # fmt: skip

    async def scripts(self, session: Session) -> None:
        """What a turn costs."""
        found = await costs.scripts_a_turn(self._rig, session, self._plan.counted)
        self.details["scripts"] = found
        value, server = round(sum(found.calls.values()), 2), sum(found.server_us.values()) / 1000
        self.figures.append(Figure(name="scripts a turn", value=value, unit="", goal="5", met=value == 5))
        self.figures.append(Figure(name="server's time for them", value=server, unit="ms"))

    async def idle(self) -> None:
        """What the processes send when nothing happens."""
        found = await costs.idle(self._rig, self._plan.window)
        self.details["idle"] = found
        for user in ("worker", "replica"):
            self.figures.append(
                Figure(
                    name=f"{user} beside {self._plan.idle:,} idle sessions: commands beyond heartbeats",
                    value=found.beyond[user], unit="/s", goal="< 10 /s", met=found.beyond[user] < 10,
                )
            )  # fmt: skip
        both = sum(found.sent.values())
        self.figures.append(Figure(name="both: all that they send, heartbeats too", value=both, unit="/s"))
        self.figures.append(Figure(name="the server's count, with what scripts do", value=found.processed, unit="/s"))

    async def memory(self, sessions: list[Session], turns: int) -> None:
        """What an idle session weighs, the last one opened and one that had turns."""
        used, fresh = await costs.memory(self._rig, sessions[: self._plan.busy]), None
        self.details["memory"] = {"used": used}
        record = used.record
        self.figures.append(
            Figure(name="record of an idle session", value=record, unit="bytes", goal="< 1024", met=record < 1024)
        )
        self.figures.append(Figure(name=f"all its keys, after {turns} turns", value=used.session, unit="bytes"))
        if sessions[self._plan.busy :]:
            fresh = await costs.memory(self._rig, sessions[self._plan.busy :])
            self.details["memory"]["fresh"] = fresh
            self.figures.append(Figure(name="all its keys, just opened", value=fresh.session, unit="bytes"))


async def measure(
    plan: Plan,
    kind: str,
    *,
    quick: bool,
    parts: Collection[str] = PARTS,
    say: Callable[[str], object] = lambda _: None,
) -> Report:
    """Measure these parts on a fresh server of that kind; `say` hears what comes next."""
    began = time.monotonic()
    async with rig(kind) as found:
        run = Run(found, plan)
        await found.replica()
        if "latency" in parts:
            say("latency")
            await run.latency()
        await found.worker("tests.bench.agents:tiny")
        say(f"{plan.idle:,} sessions")
        throughput = await Throughput.start(found, plan.idle, plan.busy)
        if "throughput" in parts:
            say("throughput")
            await run.throughput(throughput)
        if "memory" in parts:
            await run.memory(throughput.sessions, throughput.rounds)
        if "scripts" in parts:
            say("scripts")
            await run.scripts(throughput.sessions[0])
        if "idle" in parts:
            say("idleness")
            await run.idle()
        server = await _server(found)
    return Report(
        server=server, quick=quick, seconds=time.monotonic() - began, figures=tuple(run.figures), details=run.details
    )


async def _server(found: Rig) -> str:
    info: Any = await found.redis.info("server")
    name = "Valkey" if "valkey_version" in info else "Redis"
    return f"{name} {info.get('valkey_version') or info['redis_version']}"


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1]
