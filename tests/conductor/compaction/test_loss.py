"""The loss report: what is kept, shortened and let go, by comparing texts, for every engine alike."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from histories import history_of
from model_cards import card
from properties import cases
from sidecar import boot
from sidecar._internal.cancel import CancelledByToken, CancelToken
from sidecar.conductor.loss_values import FactState
from sidecar.conductor.window.compaction import loss
from sidecar.conductor.window.compaction.loss import (
    FactLedger,
    HeldFact,
    TextLookup,
    count_states,
    even_out,
    report_facts,
    shorter_forms,
    state_of,
    text_shown,
    whole_words,
)
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.llmgateway.scripted import Raise, Say, ScriptedModel
from sidecar.window_budget.facts import FactKind
from talks import AUTO, FORCED, TALKS, Follower, Talk, turns_of

ENGINES = [name for name in boot.ENGINES if name != "none"]
DIGEST = (
    "# Objective\nUse src/parser/parser_3.py. We decided on port 7013.\n# Guardrails\nnone\n# Carryover\nnone"
)


def a_round(number: int) -> list[Turn]:
    """A prompt, a command that fails, an edit, a todo list and an answer, with facts of every kind."""
    items = [{"content": f"ship module {number}", "status": "pending"}]
    calls = [
        (
            "bash",
            {"command": f"pytest -q tests/test_{number}.py"},
            "E ValueError: bad offset\n[exit 1]",
            True,
        ),
        ("edit", {"path": f"src/m_{number}.py", "old_text": "a", "new_text": "b"}, "edited", False),
        ("grep", {"pattern": f"retry_limit_{number}"}, "src/a.py:3", False),
        ("todo", {"todos": items}, "noted", False),
    ]
    turns: list[Turn] = [UserTurn((TextBlock(f"Fix module {number}. Never touch api_{number}.py."),))]
    for index, (name, given_, output, is_error) in enumerate(calls):
        call_id = f"c{number}.{index}"
        turns.append(AssistantTurn((ToolCallBlock(call_id, name, given_),)))
        turns.append(ToolTurn((ToolResultBlock(call_id, output * 20, is_error),)))
    return [*turns, AssistantTurn((TextBlock(f"Done. I decided on port {7000 + number} for it. " * 4),))]


def report(before: History, view: Sequence[Entry]) -> list[tuple[HeldFact, FactState]]:
    facts = FactLedger().facts_of(before.list_folded(view), view, {})
    return [*report_facts(facts, TextLookup(text_shown(view))).facts]


def check(before: History, view: Sequence[Entry]) -> list[tuple[HeldFact, FactState]]:
    """Each fact once and in one state; its node holds it, and what is kept stands in the view."""
    found = report(before, view)
    counts = count_states(found)
    assert counts.kept + counts.shortened + counts.let_go == len(found)
    assert sum(each.kept + each.shortened + each.let_go for each in counts.kinds) == len(found)
    assert len({fact.fact_id for fact, _ in found}) == len(found)
    held_by = {entry.node_id: even_out(text_shown([entry])) for entry in before.originals()}
    shown = even_out(text_shown(view))
    for fact, state in found:
        held, whole = held_by[fact.node_id], whole_words(fact.text)
        forms = [whole, *shorter_forms(fact)]
        assert any(all(word in held for word in form.split()) for form in forms), (fact, held)
        assert state != "kept" or whole in shown
        is_let_go = state == "gone" and whole in shown
        assert not (is_let_go and re.search(rf"(?<!\w){re.escape(whole)}(?!\w)", shown))
    return found


@pytest.mark.parametrize("says", [pytest.param(True, id="model"), pytest.param(False, id="no model")])
@pytest.mark.parametrize("name", ENGINES)
async def test_the_counts_of_every_engine_add_up(name: str, says: bool) -> None:
    script = [[Say(DIGEST)]] if says else [[Raise(RuntimeError("down"))]]
    follower = Follower(boot.ENGINES[name](), card(8_000), ScriptedModel(script, when_exhausted="repeat"))
    n_reports = 0
    for number in range(30):
        for turn in a_round(number):
            before = follower.history
            if not isinstance(turn, ToolTurn) and follower.engine.gate(follower.engine_input, AUTO).over:
                n_done = len(follower.done)
                await follower.compact(AUTO)
                if len(follower.done) > n_done:
                    view = follower.history
                    found = check(before, view)
                    n_reports += 1
                    assert {fact.kind for fact, _ in found} >= {FactKind.REQUEST, FactKind.COMMAND}
            follower.say(turn)
    shown = follower.history
    assert n_reports or name in ("slidingWindow", "summarizing")
    assert check(follower.history, shown) or not n_reports


@pytest.mark.parametrize("name", ENGINES)
@cases(15)
@given(talk=TALKS)
def test_the_report_of_any_conversation_is_true(name: str, talk: Talk) -> None:
    async def run() -> None:
        follower = Follower(
            boot.ENGINES[name](), card(talk.window), ScriptedModel([[Say(DIGEST)]], when_exhausted="repeat")
        )
        for exchange in turns_of(talk):
            follower.say(*exchange)
        before = follower.history
        await follower.compact(FORCED)
        check(before, follower.history)

    asyncio.run(run())


def test_a_fact_that_the_kept_part_repeats_is_kept() -> None:
    prompt, answer = UserTurn((TextBlock("It listens on port 7013."),)), AssistantTurn((TextBlock("ok"),))
    again = UserTurn((TextBlock("Look at port 7013 once more."),))
    history = history_of((prompt, answer, again))
    states = {fact.text: state for fact, state in report(history, history[2:])}
    assert states == {"It listens on port 7013.": "gone", "port 7013": "kept"}


def test_an_old_result_that_was_blanked_counts_as_folded() -> None:
    call = AssistantTurn((ToolCallBlock("c1", "bash", {"command": "make"}),))
    result = ToolTurn((ToolResultBlock("c1", "error: no rule for target 7013", True),))
    history = history_of((UserTurn((TextBlock("build it"),)), call, result))
    blank = Entry(ToolTurn((ToolResultBlock("c1", "[blanked]", True),)), "tool", node_id=history[2].node_id)
    states = {(fact.kind, state) for fact, state in report(history, [*history[:2], blank])}
    assert states == {(FactKind.ERROR, "gone"), (FactKind.COMMAND, "shortened")}


def test_a_todo_list_that_a_newer_one_replaced_is_not_lost() -> None:
    def todo(text: str) -> AssistantTurn:
        items = {"todos": [{"content": text, "status": "pending"}]}
        return AssistantTurn((ToolCallBlock(text, "todo", items),))

    turns = (UserTurn((TextBlock("hi"),)), todo("ship it"), ToolTurn((ToolResultBlock("ship it", "ok"),)))
    history = history_of((*turns, todo("test it"), ToolTurn((ToolResultBlock("test it", "ok"),))))
    open_items = [fact.text for fact, _ in report(history, ()) if fact.kind is FactKind.TODO]
    assert open_items == ["test it"]
    assert [fact for fact, _ in report(history, history[3:]) if fact.kind is FactKind.TODO] == []


@pytest.mark.parametrize(
    ("kind", "text", "shown", "state"),
    [
        pytest.param(FactKind.RULE, "Never touch api.py.", "- Never touch\n  api.py.", "kept", id="blanks"),
        pytest.param(FactKind.NAME, "port 701", "on port 7013", "gone", id="whole words only"),
        pytest.param(FactKind.DECISION, "使用端口 7013", "我们使用端口 7013。", "kept", id="without blanks"),
        pytest.param(FactKind.REQUEST, "word " * 60 + "end", "word " * 40, "shortened", id="its beginning"),
        pytest.param(FactKind.ERROR, "make: no rule", "it said no rule", "shortened", id="the telling line"),
        pytest.param(FactKind.NAME, "!!!", "what!!!", "kept", id="no word at all"),
        pytest.param(FactKind.NAME, "x" * 5_000, "a " * 5_000, "gone", id="long"),
    ],
)
def test_the_state_of_a_fact(kind: FactKind, text: str, shown: str, state: str) -> None:
    text = even_out(text)
    assert state_of(HeldFact(kind, text, text, "n1"), TextLookup(shown)) == state


def test_words_repeated_without_end_cost_no_more() -> None:
    """A text of one word, and facts of that word: each is one search, not one for each place."""
    shown = TextLookup("a " * 50_000)
    assert not any(shown.holds("a " * n + "b") for n in range(2_000))
    assert all(shown.holds("a " * n + "a") for n in range(200))


def test_what_calls_say_is_compared_unescaped() -> None:
    call = ToolCallBlock("c1", "bash", {"command": 'echo "a"\nls', "options": [{"cwd": "src"}, 3]})
    turns: list[Turn] = [AssistantTurn((call,)), ToolTurn((ToolResultBlock("c1", {"out": "done"}),))]
    assert text_shown(history_of(turns)) == 'echo "a"\nls\nsrc\ndone'
    assert "\\n" in json.dumps(call.input)


def test_a_call_and_its_result_in_two_batches_belong_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "_BATCH", 1)
    split = history_of(turn for number in range(3) for turn in a_round(number))
    in_steps = FactLedger().facts_of(split, (), {})
    monkeypatch.undo()
    assert in_steps == FactLedger().facts_of(split, (), {})


def test_a_report_of_a_closed_session_ends_early() -> None:
    cancel = CancelToken()
    cancel.cancel("closed")
    with pytest.raises(CancelledByToken):
        FactLedger(cancel).facts_of(history_of(a_round(1)), (), {})


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=6))
def test_a_ledger_that_follows_a_session_finds_what_a_new_one_finds(parts: list[tuple[int, bool]]) -> None:
    """The folded part grows, and shrinks after an undo."""
    whole, ledger = history_of(turn for number in range(2) for turn in a_round(number)), FactLedger()
    for count, shows_todos in parts:
        folded, view = whole[:count], whole[-4:] if shows_todos else ()
        assert ledger.facts_of(folded, view, {}) == FactLedger().facts_of(folded, view, {})
