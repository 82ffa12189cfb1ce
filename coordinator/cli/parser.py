"""The command line's grammar. It imports nothing of the product, so that help and mistakes answer at once."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

from coordinator.cli import arguments, flow_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_EXAMPLES: Final = """\
try it out, with no server installed:
  coordinator demo                                  the whole thing at work, in half a minute
  coordinator up                                    a server, an orchestrator and a worker, until Ctrl-C
  coordinator send task-42 'say hello' --wait       in another terminal, with --redis as `up` printed it

exit codes: 0 done, 1 refused or failed (named error on stderr), 2 wrong usage, 3 Redis can't be reached
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose mistakes are one line, or one object with --json."""

    as_json = False
    """Whether the command line asks for objects; known before it is parsed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line and exit with 2."""
        sentence = f"{message}; see `{self.prog} --help`"
        if Parser.as_json:
            sys.stderr.write(json.dumps({"error": "Usage", "message": sentence}) + "\n")
        else:
            sys.stderr.write(f"coordinator: Usage: {sentence}\n")
        raise SystemExit(2)

    def unknown(self, words: list[str]) -> NoReturn:
        """Blame the misspelt option, not the words that it has left without a place, and exit with 2."""
        named = next((word.partition("=")[0] for word in words if word.startswith("-")), words[0])
        options = [option for action in self._actions for option in action.option_strings]
        close = difflib.get_close_matches(named, options, 1)
        self.error(f"{named} is unknown here{f', did you mean {close[0]}?' if close else ''}")


COMMANDS: Final[dict[str, tuple[str, str, Callable[[argparse.ArgumentParser], None]]]] = {
    "demo": ("coordinator.cli.demo:demo", "show the whole thing at work on an embedded server", arguments.nothing),
    "up": ("coordinator.cli.up:up", "run a server, an orchestrator and a worker until Ctrl-C", arguments.up),
    "worker": ("coordinator.cli.processes:worker", "run one worker process", arguments.worker),
    "orchestrator": ("coordinator.cli.processes:orchestrator", "run one orchestrator replica", arguments.orchestrator),
    "open": ("coordinator.cli.messages:open_", "make a session, or change its policy", arguments.open_),
    "send": ("coordinator.cli.messages:send", "send a message; it gets a turn of its own", arguments.send),
    "steer": ("coordinator.cli.messages:steer", "send a message for the running turn's next step", arguments.text),
    "inject": ("coordinator.cli.messages:inject", "like steer, but never wakes an idle session", arguments.text),
    "prompt": (
        "coordinator.cli.flowing:prompt",
        "put a prompt first in line, and return when an agent has accepted it",
        flow_arguments.prompt,
    ),
    "cancel": ("coordinator.cli.stopping:cancel", "stop what runs in a session", arguments.cancel),
    "replace": ("coordinator.cli.stopping:replace", "stop what runs and send this instead", arguments.replace),
    "interrupt": ("coordinator.cli.stopping:interrupt", "stop what runs for a parent's message", arguments.interrupt),
    "reset": ("coordinator.cli.flowing:reset", "give a session's agent a fresh context", flow_arguments.reset),
    "move": ("coordinator.cli.flowing:move", "move a session to another step of its workflow", flow_arguments.move),
    "signal": ("coordinator.cli.flowing:signal", "let a turn's end leave a step that waits for it", arguments.session),
    "workflow": (
        "coordinator.cli.workflow:workflow",
        "check a file of workflows, or show where a session stands in its own",
        arguments.workflow_action,
    ),
    "answer": ("coordinator.cli.flowing:answer", "answer a question that a turn asked", flow_arguments.answer),
    "close": ("coordinator.cli.messages:close", "close a session; what is open is stopped", arguments.session),
    "wait": ("coordinator.cli.messages:wait", "wait until a session is idle and settled, or closed", arguments.wait),
    "show": ("coordinator.cli.inspection:show", "show a session's whole record", arguments.session),
    "ls": ("coordinator.cli.inspection:ls", "list sessions", arguments.ls),
    "tail": ("coordinator.cli.inspection:tail", "print a session's log", arguments.tail),
    "inbox": ("coordinator.cli.inbox:inbox", "list a session's messages, or edit the pending ones", arguments.inbox),
    "explain": ("coordinator.cli.explaining:explain", "say why a session is where it is", arguments.session),
    "workers": ("coordinator.cli.inspection:workers", "list the workers", arguments.nothing),
    "stats": (
        "coordinator.cli.inspection:stats",
        "count sessions, turns, events and what was refused",
        arguments.nothing,
    ),
    "top": ("coordinator.cli.top:top", "watch sessions, turns, events and workers until Ctrl-C", arguments.top),
    "doctor": ("coordinator.cli.doctor:doctor", "check Redis and what is in it, and say what to do", arguments.nothing),
}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse a command line; `command` in the answer names one of COMMANDS. Exits with 2 for a mistake."""
    Parser.as_json = "--json" in (sys.argv[1:] if argv is None else argv)
    root = Parser(
        prog="coordinator", description="Event coordination for AI-agent sessions on Redis.", epilog=_EXAMPLES
    )
    root.add_argument("--version", action="store_true", help="print the version and exit")
    arguments.common(root)
    commands = root.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, (_, summary, setup) in COMMANDS.items():
        parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        setup(parser)
        arguments.common(parser)
    options, unknown = root.parse_known_args(argv)
    if unknown:
        commands.choices.get(options.command or "", root).unknown(unknown)
    options.json = getattr(options, "json", False)
    options.redis = getattr(options, "redis", None)
    if options.command is None and not options.version:
        root.error("a command is missing, one of " + ", ".join(COMMANDS))
    _check(options, root)
    return options


def _check(options: argparse.Namespace, root: Parser) -> None:
    if options.command in {"send", "replace", "cancel", "answer"} and options.timeout and not options.wait:
        root.error(f"--timeout of {options.command} is the longest wait with --wait, which is missing")
    if options.command == "replace" and (options.text is None) == (not options.entries):
        root.error("replace takes either a TEXT or --entry ID")
