"""Models as a user calls them: a key, an address, and ``sidecar run``; the answer is on standard output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from daemon_in_memory import client_in_memory
from provider_fakes import (
    Called,
    Cut,
    Ended,
    Refused,
    Said,
    Scene,
    Spent,
    Thought,
    fake_provider,
    frame,
)
from sidecar.llmgateway.names import PROVIDERS_BY_NAME

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

KEY = "sk-proj-0123456789abcdefghij"
READS: Scene = (
    Thought(("hm",)),
    Called("c1", "read", ('{"path": "a.txt"}',)),
    Spent(9, 9),
    Ended("tool_calls"),
)
SAYS: Scene = (Said(("It says ", "hi.")), Spent(20, 5, 9), Ended())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory, and an environment that names no provider."""
    for provider in PROVIDERS_BY_NAME.values():
        for name in (*provider.key_env, provider.base_url_env or ""):
            if provider.needs_key:
                monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.txt").write_text("hi\n")
    return tmp_path / "project"


async def sidecar(*arguments: str, cwd: Path, **environment: str) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of one command."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "sidecar",
        *arguments,
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_a_pipe_gets_the_whole_answer_alone_when_one_broke_off(home: Path, project: Path) -> None:
    async with fake_provider("openai-chat", [[Said(("Half of ", "it")), Cut()], SAYS]) as fake:
        where = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{fake.http.url}/v1"}
        code, out, err = await sidecar("run", "--model", "openai:some-model", "hi", cwd=project, **where)
    assert (code, out) == (0, "It says hi.\n"), err
    assert "what was shown of it does not count; trying again in" in err


@pytest.mark.parametrize(
    ("api", "model", "name", "path"),
    [
        ("openai-chat", "openai:some-model", "OPENAI", "/v1"),
        ("anthropic-messages", "anthropic:claude-sonnet-4-5", "ANTHROPIC", ""),
        ("google-generate", "google:gemini-2.5-pro", "GOOGLE", ""),
    ],
)
async def test_a_key_and_an_address_are_all_it_needs(
    home: Path, project: Path, api: str, model: str, name: str, path: str
) -> None:
    async with fake_provider(api, [READS, [Refused(503, "busy")], SAYS]) as fake:
        place = "GOOGLE_GEMINI_BASE_URL" if name == "GOOGLE" else f"{name}_BASE_URL"
        where = {f"{name}_API_KEY": KEY, place: f"{fake.http.url}{path}"}
        code, out, err = await sidecar("run", "--model", model, "what is in a.txt?", cwd=project, **where)
    assert (code, out) == (0, "It says hi.\n"), err
    assert "· Read a.txt" in err
    assert "; trying again in" in err
    assert KEY in str(fake.calls[0].headers)
    assert KEY not in out + err


async def test_files_name_the_model_and_hold_the_key(home: Path, project: Path) -> None:
    """``config.toml``, ``auth.json``, and the folder's own choice of a model over the user's."""
    async with fake_provider("openai-chat", [SAYS]) as fake:
        (home / "config.toml").write_text(
            f'model = "offline-1"\n[providers.work]\nbase_url = "{fake.http.url}/v1"\nkey_env = "WORK_KEY"\n'
        )
        (home / "auth.json").write_text(json.dumps({"work": KEY}))
        (home / "auth.json").chmod(0o600)
        (project / ".sidecar.toml").write_text('model = "work:some-model"\n')
        code, out, err = await sidecar("run", "hello", cwd=project)
        assert (code, out) == (0, "It says hi.\n"), err
    assert fake.calls[0].headers["authorization"] == f"Bearer {KEY}"
    assert fake.sent[0]["model"] == "some-model"


async def test_a_folder_that_is_not_trusted_gets_neither_key_nor_prompt(home: Path, project: Path) -> None:
    """A folder that names its own server for a provider would receive the user's key and conversation."""
    async with fake_provider("openai-chat", [SAYS]) as fake:
        moved = f'base_url = "{fake.http.url}/v1"\nkey_env = "OPENAI_API_KEY"\n'
        (project / ".sidecar.toml").write_text(f'model = "openai:x"\n[providers.openai]\n{moved}')
        code, _, err = await sidecar("run", "--model", "offline-1", "hello", cwd=project, OPENAI_API_KEY=KEY)
        assert code == 0
        assert "Some settings are not used" in err
        assert "because this folder is not trusted" in err
        assert fake.http.asked == []


