"""The assembly of one answer: the emissions of each chunk, and the whole reply at the end. Pure.

It is the same for every provider, so that equal answers have equal replies. Blocks keep the order in which
the model made them. Arguments that are not valid JSON stay raw text, which no tool accepts.

SDKs check nothing of a stream: a field that its format declares as text may hold any JSON value. Types are
checked here, once for every format, so that nothing behind the gateway meets a delta that is not text.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct, field

from sidecar._internal.values import replace
from sidecar.llmgateway.channel import parse_arguments
from sidecar.llmgateway.contract import (
    Block,
    DoneEmission,
    Emission,
    Reply,
    StopEmission,
    StopReason,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    Usage,
    UsageEmission,
)

_DELTAS: Final[Mapping[type[Emission], str]] = MappingProxyType(
    {TextEmission: "delta", ThinkingEmission: "delta", ToolCallDeltaEmission: "args_delta"}
)
"""The field with the text of an emission that adds text."""

Emissions: TypeAlias = Sequence[Emission]
"""The emissions of one chunk: often none, seldom more than one."""


MAX_ANSWER_CHARS: Final = 16_000_000
MAX_CALLS: Final = 1_000
"""The bounds of one answer. Models that repeat themselves for ever come here; no sound answer does."""


class MalformedAnswerError(ValueError):
    """A value in an answer has another type than its format promises, or the answer does not end."""


class _OpenText(Struct):
    deltas: list[str]

    def block(self) -> Block:
        return TextBlock("".join(self.deltas))


class _OpenThinking(Struct):
    deltas: list[str]
    signature: str | None = None

    def block(self) -> Block:
        return ThinkingBlock("".join(self.deltas), self.signature)


class _OpenCall(Struct):
    call_id: str
    name: str = ""
    deltas: list[str] = field(default_factory=list)
    is_emitted: bool = False

    def block(self) -> Block:
        return ToolCallBlock(self.call_id, self.name, parse_arguments("".join(self.deltas)))


class Assembly:
    """The answer of one call under construction.

    In every method None adds nothing, and a value that is not text raises MalformedAnswerError.

    Attributes:
        usage: the usage of the call; None until the provider reported it.
        stop: the reason why the model stopped; None until the provider reported it.
    """

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.stop: StopReason | None = None
        self._parts: list[_OpenText | _OpenThinking | _OpenCall] = []
        self._thoughts: dict[Hashable, _OpenThinking] = {}
        self._calls: dict[Hashable, _OpenCall] = {}
        self._n_chars = 0

    def add_text(self, delta: object) -> Emissions:
        """Add prose."""
        text = self._take(delta, "a piece of text")
        if not text:
            return ()
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _OpenText):
            last.deltas.append(text)
        else:
            self._parts.append(_OpenText([text]))
        return (TextEmission(text),)

    def open_thinking(self, key: Hashable = None) -> None:
        """Begin a new block of reasoning, under *key* where its signature may come behind other blocks."""
        thought = _OpenThinking([])
        self._parts.append(thought)
        if key is not None:
            self._thoughts[key] = thought

    def add_thinking(self, delta: object, signature: str | None = None) -> Emissions:
        """Add reasoning to the open block if that is one of reasoning with the same *signature*."""
        text = self._take(delta, "a piece of reasoning")
        if not text:
            return ()
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _OpenThinking) and last.signature == signature:
            last.deltas.append(text)
        else:
            self._parts.append(_OpenThinking([text], signature))
        return (ThinkingEmission(text),)

    def turn_text_into_thinking(self, signature: str) -> None:
        """Make the text so far reasoning with *signature*, unless there is reasoning already.

        No emission withdraws the text; the whole reply replaces it.
        """
        if any(isinstance(part, _OpenThinking) for part in self._parts):
            return
        self._parts = [
            _OpenThinking(part.deltas, signature) if isinstance(part, _OpenText) else part
            for part in self._parts
            if not isinstance(part, _OpenText) or "".join(part.deltas).strip()
        ]

    def sign(self, signature: object, key: Hashable = None) -> None:
        """Put *signature* on the reasoning *key* or the open one, else on an empty block of its own."""
        text = require_text(signature, "a signature")
        last = self._thoughts.get(key) or (self._parts[-1] if self._parts else None)
        if isinstance(last, _OpenThinking) and last.signature is None:
            last.signature = text
        else:
            self._parts.append(_OpenThinking([], text))

    def sign_answer(self, signature: str) -> None:
        """Put *signature* on the first block of reasoning, in the place of those on all blocks."""
        thoughts = [part for part in self._parts if isinstance(part, _OpenThinking)]
        for part in thoughts:
            part.signature = None
        if not thoughts:
            thoughts = [_OpenThinking([])]
            self._parts.insert(0, thoughts[0])
        thoughts[0].signature = signature

    def open_call(self, key: Hashable, call_id: object, name: object) -> Emissions:
        """Open or complete the call that the provider numbers *key*; emitted once it has a name."""
        given_id, given_name = (
            require_text(call_id, "the id of a tool call"),
            require_text(name, "the name of a tool"),
        )
        call = self._calls.get(key)
        if call is None:
            if len(self._calls) == MAX_CALLS:
                raise MalformedAnswerError(f"it has more than {MAX_CALLS} tool calls")
            call = self._calls[key] = _OpenCall(
                choose_id(given_id, {each.call_id for each in self._calls.values()})
            )
            self._parts.append(call)
        # Servers of gpt-oss leave the channel of a call at the end of its name.
        call.name = call.name or given_name.partition("<|")[0]
        if call.is_emitted or not call.name:
            return ()
        call.is_emitted = True
        earlier = [ToolCallDeltaEmission(call.call_id, delta) for delta in call.deltas]
        return (ToolCallStartEmission(call.call_id, call.name), *earlier)

    def add_arguments(self, key: Hashable, delta: object) -> Emissions:
        """Add argument text to the call *key*; that of a call that was never opened is dropped."""
        text = self._take(delta, "a piece of arguments")
        call = self._calls.get(key)
        if call is None or not text:
            return ()
        call.deltas.append(text)
        return (ToolCallDeltaEmission(call.call_id, text),) if call.is_emitted else ()

    def add_call(self, call_id: object, name: object, arguments: object) -> Emissions:
        """Add a call that comes as a whole, with its *arguments* as text."""
        key = ("whole", len(self._calls))
        return (*self.open_call(key, call_id, name), *self.add_arguments(key, arguments))

    def has_arguments(self, key: Hashable) -> bool:
        """Whether the call *key* has any argument text yet."""
        call = self._calls.get(key)
        return call is not None and bool(call.deltas)

    def why_empty(self) -> str | None:
        """Return how an answer without text and calls came to its end; None for any other answer."""
        if self._calls or any(isinstance(part, _OpenText) for part in self._parts):
            return None
        match self.stop:
            case None | "complete" | "tool_calls" if self._parts:
                return "ended its answer after the reasoning; ask again, or for its conclusion"
            case None | "complete" | "tool_calls":
                return "gave an empty answer; ask again"
            case "max_output":
                return "used the whole length of its answer for reasoning; choose a lower level of thinking"
        return None

    def finish(self, model: str) -> Emissions:
        """Return the last emissions: the usage if there is any, the stop reason, the whole reply."""
        stop = self.stop or "complete"
        if stop in ("complete", "tool_calls"):
            stop = "tool_calls" if self._calls else "complete"
        blocks = [part.block() for part in self._parts]
        kept = tuple(block for block in blocks if block != ThinkingBlock(""))
        reply = Reply(model, kept, self.usage or Usage(0, 0), stop)
        # A usage of zeros means that the provider does not count.
        usage = (UsageEmission(reply.usage),) if reply.usage != Usage(0, 0) else ()
        return (*usage, StopEmission(stop), DoneEmission(reply))

    def _take(self, value: object, field_name: str) -> str:
        """Return *value* as text of the answer, which may not be endless."""
        text = require_text(value, field_name)
        self._n_chars += len(text)
        if self._n_chars > MAX_ANSWER_CHARS:
            raise MalformedAnswerError(f"it is longer than {MAX_ANSWER_CHARS} characters")
        return text


def choose_id(call_id: str, taken: Collection[str]) -> str:
    """Return *call_id*, or a numbered one where it is empty or *taken*.

    >>> choose_id("c1", {"c1"}), choose_id("", ())
    ('c1_2', 'call_1')
    """
    if call_id and call_id not in taken:
        return call_id
    base, n = call_id or "call", len(taken) + 1
    while f"{base}_{n}" in taken:
        n += 1
    return f"{base}_{n}"


def join_deltas(emissions: Iterable[Emission]) -> Iterator[Emission]:
    """Yield *emissions* with the deltas joined that add to the same text one after the other.

    The emissions before a failure come before it.

    >>> [emission.delta for emission in join_deltas([TextEmission("Hel"), TextEmission("lo")])]
    ['Hello']
    """
    taken: list[Emission] = []
    failure: Exception | None = None
    try:
        taken.extend(emissions)
    except Exception as error:
        failure = error
    for (kind, _), run in groupby(taken, lambda each: (type(each), getattr(each, "id", None))):
        first, *more = run
        name = _DELTAS.get(kind)
        if name is None or not more:
            yield from (first, *more)
            continue
        delta = "".join([getattr(each, name) for each in (first, *more)])
        yield replace(first, **{name: delta})  # type: ignore[arg-type]  # the field of this kind
    if failure is not None:
        raise failure


def require_text(value: object, field_name: str) -> str:
    """Return *value* of the field *field_name*, "" for None; MalformedAnswerError for another type."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedAnswerError(f"{field_name} is of type {type(value).__name__}")
    return value
