"""However a provider fails, the call ends in one typed error; it is tried again where that may help."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    AssistantTurn,
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    UserTurn,
    WithdrawnEmission,
)
from sidecar.llmgateway.providers.failures import ProviderFailure, to_gateway_error

pytestmark = pytest.mark.processes

APIS = ("openai-chat", "openai-responses", "anthropic-messages", "google-generate", "ollama-chat")
OK: Scene = (Said(("ok",)), Ended())
OVERFLOW = "model_context_window_exceeded"


def error_of(emissions: Sequence[Emission]) -> GatewayError:
    last = emissions[-1]
    assert isinstance(last, ErrorEmission)
    return last.error


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "invalid key", "auth"),
        (403, "your API key has no access", "auth"),
        (403, "not in your country", "http"),
        (404, "no such model", "unsupported"),
        (400, "bad schema", "http"),
        (422, "bad shape", "http"),
    ],
)
async def test_a_lasting_failure_ends_the_call_at_once(
    on_stage: Any, api: str, status: int, message: str, kind: str
) -> None:
    async with on_stage(api, [Refused(status, message)]) as stage:
        error = error_of(await stage.play())
    assert (error.kind, error.status, error.retryable, error.is_overflow) == (kind, status, False, False)
    assert message in error.message
    assert (len(stage.fake.calls), stage.retries) == (1, [])


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("status", "kind"), [(429, "rate_limit"), (500, "http"), (503, "http"), (529, "http")]
)
async def test_a_passing_failure_is_retried_and_reported(
    on_stage: Any, api: str, status: int, kind: str
) -> None:
    async with on_stage(api, [Refused(status, "busy")], OK) as stage:
        played = await stage.play()
    assert isinstance(played[-1], DoneEmission)
    assert (stage.retries, stage.pauses) == ([(1, 3, 500, kind)], [0.5])


@pytest.mark.parametrize("api", APIS)
async def test_the_requested_pause_is_made(on_stage: Any, api: str) -> None:
    refused = Refused(429, "slow down", headers=(("retry-after", "7"),))
    async with on_stage(api, [refused], OK) as stage:
        await stage.play()
    assert stage.pauses == [7.0]


async def test_google_requests_a_pause_in_the_body(on_stage: Any) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}
    refused = Refused(429, "quota", "RESOURCE_EXHAUSTED", details=(info,))
    async with on_stage("google-generate", [refused], OK) as stage:
        await stage.play()
    assert stage.pauses == [17.0]


@pytest.mark.parametrize("api", APIS)
async def test_a_requested_pause_that_is_too_long_is_not_made(on_stage: Any, api: str) -> None:
    refused = Refused(429, "come back tomorrow", headers=(("retry-after", "86400"),))
    async with on_stage(api, [refused]) as stage:
        error = error_of(await stage.play())
    assert (error.kind, error.retry_after_ms, stage.pauses) == ("rate_limit", 86_400_000, [])


@pytest.mark.parametrize("api", APIS)
async def test_retries_end_in_an_error_of_our_own(on_stage: Any, api: str) -> None:
    async with on_stage(api, [Refused(500, "oops")]) as stage:
        error = error_of(await stage.play())
    assert (error.kind, len(stage.fake.calls), stage.pauses) == ("http", 3, [0.5, 1.0])
    assert (error.cause, error.__cause__, error.__context__) == (None, None, None), "a type of an SDK"


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])
async def test_a_quota_that_is_used_up_is_no_rate_limit(on_stage: Any, api: str) -> None:
    async with on_stage(api, [Refused(429, "you exceeded your quota", "insufficient_quota")]) as stage:
        error = error_of(await stage.play())
    assert (error.kind, error.retryable, len(stage.fake.calls)) == ("rate_limit", False, 1)


@pytest.mark.parametrize("api", APIS)
async def test_a_connection_cut_before_anything_was_shown_is_tried_again(on_stage: Any, api: str) -> None:
    async with on_stage(api, [Cut()], OK) as stage:
        played = await stage.play()
    assert isinstance(played[-1], DoneEmission)
    assert [kind for *_, kind in stage.retries] == ["transport"]


@pytest.mark.parametrize("api", APIS)
async def test_an_answer_cut_in_the_middle_is_withdrawn_and_made_again(on_stage: Any, api: str) -> None:
    """The tools of an answer run once it is whole, so that nothing was acted on."""
    async with on_stage(api, [Said(("half",)), Cut()], OK) as stage:
        played = await stage.play()
    assert played[:2] == [TextEmission("half"), WithdrawnEmission()]
    assert isinstance(played[-1], DoneEmission)
    assert fold_reply("m", played[:-1]).blocks == played[-1].reply.blocks
    assert (len(stage.fake.calls), len(stage.retries)) == (2, 1)


@pytest.mark.parametrize("api", APIS)
async def test_the_last_failure_withdraws_nothing(on_stage: Any, api: str) -> None:
    async with on_stage(api, [Said(("half",)), Cut()]) as stage:
        played = await stage.play()
    half, withdrawn = TextEmission("half"), WithdrawnEmission()
    assert played[:-1] == [half, withdrawn, half, withdrawn, half]
    assert (error_of(played).kind, len(stage.fake.calls)) == ("transport", 3)


@pytest.mark.parametrize("api", APIS)
async def test_a_silent_server_is_asked_again_and_its_silence_named(on_stage: Any, api: str) -> None:
    async with on_stage(api, [Said(("half",)), Hang()], OK, idle_timeout_s=0.2) as stage:
        played = await stage.play()
    assert played[:2] == [TextEmission("half"), WithdrawnEmission()]
    assert isinstance(played[-1], DoneEmission)
    assert "it sent nothing for 0.2 s" in stage.failures[0]


@pytest.mark.parametrize(
    ("api", "ping"),
    [
        ("openai-chat", b": OPENROUTER PROCESSING\n\n"),
        ("anthropic-messages", frame({"type": "ping"}, "ping")),
    ],
)
async def test_a_server_that_only_pings_is_not_silent(on_stage: Any, api: str, ping: bytes) -> None:
    async with on_stage(api, [Drip(ping, 6, 0.1), *OK], idle_timeout_s=0.4) as stage:
        played = await stage.play()
    assert (isinstance(played[-1], DoneEmission), stage.retries) == (True, [])


@pytest.mark.parametrize("api", APIS)
async def test_a_stream_that_just_ends_was_cut_too(on_stage: Any, api: str) -> None:
    """Half a call is never taken for a whole one."""
    async with on_stage(api, [Called("c1", "read", ('{"path": "a"}',))]) as stage:
        played = await stage.play()
    assert not any(isinstance(emission, DoneEmission) for emission in played)
    assert "hung up in the middle" in error_of(played).message


@pytest.mark.parametrize("api", APIS)
async def test_a_failure_in_the_middle_of_a_stream_has_its_kind(on_stage: Any, api: str) -> None:
    async with on_stage(api, [Broken("overloaded_error", "too busy")], OK) as stage:
        played = await stage.play()
    assert isinstance(played[-1], DoneEmission)
    assert [kind for *_, kind in stage.retries] == ["http"]


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
async def test_garbage_is_a_parse_error(on_stage: Any, api: str, junk: bytes) -> None:
    async with on_stage(api, [junk, Ended()]) as stage:
        error = error_of(await stage.play())
    assert (error.kind, error.retryable) == ("parse", False)


@pytest.mark.parametrize("api", APIS)
async def test_a_page_instead_of_a_stream_is_no_answer(on_stage: Any, api: str) -> None:
    async with on_stage(api, [Page("<html>Log in to this network</html>\n\n")]) as stage:
        error = error_of(await stage.play())
    assert (error.kind, error.retryable) == ("http", False)
    assert "a web page" in error.message


@pytest.mark.parametrize("api", APIS)
async def test_an_event_without_an_end_ends_the_call(
    on_stage: Any, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.llmgateway.providers.http_calls.MAX_EVENT_BYTES", 1_000)
    async with on_stage(api, [b'data: {"x": "' + b"a" * 2_000, Hang()]) as stage:
        error = error_of(await stage.play())
    assert (error.kind, error.retryable) == ("http", False)


@pytest.mark.parametrize("api", APIS)
async def test_an_answer_without_an_end_ends_the_call(
    on_stage: Any, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.llmgateway.providers.assembly.MAX_ANSWER_CHARS", 10)
    async with on_stage(api, [Said(("on and on", " and on")), Hang()]) as stage:
        error = error_of(await stage.play())
    assert (error.kind, error.retryable) == ("parse", False)
    assert "longer than 10 characters" in error.message


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
    on_stage: Any, api: str, body: str, kind: str, found: str
) -> None:
    async with on_stage(api, [Page(body)]) as stage:
        error = error_of(await stage.play())
    assert (error.kind, found in error.message) == (kind, True), error.message


@pytest.mark.parametrize("status", [400, 413])
@pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])
async def test_a_refusal_without_a_word_is_an_overflow(on_stage: Any, api: str, status: int) -> None:
    """Cerebras refuses a conversation that is too long in this way."""
    async with on_stage(api, [Page("", status)]) as stage:
        error = error_of(await stage.play())
    assert (error.is_overflow, error.status) == (True, status)


async def test_the_plain_text_of_a_refusal_is_shown(on_stage: Any) -> None:
    async with on_stage("openai-chat", [Page("upstream is gone", 502)]) as stage:
        error = error_of(await stage.play())
    assert "answered 502: upstream is gone" in error.message


@pytest.mark.parametrize(
    ("api", "event"),
    [
        ("openai-chat", {"choices": [{"index": 0, "delta": {}, "finish_reason": OVERFLOW}]}),
        ("anthropic-messages", {"type": "message_delta", "delta": {"stop_reason": OVERFLOW}}),
    ],
    ids=["z.ai", "anthropic"],
)
async def test_a_window_that_the_server_found_too_small_is_an_overflow(
    on_stage: Any, api: str, event: dict[str, Any]
) -> None:
    """It comes as the reason for the end."""
    async with on_stage(api, [frame(event)]) as stage:
        error = error_of(await stage.play())
    assert error.is_overflow


@pytest.mark.parametrize("reason", ["MISSING_THOUGHT_SIGNATURE", "PUP_LIMITED_DISABLED", "OTHER"])
async def test_google_names_its_own_reason_for_the_end(on_stage: Any, reason: str) -> None:
    async with on_stage("google-generate", [frame({"candidates": [{"finishReason": reason}]})]) as stage:
        error = error_of(await stage.play())
    assert (error.retryable, f"({reason})" in error.message) == (False, True)


async def test_the_quota_of_a_day_is_not_waited_for(on_stage: Any) -> None:
    quota = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
    refused = Refused(429, "You exceeded your current quota", "RESOURCE_EXHAUSTED", details=(quota,))
    async with on_stage("google-generate", [refused]) as stage:
        error = error_of(await stage.play())
    assert (error.kind, error.retryable, stage.retries) == ("rate_limit", False, [])


@pytest.mark.parametrize(
    ("scene", "found"),
    [
        pytest.param([Ended()], "gave an empty answer", id="nothing"),
        pytest.param([Thought(("hm",)), Ended()], "ended its answer after the reasoning", id="reasoning"),
        pytest.param(
            [Thought(("hm",)), Ended("max_output")], "choose a lower level of thinking", id="cut reasoning"
        ),
    ],
)
@pytest.mark.parametrize("api", APIS)
async def test_an_answer_without_text_and_calls_says_so(
    on_stage: Any, api: str, scene: Scene, found: str
) -> None:
    """A cut off answer would be cut off again; another one is asked for twice more."""
    async with on_stage(api, scene, scene, scene) as stage:
        error = error_of(await stage.play())
    assert (error.kind, error.retryable, found in error.message) == ("http", False, True), error.message
    assert len(stage.retries) == (0 if "lower level" in found else 2)


async def test_after_tools_an_end_without_a_token_is_a_failure_of_the_service(on_stage: Any) -> None:
    """Gemini stops in this way now and then; the same request is answered at the next attempt."""
    call = ToolCallBlock("c1", "read", {"path": "a.py"})
    asked = Conversation(
        (
            UserTurn((TextBlock("go"),)),
            AssistantTurn((call,)),
            ToolTurn((ToolResultBlock("c1", "x = 1"),)),
        )
    )
    empty = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 9}}
    async with on_stage("google-generate", [frame(empty)], [Said(("done",)), Ended()]) as stage:
        *_, done = await stage.play(asked)
    assert isinstance(done, DoneEmission)
    assert done.reply.blocks == (TextBlock("done"),)


@pytest.mark.parametrize("api", APIS)
async def test_after_tools_a_model_may_end_without_a_word(on_stage: Any, api: str) -> None:
    call = ToolCallBlock("c1", "read", {"path": "a.py"})
    result = ToolTurn((ToolResultBlock("c1", "x = 1"),))
    asked = Conversation((UserTurn((TextBlock("go"),)), AssistantTurn((call,)), result))
    async with on_stage(api, [Ended()]) as stage:
        *_, done = await stage.play(asked)
    assert isinstance(done, DoneEmission)
    assert done.reply.blocks == ()


async def test_an_answer_that_ends_with_the_mark_alone_is_whole(on_stage: Any) -> None:
    async with on_stage("openai-chat", [Said(("it ", "is")), frame("[DONE]")]) as stage:
        *_, done = await stage.play()
    assert isinstance(done, DoneEmission)
    assert done.reply.blocks == (TextBlock("it is"),)


async def test_a_certificate_that_is_not_trusted_is_not_tried_again() -> None:
    cause = "Connection error. [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed"
    error = to_gateway_error(ProviderFailure(cause), "openai", address="https://proxy.example")
    assert (error.kind, error.retryable) == ("transport", False)
    assert "set SSL_CERT_FILE" in error.message


@pytest.mark.parametrize("api", APIS)
async def test_a_slow_drip_is_read_to_its_end(on_stage: Any, api: str) -> None:
    import asyncio

    drips = [asyncio.Event() for _ in range(3)]
    scene = [Said(("a",)), Until(drips[0]), Said(("b",)), Until(drips[1]), Until(drips[2]), Ended()]
    async with on_stage(api, scene) as stage:
        heard: list[Emission] = []
        async for emission in stage.call():
            heard.append(emission)
            next((drip for drip in drips if not drip.is_set()), drips[0]).set()
            if isinstance(emission, TextEmission) and emission.delta == "b":
                drips[2].set()
    assert heard[:2] == [TextEmission("a"), TextEmission("b")]
    assert isinstance(heard[-1], DoneEmission)


OVERFLOWS = {
    "ollama-chat": (400, "the input length exceeds the context length", ""),
    "openai-chat": (
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "context_length_exceeded",
    ),
    "openai-responses": (400, "Your input exceeds the context window of this model.", "invalid_request"),
    "anthropic-messages": (
        400,
        "prompt is too long: 233153 tokens > 200000 maximum",
        "invalid_request_error",
    ),
    "google-generate": (
        400,
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "INVALID_ARGUMENT",
    ),
}


@pytest.mark.parametrize("api", APIS)
async def test_a_conversation_that_does_not_fit_is_an_overflow(on_stage: Any, api: str) -> None:
    async with on_stage(api, [Refused(*OVERFLOWS[api])]) as stage:
        error = error_of(await stage.play())
    assert (error.kind, error.is_overflow, error.retryable) == ("http", True, False)
    assert error.message.startswith("the conversation does not fit the model's window")


@pytest.mark.parametrize("api", APIS)
async def test_no_key_gets_into_an_error(on_stage: Any, api: str, key: str) -> None:
    async with on_stage(api, [Refused(401, f"Incorrect API key provided: {key}")]) as stage:
        error = error_of(await stage.play())
    assert key not in f"{error!r} {error} {vars(error)}"
    assert "set FAKE_KEY, or run: sidecar login" in error.message


async def test_a_missing_server_is_a_transport_error(on_stage: Any) -> None:
    async with on_stage("openai-chat", OK) as stage:
        pass
    error = error_of(await stage.play())
    assert (error.kind, error.status) == ("transport", None)
    assert f"fake ({stage.fake.http.url}/v1) cannot be reached" in error.message
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
    on_stage: Any, api: str, message: str, signature: str
) -> None:
    """As after a compaction: what the reasoning was signed over is gone. The next call leaves it out."""
    said = AssistantTurn((ThinkingBlock("hm", signature), TextBlock("so")))
    turns = (UserTurn((TextBlock("hi"),)), said, UserTurn((TextBlock("go on"),)))
    async with on_stage(api, [Refused(400, message)], OK) as stage:
        for _ in range(2):
            *_, done = await stage.play(Conversation(turns))
            assert isinstance(done, DoneEmission)
    assert stage.repairs == ["earlier reasoning was left out, because the turns before it changed"]
    assert len(stage.fake.calls) == 3


async def test_a_listener_that_fails_changes_nothing(on_stage: Any) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("no")

    async with on_stage("openai-chat", [Refused(500, "oops")], OK) as stage:
        *_, done = await stage.play(on_retry=fails)
    assert isinstance(done, DoneEmission)


@pytest.mark.parametrize(("code", "kind"), [(429, "rate_limit"), (502, "http")])
async def test_a_failure_behind_a_router_is_made_again_and_its_reason_told(
    on_stage: Any, code: int, kind: str
) -> None:
    raw = '{"object": "error", "message": "no more machines"}'
    metadata = {"provider_name": "Mistral", "raw": raw}
    failed = frame({"error": {"code": code, "message": "Provider returned error", "metadata": metadata}})
    async with on_stage("openai-chat", [Said(("half",)), failed], OK) as stage:
        played = await stage.play()
    assert isinstance(played[-1], DoneEmission)
    assert [kind_of for *_, kind_of in stage.retries] == [kind]
    assert "Provider returned error (Mistral: no more machines)" in stage.failures[0]


async def test_a_refusal_behind_a_router_is_told_as_well(on_stage: Any) -> None:
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": "role after role"}}
    async with on_stage("openai-chat", [Page(json.dumps({"error": error}), 400)]) as stage:
        played = await stage.play()
    assert "Provider returned error (the service behind it: role after role)" in error_of(played).message


async def test_a_call_that_the_model_spelled_wrong_is_made_again(on_stage: Any) -> None:
    failed = Refused(400, "Failed to call a function", "tool_use_failed")
    async with on_stage("openai-chat", [failed], OK) as stage:
        assert isinstance((await stage.play())[-1], DoneEmission)
