"""What each command takes. Nothing of the product is imported here, so that help and mistakes answer at once."""

from __future__ import annotations

import argparse
from typing import Final

MESSAGE: Final = "the message, or - for stdin; write -- before one that begins with a dash"


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


def common(parser: argparse.ArgumentParser) -> None:
    """Take what every command takes."""
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


def session(parser: argparse.ArgumentParser) -> None:
    """Take a session."""
    parser.add_argument("session", metavar="SESSION", help="the session's id: 1 to 128 of A-Z a-z 0-9 _ . -")


def text(parser: argparse.ArgumentParser) -> None:
    """Take a session and a text."""
    session(parser)
    parser.add_argument("text", metavar="TEXT", help=MESSAGE)
    parser.add_argument("--message-id", metavar="ID", help="your own id: sending it again changes nothing for 24 h")


def timeout(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Take a longest wait."""
    parser.add_argument("--timeout", type=positive, metavar="SECONDS", help=meaning)


def open_(parser: argparse.ArgumentParser) -> None:
    """Take a policy."""
    session(parser)
    parser.add_argument("--settlement", choices=["required", "none"], default="required", help="default: required")
    parser.add_argument("--lost-turns", choices=["fail", "retry"], default="fail", help="default: fail")
    parser.add_argument("--retries", type=count, default=3, metavar="N", help="attempts of a message (default: 3)")
    parser.add_argument("--after-error", choices=["park", "continue"], default="park", help="default: park")
    parser.add_argument("--on-handler-failure", choices=["continue", "park"], default="continue")
    parser.add_argument("--workflow", metavar="NAME", help="put it on this workflow, which an orchestrator published")


def send(parser: argparse.ArgumentParser) -> None:
    """Take a message and how it is sent."""
    text(parser)
    parser.add_argument("--wake", action=argparse.BooleanOptionalAction, default=True, help="start an idle session")
    parser.add_argument("--on-busy", choices=["enqueue", "steer", "replace", "reject"], default="enqueue")
    parser.add_argument("--sender", default="", metavar="NAME", help="shown in the inbox")
    awaited(parser)


def awaited(parser: argparse.ArgumentParser) -> None:
    """Take a wait for the turn's end."""
    parser.add_argument("--wait", action="store_true", help="wait for the turn's end and print its text")
    timeout(parser, "the longest wait with --wait")


def _expected(parser: argparse.ArgumentParser, *names: str) -> None:
    for name in names:
        parser.add_argument(f"--expected-{name}", type=count, metavar="N", help=f"refuse unless {name} N is current")


def cancel(parser: argparse.ArgumentParser) -> None:
    """Take a session and what a stop is like."""
    session(parser)
    keep = parser.add_mutually_exclusive_group()
    keep.add_argument("--keep-inbox", action="store_true", default=True, help="park what is queued (the default)")
    keep.add_argument("--clear-inbox", action="store_false", dest="keep_inbox", help="discard what is queued")
    parser.add_argument("--kind", choices=["user", "parent", "silent", "system"], default="user", help="default: user")
    parser.add_argument("--wait", action="store_true", help="wait until it has ended, and tell how")
    timeout(parser, "the longest wait with --wait")
    _expected(parser, "turn", "generation")
    parser.add_argument("--operation-id", metavar="ID", help="your own id: a repeat gets the first answer for 24 h")


def replace(parser: argparse.ArgumentParser) -> None:
    """Take a session and what goes first in line."""
    session(parser)
    parser.add_argument("text", nargs="?", metavar="TEXT", help=MESSAGE)
    parser.add_argument(
        "--entry", action="append", default=[], dest="entries", metavar="ID",
        help="a pending message instead of a text; may be given several times, for their order",
    )  # fmt: skip
    parser.add_argument("--message-id", metavar="ID", help="your own id: a repeat changes nothing for 24 h")
    parser.add_argument("--sender", default="", metavar="NAME", help="shown in the inbox")
    _expected(parser, "turn", "generation")
    awaited(parser)


def interrupt(parser: argparse.ArgumentParser) -> None:
    """Take a session and a parent's message."""
    text(parser)
    parser.add_argument("--sender", default="", metavar="NAME", help="shown in the inbox")
    _expected(parser, "generation")


def inbox(parser: argparse.ArgumentParser) -> None:
    """Take a session, and perhaps an edit of what is pending."""
    session(parser)
    actions = parser.add_subparsers(dest="action", metavar="EDIT", parser_class=type(parser))
    for name, summary in (
        ("remove", "take a pending message out"),
        ("replace", "give a pending message another text"),
        ("move", "put a pending message before another, or at its list's end"),
        ("steer", "move a pending message to next-step, for the running turn"),
        ("clear", "discard everything pending"),
    ):
        edit = actions.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name != "clear":
            edit.add_argument("message", metavar="ID", help="the message's id, as the list shows it")
        if name == "replace":
            edit.add_argument("text", metavar="TEXT", help="the new text, or - to read it from stdin")
        if name == "move":
            edit.add_argument("--before", metavar="ID", help="the message that it goes before")
        edit.add_argument("--operation-id", metavar="ID", help="your own id: a repeat does nothing more for 24 h")
        common(edit)


def wait(parser: argparse.ArgumentParser) -> None:
    """Take a session and a longest wait."""
    session(parser)
    timeout(parser, "give up after so long, with exit code 1 (default: wait on)")


def ls(parser: argparse.ArgumentParser) -> None:
    """Take a choice of sessions."""
    parser.add_argument("--status", choices=["idle", "running"], help="only those")
    parser.add_argument("--limit", type=count, default=1000, metavar="N", help="the latest N (default: 1000)")


def tail(parser: argparse.ArgumentParser) -> None:
    """Take a part of a log."""
    session(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what happens from now on")
    parser.add_argument("--after", default="0", metavar="ID", help="only entries after this entry's id")
    parser.add_argument("-n", "--lines", type=count, metavar="N", help="begin with the last N entries")


def top(parser: argparse.ArgumentParser) -> None:
    """Take how often to look."""
    parser.add_argument(
        "--interval", type=positive, default=2.0, metavar="SECONDS", help="time between two looks (default: 2)"
    )
    parser.add_argument("-n", "--frames", type=count, metavar="N", help="end after N looks")


def child(parser: argparse.ArgumentParser) -> None:
    """Take what only the program itself gives to processes that it starts."""
    parser.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)


def worker(parser: argparse.ArgumentParser) -> None:
    """Take an agent and a worker's size."""
    child(parser)
    parser.add_argument("--agent", required=True, metavar="MODULE:NAME", help="an Agent, or an async function")
    capacity(parser)
    parser.add_argument("--worker-id", metavar="ID", help="default: made of host, pid and chance")


def capacity(parser: argparse.ArgumentParser) -> None:
    """Take a worker's size."""
    parser.add_argument("--max-sessions", type=count, default=100, metavar="N", help="sessions at once (default: 100)")


def workflow(parser: argparse.ArgumentParser) -> None:
    """Take a file of workflows to publish."""
    parser.add_argument("--workflow", metavar="FILE", help="workflows (TOML) that all replicas use from now on")


def workflow_action(parser: argparse.ArgumentParser) -> None:
    """Take a file to check, or a session."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    check = actions.add_parser(
        "check",
        help="look a file of workflows through, without Redis",
        description="List the steps of a file of workflows, or say line by line what is wrong in it, with exit code 1.",
    )
    check.add_argument("file", metavar="FILE", help="workflows (TOML)")
    show = actions.add_parser(
        "show",
        help="show where a session stands in its workflow",
        description="Show the step that a session is at, what is pending, and all steps as they are published.",
    )
    session(show)
    common(check)
    common(show)


def orchestrator(parser: argparse.ArgumentParser) -> None:
    """Take an app and workflows."""
    child(parser)
    parser.add_argument(
        "--app", metavar="MODULE:NAME", help="a function that is given the Orchestrator to add handlers"
    )
    workflow(parser)


def up(parser: argparse.ArgumentParser) -> None:
    """Take an agent and workflows."""
    parser.add_argument(
        "--agent", default="workers.agents.scripted:agent", metavar="MODULE:NAME", help="default: the scripted agent"
    )
    capacity(parser)
    workflow(parser)


def nothing(_: argparse.ArgumentParser) -> None:
    """Take nothing."""
