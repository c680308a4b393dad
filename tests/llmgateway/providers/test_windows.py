"""Local servers are asked for the window of a model; those that do not tell cost nothing but a moment."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from provider_fakes import Asked, Hang, serve_http
from provider_fakes.http import Answer
from sidecar.llmgateway.providers.windows import fetch_window, is_local, ollama_window

pytestmark = pytest.mark.processes


def page(value: Any) -> Answer:
    return Answer((json.dumps(value).encode(),), headers={"content-type": "application/json"})


@pytest.mark.parametrize(
    ("pages", "window"),
    [
        pytest.param({"/props": {"default_generation_settings": {"n_ctx": 16_384}}}, 16_384, id="llama.cpp"),
        pytest.param(
            {"/api/ps": {"models": [{"name": "qwen3:8b", "context_length": 4_096}]}},
            4_096,
            id="ollama, what the loaded model was given",
        ),
        pytest.param(
            {"/api/show": {"parameters": "stop x\nnum_ctx 8192", "model_info": {"q.context_length": 40_960}}},
            8_192,
            id="ollama, what its file says",
        ),
        pytest.param(
            {"/api/show": {"model_info": {"qwen3.context_length": 40_960, "qwen3.block_count": 36}}},
            4_096,
            id="ollama, its default for a model that is not loaded",
        ),
        pytest.param(
            {"/api/v0/models/qwen3%3A8b": {"loaded_context_length": 5_000, "max_context_length": 9_000}},
            5_000,
            id="lm studio",
        ),
        pytest.param(
            {
                "/v1/models": {
                    "data": [{"id": "other", "max_model_len": 1}, {"id": "qwen3:8b", "max_model_len": 7}]
                }
            },
            7,
            id="vllm",
        ),
        pytest.param(
            {"/v1/models": {"data": [{"id": "file.gguf", "meta": {"n_ctx_train": 32_768}}]}},
            32_768,
            id="the only model a server has, whatever it is called",
        ),
        pytest.param({"/v1/models": {"data": [{"id": "qwen3:8b"}]}}, None, id="a server that does not tell"),
        pytest.param({"/props": "text", "/api/ps": [], "/v1/models": {"data": 7}}, None, id="other shapes"),
        pytest.param({"/props": {"default_generation_settings": {"n_ctx": -1}}}, None, id="no number"),
        pytest.param({}, None, id="no such pages"),
    ],
)
async def test_a_server_publishes_its_window(pages: dict[str, Any], window: int | None) -> None:
    def answer(asked: Asked) -> Answer:
        return page(pages[asked.path]) if asked.path in pages else Answer(status=404)

    async with serve_http(answer) as server:
        assert await fetch_window(f"{server.url}/v1", "qwen3:8b", "sk-key") == window
    assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer sk-key"}


async def test_a_silent_server_publishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded, and off the event loop: it goes on meanwhile."""
    monkeypatch.setattr("sidecar.llmgateway.providers.windows._DEADLINE_S", 0.05)
    monkeypatch.setattr("sidecar.llmgateway.providers.windows._ONE_ANSWER_S", 0.05)
    async with serve_http(lambda asked: Answer((Hang(),))) as server:
        asking = asyncio.ensure_future(fetch_window(server.url, "m"))
        await server.was_asked.wait()
        assert await asking is None


async def test_a_missing_server_is_not_an_error() -> None:
    async with serve_http(lambda asked: page({})) as server:
        url = server.url
    assert await fetch_window(url, "m") is None


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:11434/v1", True),
        ("http://127.0.0.1:1234", True),
        ("http://[::1]:8080/v1", True),
        ("http://192.168.1.20:8000/v1", True),
        ("http://box.local:8000/v1", True),
        ("https://api.openai.com/v1", False),
        ("https://8.8.8.8/v1", False),
        (None, False),
        ("nonsense", False),
    ],
)
def test_which_servers_are_local(url: str | None, *, local: bool) -> None:
    assert is_local(url) is local


@pytest.mark.parametrize(
    ("shown", "running", "window"),
    [
        pytest.param({"model_info": {"q.context_length": 40_960}}, None, 32_768, id="enough for tools"),
        pytest.param({"model_info": {"q.context_length": 8_192}}, None, 8_192, id="the model's own limit"),
        pytest.param({"model_info": {"q.context_length": 131_072}}, 65_536, 65_536, id="more is loaded"),
        pytest.param({"model_info": {"q.context_length": 131_072}}, 4_096, 32_768, id="less is loaded"),
        pytest.param(
            {"parameters": "num_ctx 16384", "model_info": {"q.context_length": 131_072}},
            4_096,
            16_384,
            id="the author's choice",
        ),
        pytest.param({}, None, None, id="nothing"),
        pytest.param("text", 4_096, 4_096, id="another shape"),
    ],
)
def test_the_window_that_a_call_asks_ollama_for(shown: Any, running: int | None, window: int | None) -> None:
    assert ollama_window(shown, running=running, is_settable=True) == window
