"""The model that writes summaries: asked again where it wrote none, its untrue lines dropped."""

from __future__ import annotations

import pytest

from histories import history_of
from sidecar.conductor.contract import RuleStatement
from sidecar.conductor.window.compaction.summarizer import CheckedModel, newest_words
from sidecar.llmgateway.channel import collect_reply
from sidecar.llmgateway.contract import Conversation, GatewayError, StreamOptions, TextBlock, ToolCallBlock
from sidecar.llmgateway.scripted import Call, Raise, Say, ScriptedModel
from turns import assistant, calling, user

ASKED = Conversation((user("» you: fix src/a.py" + " and so on" * 100),))
REFUSAL = Say("I cannot help with that.")
SUMMARY = Say("# Status\n- the user wants src/a.py fixed\n- src/b.py is done")


async def answer(model: CheckedModel) -> str:
    reply = await collect_reply(model(ASKED, StreamOptions()))
    return "".join(block.text for block in reply.blocks if isinstance(block, TextBlock))


async def test_a_summary_loses_the_lines_that_cannot_be_true() -> None:
    model = CheckedModel(ScriptedModel([[SUMMARY]]))
    assert await answer(model) == "# Status\n- the user wants src/a.py fixed"
    assert model.dropped == ["- src/b.py is done: src/b.py occurs nowhere"]


async def test_a_model_that_refuses_is_asked_again_with_the_reason() -> None:
    scripted = ScriptedModel([[REFUSAL], [Say("# Status\n- the user wants src/a.py fixed")]])
    model = CheckedModel(scripted)
    assert await answer(model) == "# Status\n- the user wants src/a.py fixed"
    assert model.fault is None
    again = scripted.calls[1].conversation.turns
    assert [turn.role for turn in again] == ["user", "assistant", "user"]
    assert "it is a refusal" in str(again[2])


async def test_a_model_that_refuses_twice_has_failed() -> None:
    model = CheckedModel(ScriptedModel([[REFUSAL], [REFUSAL]]))
    with pytest.raises(GatewayError, match="it is a refusal"):
        await answer(model)
    assert model.fault == "it is a refusal"


async def test_a_summary_made_in_pieces_is_checked_against_all_of_them() -> None:
    """The digest that is carried from piece to piece may not say everything that they showed."""
    merged = "# Status\n- src/a.py and src/b.py are fixed\n- src/c.py is fixed"
    model = CheckedModel(ScriptedModel([[Say("# Status\n- fixed")], [Say(merged)]]))
    await answer(model)
    last = Conversation((user("» you: now src/b.py"),))
    reply = await collect_reply(model(last, StreamOptions()))
    assert "src/a.py and src/b.py are fixed" in str(reply.blocks)
    assert model.dropped == ["- src/c.py is fixed: src/c.py occurs nowhere"]


async def test_calls_of_tools_are_shown_too_and_none_is_a_summary() -> None:
    shown = Conversation(
        (user("fix it"), calling(ToolCallBlock("c1", "read", {"path": "src/a.py"})), user("Summarise."))
    )
    scripted = ScriptedModel([[Call("read", {"path": "x"})], [Say("- src/a.py was read")]])
    model = CheckedModel(scripted)
    reply = await collect_reply(model(shown, StreamOptions()))
    assert "src/a.py was read" in str(reply.blocks)
    assert model.dropped == []
    assert "it calls a tool" in str(scripted.calls[1].conversation.turns[-1])


async def test_a_call_that_fails_is_not_repeated() -> None:
    scripted = ScriptedModel([[Raise(RuntimeError("down"))]])
    with pytest.raises(RuntimeError):
        await answer(CheckedModel(scripted))
    assert len(scripted.calls) == 1


async def test_what_it_says_about_rules_is_taken_out_and_kept() -> None:
    note = "# Status\n- the user wants src/a.py fixed"
    scripted = ScriptedModel([[Say(f'{note}\n<rules>\nstanding: "Use tabs."\n</rules>')]])
    model = CheckedModel(scripted)
    assert await answer(model) == note
    assert model.statements == [RuleStatement("standing", "", "Use tabs.")]
    assert "The rules that hold:" in str(scripted.calls[0].conversation.turns[-1])


def test_the_language_is_told_by_typed_words_alone() -> None:
    typed = newest_words(history_of([user("Repariere den Parser.\n> never"), assistant("I always do that.")]))
    assert typed.split() == ["Repariere", "den", "Parser.", "·······"]
