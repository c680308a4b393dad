"""``sidecar chat``: a conversation in the terminal, or line by line in a pipe."""

from __future__ import annotations

import argparse
import sys

from sidecar._internal.env import read_raw


def run(options: argparse.Namespace) -> int:
    """Hold the conversation; return the exit code."""
    streams = (sys.stdin, sys.stdout)
    is_terminal = all(stream is not None and stream.isatty() for stream in streams)
    if options.plain or not is_terminal or read_raw("TERM") == "dumb":
        from sidecar.commands.talking.plain import run as run_plain

        return run_plain(options)
    from sidecar.commands.talking.talk import run as run_in_terminal

    return run_in_terminal(options)
