"""A daemon ends with the program that started it, however early that is killed.

The suite kills a few parents; ``make crash`` kills a thousand.
"""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform == "win32", reason="kills POSIX processes"),
]

N_PARENTS = int(os.environ.get("KILLED_PARENTS", "16"))
WITHIN_S = 30.0
_AT_ONCE = 4
_LATEST_S = 0.3
PARENT = '"$@" <&3 & wait'

COMMANDS = (("serve",), ("serve", "--stdio"), ("acp",), ("serve", "--shared", "--idle-exit", "0"))


def seconds_left_behind(command: Sequence[str], home: Path, delay_s: float, is_leader: bool) -> float:
    """Start a daemon, kill its parent after *delay_s*, and return how long the daemon lives on.

    The daemon's input stays open all the while: this process holds the other end. The end of its output shows
    that the daemon, the last to hold it, is gone. *is_leader*: the daemon leads a session of its own, as many
    editors start it.
    """
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()
    daemon = [sys.executable, "-P", "-m", "sidecar", *command]
    if is_leader:
        daemon.insert(0, shutil.which("setsid") or pytest.skip("setsid is not installed"))
    try:
        # Descriptor 3 of the shell is the daemon's input: a job in the background would have none.
        parent = subprocess.Popen(
            ["/bin/sh", "-c", f"exec 3<&0; {PARENT}", "sh", *daemon],
            stdin=theirs_in,
            stdout=theirs_out,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "INDUSAGI_HOME": str(home)},
        )
    finally:
        os.close(theirs_in)
        os.close(theirs_out)
    try:
        time.sleep(delay_s)  # the moment of the kill is what this tries
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        killed_at = time.monotonic()
        ended, _, _ = select.select([ours_out], [], [], WITHIN_S)
        assert ended, f"{command} outlived a parent that was killed after {delay_s * 1000:.0f} ms"
        assert os.read(ours_out, 100) == b""
        return time.monotonic() - killed_at
    finally:
        os.close(ours_in)  # the end of the input ends a daemon that is left behind
        os.close(ours_out)


@pytest.mark.parametrize("is_leader", [False, True], ids=["session of its parent", "own session"])
def test_no_killed_parent_leaves_a_daemon(
    tmp_path: Path, is_leader: bool, record_property: Callable[[str, object], None]
) -> None:
    dice = random.Random(is_leader)
    delays = [dice.uniform(0, _LATEST_S) for _ in range(N_PARENTS // 2)]

    def kill_one(index: int) -> float:
        command = COMMANDS[index % len(COMMANDS)]
        return seconds_left_behind(command, tmp_path, delays[index], is_leader)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        longest_s = max(pool.map(kill_one, range(len(delays))))
    record_property("parents", len(delays))
    record_property("longest_s", longest_s)
