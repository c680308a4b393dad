"""A client of the sidecar daemon in one file, for scripts: copy it beside yours. Needs Python 3.9 alone.

    from sidecar_script import Sidecar

    with Sidecar(allow=["make *", "edit: src/**"]) as sidecar:
        answer = sidecar.ask("make the tests pass", max_model_calls=50)
        print(answer.text, answer.cost)

It starts a daemon, sends one request at a time and waits for its answer. It is not a client for editors: it
follows one turn at a time, and keeps nothing of the past. ``sidecar_client`` has all of the protocol, typed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Event = dict
"""One event: ``seq``, ``at``, ``kind`` and ``data``, as REFERENCE.md has them under "Events"."""

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)
_STDERR_BYTES = 2_000


class SidecarError(Exception):
    """A request failed; *kind* is the daemon's, such as ``modelFailed``, or ``connectionLost``."""

    def __init__(self, message: str, kind: str = "", hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.kind = kind


@dataclass
class Answer:
    """The end of a turn.

    Attributes:
        text: the last answer of the model.
        stop_reason: ``end_turn``, ``max_tokens``, ``refusal`` or ``cancelled``.
        sid: the session, for another prompt to it.
        tokens: the tokens that the session has cost so far, sent and written.
        cost: their price in dollars so far, None where the prices of the model are not known.
        events: every event of the turn.
    """

    text: str
    stop_reason: str
    sid: str
    tokens: int
    cost: float | None
    events: list = field(default_factory=list, repr=False)

    def json(self) -> Any:
        """Return the JSON value that the text is, or the one in its last block of code. Raises ValueError."""
        try:
            return json.loads(self.text)
        except ValueError:
            blocks = _FENCED.findall(self.text)
            if not blocks:
                raise
            return json.loads(blocks[-1])


class Sidecar:
    """A daemon of its own, in ``with``.

    Args:
        folder: the folder to work in.
        model: the model that answers, by default the one of the settings.
        allow: rules for actions that need no question, such as ``npm run *`` and ``edit: docs/**``.
        permission: decides about every other action; it gets the params of the daemon's request, with
            ``title`` and ``subject``, and returns whether that is allowed. Without it nothing is.
        on_event: is called with each event of a turn as it comes.
        command: the program that starts the daemon; by default the environment variable SIDECAR, or sidecar.
        require_model: refuse to begin a session where only the built-in offline-1 would answer.
    """

    def __init__(
        self,
        folder: str = ".",
        *,
        model: str | None = None,
        allow: Sequence[str] = (),
        permission: Callable[[dict], bool] | None = None,
        on_event: Callable[[Event], None] | None = None,
        command: Sequence[str] | None = None,
        require_model: bool = False,
    ) -> None:
        self.folder = os.path.abspath(folder)
        self._model = model
        self._allow = list(allow)
        self._permission = permission
        self._on_event = on_event
        self._require_model = require_model
        self._command = list(command or shlex.split(os.environ.get("SIDECAR", "sidecar")))
        self._events: list[Event] = []
        self._n_requests = 0
        self._writing = threading.Lock()

    def __enter__(self) -> Sidecar:
        # A file and no pipe: nobody reads it, and a daemon with a full pipe would wait for ever.
        self._stderr = tempfile.TemporaryFile()
        try:
            self._daemon = subprocess.Popen(
                [*self._command, "serve", "--stdio"],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
            )
        except OSError as error:
            hint = "install it, or name its command in the environment variable SIDECAR"
            raise SidecarError(f"{self._command[0]} cannot be started: {error}", "notStarted", hint) from None
        ours = {"protocol": [1], "events": {}, "permission": {}}
        capabilities = {"experimental": {"sidecar": ours}}
        self.request("initialize", {"processId": os.getpid(), "rootUri": None, "capabilities": capabilities})
        self._send({"method": "initialized", "params": {}})
        return self

    def __exit__(self, *_exc: object) -> None:
        try:
            if self._daemon.poll() is None:
                self.request("shutdown", None)
                self._send({"method": "exit"})
                self._daemon.stdin.close()
                self._daemon.wait(10)
        except (SidecarError, OSError, subprocess.TimeoutExpired):
            self._daemon.kill()
        finally:
            self._daemon.wait()
            self._daemon.stdout.close()
            self._stderr.close()

    def new_session(self, *, permissions: str = "ask", ephemeral: bool = False) -> str:
        """Start a session and return its id.

        Args:
            permissions: ``ask``, ``allowEdits``, ``plan`` (the session may only read) or ``allowAll``.
            ephemeral: do not store it.
        """
        params = {"cwd": self.folder, "ephemeral": ephemeral}
        if self._model:
            params["model"] = self._model
        made = self.request("sidecar/session/new", params)
        sid = made["sid"]
        model = next(each["currentValue"] for each in made["configOptions"] if each["id"] == "model")
        if self._require_model and model == "offline-1":
            self.request("sidecar/session/delete", {"sid": sid})
            hint = "choose one with INDUSAGI_MODEL; sidecar doctor says which are within reach"
            raise SidecarError("no model is set up, and offline-1 finds and cites alone", "noModel", hint)
        if permissions != "ask":
            option = {"sid": sid, "configId": "permissions", "value": permissions}
            self.request("sidecar/session/setConfigOption", option)
        return sid

    def ask(
        self,
        prompt: str,
        *,
        sid: str | None = None,
        max_model_calls: int | None = None,
        budget: dict[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Send *prompt* and wait for the end of its turn. Raises SidecarError when the turn fails.

        Args:
            prompt: the task, in words.
            sid: the session that goes on, by default a new one.
            max_model_calls: the turn fails when the model needs more calls.
            budget: the most that it may cost, as in ``{"usd": 0.5}`` and ``{"tokens": 200_000}``; the turn
                ends before a call that would break it, and ``stop_reason`` is then ``budget``.
            timeout_s: the turn is stopped after this time; ``stop_reason`` is then ``cancelled``.
        """
        sid = sid or self.new_session()
        params = {"sid": sid, "input": [{"type": "text", "text": prompt}], "allow": self._allow}
        if max_model_calls is not None:
            params["maxModelCalls"] = max_model_calls
        if budget is not None:
            params["budget"] = budget
        self._events = []
        stop = {"id": f"stop-{self._n_requests}", "method": "sidecar/turn/interrupt", "params": {"sid": sid}}
        timer = threading.Timer(timeout_s or 0, self._send, (stop,))
        if timeout_s is not None:
            timer.start()
        try:
            ran = self.request("sidecar/turn/run", params)
        finally:
            timer.cancel()
        usage = ran["usage"]
        tokens = sum(usage.get("sessionTotal", {}).values())
        return Answer(ran["text"], ran["stopReason"], sid, tokens, usage.get("cost"), self._events)

    def request(self, method: str, params: Any) -> Any:
        """Send any request of the protocol and return its result. Raises SidecarError."""
        self._n_requests += 1
        request_id = self._n_requests
        self._send({"id": request_id, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message:
                self._take(message)
            elif message.get("id") == request_id:
                if "error" in message:
                    error, more = message["error"], message["error"].get("data") or {}
                    raise SidecarError(error["message"], more.get("kind", ""), more.get("hint") or "")
                return message["result"]

    def _take(self, message: dict) -> None:
        """Handle a notification or a request of the daemon."""
        if message["method"] == "sidecar/event":
            self._events.append(message["params"])
            if self._on_event is not None:
                self._on_event(message["params"])
        elif "id" in message:
            result = None
            if message["method"] == "sidecar/permission/request":
                is_allowed = self._permission is not None and self._permission(message["params"])
                option = "allow_once" if is_allowed else "reject_once"
                result = {"outcome": "selected", "optionId": option}
            self._send({"id": message["id"], "result": result})

    def _send(self, message: dict) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        try:
            with self._writing:
                self._daemon.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                self._daemon.stdin.flush()
        except (OSError, ValueError):
            raise self._lost() from None

    def _receive(self) -> dict:
        length = 0
        while line := self._daemon.stdout.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = self._daemon.stdout.read(length) if length else b""
        if not body or len(body) < length:
            raise self._lost()
        return json.loads(body)

    def _lost(self) -> SidecarError:
        """Return the error for a daemon that has ended, with the end of its standard error."""
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - _STDERR_BYTES))
        said = self._stderr.read().decode("utf-8", "replace").strip()
        return SidecarError(f"the daemon has ended. {said}".strip(), "connectionLost")
