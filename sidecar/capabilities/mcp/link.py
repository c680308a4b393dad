"""Connections to tool servers with the ``mcp`` package; loaded with the first server.

The handshake comes first and the newer discovery second: some servers end at any other request before a
handshake. The package's log stays at DEBUG, since it quotes the servers' messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeAlias

import anyio
import httpx2
from anyio.abc import TaskStatus
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    URL_ELICITATION_REQUIRED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    ImageContent,
    Implementation,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
    ToolListChangedNotification,
)
from pydantic import TypeAdapter, ValidationError

from sidecar import __version__
from sidecar._internal.surrogates import replace_halves_in
from sidecar.capabilities.contract import AskForm, Form
from sidecar.capabilities.mcp.contract import (
    CallResult,
    HttpServer,
    ListedTool,
    McpServer,
    OnProgress,
    ServerFailed,
    ServerHost,
    StdioServer,
)
from sidecar.capabilities.mcp.process import MESSAGE_CAP, UNDECODABLE, run_server
from sidecar.capabilities.mcp.sanitize import sanitize_listing, sanitize_result
from sidecar.text.forms import normalise_schema

_log = logging.getLogger(__name__)
_HTTP_S: Final = 30.0
_MOST_PAGES: Final = 100
_MESSAGE_CHARS: Final = 4000
_MOST_ROUNDS: Final = 10
"""How often a call is made again with answers of the user."""

_ROUND_S: Final = 0.25
"""The first pause for a server that is at work; each is twice as long, four minutes together."""

_CALL_RESULT: Final[TypeAdapter[CallToolResult | InputRequiredResult]] = TypeAdapter(
    InputRequiredResult | CallToolResult
)
_LOGGERS: Final = ("mcp", "client", "httpx2", "httpcore2")
_SANITIZERS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "tools/list": sanitize_listing,
    "tools/call": sanitize_result,
}

FindTrouble: TypeAlias = Callable[[], Awaitable[str | None]]
"""Returns what is wrong with a connection in words, None when nothing is known."""


@asynccontextmanager
async def open_link(server: McpServer, host: ServerHost) -> AsyncIterator[PackageLink]:
    """Open a connection to *server*, shake hands, and close both at the end."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, _DebugHandler) for handler in logger.handlers):
            logger.addHandler(_DebugHandler())
            logger.propagate = False
    async with AsyncExitStack() as stack:
        if isinstance(server, StdioServer):
            process = await stack.enter_async_context(run_server(server, host))
            channel = JSONRPCDispatcher(process.incoming, process.outgoing)
            find_trouble: FindTrouble = process.why_ended
        else:
            channel, find_trouble = await stack.enter_async_context(_open_http(server))
        link = PackageLink(channel, find_trouble, server.name, host.ask_form)
        await stack.enter_async_context(link.session)
        await link.initialize()
        yield link


