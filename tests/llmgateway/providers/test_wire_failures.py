"""However a provider fails, the call ends in one typed error; it is tried again where that may help."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from provider_fakes import (
    Broken,
    Called,
    Cut,
    Drip,
    Ended,
    Hang,
    Page,
    Refused,
    Said,
    Scene,
    Thought,
    Until,
    frame,
)
from sidecar.llmgateway.channel import fold_reply
from sidecar.llmgateway.contract import (
    Conversation,
    DoneEmission,
    Emission,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    WithdrawnEmission,
)
from sidecar.llmgateway.providers.failures import ProviderFailure, to_gateway_error
from tests.llmgateway.providers.conftest import FORMATS, KEY, Play, StageMaker
from turns import assistant, user

pytestmark = pytest.mark.processes

OK: Scene = (Said(("ok",)), Ended())
HALF = Said(("half",))
WITHDRAWN = [TextEmission("half"), WithdrawnEmission()]
OVERFLOW = "model_context_window_exceeded"


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize(
    ("scene", "kind", "pause_s"),
    [
        pytest.param([Refused(429, "busy")], "rate_limit", 0.5, id="too many calls"),
        pytest.param([Refused(500, "busy")], "http", 0.5, id="500"),
        pytest.param([Refused(503, "busy")], "http", 0.5, id="503"),
        pytest.param([Refused(529, "busy")], "http", 0.5, id="529"),
        pytest.param(
            [Refused(429, "busy", headers=(("retry-after", "7"),))],
            "rate_limit",
            7,
            id="a pause is requested",
        ),
        pytest.param([Broken("overloaded_error", "too busy")], "http", 0.5, id="a failure in the stream"),
        pytest.param([Cut()], "transport", 0.5, id="a connection that is cut"),
        pytest.param([HALF, Cut()], "transport", 0.5, id="one that is cut in the middle of an answer"),
    ],
)
async def test_a_passing_failure_is_retried_and_reported(
    play: Play, api: str, scene: Scene, kind: str, pause_s: float
) -> None:
    """What was shown is withdrawn. The tools of an answer run once it is whole, so nothing was acted on."""
    stage = await play(api, scene, OK)
    assert (stage.retries, stage.pauses) == ([(1, 3, pause_s * 1000, kind)], [pause_s])
    before = WITHDRAWN if HALF in scene else []
    assert stage.emissions[: len(before) + 1] == [*before, TextEmission("ok")]
    assert stage.blocks == fold_reply("m", stage.emissions[:-1]).blocks == (TextBlock("ok"),)


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize(
    ("scene", "outcome", "says"),
    [
        pytest.param([Refused(401, "invalid key")], ("auth", False, 1), "invalid key", id="401"),
        pytest.param([Refused(403, "your API key has no access")], ("auth", False, 1), "no access", id="403"),
        pytest.param([Refused(403, "not in your country")], ("http", False, 1), "your country", id="country"),
        pytest.param([Refused(404, "no such model")], ("unsupported", False, 1), "no such model", id="404"),
        pytest.param([Refused(400, "bad schema")], ("http", False, 1), "bad schema", id="400"),
        pytest.param([Refused(422, "bad shape")], ("http", False, 1), "bad shape", id="422"),
        pytest.param([Refused(500, "oops")], ("http", True, 3), "oops", id="500, again and again"),
        pytest.param(
            [Refused(429, "come back tomorrow", headers=(("retry-after", "86400"),))],
            ("rate_limit", True, 1),
            "come back tomorrow",
            id="a requested pause that is too long",
        ),
        pytest.param(
            [Called("c1", "read", ('{"path": "a"}',))],
            ("transport", True, 3),
            "hung up in the middle",
            id="a stream that just ends: half a call is never taken for a whole one",
        ),
        pytest.param(
            [Page("<html>Log in to this network</html>\n\n")], ("http", False, 1), "a web page", id="a page"
        ),
        pytest.param(
            [b'data: {"x": "' + b"a" * 2_000, Hang()], ("http", False, 1), "", id="an event without an end"
        ),
        pytest.param(
            [Said(("on and on",) * 6), Hang()],
            ("parse", False, 1),
            "longer than 50 characters",
            id="an answer without an end",
        ),
        pytest.param([Ended()], ("http", False, 3), "gave an empty answer", id="an empty answer"),
        pytest.param(
            [Thought(("hm",)), Ended()],
            ("http", False, 3),
            "ended its answer after the reasoning",
            id="reasoning",
        ),
        pytest.param(
            [Thought(("hm",)), Ended("max_output")],
            ("http", False, 1),
            "choose a lower level of thinking",
            id="cut reasoning: it would be cut again",
        ),
    ],
)
async def test_a_lasting_failure_is_one_error(
    play: Play,
    api: str,
    scene: Scene,
    outcome: tuple[str, bool, int],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of our own types: no exception of an SDK hangs on it."""
    monkeypatch.setattr("sidecar.llmgateway.providers.http_calls.MAX_EVENT_BYTES", 1_500)
    monkeypatch.setattr("sidecar.llmgateway.providers.assembly.MAX_ANSWER_CHARS", 50)
    stage = await play(api, scene)
    error = stage.error
    assert (error.kind, error.retryable, len(stage.fake.calls)) == outcome
    assert says in error.message
    assert stage.pauses == [0.5, 1.0][: outcome[2] - 1]
    assert (error.is_overflow, error.cause, error.__cause__, error.__context__) == (False, None, None, None)
    if isinstance(scene[0], Refused):
        assert error.status == scene[0].status
        assert error.retry_after_ms == (86_400_000 if scene[0].headers else None)


