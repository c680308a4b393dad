"""A prompt may begin with any words, such as the header of a digest, and stays a prompt in every engine."""

from __future__ import annotations

from typing import Any

import pytest

from fake_tools import FakeTool
from long_talks import LONG
from sidecar.boot import ENGINES
from sidecar.capabilities.contract import ToolReply
from sidecar.conductor.engine import CompactionRequest
from sidecar.llmgateway.contract import Conversation, TextBlock, UserTurn
from sidecar.llmgateway.scripted import Call, Say

TASK = "Never touch main.py. Rename the parser to reader, everywhere, and run the tests after it."
SUMMARY = "# Objective\nRename the parser.\n# Guardrails\nnone\n# Carryover\nnone"
MARKS = {
    name: [mark.strip() for mark in (*make().marks.summaries, *make().marks.files)]
    for name, make in ENGINES.items()
}
CASES = [
    pytest.param(engine, mark, id=f"{engine}: {mark[:20].strip()}")
    for engine in ENGINES
    for name, marks in MARKS.items()
    for mark in marks
    if engine == "windowBudget" or name in (engine, "windowBudget")
]
"""Each engine with its own marks and those of the usual engine, which meets all of them."""


def prompts_in(conversation: Conversation) -> list[str]:
    """Return the texts under the user's role."""
    return [
        block.text
        for turn in conversation.turns
        if isinstance(turn, UserTurn)
        for block in turn.blocks
        if isinstance(block, TextBlock)
    ]


@pytest.mark.parametrize(("engine", "mark"), CASES)
async def test_a_prompt_that_begins_like_a_digest_is_sent_word_for_word_after_a_compaction(
    make_stage: Any, engine: str, mark: str
) -> None:
    """It is the newest prompt, and the rounds of tools behind it are more than is kept."""
    rounds = [[Call("look", {"n": n}, id=f"c{n}")] for n in range(12)]
    script = [*rounds, [Say("renamed")], [Say(SUMMARY)]]
    stage = await make_stage(script, tools=[FakeTool("look", ToolReply(LONG))], repeat=True)
    session = await stage.session(policy={"keepRecent": 2 if engine == "runtime" else 1_500})
    await session.choose("engine", engine)
    prompt = f"{mark} {TASK}"
    await stage.ask(session, prompt)
    done = await session.compact(CompactionRequest()).outcome
    assert done.status == ("noop" if engine == "none" else "completed")
    assert [entry.kind for entry in session.record.history.current].count("user") == 1
    await stage.ask(session, "go on")
    assert prompt in prompts_in(stage.model.calls[-1].conversation)
