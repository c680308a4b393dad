"""Conversations are condensed by a model of their own, by the session's where it fails, in pieces."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import pytest

from provider_fakes import Called, Ended, Refused, Said, Scene, Spent
from sidecar import boot
from sidecar.conductor.engine import CompactionRequest

pytestmark = pytest.mark.processes

ENGINES = tuple(name for name, make in boot.ENGINES.items() if make().marks.summaries)
CONFIG = """
summarizer = "small"

[models.known]
provider = "openai-chat"
name = "fake-1"
context_window = 200000

[models.small]
provider = "anthropic"
name = "fake-small"
context_window = {window}
max_output_tokens = 500
"""
DIGEST: Scene = (
    Said(("# Objective\nFix the parser.\n# Guardrails\nnone\n# Carryover\nnone",)),
    Ended(),
)
WINDOW = 6_000
CHARS_A_TOKEN = 4


def answer(n: int) -> Scene:
    """Return a long answer that can be told from the others."""
    text = f"Fact-{n} is that the parser keeps a stack of open brackets and reports the first. "
    return (Said((text * 60,)), Ended())


async def a_long_talk(stage: Any, n_prompts: int = 6, **wanted: Any) -> Any:
    session = await stage.session(**wanted)
    for n in range(n_prompts):
        await stage.ask(session, f"question {n}")
    return session


async def compacted(session: Any) -> Any:
    return await session.compact(CompactionRequest()).outcome


async def test_the_sessions_own_model_condenses_where_it_fails(on_stage: Any, told: Any) -> None:
    scenes = {
        "openai-chat": [*map(answer, range(6)), DIGEST],
        "anthropic-messages": [[Refused(401, "who are you")]],
    }
    async with on_stage(scenes, config=CONFIG.format(window=200_000)) as stage:
        session = await a_long_talk(stage)
        done = await compacted(session)
    assert (done.status, done.summary_source) == ("completed", "model")
    assert "Fix the parser." in done.summary
    (notice,) = told(session, "notice")
    assert notice["data"]["description"].startswith(
        "the summarizer failed, and the session's own model is asked"
    )


@pytest.mark.parametrize("engine", ["windowBudget", "runtime", "agentcore"])
async def test_local_rules_condense_where_both_fail(on_stage: Any, told: Any, engine: str) -> None:
    gone = [Refused(401, "who are you")]
    scenes = {"openai-chat": [*map(answer, range(6)), gone], "anthropic-messages": [gone]}
    async with on_stage(scenes, config=CONFIG.format(window=200_000)) as stage:
        session = await a_long_talk(stage, engine=engine)
        done = await compacted(session)
    notices = [event["data"]["description"] for event in told(session, "notice")]
    assert [text.partition(":")[0] for text in notices] == [
        "the summarizer failed, and the session's own model is asked",
        "no model wrote the summary",
    ]
    assert (done.status, done.summary_source) == ("completed", "localFallback")
    assert done.post_tokens < done.pre_tokens


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_head_beyond_the_summarisers_window_is_condensed_in_pieces(
    on_stage: Any, engine: str
) -> None:
    """Each piece fits, nothing is left out, and one digest comes of all."""
    n_prompts = 14
    scenes = {"openai-chat": [*map(answer, range(n_prompts))], "anthropic-messages": [DIGEST]}
    async with on_stage(scenes, config=CONFIG.format(window=WINDOW)) as stage:
        session = await a_long_talk(stage, n_prompts, engine=engine)
        done = await compacted(session)
        sent = stage.fakes["anthropic-messages"].sent
        kept = str(list(session.record.history.turns)[-(2 * n_prompts - done.cut) :])
        n_calls = len(stage.fakes["openai-chat"].calls)
    assert (done.status, done.summary_source, n_calls) == ("completed", "model", n_prompts)
    assert "Fix the parser." in done.summary
    assert len(sent) > 1
    assert all(tokens_of(each) <= WINDOW for each in sent)
    read = {fact for each in sent for fact in facts_in(json.dumps(each["messages"]))}
    assert read | facts_in(kept) == set(range(n_prompts))
    assert done.summary.count("# Objective") == 1


def tokens_of(sent: dict[str, Any]) -> int:
    """Return about how much of a window a request and its answer take."""
    said = json.dumps([sent["messages"], sent.get("system")])
    return len(said) // CHARS_A_TOKEN + int(sent["max_tokens"])


def facts_in(text: str) -> set[int]:
    return set(map(int, re.findall(r"Fact-(\d+)", text)))


CACHED = """
[compaction]
prepare = false
same_prefix = {same_prefix}

[models.known]
provider = "{provider}"
name = "fake-1"
context_window = {window}
max_output_tokens = 1000
cost = {{ input = 3.0, output = 15.0, cache_read = 0.3 }}
"""


def cached_share(sent: Sequence[dict[str, Any]]) -> float:
    """Return the share of the last request that a cache of the requests before it has, in bytes.

    A cache knows the longest beginning of tools, system prompt and messages that an earlier request had.
    """
    texts = [json.dumps([each.get("tools"), each.get("system"), each["messages"]]) for each in sent]
    texts = [re.sub(r', "cache_control": \{[^}]*\}', "", text) for text in texts]
    last = texts[-1]
    pairs = (zip(text, last, strict=False) for text in texts[:-1])
    known = max(sum(1 for _ in takewhile(lambda both: both[0] == both[1], each)) for each in pairs)
    return known / len(last)


@pytest.mark.parametrize("api", ["anthropic-messages", "openai-chat"])
@pytest.mark.parametrize("same_prefix", [True, False])
async def test_a_summary_is_requested_behind_what_the_provider_has_in_its_cache(
    on_stage: Any, api: str, same_prefix: bool
) -> None:
    provider = {"anthropic-messages": "anthropic"}.get(api, api)
    config = CACHED.format(same_prefix=str(same_prefix).lower(), provider=provider, window=200_000)
    async with on_stage({api: [*map(answer, range(6)), DIGEST]}, config=config) as stage:
        done = await compacted(await a_long_talk(stage))
        sent = stage.fake.sent
    assert (done.status, done.summary_source) == ("completed", "model")
    assert "Fix the parser." in done.summary
    assert len(sent) == 7
    if same_prefix:
        assert cached_share(sent) > 0.75
        assert sent[-1]["tools"] == sent[-2]["tools"]
    else:
        assert cached_share(sent) < 0.25


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param((Called("c1", "read", ('{"path": "a.py"}',)), Ended("tool_calls")), id="a tool call"),
        pytest.param((Said(("Sure! I will go on with the lexer.",)), Ended()), id="an answer to the user"),
    ],
)
async def test_after_two_answers_that_are_no_summary_the_head_is_shown_alone(
    on_stage: Any, refusal: Scene
) -> None:
    config = CACHED.format(same_prefix="true", provider="anthropic", window=200_000)
    spent = Spent(1_000, 20)
    asked = [(*scene[:-1], spent, scene[-1]) for scene in (refusal, refusal, DIGEST)]
    scenes = {"anthropic-messages": [*map(answer, range(6)), *asked]}
    async with on_stage(scenes, config=config) as stage:
        session = await a_long_talk(stage)
        before = session.window.request.usage()
        done = await compacted(session)
        sent = stage.fake.sent
        after = session.window.request.usage()
    assert done.summary_source == "model"
    assert len(sent) == 9
    assert not sent[-1].get("tools")
    assert after.session_total.output - before.session_total.output == 3 * 20
    # Three calls of 1,000 tokens for 3 dollars and 20 tokens for 15 dollars a million.
    assert after.cost - (before.cost or 0) == pytest.approx(0.0099)