class PackageLink:
    """See :class:`~sidecar.capabilities.mcp.contract.ServerLink`."""

    def __init__(
        self, channel: JSONRPCDispatcher, find_trouble: FindTrouble, name: str, ask_form: AskForm | None
    ) -> None:
        """Make the link of the server *name*; *ask_form* puts its forms to the user, None for no forms."""
        self._change = asyncio.Event()
        self._channel = _Channel(channel, self._change)
        self._find_trouble = find_trouble

        async def on_message(message: IncomingMessage) -> None:
            if isinstance(message, ToolListChangedNotification):
                self._change.set()

        async def on_elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            assert ask_form is not None
            form = read_form(params, name)
            answer = await ask_form(form)
            if answer.action not in ("accept", "decline"):
                return ElicitResult(action="cancel")
            has_content = answer.action == "accept" and form.url is None
            return ElicitResult(action=answer.action, content={**answer.content} if has_content else None)

        self.session = ClientSession(
            dispatcher=self._channel,
            elicitation_callback=None if ask_form is None else on_elicit,
            client_info=Implementation(name="sidecar", version=__version__),
            message_handler=on_message,
        )

    async def initialize(self) -> None:
        """Agree on a version. Raises ServerFailed."""
        async with self._explain_failures():
            try:
                await self.session.initialize()
            except MCPError as error:
                if error.code not in (METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION):
                    raise
                await self.session.discover()

    async def tools(self) -> tuple[ListedTool, ...]:
        """Return the server's tools. Raises ServerFailed."""
        tools: dict[str, Tool] = {}
        cursor: str | None = None
        async with self._explain_failures():
            try:
                for _ in range(_MOST_PAGES):
                    params = PaginatedRequestParams(cursor=cursor) if cursor else None
                    page = await self.session.list_tools(params=params)
                    tools |= {tool.name: tool for tool in page.tools}
                    if page.next_cursor in (None, cursor):
                        break
                    cursor = page.next_cursor
            except MCPError as error:
                if error.code != METHOD_NOT_FOUND:  # else a server of prompts and resources alone
                    raise
        return tuple(
            ListedTool(
                name=tool.name,
                title=tool.title or hints.title or "",
                description=tool.description or "",
                schema=tool.input_schema,
                is_read_only=hints.read_only_hint is True,
                is_open_world=hints.open_world_hint is True,
            )
            for tool in tools.values()
            for hints in (tool.annotations or ToolAnnotations(),)
        )

    async def call(self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress) -> CallResult:
        """Call a tool; cancelling this cancels the call in the server. Raises ServerFailed.

        A server may want something of the user first, in its answer or as an error that names addresses to
        visit. Then the user is asked, and the call is made again.
        """
        params = CallToolRequestParams(name=name, arguments=replace_halves_in(arguments))
        async with self._explain_failures():
            result = await self._call_once(params, on_progress)
            for turn in range(_MOST_ROUNDS):
                if isinstance(result, CallToolResult):
                    break
                if isinstance(result, InputRequiredResult):
                    wanted = result.input_requests or {}
                    if not wanted:  # it is at work, and nobody has to be asked
                        await asyncio.sleep(_ROUND_S * 2**turn)
                    answers = {key: await self._respond(each) for key, each in wanted.items()}
                    update = {"input_responses": answers or None, "request_state": result.request_state}
                    params = params.model_copy(update=update)
                result = await self._call_once(params, on_progress)
        if not isinstance(result, CallToolResult):
            raise ServerFailed(f"it has no result after {_MOST_ROUNDS} rounds of questions and pauses")
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        images = tuple(block.data for block in result.content if isinstance(block, ImageContent))
        return CallResult("\n".join(texts), result.is_error, images)

    async def _call_once(
        self, params: CallToolRequestParams, on_progress: OnProgress
    ) -> CallToolResult | InputRequiredResult | None:
        """Return the answer to one call, None once the user has visited the addresses that it needs."""
        request = CallToolRequest(params=params)
        try:
            return await self.session.send_request(request, _CALL_RESULT, progress_callback=on_progress)
        except MCPError as error:
            if error.code != URL_ELICITATION_REQUIRED:
                raise
            for each in UrlElicitationRequiredError.from_error(error.error).elicitations:
                answer = await self._respond(ElicitRequest(params=each))
                if not isinstance(answer, ElicitResult) or answer.action != "accept":
                    raise ServerFailed(f"{error.message}, and the user did not agree") from error
            return None

    async def _respond(self, request: InputRequest) -> InputResponse:
        """Return the answer to a *request* of the server. Raises MCPError where there is none."""
        context = ClientRequestContext(session=self.session, request_id="call")
        answer = await self.session.dispatch_input_request(context, request)
        if isinstance(answer, ErrorData):
            raise MCPError.from_error_data(answer)
        return answer

    async def wait_for_change(self) -> bool:
        """Return once the tools have changed: True to list them anew, False when the connection has ended."""
        await self._change.wait()
        self._change.clear()
        return not self._channel.has_ended

    async def why_ended(self) -> str:
        """Return why the connection has ended, in a few words."""
        return await self._find_trouble() or "it closed the connection"

    @asynccontextmanager
    async def _explain_failures(self) -> AsyncIterator[None]:
        """Turn the package's errors inside the block into ServerFailed, with a reason that helps the user."""
        try:
            yield
        except MCPError as error:
            reason, trouble = error.message, await self._find_trouble()
            if error.code == PARSE_ERROR and "validation error" in reason:  # that of a library, in 5 lines
                reason = UNDECODABLE
            if trouble is not None:
                reason = trouble if error.code == CONNECTION_CLOSED else f"{reason} ({trouble})"
            raise ServerFailed(reason) from error
        except ValidationError as error:
            raise ServerFailed("the server's answer does not fit the request") from error


