"""The sockets of guests; ``sidecar chat`` as a guest is tested in ``tests/e2e``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sidecar.attach.broker import remove_stale_sockets
from sidecar.attach.paths import guest_socket
from sidecar_client import ConnectionLost, SidecarClient, SidecarRequestError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="guests come by a unix socket")

NO_PROCESS = 2**22 + 1
"""More than any process id of Linux."""


def test_sockets_of_daemons_that_were_killed_are_removed(tmp_path: Path) -> None:
    own, dead = guest_socket(tmp_path, os.getpid()), guest_socket(tmp_path, NO_PROCESS)
    shared = own.with_name("daemon.sock")
    own.parent.mkdir(parents=True, exist_ok=True)
    for path in (own, dead, shared):
        path.touch()
    remove_stale_sockets(own.parent)
    assert [path.exists() for path in (own, dead, shared)] == [True, False, True]


async def test_a_folder_that_others_can_enter_gets_no_socket(home: Path) -> None:
    if sys.platform != "win32":
        from sidecar.attach.broker import admit_guests

        folder = guest_socket(home, os.getpid()).parent
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        assert admit_guests(home, lambda stream: pytest.fail("nobody comes")) is None
        assert list(folder.iterdir()) == []


@pytest.mark.e2e
async def test_a_client_joins_the_daemon_of_the_process_that_has_a_session(tmp_path: Path) -> None:
    env = {"INDUSAGI_HOME": str(tmp_path / "home")}
    join = (sys.executable, "-P", "-m", "sidecar", "serve", "--shared", "--join")
    async with SidecarClient.spawn(cwd=tmp_path, env=env) as owner:
        session = await owner.start_session(model="offline-1")
        await session.run("hello")
        async with SidecarClient.spawn(cwd=tmp_path, env=env) as other:
            with pytest.raises(SidecarRequestError) as refused:
                await other.load_session(session.sid)
        pid = refused.value.data["details"]["pid"]
        async with SidecarClient.spawn((*join, str(pid)), cwd=tmp_path, env=env) as guest:
            assert (await guest.load_session(session.sid)).sid == session.sid
    with pytest.raises(ConnectionLost, match=f"no daemon of process {pid} can be joined here"):
        await SidecarClient.spawn((*join, str(pid)), cwd=tmp_path, env=env).start()
