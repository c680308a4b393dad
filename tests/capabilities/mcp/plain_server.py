"""A tool server in a few lines, without the ``mcp`` package: quick to start, and wrong as a test chooses.

Its only argument is how it behaves: a key of :data:`BEHAVIOURS`. Where its folder has a pipe named ``life``,
it and whoever it starts hold that open for as long as they live.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

OBJECT: Final = {"type": "object", "properties": {"text": {"type": "string"}}}
ODD_TOOLS: Final[list[Any]] = [
    {"name": "echo"},
    {"name": "echo", "description": "again"},
    {"name": "a.b", "inputSchema": {"type": "string"}},
    {"name": "a/b", "inputSchema": {**OBJECT, "oneOf": [{"required": ["text"]}]}, "annotations": "all"},
    {"name": "n" * 200, "description": None, "inputSchema": OBJECT, "outputSchema": {"type": 7}},
    {"name": 7},
    "no tool",
]


def send(message: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(request: Mapping[str, Any], result: Any) -> None:
    send({"id": request["id"], "result": result})


def answer_text(request: Mapping[str, Any], text: str, **more: Any) -> None:
    answer(request, {"content": [{"type": "text", "text": text}], **more})


def send_deep(request: Mapping[str, Any], depth: int) -> None:
    deep = "[" * depth + "]" * depth
    sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": {{"content": {deep}}}}}\n')
    sys.stdout.flush()


def flood(_: Any = None) -> None:
    while True:
        sys.stdout.write("this is a log line, not a message\n" * 100)


def never_end(_: Any = None) -> None:
    while True:
        sys.stdout.write("{" + " " * 65_535)


def leave_a_child(request: Mapping[str, Any]) -> None:
    code = "import time; time.sleep(1000)"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, close_fds=False)
    answer_text(request, f"{os.getpid()} {child.pid}")


def count(request: Mapping[str, Any]) -> None:
    token = request["params"]["_meta"]["progressToken"]
    for done in range(1, 4):
        params = {"progressToken": token, "progress": done, "total": 3, "message": f"part {done}"}
        send({"method": "notifications/progress", "params": params})
    answer_text(request, "counted")


def learn(request: Mapping[str, Any]) -> None:
    TOOLS.append({"name": "learned", "inputSchema": OBJECT})
    send({"method": "notifications/tools/list_changed"})
    answer_text(request, "learned a tool")


def ask_first(request: Mapping[str, Any]) -> None:
    """Want a port of the user, then some time, and then answer."""
    params = request["params"]
    match params.get("inputResponses"), params.get("requestState"):
        case None, None:
            form = {"type": "object", "properties": {"port": {"type": "integer"}}}
            asked = {"message": "Which port?", "requestedSchema": form}
            wanted = {"port": {"method": "elicitation/create", "params": asked}}
            answer(request, {"resultType": "input_required", "inputRequests": wanted, "requestState": "1"})
        case {"port": given}, "1":
            state = f"{given['action']} {given.get('content')}"
            answer(request, {"resultType": "input_required", "requestState": state})
        case _, state:
            answer_text(request, str(state), resultType="complete")


def send_to_sign_in(request: Mapping[str, Any]) -> None:
    """Refuse the first call; the user has to sign in before the second one."""
    SIGNED_IN.append(request["id"])
    if len(SIGNED_IN) > 1:
        answer_text(request, "signed in")
        return
    page = {"mode": "url", "message": "Sign in", "url": "https://example.org/s", "elicitationId": "e1"}
    error = {"code": -32042, "message": "A sign-in is needed", "data": {"elicitations": [page]}}
    send({"id": request["id"], "error": error})


def die(_: Any) -> None:
    sys.stderr.write("out of luck, token=abcdefgh12345678\n")
    sys.stderr.flush()
    os._exit(3)


CALLS: Final[dict[str, Callable[[Mapping[str, Any]], None]]] = {
    "echo": lambda request: answer_text(request, str(request["params"]["arguments"].get("text"))),
    "variable": lambda request: answer_text(
        request, repr(os.environ.get(request["params"]["arguments"]["text"]))
    ),
    "where": lambda request: answer_text(request, os.getcwd()),
    "huge": lambda request: answer_text(request, "é" * 1_000_000),
    "fail": lambda request: answer_text(request, "it went wrong", isError=True),
    "refuse": lambda request: send({"id": request["id"], "error": {"code": -32000, "message": "not today"}}),
    "nonsense": lambda request: answer(request, {"content": 7}),
    "bad_text": lambda request: answer_text(request, "lone \ud800 surrogate"),
    "deep": lambda request: send_deep(request, 100_000),
    "no_answer": lambda request: send({"result": [], "id": request["id"]}),
    "die": die,
    "flood": flood,
    "count": count,
    "learn": learn,
    "leave_a_child": leave_a_child,
    "ask_first": ask_first,
    "sign_in": send_to_sign_in,
}
SIGNED_IN: Final[list[Any]] = []
TOOLS: Final[list[Any]] = [{"name": name, "inputSchema": OBJECT} for name in CALLS]


def serve(tools: list[Any]) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                version = message["params"]["protocolVersion"]
                info = {"name": "plain", "version": "1"}
                answer(
                    message, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
                )
            case "tools/list":
                answer(message, {"tools": tools})
            case "tools/call":
                CALLS[message["params"]["name"]](message)


def serve_without_tools() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "initialize":
            info = {"name": "plain", "version": "1"}
            version = message["params"]["protocolVersion"]
            answer(message, {"protocolVersion": version, "capabilities": {}, "serverInfo": info})
        elif "id" in message:
            send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})


def serve_newest() -> None:
    """Serve in the newest revision alone, which has no handshake and an end in each result."""
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "server/discover":
                found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
                answer(message, {**found, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
            case "tools/list":
                listed = {"tools": TOOLS, "resultType": "complete"}
                answer(message, {**listed, "ttlMs": 0, "cacheScope": "private"})
            case "tools/call":
                CALLS[message["params"]["name"]](message)
            case _ if "id" in message:
                send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})


def serve_stubbornly() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(TOOLS)
    time.sleep(1000)


def stop_reading() -> None:
    sys.stdin.close()
    time.sleep(1000)


def fall_quiet() -> None:
    os.close(1)
    time.sleep(1000)


def serve_behind_a_banner() -> None:
    sys.stdout.write("Welcome!\n\n{not json\n")
    serve(TOOLS)


def hand_over_the_output() -> None:
    """End, while somebody who has left the group holds the output open."""
    code = "import os, time; os.setsid(); time.sleep(1000)"
    child = subprocess.Popen([sys.executable, "-c", code], close_fds=False)
    sys.stderr.write(f"{child.pid}\n")
    sys.stderr.flush()
    os._exit(4)


BEHAVIOURS: Final[dict[str, Callable[[], None]]] = {
    "sound": lambda: serve(TOOLS),
    "odd": lambda: serve(ODD_TOOLS),
    "newest": serve_newest,
    "toolless": serve_without_tools,
    "mute": lambda: time.sleep(1000),
    "deaf": stop_reading,
    "quiet": fall_quiet,
    "dead": lambda: die(None),
    "flooding": flood,
    "endless": never_end,
    "stubborn": serve_stubbornly,
    "banner": serve_behind_a_banner,
    "heir": hand_over_the_output,
}

if __name__ == "__main__":
    if os.path.exists("life"):
        os.set_inheritable(os.open("life", os.O_WRONLY), True)
    BEHAVIOURS[sys.argv[1]]()
