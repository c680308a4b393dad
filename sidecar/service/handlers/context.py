"""``sidecar/context/*``, ``rule/*``, ``rehydrate/*``, ``fs/*``: the context window, and files on disk."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import Compaction, ContextUsage
from sidecar.conductor.window.compaction.expanding import ExpandRequest
from sidecar.protocol import messages as m
from sidecar.service.contract import Answer
from sidecar.service.handlers.session import answer_after, answer_long

if TYPE_CHECKING:
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection

_MAX_GLOBS: Final = 100


def usage(connection: Connection, params: m.ContextUsageParams) -> ContextUsage:
    """Return how full the window is."""
    return connection.hub.session(params.sid).window.request.usage(detail=params.detail)


async def files(connection: Connection, params: m.SidParams) -> Answer:
    """List the files the model has read."""
    found = await connection.hub.session(params.sid).workbench.files.list_in_context()
    return await answer_long(lambda: m.ContextFilesResult(found))


def drop(connection: Connection, params: m.ContextDropParams) -> Awaitable[m.ContextDropResult]:
    """Go on without some nodes of the conversation."""
    session = connection.hub.session(params.sid)
    dropping = session.drop(params.node_ids, expect_head=params.expect_head)

    return answer_after(
        dropping,
        lambda moved: m.ContextDropResult(moved.head, moved.removed, moved.tokens, session.record.log.seq),
    )


def expand(connection: Connection, params: m.ContextExpandParams) -> Awaitable[m.ContextExpandResult]:
    """Bring turns behind a summary back into view."""
    session = connection.hub.session(params.sid)
    request = ExpandRequest(
        compaction_id=params.compaction_id,
        node_ids=params.node_ids,
        first=params.from_node,
        last=params.to_node,
    )

    def answer(done: Compaction) -> m.ContextExpandResult:
        n_back = (done.info or {}).get("expandedCount", done.dropped_count)
        tokens = max(0, (done.post_tokens or 0) - done.pre_tokens)
        return m.ContextExpandResult(
            done.compaction_id, session.record.history.head, n_back, tokens, session.record.log.seq
        )

    return answer_after(session.expand(request, expect_head=params.expect_head), answer)


async def pin(connection: Connection, params: m.ContextPinParams) -> m.ContextPinResult:
    """Pin a fact, a node or a text, or take a pin away, and list the pins."""
    session = connection.hub.session(params.sid)
    pins, added = session.window.pins, None
    if [params.fact_id, params.node_id, params.text, params.unpin].count(None) < 3:
        raise InvalidInput("give only one of factId, nodeId, text and unpin")
    if params != m.ContextPinParams(params.sid):
        connection.check_control(params.sid)
    if params.fact_id is not None:
        added = await pins.find_fact(params.fact_id)
        if added is None:
            hint = "take an id from the facts of sidecar/compact/read"
            raise InvalidInput(f"there is no fact {params.fact_id!r:.100}", hint=hint)
    elif params.node_id is not None:
        added = pins.of_node(params.node_id)
    elif params.text is not None:
        added = pins.of_text(params.text)
    elif params.unpin is not None:
        await pins.remove(params.unpin)
    if added is not None:
        await pins.add(added)
    return m.ContextPinResult(pins.all, pins.used_tokens, pins.limit_tokens, session.record.log.seq, added)


async def rehydrate_preview(connection: Connection, params: m.RehydrateParams) -> m.RehydratePreviewResult:
    """List the files that a restoration would add."""
    session = connection.hub.session(params.sid)
    found = await session.turns.changes.restoration(params.uris, params.budget)
    return m.RehydratePreviewResult(found.files, found.missing, found.tokens)


def rehydrate_run(connection: Connection, params: m.RehydrateParams) -> Awaitable[m.RehydrateRunResult]:
    """Add files to the conversation again, as they are now."""
    session = connection.hub.session(params.sid)
    return answer_after(
        session.rehydrate(params.uris, params.budget),
        lambda done: m.RehydrateRunResult(
            files=done.files,
            missing=done.missing,
            tokens=done.tokens,
            head=session.record.history.head,
            seq=session.record.log.seq,
        ),
    )


def watch(connection: Connection, params: m.FsWatchParams) -> m.FsWatchResult:
    """Notify the client of files that change."""
    if not params.globs:
        raise InvalidInput("globs is empty", hint='"**" matches every file')
    if len(params.globs) > _MAX_GLOBS:
        raise InvalidInput(f"{len(params.globs)} patterns in one watch, the limit is {_MAX_GLOBS}")
    watch_id = connection.watch(connection.hub.session(params.sid), params.globs)
    return m.FsWatchResult(watch_id, connection.service.stats.watch().backend)


def unwatch(connection: Connection, params: m.FsUnwatchParams) -> m.Empty:
    """End a watch."""
    connection.unwatch(params.watch_id)
    return m.Empty()


def list_rules(connection: Connection, params: m.RuleListParams) -> m.RuleListResult:
    """List the rules that hold, or all."""
    rules = connection.hub.session(params.sid).window.rules
    return m.RuleListResult(rules.all if params.all else rules.standing)


async def add_rule(connection: Connection, params: m.RuleAddParams) -> m.RuleResult:
    """Set a rule."""
    session = connection.hub.session(params.sid)
    rule = await session.change_rules(lambda rules: rules.add(params.text))
    return m.RuleResult(rule, session.record.log.seq)


async def remove_rule(connection: Connection, params: m.RuleRemoveParams) -> m.RuleResult:
    """Take a rule back."""
    session = connection.hub.session(params.sid)
    rule = await session.change_rules(lambda rules: rules.remove(params.rule))
    return m.RuleResult(rule, session.record.log.seq)


async def keep_rules(connection: Connection, params: m.RuleKeepParams) -> m.RuleDecisionResult:
    """Keep a rule that was proposed, or all."""
    session = connection.hub.session(params.sid)
    decided = await session.change_rules(lambda rules: rules.keep(params.rule))
    return m.RuleDecisionResult(decided, session.record.log.seq)


async def dismiss_rules(connection: Connection, params: m.RuleDismissParams) -> m.RuleDecisionResult:
    """Dismiss a rule that was proposed, or all."""
    session = connection.hub.session(params.sid)
    decided = await session.change_rules(lambda rules: rules.dismiss(params.rule))
    return m.RuleDecisionResult(decided, session.record.log.seq)


HANDLERS: Final[dict[str, Handler]] = {
    "sidecar/context/usage": usage,
    "sidecar/context/files": files,
    "sidecar/context/drop": drop,
    "sidecar/context/pin": pin,
    "sidecar/context/expand": expand,
    "sidecar/rehydrate/preview": rehydrate_preview,
    "sidecar/rehydrate/run": rehydrate_run,
    "sidecar/fs/watch": watch,
    "sidecar/fs/unwatch": unwatch,
    "sidecar/rule/list": list_rules,
    "sidecar/rule/add": add_rule,
    "sidecar/rule/remove": remove_rule,
    "sidecar/rule/keep": keep_rules,
    "sidecar/rule/dismiss": dismiss_rules,
}
