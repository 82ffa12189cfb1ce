"""A kernel whose scripts have one rule taken out: a version without it, to see that a test can fail."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coordinator.store.scripts import load, root
from tests.faults.gap import copy_tree

if TYPE_CHECKING:
    from coordinator.services import Kernel

Edit = tuple[str, str, str]
"""File, pattern, replacement."""


def without(kernel: Kernel, folder: Path, *edits: Edit) -> None:
    """Give a kernel scripts with these edits, each of which has to find its place exactly once."""
    copy_tree(root(), folder)
    for name, pattern, replacement in edits:
        file = folder / name
        text, cuts = re.subn(pattern, lambda _, new=replacement: new, file.read_text())  # type: ignore[misc]
        assert cuts == 1, f"{name} has changed: make the naive version anew"
        file.write_text(text)
    store = kernel.store
    for script in list(store._scripts):
        store._scripts[script] = load(script, folder)


RUNS_ON: Final[Edit] = ("reset_begin.lua", r"if text\('open_claim'\) ~= '' then", "if false then")
"""1: a reset does not look for a turn."""
GATE_STAYS: Final[Edit] = ("lib/end_prompt.lua", r"    set\('open_' \.\. field, ''\)\n  end\n  for", "  end\n  for")
"""2: the end of a turn is one flag, and the gate of the next another."""
ESCALATED_IS_QUIET: Final[tuple[Edit, ...]] = (
    ("lib/endings.lua", r"leave\(false, false, false\)", "leave(false, false, true)"),
    ("lib/reset.lua", r"if redis\.call\('SCARD', suspects\) > 0 then", "if false then"),
)
"""3: an escalated stop counts as one that the agent has confirmed."""
TESTED_BEFORE: Final[Edit] = ("lib/driver.lua", r"text\('phase'\) ~= 'running' or text\('activity'\) ~= token or ", "")
"""4: the marker was tested before the claim, and is not tested with it."""
IMPATIENT: Final[Edit] = (
    "lib/overdue.lua",
    r"if text\('open_claim'\) ~= '' and is_over\('lease'\) then",
    "if text('open_claim') ~= '' then",
)
"""6: an acknowledged stop does not wait for the completion that is owed."""
ESCALATION_KEEPS_GATE: Final[Edit] = (
    "lib/endings.lua",
    r"end_prompt\('escalated', false, why\)",
    "settle_operation('escalated')",
)
"""7: an escalation lets its waiters go, and leaves the gate."""
ANY_READY: Final[Edit] = (
    "lib/ready.lua",
    r"local why = differs_from\('last_'\) or \(text\('unsettled'\) == '' and 'settled'\)",
    "local why = nil",
)
"""8: a ready is matched by its session alone."""
FINISH_TAKES_GUARD: Final[tuple[Edit, ...]] = (
    ("finish.lua", r"-- ARGV  token  ", "-- KEYS  guard  hash  owner\n-- ARGV  token  "),
    (
        "finish.lua",
        r"elseif not owns\(\) then",
        "elseif redis.call('EXISTS', guard) == 1 then\n  return { 'GONE', '' }\nelseif not owns() then",
    ),
)
"""10: what ends a turn waits for the guard, whose holder waits for the turn's end."""
NO_RECONCILE: Final[Edit] = (
    "expire_cancel.lua",
    r"return done\('OK', escalate\('cancel not acknowledged in time'\)\)",
    "settle_operation('escalated')\nreturn done('OK', '')",
)
"""12: a stop's deadline ends the stop, and not the turn."""
NO_PARKING: Final[Edit] = ("cancel.lua", r"  park\(false\)", "  do end")
"""17: a stop leaves the queue as it is."""
BOOT_IS_READY: Final[tuple[Edit, ...]] = (
    ("boot.lua", r"-- @include lib/done", "-- @include lib/end_prompt"),
    ("boot.lua", r"execution_event\('agent\.boot_ready', .*\)", "publish_ready('required')\nset('unsettled', '1')"),
)
"""18: an agent that is up publishes what the end of a turn does."""
NO_DRAIN: Final[Edit] = ("lib/exit.lua", r"if natural or not has_awake\(\) then", "if true then")
"""19: only a ready drains the queue, not the end of a runtime."""
NOBODY_STARTS: Final[Edit] = ("lib/entry_end.lua", r" and has_awake\(\) then", " and false then")
"""20: the step's prompt is queued for somebody who is thought to run."""
ALWAYS_CALLS: Final[Edit] = ("lib/reset.lua", r"elseif text\('execution_id'\) == '' then", "elseif false then")
"""21: a reset needs a runtime, also in a session that never ran."""
QUESTION_BLOCKS: Final[Edit] = (
    "send.lua",
    r"elseif phase == 'idle' and wake == '1' then",
    "elseif phase == 'idle' and wake == '1' and text('question_id') == '' then",
)
"""25: a session with an open question takes nothing but its answer."""
QUESTION_PASSES: Final[Edit] = ("lib/evaluation.lua", r"return 'question'", "return 'evaluate'")
"""30: an open question does not count at the turn's end."""
ANY_STOP_COUNTS: Final[Edit] = ("lib/evaluation.lua", r"kind == 'user' and is_stopped", "kind ~= '' and is_stopped")
"""31: every stop of a turn completes its step."""
