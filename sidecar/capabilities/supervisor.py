"""The supervisor of one child, as a program of its own: nothing that the child starts outlives it.

It is started by path with a bare interpreter, so it imports nothing of this project, and little besides. Its
arguments are a descriptor and the child's command. The descriptor is the reading end of a pipe, the lifeline.
Only the daemon holds the other end: a byte asks the child to end, and the end of the pipe ends it by force.
So a daemon that is killed takes its children along.

To signal the child's group is not enough. A process can leave the group, and when its parent has ended as
well (a double fork) it is no descendant of the child. But on Linux such an orphan goes to the nearest
ancestor that has asked to adopt orphans, and this process asks. So all that the child has started is below
it, and it kills its children until it has none. Elsewhere it kills the child's group.

The child leads a group of its own, so that no signal to that group reaches the supervisor. The supervisor
never reads the child's output, and ends as the child has ended: with its exit code, or by its signal.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
import time
from contextlib import suppress

assert sys.platform != "win32"  # there a job object does this

_GRACE_S = 0.04
"""How long the processes that the child leaves may take to end by themselves, as the rest of a pipeline."""

_LOOK_AGAIN_S = 0.002
_SET_CHILD_SUBREAPER = 36
# Numbers, since the module of their names takes as long to load as all the rest.
_SIGKILL, _SIGPIPE, _SIGTERM, _SIGXFSZ = 9, 13, 15, 25


def main(lifeline: int, command: list[str]) -> None:
    """Run *command* to its end, and end all that it has started."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.set_inheritable(lifeline, False)
    # A pipe at descriptor 0 is the lifeline: the child gets an input without a byte instead.
    no_input = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)] if lifeline == 0 else []
    try:
        child = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=no_input,
            setpgroup=0,
            setsigdef=(_SIGPIPE, _SIGXFSZ),  # Python ignores these, and a child would inherit that
        )
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode("utf-8", "replace"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    for pipe in {0, 1, 2} - {lifeline}:  # or the daemon would not see that the child has closed its own
        os.close(pipe)
    is_hurried = False

    def follow_orders() -> None:
        nonlocal is_hurried
        while os.read(lifeline, 1):
            is_hurried = True
            send(_SIGTERM, child)
        is_hurried = True
        send(_SIGKILL, child)

    _thread.start_new_thread(follow_orders, ())
    ended, status = os.wait()
    while ended != child:  # an orphan
        ended, status = os.wait()
    until = time.monotonic() + _GRACE_S
    while not is_hurried and is_anything_left(child) and time.monotonic() < until:
        time.sleep(_LOOK_AGAIN_S)
    end_children(child)
    end_as(os.waitstatus_to_exitcode(status))


def send(signal: int, child: int) -> None:
    """Signal the group of *child*, and *child* itself, which may have left it."""
    for kill in (os.killpg, os.kill):
        with suppress(OSError):  # it is gone, or belongs to another user
            kill(child, signal)


def is_anything_left(group: int) -> bool:
    """Whether a child is left, or a process of *group*."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    except ChildProcessError:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        return True


def end_children(group: int) -> None:
    """Kill *group* and every child, and the orphans that they leave, which are children by then."""
    while True:
        for pid in list_children():
            send(_SIGKILL, pid)
        send(_SIGKILL, group)
        try:
            os.wait()
        except ChildProcessError:
            return


def list_children() -> list[int]:
    """Return the ids of the children of this process, adopted ones too; none where the system lists none."""
    found = []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = file.read().rpartition(b")")[2].split()[1]
            except OSError:  # it has ended meanwhile
                continue
            if int(parent) == os.getpid():
                found.append(int(name))
    return found


def end_as(code: int) -> None:
    """End this process with *code*; a negative one is a signal."""
    if code < 0:
        import resource
        import signal

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child has left its own
        if -code != _SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