@pytest.mark.parametrize("api", FORMATS)
async def test_no_key_gets_into_an_error(play: Play, api: str) -> None:
    error = (await play(api, [Refused(401, f"Incorrect API key provided: {KEY}")])).error
    assert KEY not in f"{error!r} {error} {vars(error)}"
    assert "set FAKE_KEY, or run: sidecar login" in error.message


@pytest.mark.parametrize("api", FORMATS)
async def test_the_last_failure_withdraws_nothing(play: Play, api: str) -> None:
    stage = await play(api, [HALF, Cut()])
    assert stage.emissions[:-1] == [*WITHDRAWN, *WITHDRAWN, TextEmission("half")]
    assert (stage.error.kind, len(stage.fake.calls)) == ("transport", 3)


@pytest.mark.parametrize("api", FORMATS)
async def test_a_silent_server_is_asked_again_and_its_silence_named(play: Play, api: str) -> None:
    stage = await play(api, [HALF, Hang()], OK, card={"idle_timeout_s": 0.2})
    assert stage.emissions[:2] == WITHDRAWN
    assert stage.blocks == (TextBlock("ok"),)
    assert "it sent nothing for 0.2 s" in stage.failures[0]


@pytest.mark.parametrize(
    ("api", "ping"),
    [
        ("openai-chat", b": OPENROUTER PROCESSING\n\n"),
        ("anthropic-messages", frame({"type": "ping"}, "ping")),
    ],
)
async def test_a_server_that_only_pings_is_not_silent(play: Play, api: str, ping: bytes) -> None:
    stage = await play(api, [Drip(ping, 6, 0.1), *OK], card={"idle_timeout_s": 0.4})
    assert (stage.blocks, stage.retries) == ((TextBlock("ok"),), [])


@pytest.mark.parametrize("api", FORMATS)
async def test_a_slow_drip_is_read_to_its_end(on_stage: StageMaker, api: str) -> None:
    drips = [asyncio.Event() for _ in range(3)]
    scene: Scene = [Said(("a",)), Until(drips[0]), Said(("b",)), Until(drips[1]), Until(drips[2]), Ended()]
    async with on_stage(api, scene) as stage:
        heard: list[Emission] = []
        async for emission in stage.call():
            heard.append(emission)
            next((drip for drip in drips if not drip.is_set()), drips[0]).set()
            if isinstance(emission, TextEmission) and emission.delta == "b":
                drips[2].set()
    assert heard[:2] == [TextEmission("a"), TextEmission("b")]
    assert isinstance(heard[-1], DoneEmission)


GOOGLE_PAUSE = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}
DAILY_QUOTA = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}


async def test_google_requests_a_pause_in_the_body(play: Play) -> None:
    refused = Refused(429, "quota", "RESOURCE_EXHAUSTED", details=(GOOGLE_PAUSE,))
    assert (await play("google-generate", [refused], OK)).pauses == [17.0]


