"""The runner: the failures of the original are not ours, and no model can break a compaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from model_cards import card
from sidecar._internal.cancel import Callback, CancelToken
from sidecar.conductor.engine import EngineDeps
from sidecar.conductor.session_ops import (
    CondenseOpts,
    IdentityCondense,
    WindowBudgetCondense,
    carry_out,
    condense_transcript,
    restore_under_count_guard,
)
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Channel,
    Conversation,
    StreamOptions,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
)
from sidecar.llmgateway.scripted import Hang, Raise, Say, ScriptedModel, Step
from sidecar.window_budget import (
    CLEARED_TOOL_RESULT,
    DIGEST_HEADER,
    RESTORED_FILE_PREFIX,
    AssistantMessage,
    BudgetRequest,
    BudgetResult,
    CompactionSummaryMessage,
    CondenserDeps,
    Message,
    RehydrateOpts,
    ToolResultMessage,
    UserMessage,
    estimate_tokens,
    plan_compaction,
)
from turns import assistant, user

DIGEST = "# Objective\nport the importer\n# Guardrails\nnone\n# Plan\ntest it"
FILLER = "word " * 300


CARD = card(12_000, 1000)


def ask(text: str = "go on") -> list[Message]:
    return [UserMessage(text, 1)]


def say(text: str = "done") -> list[Message]:
    return [AssistantMessage((TextBlock(text),))]


def use(tool: str, path: str, body: str = FILLER, *, is_error: bool = False, **rest: Any) -> list[Message]:
    call_id = f"{tool}-{path}-{rest}-{len(body)}-{body[:9]}"
    return [
        AssistantMessage((ToolCallBlock(call_id, tool, {"path": path, **rest}),)),
        ToolResultMessage(call_id, tool, (TextBlock(body),), is_error),
    ]


def talk(turns: int) -> list[Message]:
    return [
        message for number in range(turns) for message in ask(f"question {number} {FILLER}") + say(FILLER)
    ]


def digest_of(record: BudgetResult) -> str:
    assert record.summary is not None
    first = record.messages[0]
    assert isinstance(first, UserMessage)
    assert first.content == f"{DIGEST_HEADER}\n\n{record.summary}"
    return record.summary


class HangingModel(ScriptedModel):
    """Says nothing; *started* is set once it was asked."""

    def __init__(self) -> None:
        super().__init__([[Hang()]])
        self.started = asyncio.Event()

    def __call__(self, conversation: Conversation, options: StreamOptions) -> Channel:
        self.started.set()
        return super().__call__(conversation, options)


async def condense(
    messages: Sequence[Message],
    model: ScriptedModel | None = None,
    window: int | None = 12_000,
    *,
    deadline_s: float | None = None,
    cancel: CancelToken | None = None,
    **asked: Any,
) -> BudgetResult:
    asked.setdefault("summarizer_card", card(200_000, 1000))
    request = BudgetRequest(card=card(window, 1000) if window else None, **asked)
    deps = EngineDeps(model, cancel or CancelToken(), deadline_s)
    return await carry_out(messages, plan_compaction(messages, request), request, deps)


def asked(model: ScriptedModel, call: int = 0) -> str:
    block = model.calls[call].conversation.turns[0].blocks[0]
    assert isinstance(block, TextBlock)
    return block.text


async def test_a_lone_giant_result_is_cut_where_it_stands() -> None:
    """Nothing to fold, no model call."""
    messages = [*ask("read it"), *use("read", "a.py", "a" * 200_000)]
    model = ScriptedModel([[Say(DIGEST)]])
    record = await condense(messages, model)
    assert (record.cut, record.summary, record.summary_source, model.calls) == (0, None, None, [])
    assert record.messages[:2] == tuple(messages[:2])
    assert record.tokens_after <= (12_000 - 2048) * 0.75


@pytest.mark.parametrize("shape", ["summary", "user"])
async def test_the_earlier_digest_travels_as_such(shape: str) -> None:
    """Once, in its own block, not flattened as something the user said."""
    earlier: Message = CompactionSummaryMessage("# Objective\nmove the mill", 9)
    if shape == "user":
        earlier = UserMessage(f"{DIGEST_HEADER}\n\n# Objective\nmove the mill")
    model = ScriptedModel([[Say(DIGEST)]])
    await condense([earlier, *talk(12)], model)
    assert "<carried-digest>\n# Objective\nmove the mill\n</carried-digest>" in asked(model)
    assert asked(model).count("move the mill") == 1
    assert "» you: [session digest" not in asked(model)


async def test_the_summariser_sees_the_original_bodies() -> None:
    """Blanking lightens what is kept, nothing else; restored files are no placeholders."""
    reads = [
        message for number in range(12) for message in use("read", f"f{number}.py", f"body {number} {FILLER}")
    ]
    model = ScriptedModel([[Say(DIGEST)]])
    record = await condense([*ask("read them"), *reads, *talk(8)], model, window=16_000)
    assert CLEARED_TOOL_RESULT not in asked(model)
    assert all(f"body {number} " in asked(model) for number in range(12))
    shown = [str(file.content).split("\n")[:2] for file in record.restored]
    assert [lines[0] for lines in shown] == [f"{RESTORED_FILE_PREFIX} f{n}.py" for n in range(8, 12)]
    assert all(lines[1].startswith("body") for lines in shown)


def turns_with_tools() -> list[Turn]:
    turns: list[Turn] = []
    for number in range(12):
        calls = tuple(ToolCallBlock(f"{number}{key}", "read", {"path": f"{number}{key}.py"}) for key in "ab")
        results = tuple(ToolResultBlock(call.id, FILLER, is_error=False) for call in calls)
        turns += [user(f"question {number}"), AssistantTurn(calls), ToolTurn(results)]
        turns.append(assistant("read both"))
    return turns


@pytest.mark.parametrize("force", [False, True])
async def test_the_rules_hold_for_turns(force: bool) -> None:
    """Through the bridge: pairs whole, files restored, the tail the same turns."""
    turns = turns_with_tools()
    out = await WindowBudgetCondense(CondenserDeps(card=CARD)).condense(turns, CondenseOpts(force=force))
    assert len(out) < len(turns)
    known: set[str] = set()
    restored = 0
    for turn in out:
        known.update(block.id for block in turn.blocks if isinstance(block, ToolCallBlock))
        answered = {block.call_id for block in turn.blocks if isinstance(block, ToolResultBlock)}
        assert answered <= known
        restored += sum(
            isinstance(b, TextBlock) and b.text.startswith(RESTORED_FILE_PREFIX) for b in turn.blocks
        )
    assert restored > 0
    assert list(out[-4:]) == turns[-4:]


async def test_restored_files_never_make_the_result_larger() -> None:
    """They give way."""
    messages = [*ask("read"), *use("read", "a.py", "y" * 700), *ask("next")]
    record = await condense(messages, window=None, force=True)
    assert record.restored == ()
    assert record.tokens_after < record.tokens_before


async def test_the_result_stays_inside_the_limit() -> None:
    """A file that is too large is restored in part."""
    messages = [*use("read", "big.py", "line\n" * 9_000), *talk(12)]
    record = await condense(messages)
    (restored,) = record.restored
    assert "characters cut; read big.py with offset/limit for the rest" in str(restored.content)
    assert record.tokens_after == estimate_tokens(record.messages) <= (12_000 - 2048) * 0.75


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        pytest.param([Say("half"), Raise(RuntimeError("torn"))], "modelError", id="fails in any way"),
        pytest.param([Say("half"), Hang()], "deadline", id="hangs"),
        pytest.param([Say("long " * 20_000)], "tooLong", id="writes more than there is room for"),
    ],
)
async def test_whatever_the_model_does_the_compaction_succeeds(steps: list[Step], reason: str) -> None:
    """By the local digest, and it says so."""
    messages = [*ask("Port it. Never push."), *talk(12)]
    deadline_s = 0.02 if reason == "deadline" else None
    record = await condense(messages, ScriptedModel([steps]), deadline_s=deadline_s)
    assert (record.noop, record.summary_source, record.fallback_reason) == (None, "localFallback", reason)
    assert digest_of(record).startswith(f"# Carryover\n{record.dropped_count} ")


async def test_a_failed_piece_falls_back_for_all_of_them() -> None:
    """Half a digest is none."""
    model = ScriptedModel([[Say(DIGEST)], [Raise(RuntimeError("torn"))]])
    record = await condense(talk(30), model, window=None, force=True, summarizer_card=card(8000, 1000))
    assert (record.fallback_reason, len(model.calls)) == ("modelError", 2)
    assert (
        digest_of(record)
        == f"# Carryover\n{record.dropped_count} earlier messages condensed without a model."
    )


async def test_a_cancelled_compaction_changes_nothing() -> None:
    """At any moment: before, or while the model hangs."""
    messages = talk(12)
    early = CancelToken()
    early.cancel()
    record = await condense(messages, ScriptedModel([[Say(DIGEST)]]), cancel=early)
    assert (record.noop, record.messages is messages) == ("cancelled", True)
    late, model = CancelToken(), HangingModel()
    running = asyncio.create_task(condense(messages, model, cancel=late))
    await model.started.wait()
    late.cancel("esc")
    record = await running
    assert (record.noop, record.messages is messages) == ("cancelled", True)


async def test_a_cancelled_task_passes_through() -> None:
    """Cancelling the caller is not a cancelled compaction."""
    model = HangingModel()
    running = asyncio.create_task(condense(talk(12), model, cancel=CancelToken()))
    await model.started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    token = model.calls[0].options.cancel
    assert token is not None
    assert token.cancelled


async def test_a_finished_compaction_leaves_no_listener_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's token is free again, and so is the one that the model was given."""
    waiting: list[Callback] = []
    seen: list[Callback] = []
    add_callback = CancelToken.add_callback

    def add_counted(token: CancelToken, cb: Callback) -> Callback:
        waiting.append(cb)
        seen.append(cb)
        dispose = add_callback(token, cb)

        def remove() -> None:
            dispose()
            if cb in waiting:
                waiting.remove(cb)

        return remove

    monkeypatch.setattr(CancelToken, "add_callback", add_counted)
    await condense(talk(12), ScriptedModel([[Say(DIGEST)]]), cancel=CancelToken())
    assert seen, "nothing was ever added"
    assert waiting == []


