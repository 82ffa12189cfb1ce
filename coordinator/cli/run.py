"""Running one command: settings, exit codes, and errors as sentences."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import sys
import traceback
from typing import TYPE_CHECKING, Final

from coordinator.cli.output import Output
from coordinator.cli.parser import COMMANDS, parse
from coordinator.domain.errors import CoordinatorError, StoreUnavailable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

_INTERRUPTED: Final = 130
_TRACEBACK: Final = "COORDINATOR_TRACEBACK"


def run(argv: Sequence[str] | None = None) -> int:
    """Parse and run a command line; every failure becomes one sentence and an exit code."""
    try:
        options = parse(argv)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 2
    if options.version:
        from importlib.metadata import version

        print(version("coordinator"))
        return 0
    out = Output(json=options.json)
    _log_to_stderr(options)
    try:
        return _call(options, out)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader has what it wanted (`… | head`); Python must not fail again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except StoreUnavailable as error:
        out.error("StoreUnavailable", str(error))
        return 3
    except (CoordinatorError, TimeoutError) as error:
        out.error(type(error).__name__, str(error))
        return 1
    except Exception as error:  # noqa: BLE001 - the last resort: a bug is told in a sentence, too
        out.error("InternalError", f"{type(error).__name__}: {error} (a bug; {_TRACEBACK}=1 shows where)")
        if os.environ.get(_TRACEBACK):
            traceback.print_exc()
        return 1


def _log_to_stderr(options: Namespace) -> None:
    """Show the library's warnings as a process's log or as lines for people; a program's stderr has one object."""
    if options.command in {"worker", "orchestrator"}:
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    elif options.json or options.command == "demo":
        logging.getLogger().addHandler(logging.NullHandler())
    else:
        logging.basicConfig(level=logging.WARNING, format="coordinator: warning: %(message)s")


def _call(options: Namespace, out: Output) -> int:
    module, _, name = COMMANDS[options.command][0].partition(":")
    command = getattr(importlib.import_module(module), name)
    code: int | None = asyncio.run(command(options, out))
    sys.stdout.flush()
    return code or 0
