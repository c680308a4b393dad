"""The real daemon with a clock, ids, randomness and a machine that are the same in every run.

``python fixed_daemon.py CLOCK ARGUMENT...`` is ``sidecar ARGUMENT...``. The file *CLOCK* has the time, as 13
digits of milliseconds; whoever plays the client moves it. Ids follow from the time of the start and their
number, and look like random ones, since commands name nodes by the beginning of their id. Only clocks that
the daemon reports are fixed: waiting and time limits go by the monotonic clock, which is left alone.

Changes on disk are not watched, since nobody knows when a watcher sees them; editors report them.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import os
import platform
import random
import sys
import time
import uuid
from typing import Any

_DIGITS = 13


class _Fixed(type):
    """Lets values of the real class count as instances of the fixed one."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__mro__[1])


def fix(clock_path: str) -> None:
    """Replace what differs between runs and machines, before any of our modules is loaded."""
    clock = os.open(clock_path, os.O_RDONLY)

    def now_ms() -> int:
        return int(os.pread(clock, _DIGITS, 0))

    class FixedDatetime(datetime.datetime, metaclass=_Fixed):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return _DATETIME.fromtimestamp(now_ms() / 1000, tz or None)

        @classmethod
        def utcnow(cls) -> Any:
            return _DATETIME.fromtimestamp(now_ms() / 1000, datetime.UTC).replace(tzinfo=None)

    class FixedDate(datetime.date, metaclass=_Fixed):
        @classmethod
        def today(cls) -> Any:
            return _DATETIME.fromtimestamp(now_ms() / 1000, datetime.UTC).date()

    numbers = itertools.count(now_ms())

    def next_uuid() -> uuid.UUID:
        digest = hashlib.sha256(b"%d" % next(numbers)).digest()
        return uuid.UUID(bytes=digest[:16], version=4)

    random.seed(0)
    sys.modules["watchfiles"] = None  # type: ignore[assignment]  # cannot be imported: nothing is watched
    for module, name, fixed in (
        (time, "time", lambda: now_ms() / 1000),
        (time, "time_ns", lambda: now_ms() * 1_000_000),
        (datetime, "datetime", FixedDatetime),
        (datetime, "date", FixedDate),
        (uuid, "uuid4", next_uuid),
        (platform, "system", lambda: "Linux"),
        (platform, "release", lambda: "6.0"),
        (platform, "machine", lambda: "x86_64"),
    ):
        setattr(module, name, fixed)


_DATETIME = datetime.datetime

if __name__ == "__main__":
    fix(sys.argv.pop(1))
    from sidecar.cli import main
    from sidecar.conductor.record import session_events
    from sidecar.server import sink

    # The number of deltas, and so of events, must not go by the load, nor that of reports of progress.
    session_events.COLLECT_S = sink.REPORT_EVERY_S = 3_600
    sys.exit(main())
