"""What the commands take that move a session along. Nothing of the product is imported here."""

from __future__ import annotations

import argparse

from coordinator.cli import arguments


def prompt(parser: argparse.ArgumentParser) -> None:
    """Take a session, a text, and how long its acceptance may take."""
    arguments.text(parser)
    parser.add_argument("--sender", default="", metavar="NAME", help="shown in the inbox")
    arguments.timeout(parser, "the longest wait for the acceptance (default: the setting ACCEPTANCE, 30)")


def reset(parser: argparse.ArgumentParser) -> None:
    """Take a session and a longest wait."""
    arguments.session(parser)
    arguments.timeout(parser, "give up waiting after so long, with exit code 1; the reset goes on")
    parser.add_argument("--operation-id", metavar="ID", help="your own id: a repeat joins the reset of that id")


def move(parser: argparse.ArgumentParser) -> None:
    """Take a session and a step."""
    arguments.session(parser)
    parser.add_argument("step", metavar="STEP", help="a step of the session's workflow")
    parser.add_argument("--defer", action="store_true", help="let the running turn end before")
    parser.add_argument("--operation-id", metavar="ID", help="your own id: a repeat gets the first answer for 24 h")


def answer(parser: argparse.ArgumentParser) -> None:
    """Take a question and its answer."""
    arguments.session(parser)
    parser.add_argument("question_id", metavar="QUESTION", help="the question's id, as `show` and `explain` tell it")
    parser.add_argument("text", metavar="TEXT", help=arguments.MESSAGE)
    parser.add_argument("--message-id", metavar="ID", help="your own id: sending it again changes nothing for 24 h")
    parser.add_argument("--sender", default="", metavar="NAME", help="shown in the inbox")
    arguments.awaited(parser)
