"""Condensing messages into one digest: a single path for a running session and for an abandoned branch.

Never raises for a model's sake: without a model, or when it fails, refuses, is cut off, says nothing or is
cancelled, the digest is the local one. Awaits nothing but the model call the caller passed in. Seed 001,
facts W13 to W16.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Channel,
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    Reply,
    StopEmission,
    StopReason,
    StreamOptions,
    TextBlock,
    TextEmission,
    UserTurn,
)
from sidecar.runtime.contract import ModelInvoker
from sidecar.window_budget.contract import CondenseScope, FallbackReason, Summary
from sidecar.window_budget.marks import BRANCH_HEADER, DIGEST_HEADER, digest_text
from sidecar.window_budget.message import Message, UserMessage
from sidecar.window_budget.summarize.local_digest import local_fallback_digest
from sidecar.window_budget.summarize.prompt import CONDENSER_BRIEF, build_summary_prompt

__all__ = [
    "BRANCH_HEADER",
    "DIGEST_HEADER",
    "ModelDigest",
    "SummarizeDeps",
    "ask_model",
    "condense_scope",
    "digest_message",
    "newest_timestamp",
    "summarize",
]

_HEADERS = {CondenseScope.SESSION: DIGEST_HEADER, CondenseScope.BRANCH: BRANCH_HEADER}

_UNUSABLE: dict[StopReason, FallbackReason] = {
    "max_output": "truncated",
    "refusal": "refused",
    "aborted": "cancelled",
    "error": "modelError",
}
"""Stops after which a reply is no digest, however much text came."""


@dataclass(frozen=True, slots=True)
class SummarizeDeps:
    """What a summary needs, all of it optional.

    *invoke* is the model call, None for none. *prior_digest* is the digest carried from before; left out, the
    newest digest among the messages is carried. *max_tokens* caps the model's output.
    """

    invoke: ModelInvoker | None = None
    scope: CondenseScope = CondenseScope.SESSION
    prior_digest: str | None = None
    cancel: CancelToken | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ModelDigest:
    """What a model made of a prompt: *text*, or in *failure* why there is none to use."""

    text: str = ""
    failure: FallbackReason | None = None


async def summarize(messages: Sequence[Message], deps: SummarizeDeps | None = None) -> Summary:
    """Return one synthetic user message that stands for *messages*.

    It is stamped with the header of ``deps.scope``. ``covered_count`` is ``len(messages)``, an earlier digest
    counting one.
    """
    deps = deps or SummarizeDeps()
    prior, fresh = deps.prior_digest, messages
    if prior is None:
        prior, fresh = _carried_apart(messages)
    digest = await ask_model(build_summary_prompt(fresh, deps.scope, prior), deps)
    text = digest.text if digest.failure is None else local_fallback_digest(fresh, prior)
    return Summary(
        message=digest_message(text, deps.scope, newest_timestamp(messages, len(messages))),
        covered_count=len(messages),
        source="model" if digest.failure is None else "localFallback",
        fallback_reason=digest.failure,
    )


async def condense_scope(messages: Sequence[Message], deps: SummarizeDeps | None = None) -> Summary:
    """Return the digest of an abandoned branch: :func:`summarize` with the branch scope."""
    return await summarize(messages, replace(deps or SummarizeDeps(), scope=CondenseScope.BRANCH))


def digest_message(text: str, scope: CondenseScope, timestamp: int = 0) -> UserMessage:
    """Return the digest *text* as a message, stamped with the header of *scope*.

    >>> digest_message("# Plan", CondenseScope.SESSION).content
    '[session digest — older turns condensed]\\n\\n# Plan'
    """
    return UserMessage(f"{_HEADERS[scope]}\n\n{text}", timestamp)


def newest_timestamp(messages: Sequence[Message], before: int) -> int:
    """Return when the newest user message before *before* was said, in epoch milliseconds, or 0."""
    candidates = (messages[index] for index in range(before - 1, -1, -1))
    return next((message.timestamp for message in candidates if isinstance(message, UserMessage)), 0)


async def ask_model(prompt: str, deps: SummarizeDeps) -> ModelDigest:
    """Return what the model of *deps* answers to *prompt*, or why it has no usable answer.

    What the invoker or its channel raises counts as a failed call; only a cancelled task passes through.
    """
    if deps.invoke is None:
        return ModelDigest(failure="noModel")
    if deps.cancel is not None and deps.cancel.cancelled:
        return ModelDigest(failure="cancelled")
    conversation = Conversation((UserTurn((TextBlock(prompt),)),), system=CONDENSER_BRIEF)
    options = StreamOptions(cancel=deps.cancel, thinking="high", max_output_tokens=deps.max_tokens)
    try:
        return await _collect(deps.invoke(conversation, options), deps.cancel)
    except Exception:
        # The seam's contract: what a model call raises is a failed call. The digest says so in its source.
        return ModelDigest(failure="modelError")


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> None: ...


async def _collect(channel: Channel, cancel: CancelToken | None) -> ModelDigest:
    stream = aiter(channel)
    try:
        return await _read(stream, cancel)
    finally:
        if isinstance(stream, _Closable):
            await stream.aclose()


async def _read(stream: AsyncIterator[Emission], cancel: CancelToken | None) -> ModelDigest:
    deltas: list[str] = []
    stop: StopReason = "complete"
    async for emission in stream:
        if cancel is not None and cancel.cancelled:
            return ModelDigest(failure="cancelled")
        match emission:
            case TextEmission(delta=delta):
                deltas.append(delta)
            case StopEmission(stop=reason):
                stop = reason
            case ErrorEmission():
                return ModelDigest(failure="modelError")
            case DoneEmission(reply=reply):
                stop = reply.stop if isinstance(reply, Reply) else stop
                return _usable(_text_of(reply) or "".join(deltas), stop)
            case _:
                # Reasoning, tool calls and usage are no part of a digest.
                continue
    if cancel is not None and cancel.cancelled:
        return ModelDigest(failure="cancelled")
    return _usable("".join(deltas), stop)


def _usable(text: str, stop: StopReason) -> ModelDigest:
    if failure := _UNUSABLE.get(stop):
        return ModelDigest(failure=failure)
    return ModelDigest(text.strip()) if text.strip() else ModelDigest(failure="emptyReply")


def _text_of(reply: Reply | AssistantTurn) -> str:
    return "".join(block.text for block in reply.blocks if isinstance(block, TextBlock))


def _carried_apart(messages: Sequence[Message]) -> tuple[str | None, Sequence[Message]]:
    """Return the newest digest among *messages* and the rest of them, so that it is not flattened as well."""
    for index in range(len(messages) - 1, -1, -1):
        if (digest := digest_text(messages[index])) is not None:
            return digest, [*messages[:index], *messages[index + 1 :]]
    return None, messages
