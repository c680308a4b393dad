"""The same scenario over each provider gives the same event log, but for ids and the provider's name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from provider_fakes import Broken, Called, Ended, Refused, Said, Scene, Spent, Thought

pytestmark = [pytest.mark.processes, pytest.mark.slow]

APIS = {
    "openai-chat": "openai-chat",
    "openai-responses": "openai-responses",
    "anthropic-messages": "anthropic",
    "google-generate": "google",
}
"""Each API and the name of its provider in an error."""

DONE: Scene = (Said(("It says ", "hi.")), Spent(200, 9, 150), Ended())


def read(call_id: str, path: str) -> Called:
    return Called(call_id, "read", ('{"path":', f'"{path}"}}'))


def unnamed(log: str, name: str) -> str:
    """Return *log* without what is the provider's own: name, address, variable, number for a failure."""
    variable = f"{name.partition('-')[0].upper()}_API_KEY"
    log = re.sub(r"answered \d+", "answered", log.replace(variable, "KEY"))
    return re.sub(r"http://127[^)]*", "ADDRESS", log.replace(name, "PROVIDER"))


SCENARIOS: list[Any] = [
    pytest.param(
        [
            (Thought(("let me ", "see")), read("call_1", "a.txt"), Spent(100, 20, 50), Ended("tool_calls")),
            [Refused(503, "busy")],
            DONE,
        ],
        ["retry", "thinkingDelta", "textDelta", "toolStarted", "toolFinished", "message", "usage", "settled"],
        id="reasoning, a call, a server that is busy for a moment, an answer",
    ),
    pytest.param(
        [
            (
                Said(("Both.",)),
                read("call_1", "a.txt"),
                read("call_2", "none.txt"),
                Spent(100, 20),
                Ended("tool_calls"),
            ),
            DONE,
        ],
        ["textDelta", "toolStarted", "toolFinished", "settled"],
        id="calls in parallel, one of which fails",
    ),
    pytest.param(
        [(Said(("half",)), Spent(5, 5), Ended("max_output"))], ["settled"], id="an answer cut at its limit"
    ),
    pytest.param([(Said(("No.",)), Spent(5, 5), Ended("refusal"))], ["settled"], id="a refusal"),
    pytest.param([[Refused(401, "who are you")]], ["faulted"], id="a key that is not accepted"),
    pytest.param([[Refused(404, "no such model")]], ["faulted"], id="a model that is not there"),
    pytest.param([[Refused(500, "oops")]], ["retry", "faulted"], id="a server that stays broken"),
    pytest.param(
        [[Broken("overloaded_error", "too busy")], DONE],
        ["retry", "settled"],
        id="a stream that fails before anything was shown",
    ),
    pytest.param(
        [[Said(("half",))], DONE],
        ["textDelta", "retry", "message", "settled"],
        id="a stream that ends in the middle is withdrawn, and made again",
    ),
    pytest.param(
        [[Refused(400, "maximum context length exceeded")]],
        ["compaction", "faulted"],
        id="nothing to condense of a conversation that does not fit",
    ),
]


@pytest.mark.parametrize(("scenes", "kinds"), SCENARIOS)
async def test_the_same_scenario_gives_the_same_log(
    on_stage: Any, log_of: Any, scenes: list[Scene], kinds: list[str]
) -> None:
    logs = {api: await played(on_stage, log_of, api, scenes) for api in APIS}
    assert logs == dict.fromkeys(APIS, logs["openai-chat"])
    assert {kind for kind, _ in json.loads(logs["openai-chat"])}.issuperset(kinds)


@pytest.mark.parametrize("scenes", [each.values[0] for each in (*SCENARIOS[:4], SCENARIOS[6])])
async def test_so_does_the_long_tail(on_stage: Any, log_of: Any, scenes: list[Scene]) -> None:
    """But for what it tells of refusals, and for streams without an end, which it takes for whole ones."""
    assert await played(on_stage, log_of, "pydantic-ai", scenes) == await played(
        on_stage, log_of, "openai-chat", scenes
    )


async def played(on_stage: Any, log_of: Any, api: str, scenes: list[Scene]) -> str:
    async with on_stage({api: scenes}) as stage:
        (stage.folder / "a.txt").write_text("hi\n")
        session = await stage.session()
        await stage.ask(session, "what is in a.txt?")
        return unnamed(json.dumps(log_of(session), indent=1), APIS.get(api, api))