def chunk(content: object) -> bytes:
    """Return one chunk of the chat format whose content may be of any type."""
    return frame({"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}]})


async def test_an_answer_of_odd_types_ends_its_turn_and_no_other(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of content parts, as Mistral's reasoning models stream it, once ended a session for good."""
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]
    parts: Scene = (chunk(thinking), chunk([{"type": "text", "text": "It is 42."}]), Ended())
    unknown: Scene = (chunk([{"type": "hologram"}]), Ended())
    async with fake_provider("openai-chat", [unknown, parts, SAYS]) as fake:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{fake.http.url}/v1")
        async with client_in_memory(project) as client, asyncio.timeout(60):
            session = await client.start_session(project, model="openai:some-model")
            kinds = [[event.kind async for event in session.stream(prompt)] for prompt in ("1", "2", "3")]
            usage = await session.usage()
    assert [each[-1] for each in kinds] == ["faulted", "settled", "settled"]
    assert "thinkingDelta" in kinds[1]
    assert usage.last_turn is not None


@pytest.mark.parametrize("depth", [900, 5_000])
async def test_arguments_of_any_depth_end_their_turn_and_no_other(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    nested = '{"path": ' + "[" * depth + "]" * depth + "}"
    deep: Scene = (Called("c1", "read", (nested,)), Ended("tool_calls"))
    async with fake_provider("openai-chat", [deep, SAYS]) as fake:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{fake.http.url}/v1")
        async with client_in_memory(project) as client, asyncio.timeout(60):
            session = await client.start_session(project, model="openai:some-model")
            kinds = [[event.kind async for event in session.stream(prompt)] for prompt in ("1", "2")]
            await session.close()
            again = await client.load_session(session.sid)
            assert (await again.run("3")).text == "It says hi."
    assert [each[-1] for each in kinds] == ["settled", "settled"]


async def test_a_key_alone_is_enough(home: Path, project: Path) -> None:
    pages = {"/v1/models": {"data": [{"id": "old-1", "created": 1}, {"id": "new-2", "created": 2}]}}
    async with fake_provider("openai-chat", [SAYS], pages) as fake:
        where = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{fake.http.url}/v1"}
        code, out, err = await sidecar("run", "hello", cwd=project, **where)
    assert (code, out) == (0, "It says hi.\n"), err
    assert fake.sent[0]["model"] == "new-2"
    assert "openai:new-2 answers, because OPENAI_API_KEY is set; choose another with --model" in err


async def test_a_local_server_alone_is_enough(home: Path, project: Path) -> None:
    pages = {
        "/v1/models": {"data": [{"id": "nomic-embed-text"}, {"id": "qwen3:8b"}]},
        "/api/show": {"model_info": {"qwen3.context_length": 40_960}},
    }
    async with fake_provider("ollama-chat", [SAYS], pages) as fake:
        host = fake.http.url.removeprefix("http://")
        where = {"OLLAMA_HOST": host, "OLLAMA_BASE_URL": "", "HTTP_PROXY": "http://127.0.0.1:9"}
        code, out, err = await sidecar("run", "hello", cwd=project, **where)
    assert (code, out) == (0, "It says hi.\n"), err
    assert (fake.sent[0]["model"], fake.sent[0]["options"]) == ("qwen3:8b", {"num_ctx": 32_768})
    assert "ollama:qwen3:8b answers, because ollama runs on this machine" in err


async def test_without_key_and_server_the_built_in_model_answers(home: Path, project: Path) -> None:
    code, out, err = await sidecar("run", "hello", cwd=project)
    assert (code, "answers, because" in err) == (0, False)
    assert out


async def test_a_mistake_in_the_settings_is_an_error_and_not_another_model(home: Path, project: Path) -> None:
    (home / "config.toml").write_text('modle = "openai:gpt-5"\n')
    code, out, err = await sidecar("run", "hello", cwd=project)
    assert (code, out) == (2, "")
    assert "config.toml, line 1: modle is not used" in err
    assert "modle" in err
    code, out, _ = await sidecar("run", "--model", "offline-1", "hello", cwd=project)
    assert code == 0
    assert out


async def test_the_models_on_offer_are_the_newest_first_without_the_mock(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config.toml").write_text('[models.mine]\nprovider = "openai"\nname = "gpt-5"\n')
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    pages = {"/v1/models": {"data": [{"id": "qwen3:8b"}]}}
    async with fake_provider("openai-chat", [SAYS], pages) as fake:
        monkeypatch.setenv("OLLAMA_BASE_URL", f"{fake.http.url}/v1")
        async with client_in_memory(project) as client, asyncio.timeout(60):
            session = await client.start_session(project)
            options = await client.session_set_config_option(session.sid, "permissions", "ask")
    (model,) = (option for option in options.config_options if option.id == "model")
    names = [choice.value for choice in model.options]
    assert model.current_value == names[0] == "anthropic:claude-sonnet-5-5"
    assert (names[1], names[-2:]) == ("mine", ["ollama:qwen3:8b", "offline-1"])
    assert names.index("anthropic:claude-opus-5-5") < names.index("anthropic:claude-opus-4-8")
    assert "mock-1" not in names


async def test_the_edits_of_one_message_all_land_and_in_their_order(home: Path, project: Path) -> None:
    """They raced: of three edits of one file one landed, and a read beside them saw any of the texts."""
    (project / "b.txt").write_text("one\ntwo\nthree\n")

    def edit(call_id: str, old: str, new: str) -> Called:
        arguments = {"path": "b.txt", "old_text": old, "new_text": new}
        return Called(call_id, "edit", (json.dumps(arguments),))

    calls = (
        Called("c1", "read", ('{"path": "b.txt"}',)),
        edit("c2", "one", "1"),
        edit("c3", "1\ntwo", "1\n2"),
        edit("c4", "2\nthree", "2\n3"),
        Called("c5", "bash", ('{"command": "cat b.txt; echo 4 >> b.txt"}',)),
        Called("c6", "bash", ('{"command": "cat b.txt"}',)),
        Called("c7", "read", ('{"path": "b.txt"}',)),
    )
    async with fake_provider("openai-chat", [(*calls, Ended("tool_calls")), SAYS]) as fake:
        where = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{fake.http.url}/v1"}
        code, _, err = await sidecar("run", "--yes", "--model", "openai:m", "change it", cwd=project, **where)
    assert code == 0, err
    assert (project / "b.txt").read_text() == "1\n2\n3\n4\n"
    results = {
        each["tool_call_id"]: each["content"] for each in fake.sent[1]["messages"] if "tool_call_id" in each
    }
    assert list(results) == [f"c{n}" for n in range(1, 8)]
    assert results["c5"].startswith("1\n2\n3\n")
    assert results["c6"].startswith("1\n2\n3\n4\n")
    assert "4" in results["c7"]