def read_form(params: ElicitRequestParams, server: str) -> Form:
    """Return the form of a *server*; its texts are of strangers, and bounded."""
    message = params.message[:_MESSAGE_CHARS]
    if isinstance(params, ElicitRequestURLParams):
        return Form(
            message=message, schema=normalise_schema({}), asker=server, url=params.url[:_MESSAGE_CHARS]
        )
    schema = normalise_schema(replace_halves_in(params.requested_schema))
    return Form(message=message, schema=schema, asker=server)


class _Channel(Dispatcher[TransportContext]):
    """The package's own channel, with sanitised answers, and *change* set at its end."""

    def __init__(self, inner: JSONRPCDispatcher, change: asyncio.Event) -> None:
        self._inner = inner
        self._change = change
        self._open: set[anyio.CancelScope] = set()

        async def fail_open_requests(_undecodable: Exception) -> None:
            # By the older transport such an answer may be that of any of them.
            for scope in self._open:
                scope.cancel()

        inner.on_stream_exception = fail_open_requests
        self.has_ended = False

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                raw = await self._inner.send_raw_request(method, params, opts)
            finally:
                self._open.discard(scope)
            return _SANITIZERS[method](raw) if method in _SANITIZERS else raw
        raise MCPError(PARSE_ERROR, UNDECODABLE)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self._inner.notify(method, params, opts)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            await self._inner.run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self.has_ended = True
            self._change.set()


@asynccontextmanager
async def _open_http(server: HttpServer) -> AsyncIterator[tuple[JSONRPCDispatcher, FindTrouble]]:
    refusal: str | None = None

    async def remember(response: httpx2.Response) -> None:
        nonlocal refusal
        if server.is_sse or response.request.method == "POST":  # a refused GET is an offer that is not made
            status = f"HTTP {response.status_code} {response.reason_phrase}"
            refusal = status if response.is_error else None
        if response.headers.get("content-type", "").startswith("application/json"):
            response.stream = _BoundedBody(response.stream)

    async def trouble() -> str | None:
        return refusal

    # Reads the certificates of the system, which takes a while.
    client = await asyncio.to_thread(
        httpx2.AsyncClient,
        headers=dict(server.headers),
        timeout=httpx2.Timeout(_HTTP_S, read=None),
        event_hooks={"response": [remember]},
    )
    if server.is_sse:
        try:
            async with sse_client(server.url, httpx_client_factory=lambda *_, **__: client) as streams:
                yield JSONRPCDispatcher(*streams), trouble
        except httpx2.HTTPStatusError as error:
            raise ServerFailed(refusal or "it refused") from error  # its own words quote the address
    else:
        async with (
            client,
            streamable_http_client(server.url, http_client=client, max_sse_event_size=MESSAGE_CAP) as streams,
        ):
            yield JSONRPCDispatcher(*streams), trouble


class _BoundedBody(httpx2.AsyncByteStream):
    """A body that fails when it is too long, before it fills the memory."""

    def __init__(self, inner: object) -> None:
        assert isinstance(inner, httpx2.AsyncByteStream)
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        n_bytes = 0
        async for part in self._inner:
            n_bytes += len(part)
            if n_bytes > MESSAGE_CAP:
                raise httpx2.StreamError(f"it is longer than {MESSAGE_CAP // 1024 // 1024} MiB")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()


class _DebugHandler(logging.Handler):
    """Passes the package's records of any level on to our log at DEBUG."""

    def emit(self, record: logging.LogRecord) -> None:
        _log.debug("%s: %s", record.name, record.getMessage(), exc_info=record.exc_info)
