"""A key goes to its provider and nowhere else: no event, error, stored line, log or trace has it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from provider_fakes import Called, Ended, Refused, Said
from tests.models.conftest import connected

pytestmark = pytest.mark.processes

APIS = {
    "openai-chat": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic-messages": "ANTHROPIC_API_KEY",
    "google-generate": "GOOGLE_API_KEY",
}
SECRET = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


def stored(home: Path) -> str:
    """Return everything below *home*."""
    return "".join(path.read_text(errors="replace") for path in home.rglob("*") if path.is_file())


@pytest.mark.parametrize("api", APIS)
async def test_a_key_that_is_refused_and_repeated_is_shown_nowhere(
    on_stage: Any, told: Any, api: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even when it looks like no key, and everything is logged that anybody has to say."""
    key = "0f5d-not-like-a-key-1e"
    monkeypatch.setenv(APIS[api], key)
    with caplog.at_level(logging.DEBUG):
        async with on_stage({api: [[Refused(401, f"Incorrect API key provided: {key}")]]}) as stage:
            session = await stage.session()
            monkeypatch.setenv(APIS[api], key)
            outcome = await stage.ask(session, "hello")
            (call,) = stage.fake.calls
    assert outcome.fault.error_kind == "authRequired"
    assert key in str(call.headers)
    assert key not in json.dumps(told(session)) + outcome.fault.message
    assert key not in stored(stage.home)
    assert key not in caplog.text
    assert key not in str([vars(record) for record in caplog.records])


async def test_a_secret_that_a_tool_reads_is_in_no_log_and_no_trace(
    on_stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The user and the model see it: it is their conversation. Whoever reads a log or a trace does not."""
    reads = (Called("call_1", "read", ('{"path": "secrets.env"}',)), Ended("tool_calls"))
    with caplog.at_level(logging.INFO):
        async with on_stage({"openai-chat": [reads, (Said(("I saw it",)), Ended())]}) as stage:
            (stage.folder / "secrets.env").write_text(f"TOKEN={SECRET}\n")
            client = await connected(stage)
            await client.request("trace", "sidecar/trace/set", {"level": "verbose"})
            wanted = {"cwd": str(stage.folder), "model": "known"}
            sid = (await client.request("new", "sidecar/session/new", wanted))["result"]["sid"]
            given = {"sid": sid, "input": [{"type": "text", "text": "read secrets.env"}]}
            await client.request("go", "sidecar/turn/run", given)
            log = await client.request("log", "sidecar/log/tail", {})
            await client.request("end", "sidecar/trace/set", {"level": "off"})
            traces = stored(stage.home / "traces")
    assert SECRET in str(client.calls("sidecar/event"))
    assert SECRET in str(stage.fake.sent[1])
    assert "toolFinished" in traces
    assert SECRET not in caplog.text + str(log) + traces