async def test_a_prompt_larger_than_the_window_keeps_its_beginning() -> None:
    """Visibly cut in the view; nothing else is left of the room."""
    record = await condense([*talk(3), *ask("Do this: " + "x" * 90_000)])
    (_, prompt) = record.messages
    assert isinstance(prompt, UserMessage)
    assert str(prompt.content).startswith("Do this: xxx")
    assert "the whole prompt is kept in the session's history" in str(prompt.content)
    assert record.tokens_after <= (12_000 - 2048) * 0.75


@pytest.mark.parametrize(
    ("force", "words", "changes"),
    [
        pytest.param(True, talk(2), True, id="forced with two turns"),
        pytest.param(True, talk(1), False, id="forced with one turn"),
        pytest.param(False, talk(2), False, id="automatic without a card"),
        pytest.param(True, [], False, id="nothing at all"),
    ],
)
async def test_condensing_gives_a_digest_and_the_last_turn_or_the_very_input(
    force: bool, words: list[Message], changes: bool
) -> None:
    """[digest, *the last turn], or the very input."""
    out = await condense_transcript(CondenserDeps(), words, CondenseOpts(force, None, 0))
    if changes:
        assert list(out[1:]) == words[2:]
    else:
        assert out is words


async def test_identity_condense_returns_its_input() -> None:
    """Whatever it is asked."""
    turns = (user("hi"),)
    assert await IdentityCondense().condense(turns, CondenseOpts(force=True)) is turns


