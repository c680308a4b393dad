"""A tool server made with the ``mcp`` package. Its only argument is how it is reached: ``stdio`` or ``http``.

Over HTTP it can be spoken to in both ways, prints its port, and lets in only who brings the right header.
"""

from __future__ import annotations

import asyncio
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

server = MCPServer("real", log_level="ERROR")


class Port(BaseModel):
    """A form."""

    port: int = Field(title="Port", description="Where the database listens", ge=1, le=9999)


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(title="Count Up")
async def count(up_to: int, context: Context) -> str:
    """Count, and report the progress."""
    for done in range(1, up_to + 1):
        await context.report_progress(done, up_to, f"at {done}")
    return "done"


@server.tool()
def picture() -> Image:
    """Return a picture."""
    return Image(data=b"12345", format="png")


@server.tool()
async def hang(context: Context) -> str:
    """Take for ever, but for a cancel."""
    try:
        await context.report_progress(0, 1, "hanging")
        await asyncio.Event().wait()
    finally:
        CANCELLED.append("hang")
    return "never"


@server.tool()
def cancelled() -> str:
    """Tell which calls were cancelled."""
    return ", ".join(CANCELLED)


@server.tool()
async def connect(context: Context) -> str:
    """Ask for the port, and then for a sign-in."""
    port = await context.elicit("Which port?", Port)
    if port.action != "accept":
        return f"the port: {port.action}"
    signed = await context.elicit_url("Sign in", "https://example.org/sign-in", "s1")
    return f"port {port.data.port}, signed in: {signed.action}"


CANCELLED: list[str] = []


class Guard:
    """Lets in requests with the right header."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (b"authorization", b"Bearer let-me-in") in scope["headers"]:
            await self.app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})


def serve_http() -> None:
    app = server.streamable_http_app()
    app.router.routes.extend(server.sse_app().routes)
    app.user_middleware.append(Middleware(Guard))
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])


if __name__ == "__main__":
    serve_http() if sys.argv[1] == "http" else server.run()
