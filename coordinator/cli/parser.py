"""The command line's grammar. It imports nothing of the product, so that help and mistakes answer at once."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

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


def positive(text: str) -> float:
    """Parse a number of seconds above 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


def count(text: str) -> int:
    """Parse a whole number from 1."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


positive.__name__ = "number of seconds above 0"
count.__name__ = "whole number from 1"


def _common(parser: argparse.ArgumentParser) -> None:
    # Left out when not given, so that what stands before the command's name is not undone by what stands after it.
    parser.add_argument(
        "--redis",
        metavar="URL",
        default=argparse.SUPPRESS,
        help="redis://, rediss://, unix://, embedded: or embedded:/folder "
        "(default: COORDINATOR_REDIS_URL, else redis://127.0.0.1:6379/0)",
    )
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print objects for programs, no tables"
    )


def _session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help="the session's id: 1 to 128 of A-Z a-z 0-9 _ . -")


def _text(parser: argparse.ArgumentParser) -> None:
    _session(parser)
    parser.add_argument(
        "text", metavar="TEXT", help="the message, or - for stdin; write -- before one that begins with a dash"
    )
    parser.add_argument("--message-id", metavar="ID", help="your own id: sending it again changes nothing for 24 h")


def _timeout(parser: argparse.ArgumentParser, meaning: str) -> None:
    parser.add_argument("--timeout", type=positive, metavar="SECONDS", help=meaning)


def _open(parser: argparse.ArgumentParser) -> None:
    _session(parser)
    parser.add_argument("--settlement", choices=["required", "none"], default="required", help="default: required")
    parser.add_argument("--lost-turns", choices=["fail", "retry"], default="fail", help="default: fail")
    parser.add_argument("--retries", type=count, default=3, metavar="N", help="attempts of a message (default: 3)")
    parser.add_argument("--after-error", choices=["park", "continue"], default="park", help="default: park")
    parser.add_argument("--on-handler-failure", choices=["continue", "park"], default="continue")


def _send(parser: argparse.ArgumentParser) -> None:
    _text(parser)
    parser.add_argument("--wake", action=argparse.BooleanOptionalAction, default=True, help="start an idle session")
    parser.add_argument("--on-busy", choices=["enqueue", "steer", "reject"], default="enqueue")
    parser.add_argument("--sender", default="", metavar="NAME", help="shown in the inbox")
    parser.add_argument("--wait", action="store_true", help="wait for the turn's end and print its text")
    _timeout(parser, "the longest wait with --wait")


def _wait(parser: argparse.ArgumentParser) -> None:
    _session(parser)
    _timeout(parser, "give up after so long, with exit code 1 (default: wait on)")


def _ls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--status", choices=["idle", "running"], help="only those")
    parser.add_argument("--limit", type=count, default=1000, metavar="N", help="the latest N (default: 1000)")


def _tail(parser: argparse.ArgumentParser) -> None:
    _session(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what happens from now on")
    parser.add_argument("--after", default="0", metavar="ID", help="only entries after this entry's id")
    parser.add_argument("-n", "--lines", type=count, metavar="N", help="begin with the last N entries")


def _child(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)


def _worker(parser: argparse.ArgumentParser) -> None:
    _child(parser)
    parser.add_argument("--agent", required=True, metavar="MODULE:NAME", help="an Agent, or an async function")
    _capacity(parser)
    parser.add_argument("--worker-id", metavar="ID", help="default: made of host, pid and chance")


def _capacity(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-sessions", type=count, default=100, metavar="N", help="sessions at once (default: 100)")


def _orchestrator(parser: argparse.ArgumentParser) -> None:
    _child(parser)
    parser.add_argument(
        "--app", metavar="MODULE:NAME", help="a function that is given the Orchestrator to add handlers"
    )


def _up(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agent", default="workers.agents.scripted:agent", metavar="MODULE:NAME", help="default: the scripted agent"
    )
    _capacity(parser)


def _nothing(_: argparse.ArgumentParser) -> None:
    pass


Setup = "Callable[[argparse.ArgumentParser], None]"
COMMANDS: Final[dict[str, tuple[str, str, Callable[[argparse.ArgumentParser], None]]]] = {
    "demo": ("coordinator.cli.demo:demo", "show the whole thing at work on an embedded server", _nothing),
    "up": ("coordinator.cli.up:up", "run a server, an orchestrator and a worker until Ctrl-C", _up),
    "worker": ("coordinator.cli.processes:worker", "run one worker process", _worker),
    "orchestrator": ("coordinator.cli.processes:orchestrator", "run one orchestrator replica", _orchestrator),
    "open": ("coordinator.cli.messages:open_", "make a session, or change its policy", _open),
    "send": ("coordinator.cli.messages:send", "send a message; it gets a turn of its own", _send),
    "steer": ("coordinator.cli.messages:steer", "send a message for the running turn's next step", _text),
    "inject": ("coordinator.cli.messages:inject", "like steer, but never wakes an idle session", _text),
    "close": ("coordinator.cli.messages:close", "close a session; what is open may end", _session),
    "wait": ("coordinator.cli.messages:wait", "wait until a session is idle and settled, or closed", _wait),
    "show": ("coordinator.cli.inspection:show", "show a session's whole record", _session),
    "ls": ("coordinator.cli.inspection:ls", "list sessions", _ls),
    "tail": ("coordinator.cli.inspection:tail", "print a session's log", _tail),
    "inbox": ("coordinator.cli.inspection:inbox", "list a session's pending and in-flight messages", _session),
    "workers": ("coordinator.cli.inspection:workers", "list the workers", _nothing),
    "stats": ("coordinator.cli.inspection:stats", "count sessions, turns, events and what was refused", _nothing),
    "doctor": ("coordinator.cli.doctor:doctor", "check Redis and what is in it, and say what to do", _nothing),
}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse a command line; `command` in the answer names one of COMMANDS. Exits with 2 for a mistake."""
    Parser.as_json = "--json" in (sys.argv[1:] if argv is None else argv)
    root = Parser(
        prog="coordinator", description="Event coordination for AI-agent sessions on Redis.", epilog=_EXAMPLES
    )
    root.add_argument("--version", action="store_true", help="print the version and exit")
    _common(root)
    commands = root.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, (_, summary, setup) in COMMANDS.items():
        parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        setup(parser)
        _common(parser)
    options = root.parse_args(argv)
    options.json = getattr(options, "json", False)
    options.redis = getattr(options, "redis", None)
    if options.command is None and not options.version:
        root.error("a command is missing, one of " + ", ".join(COMMANDS))
    if options.command == "send" and options.timeout and not options.wait:
        root.error("--timeout of send is the longest wait with --wait, which is missing")
    return options
