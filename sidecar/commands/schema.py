"""``sidecar schema``: the protocol as JSON Schema, as TypeScript, or as a reference to read."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sidecar.commands.terminal import Screen
from sidecar.protocol.schema import FILE_NAMES, schema_text


def run(options: argparse.Namespace) -> int:
    """Print one form, or write one or all of them into a folder; return the exit code."""
    if options.out is None:
        sys.stdout.write(schema_text(options.format or "jsonschema"))
        return 0
    folder = Path(options.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for form, name in FILE_NAMES.items():
            if options.format in (None, form):
                (folder / name).write_text(schema_text(form), encoding="utf-8", newline="\n")
    except OSError as error:
        Screen(sys.stderr).problem(f"{options.out}: {error.strerror}")
        return 1
    return 0