async def test_window_budget_condense_returns_its_input_when_there_is_nothing_to_do() -> None:
    """The very same turns."""
    turns = turns_with_tools()[:4]
    assert await WindowBudgetCondense().condense(turns, CondenseOpts(force=True)) is turns


def guard(n_dropped: int, body: str = "b" * 400, **options: Any) -> list[str]:
    """Return the paths restored of *n_dropped* dropped messages, two of them to a read."""
    dropped = [message for number in range(n_dropped // 2) for message in use("read", f"f{number}.py", body)]
    dropped += say()[: n_dropped % 2]
    restored = restore_under_count_guard(dropped, [], **options)
    return [
        str(message.content).split("\n")[0].split()[-1]
        for message in restored
        if isinstance(message, UserMessage)
    ]


@pytest.mark.parametrize(
    ("find", "paths"),
    [
        pytest.param(lambda: guard(0), [], id="nothing dropped"),
        pytest.param(lambda: guard(2), [], id="two dropped: one digest, nothing more"),
        pytest.param(lambda: guard(3), ["f0.py"], id="three dropped: one file"),
        pytest.param(lambda: guard(20), ["f5.py", "f6.py", "f7.py", "f8.py", "f9.py"], id="five at most"),
        pytest.param(lambda: guard(6, digest_tokens=150), ["f1.py", "f2.py"], id="tokens count as well"),
        pytest.param(lambda: guard(6, digest_tokens=9000), [], id="a digest that eats it all"),
        pytest.param(lambda: guard(20, opts=RehydrateOpts(max_files=1)), ["f9.py"], id="the caller's limit"),
    ],
)
def test_restored_files_stay_fewer_and_cheaper_than_the_dropped_messages(
    find: Callable[[], list[str]], paths: list[str]
) -> None:
    """At most dropped - 2 messages, and fewer tokens than were dropped; the newest stay."""
    assert find() == paths