@pytest.mark.parametrize(
    ("api", "refused"),
    [
        ("openai-chat", Refused(429, "you exceeded your quota", "insufficient_quota")),
        ("openai-responses", Refused(429, "you exceeded your quota", "insufficient_quota")),
        ("google-generate", Refused(429, "exceeded", "RESOURCE_EXHAUSTED", details=(DAILY_QUOTA,))),
    ],
)
async def test_a_quota_that_is_used_up_is_not_waited_for(play: Play, api: str, refused: Refused) -> None:
    stage = await play(api, [refused])
    assert (stage.error.kind, stage.error.retryable, stage.retries) == ("rate_limit", False, [])


@pytest.mark.parametrize(
    ("api", "junk"),
    [
        ("openai-chat", b"data: {nonsense\n\n"),
        ("openai-responses", b'event: x\ndata: {"type": "response.outp\n\n'),
        ("anthropic-messages", b"event: message_start\ndata: {nonsense\n\n"),
        ("google-generate", b"data: {nonsense\n\n"),
        ("openai-chat", b'data: {"choices": [{"delta": "a string"}]}\n\n'),
        ("openai-chat", b"data: \xff\xfe\n\n"),
        ("google-generate", b'data: {"candidates": [{"content": {"parts": [7]}}]}\n\n'),
    ],
)
async def test_garbage_is_a_parse_error(play: Play, api: str, junk: bytes) -> None:
    error = (await play(api, [junk, Ended()])).error
    assert (error.kind, error.retryable) == ("parse", False)


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic-messages"])
@pytest.mark.parametrize(
    ("body", "kind", "found"),
    [
        ('{"error": {"message": "no credit left", "code": 402}}', "http", "answered 402: no credit left"),
        ('{"error": {"message": "wrong key", "code": 401}}', "auth", "wrong key"),
        ('{"error": "the model crashed"}', "http", "the model crashed"),
        ('{"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}', "http", "balance"),
    ],
)
async def test_an_error_that_comes_with_status_200_is_that_error(
    play: Play, api: str, body: str, kind: str, found: str
) -> None:
    error = (await play(api, [Page(body)])).error
    assert (error.kind, found in error.message) == (kind, True), error.message


@pytest.mark.parametrize(
    ("page", "says"),
    [
        pytest.param(Page("upstream is gone", 502), "answered 502: upstream is gone", id="plain text"),
        pytest.param(
            Page('{"error": {"message": "no", "code": 400, "metadata": {"raw": "role after role"}}}', 400),
            "no (the service behind it: role after role)",
            id="of a router",
        ),
    ],
)
async def test_the_reason_of_a_refusal_is_shown(play: Play, page: Page, says: str) -> None:
    assert says in (await play("openai-chat", [page])).error.message


OVERFLOWS: list[tuple[str, Scene]] = [
    ("ollama-chat", [Refused(400, "the input length exceeds the context length")]),
    (
        "openai-chat",
        [Refused(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded")],
    ),
    ("openai-chat", [frame({"choices": [{"index": 0, "delta": {}, "finish_reason": OVERFLOW}]})]),
    (
        "openai-responses",
        [Refused(400, "Your input exceeds the context window of this model.", "invalid_request")],
    ),
    (
        "anthropic-messages",
        [Refused(400, "prompt is too long: 233153 tokens > 200000 maximum", "invalid_request_error")],
    ),
    ("anthropic-messages", [frame({"type": "message_delta", "delta": {"stop_reason": OVERFLOW}})]),
    (
        "google-generate",
        [
            Refused(
                400, "The input token count exceeds the maximum number of tokens allowed.", "INVALID_ARGUMENT"
            )
        ],
    ),
    # Cerebras refuses a conversation that is too long without a word.
    *((api, [Page("", status)]) for api in ("openai-chat", "openai-responses") for status in (400, 413)),
]


@pytest.mark.parametrize(("api", "scene"), OVERFLOWS)
async def test_a_conversation_that_does_not_fit_is_an_overflow(play: Play, api: str, scene: Scene) -> None:
    """Also where it comes as the reason for the end of an answer."""
    error = (await play(api, scene)).error
    assert (error.kind, error.is_overflow, error.retryable) == ("http", True, False)
    assert error.message.startswith("the conversation does not fit the model's window")


@pytest.mark.parametrize("reason", ["MISSING_THOUGHT_SIGNATURE", "PUP_LIMITED_DISABLED", "OTHER"])
async def test_google_names_its_own_reason_for_the_end(play: Play, reason: str) -> None:
    error = (await play("google-generate", [frame({"candidates": [{"finishReason": reason}]})])).error
    assert (error.retryable, f"({reason})" in error.message) == (False, True)


AFTER_TOOLS = Conversation(
    (
        user("go"),
        assistant(ToolCallBlock("c1", "read", {"path": "a.py"})),
        ToolTurn((ToolResultBlock("c1", "x = 1"),)),
    )
)


async def test_after_tools_an_end_without_a_token_is_a_failure_of_the_service(play: Play) -> None:
    """Gemini stops in this way now and then; the same request is answered at the next attempt."""
    empty = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 9}}
    stage = await play("google-generate", [frame(empty)], OK, asked=AFTER_TOOLS)
    assert stage.blocks == (TextBlock("ok"),)


