"""An SSH server of the tests' own on loopback: its keys in a folder of theirs, for the user who runs them."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

_PRIVILEGES = Path("/run/sshd")
"""A folder without which a server of root accepts nobody. It stays: other runs may have a server, too."""


def find_sshd() -> str | None:
    """Return the path of the server, None where there is none, or no client."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    return found if shutil.which("ssh") and shutil.which("ssh-keygen") else None


class SshServer:
    """A server that runs in the foreground, and is ended by its process id.

    Attributes:
        port: where it listens.
    """

    def __init__(self, folder: Path, sshd: str) -> None:
        folder.mkdir(mode=0o700)
        for name in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {(folder / 'host.pub').read_text()}")
        (folder / "config").write_text(
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {folder / 'host'}\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {folder / 'user.pub'}\nStrictModes no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
        )
        self._folder = folder
        if os.geteuid() == 0:
            _PRIVILEGES.mkdir(mode=0o755, exist_ok=True)
        command = [sshd, "-D", "-e", "-f", str(folder / "config")]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._wait_ready()

    @property
    def options(self) -> Mapping[str, str]:
        """The options of a client, as ``ssh_config`` names them."""
        return {
            "IdentityFile": str(self._folder / "user"),
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": str(self._folder / "known_hosts"),
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
        }

    def write_client(self, folder: Path, host: str) -> None:
        """Write a program ``ssh`` into *folder* that knows the server by the name *host*."""
        options = {"HostName": "127.0.0.1", "Port": self.port, "User": getpass.getuser(), **self.options}
        settings = folder / "ssh_config"
        settings.write_text(f"Host {host}\n" + "".join(f"  {each} {options[each]}\n" for each in options))
        program = folder / "ssh"
        program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {settings} "$@"\n')
        program.chmod(0o755)

    def command(self, *remote: str) -> Sequence[str]:
        """Return the command that runs *remote* by way of the server."""
        given = [part for name, value in self.options.items() for part in ("-o", f"{name}={value}")]
        where = ("-p", str(self.port), f"{getpass.getuser()}@127.0.0.1")
        return ("ssh", "-F", "none", *given, *where, shlex.join(remote))

    def cut(self) -> None:
        """Break off every connection, as a network does."""
        for session in psutil.Process(self._process.pid).children():
            session.kill()

    def stop(self) -> None:
        """End the server; its connections end with their clients."""
        self._process.terminate()
        self._process.wait(20)

    def _wait_ready(self) -> None:
        for _ in range(200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as tried:
                if tried.recv(4) == b"SSH-":
                    return
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
                break
        raise RuntimeError((self._folder / "log").read_text()[-2_000:])
