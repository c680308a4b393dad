"""Agents that stay and are prompted over standard input and output, as an editor does it; three protocols."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import IO, Any, Protocol, TypeAlias

Message: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[[str], None]
"""Asks one prompt, and returns when its turn is over."""


class AgentFailedError(Exception):
    """An agent ended, refused or asked what nobody answers."""


class Link:
    """Lines of JSON to an agent at *given* and from it at *read*."""

    def __init__(self, given: IO[bytes], read: IO[bytes]) -> None:
        self._given = given
        self._read = read
        self._n_requests = 0

    def send(self, message: Message) -> None:
        """Send one message."""
        self._given.write(json.dumps(message).encode() + b"\n")
        self._given.flush()

    def wait_for(self, is_awaited: Callable[[Message], bool]) -> Message:
        """Return the next message that is awaited. Raises AgentFailedError for a question or the end."""
        for line in self._read:
            if not line.startswith(b"{"):
                continue
            message: Message = json.loads(line)
            if is_awaited(message):
                return message
            if "method" in message and "id" in message:
                raise AgentFailedError(f"it asks {message['method']}")
        raise AgentFailedError("it ended")

    def request(self, method: str, params: Message) -> Message:
        """Return the result of a JSON-RPC request. Raises AgentFailedError for a refusal."""
        self._n_requests += 1
        number = self._n_requests
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answer = self.wait_for(lambda message: message.get("id") == number and "method" not in message)
        if "result" not in answer:
            raise AgentFailedError(f"it refuses {method}: {answer.get('error')}")
        result: Message = answer["result"] or {}
        return result


class Dialect(Protocol):
    """Opens a session in the folder *cwd*."""

    def __call__(self, link: Link, cwd: str) -> Ask:
        """Return the function that asks a prompt there."""
        ...


def acp(link: Link, cwd: str) -> Ask:
    """Speak the Agent Client Protocol."""
    link.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    session = link.request("session/new", {"cwd": cwd, "mcpServers": []})["sessionId"]

    def ask(prompt: str) -> None:
        blocks = [{"type": "text", "text": prompt}]
        link.request("session/prompt", {"sessionId": session, "prompt": blocks})

    return ask


def pi_rpc(link: Link, cwd: str) -> Ask:
    """Speak the protocol of ``pi --mode rpc``; it starts in the folder of its session."""
    link.send({"type": "get_state", "id": "state"})
    link.wait_for(lambda message: message.get("id") == "state")

    def ask(prompt: str) -> None:
        link.send({"type": "prompt", "message": prompt})
        link.wait_for(lambda message: message.get("type") == "agent_end")

    return ask


def codex_app_server(link: Link, cwd: str) -> Ask:
    """Speak the protocol of ``codex app-server``."""
    link.request("initialize", {"clientInfo": {"name": "bench-peers", "version": "1"}})
    link.send({"jsonrpc": "2.0", "method": "initialized"})
    options = {"cwd": cwd, "approvalPolicy": "never", "sandbox": "danger-full-access"}
    thread = link.request("thread/start", options)["thread"]["id"]

    def ask(prompt: str) -> None:
        link.request("turn/start", {"threadId": thread, "input": [{"type": "text", "text": prompt}]})
        link.wait_for(lambda message: message.get("method") == "turn/completed")

    return ask