@pytest.mark.parametrize("api", FORMATS)
async def test_after_tools_a_model_may_end_without_a_word(play: Play, api: str) -> None:
    assert (await play(api, [Ended()], asked=AFTER_TOOLS)).blocks == ()


async def test_an_answer_that_ends_with_the_mark_alone_is_whole(play: Play) -> None:
    stage = await play("openai-chat", [Said(("it ", "is")), frame("[DONE]")])
    assert stage.blocks == (TextBlock("it is"),)


def test_a_certificate_that_is_not_trusted_is_not_tried_again() -> None:
    cause = "Connection error. [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed"
    error = to_gateway_error(ProviderFailure(cause), "openai", address="https://proxy.example")
    assert (error.kind, error.retryable) == ("transport", False)
    assert "set SSL_CERT_FILE" in error.message


async def test_a_missing_server_is_a_transport_error(on_stage: StageMaker) -> None:
    async with on_stage("openai-chat", OK) as stage:
        pass
    await stage.play()
    assert (stage.error.kind, stage.error.status) == ("transport", None)
    assert f"fake ({stage.fake.http.url}/v1) cannot be reached" in stage.error.message
    await stage.serving.aclose()


@pytest.mark.parametrize(
    ("api", "message", "signature"),
    [
        (
            "anthropic-messages",
            "messages.1.content.0: Invalid `signature` in `thinking` block. It is bound elsewhere.",
            "EqQB",
        ),
        (
            "openai-responses",
            "The encrypted content for item rs_0 could not be verified.",
            'openai:{"id": "rs_0", "summary": [], "encrypted_content": "x"}',
        ),
        ("google-generate", "Thought signature is not valid", "google:c2ln"),
    ],
)
async def test_refused_reasoning_is_left_out_and_reported_once(
    play: Play, api: str, message: str, signature: str
) -> None:
    """As after a compaction: what the reasoning was signed over is gone. The next call leaves it out."""
    turns = (user("hi"), assistant(ThinkingBlock("hm", signature), "so"), user("go on"))
    stage = await play(api, [Refused(400, message)], OK, asked=Conversation(turns), n_calls=2)
    assert stage.blocks == (TextBlock("ok"),)
    assert stage.repairs == ["earlier reasoning was left out, because the turns before it changed"]
    assert len(stage.fake.calls) == 3


async def test_a_listener_that_fails_changes_nothing(play: Play) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no")

    assert (await play("openai-chat", [Refused(500, "oops")], OK, on_retry=fail)).blocks == (TextBlock("ok"),)


@pytest.mark.parametrize(("code", "kind"), [(429, "rate_limit"), (502, "http")])
async def test_a_failure_behind_a_router_is_made_again_and_its_reason_told(
    play: Play, code: int, kind: str
) -> None:
    raw = json.dumps({"object": "error", "message": "no more machines"})
    metadata = {"provider_name": "Mistral", "raw": raw}
    failed = frame({"error": {"code": code, "message": "Provider returned error", "metadata": metadata}})
    stage = await play("openai-chat", [HALF, failed], OK)
    assert stage.blocks == (TextBlock("ok"),)
    assert [kind_of for *_, kind_of in stage.retries] == [kind]
    assert "Provider returned error (Mistral: no more machines)" in stage.failures[0]


async def test_a_call_that_the_model_spelled_wrong_is_made_again(play: Play) -> None:
    failed = Refused(400, "Failed to call a function", "tool_use_failed")
    assert (await play("openai-chat", [failed], OK)).blocks == (TextBlock("ok"),)
