"""A distillation loses nothing, fits its window, and falls back when the distiller fails."""

from __future__ import annotations

import pytest

from model_cards import card
from sidecar._internal.cancel import CancelledByToken, CancelToken
from sidecar.llmgateway.contract import (
    CommandBlock,
    ErrorEmission,
    GatewayError,
    ImageBlock,
    StopEmission,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.llmgateway.offline import offline_model
from sidecar.llmgateway.scripted import EndWithoutDone, Raise, Say, ScriptedModel, Step
from sidecar.runtime.memory import local_gist, summarize, summary_turn
from sidecar.runtime.memory.estimate import render_turn
from turns import assistant, spell_turns, tool_call, tool_result, user


def prompts(model: ScriptedModel) -> list[str]:
    texts = []
    for call in model.calls:
        block = call.conversation.turns[0].blocks[0]
        assert isinstance(block, TextBlock)
        texts.append(block.text)
    return texts


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([], id="nothing is said"),
        pytest.param([Say("  \n")], id="blanks are said"),
        pytest.param([Say("half a "), ErrorEmission(GatewayError("http", "busy"))], id="an error emission"),
        pytest.param([Raise(RuntimeError("boom"))], id="an exception"),
        pytest.param([EndWithoutDone()], id="a stream that just ends"),
        pytest.param([Say("cut o"), StopEmission("max_output")], id="a gist cut off at its limit"),
        pytest.param([Say("I cannot"), StopEmission("refusal")], id="a refusal"),
    ],
)
async def test_a_failed_distillation_falls_back_to_the_local_gist(steps: list[Step]) -> None:
    history: list[Turn] = [
        user("Fix a.py. Never touch main."),
        tool_call("c1", path="a.py"),
        tool_result("c1"),
    ]
    summary = await summarize(history, ScriptedModel([steps]))
    assert summary == user(f"[condensed earlier context]\n{local_gist(history)}")


def test_errors_keep_their_flag_and_commands_are_seen() -> None:
    history: list[Turn] = [
        UserTurn((CommandBlock("review", ("a.py",)), ImageBlock("image/png", "xx"))),
        tool_result("c1", "no such file", is_error=True),
        assistant(""),
        UserTurn((ThinkingBlock("hm"), TextBlock("so"))),
    ]
    assert "\n\n".join(map(render_turn, history)) == (
        "user:\ncommand review a.py\n[image image/png]\n\ntool:\ntool_result (error) -> no such file\n\n"
        "assistant:\n\n\nuser:\nhm\nso"
    )


async def test_every_prompt_fits_the_distillers_window() -> None:
    window = 2_000
    history: list[Turn] = [user("Do it all."), *(assistant(f"step {i} " + "x" * 900) for i in range(20))]
    history.append(tool_result("c1", "日本" * 6_000))
    n_prompts = 40
    model = ScriptedModel([[Say(f"notes {i}")] for i in range(n_prompts)])
    summary = await summarize(history, model, model=card(window))
    for call, text in zip(model.calls, prompts(model), strict=True):
        size = len((text + (call.conversation.system or "")).encode())
        assert size / 3 + (call.options.max_output_tokens or 0) <= window
    merged = prompts(model)[-1]
    assert merged.startswith("user:\n[condensed earlier context]\nnotes 0\n\nuser:\n[condensed earlier")
    assert summary == user(f"[condensed earlier context]\nnotes {len(model.calls) - 1}")


async def test_pieces_together_hold_everything() -> None:
    history: list[Turn] = [user(f"request-{i} " + "y" * 300) for i in range(30)]
    history.append(ToolTurn((ToolResultBlock("c", "".join(f"<{i}>" for i in range(3_000))),)))
    model = ScriptedModel([[Say(f"notes {i}")] for i in range(40)])
    await summarize(history, model, model=card(2_000))
    pieces = prompts(model)[:-1]
    assert all(f"request-{i} " in "".join(pieces) for i in range(30))
    long = "".join(piece.partition("tool:\n")[2] for piece in pieces)
    text = long.removeprefix("tool_result -> ").replace("[continued] ", "")
    assert text == "".join(f"<{i}>" for i in range(3_000))


async def test_gists_that_do_not_shrink_are_not_merged_for_ever() -> None:
    history: list[Turn] = [assistant("z" * 3_000) for _ in range(8)]
    model = ScriptedModel([[Say("w" * 3_000)]], when_exhausted="repeat")
    summary = await summarize(history, model, model=card(2_000))
    assert len(model.calls) < 20
    assert len(summary.blocks[0].text) < 4_100  # type: ignore[union-attr]  # a text block


async def test_the_cancel_token_is_passed_on_and_ends_the_work() -> None:
    token = CancelToken()
    token.cancel("esc")
    model = ScriptedModel([[Say("gist")]])
    with pytest.raises(CancelledByToken, match="esc"):
        await summarize(spell_turns("uu"), model, cancel=token)
    assert model.calls[0].options.cancel is token


async def test_the_embedded_model_writes_no_gist() -> None:
    history: list[Turn] = [
        user("Fix the build. Never touch main."),
        tool_call("c1", "bash", command="make"),
        tool_result("c1", "make: error 2\nexit code 2", is_error=True),
        assistant("I decided to pin the version because the new one fails."),
    ]
    assert await summarize(history, offline_model()) == summary_turn(local_gist(history))
