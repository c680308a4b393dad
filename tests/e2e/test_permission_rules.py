"""The rules for permissions over the wire: listed in words, asked about an action, changed for good."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daemon_in_memory import client_in_memory
from sidecar.protocol import messages as m
from sidecar_client import SidecarClient, SidecarRequestError, reject

pytestmark = pytest.mark.processes


@pytest.fixture
async def asked() -> list[str]:
    return []


@pytest.fixture
async def client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> AsyncIterator[SidecarClient]:
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    (project / ".sidecar.toml").write_text('[permissions]\nallow = ["git push"]\n')
    push = [[{"toolCall": {"name": "bash", "input": {"command": "git push"}}}], [{"text": "done"}]]

    def ask(request: m.PermissionRequest) -> m.PermissionAnswer:
        asked.append(request.title)
        return reject(request)

    options = {"models": {"fake-1": {"scripted": push * 2}}}
    async with client_in_memory(project, permission=ask, options=options) as started:
        yield started


async def test_a_rule_is_set_listed_obeyed_and_removed(
    client: SidecarClient, tmp_path: Path, asked: list[str]
) -> None:
    session = await client.start_session(tmp_path / "project", model="fake-1")
    config = tmp_path / "home" / "config.toml"

    async def rules(**wanted: Any) -> dict[str, Any]:
        found: dict[str, Any] = await client.request(
            "sidecar/permission/rules", {"sid": session.sid, **wanted}
        )
        return found

    push = {"tool": "bash", "input": {"command": "git push"}}
    listed = await rules()
    assert listed["mode"] == "ask"
    assert {each["source"] for each in listed["rules"]} == {"session", "workspace", "builtIn"}
    verdict = (await rules(test=push))["verdict"]
    assert (verdict["outcome"], "rule" in verdict) == ("ask", False)
    set_rule = {"effect": "deny", "rule": "git push"}
    wanted = {**set_rule, "source": "user", "description": "Commands `git push` are refused."}
    assert (await rules(set=set_rule))["rules"][0] == wanted
    assert config.read_text() == '[permissions]\ndeny = ["git push"]\n'
    verdict = (await rules(test=push))["verdict"]
    assert verdict == {"outcome": "deny", "reason": "your rule 'git push' denies it", "rule": wanted}
    await session.run("push it")
    assert asked == []
    await rules(set={**set_rule, "remove": True})
    await session.run("push it")
    assert len(asked) == 1
    assert (tmp_path / "project" / ".sidecar.toml").read_text() == '[permissions]\nallow = ["git push"]\n'


async def test_actions_are_judged_and_not_run(client: SidecarClient, tmp_path: Path) -> None:
    session = await client.start_session(tmp_path / "project", model="fake-1")
    wanted: list[tuple[str, dict[str, Any], str]] = [
        ("bash", {"command": "ls"}, "allow"),
        ("bash", {"command": "touch new.txt"}, "ask"),
        ("read", {"path": "a.py"}, "allow"),
        ("read", {"path": "/etc/hostname"}, "ask"),
        ("grep", {"pattern": "x"}, "allow"),
        ("write", {"path": "new.txt", "content": "x"}, "ask"),
        ("edit", {"path": ".git/config"}, "ask"),
        ("fetch", {"url": "https://example.org/x"}, "ask"),
        ("todo", {}, "allow"),
    ]
    judged = []
    for tool, arguments, _ in wanted:
        answer = await client.permission_rules(session.sid, test=m.PermissionTest(tool, arguments))
        assert answer.verdict is not None
        assert answer.verdict.reason
        judged.append((tool, arguments, answer.verdict.outcome))
    assert judged == wanted
    assert not (tmp_path / "project" / "new.txt").exists()


async def test_a_mistake_is_answered_with_the_next_step(client: SidecarClient, tmp_path: Path) -> None:
    session = await client.start_session(tmp_path / "project", model="fake-1")
    for wanted, message, hint in (
        ({"set": {"effect": "allow", "rule": "a && b"}}, "one plain command", "edit: docs/"),
        ({"set": {"effect": "allow", "rule": "x", "remove": True}}, "no rule 'x'", "the rules are: none"),
        ({"test": {"tool": "fly", "input": {}}}, "no tool 'fly'", "the tools are"),
        ({"test": {"tool": "bash", "input": {}}}, "does not say", "'command'"),
        ({"test": {"tool": "bash", "input": {}}, "set": {"effect": "deny", "rule": "x"}}, "not both", "two"),
    ):
        with pytest.raises(SidecarRequestError, match=message) as caught:
            await client.request("sidecar/permission/rules", {"sid": session.sid, **wanted})
        assert caught.value.kind == "invalidParams"
        assert hint in str(caught.value.hint)
    assert not (tmp_path / "home" / "config.toml").exists()


async def test_the_slash_command_does_the_same(client: SidecarClient, tmp_path: Path) -> None:
    session = await client.start_session(tmp_path / "project", model="fake-1")
    answers = [
        (await session.run(f"/permissions {rest}")).text
        for rest in ("", "deny git push", "test git push", "rules", "remove git push", "test", "plan")
    ]
    assert answers[0].startswith("Permissions: ask.")
    assert answers[1] == "The rule 'git push' (deny) is in your settings."
    assert answers[2] == "git push: is refused, because your rule 'git push' denies it."
    assert answers[3].startswith("- deny: Commands `git push` are refused.\n- ask: Ask before every change.")
    assert answers[4] == "The rule 'git push' (deny) is removed from your settings."
    assert "needs a rule or an action" in answers[5]
    assert answers[6].startswith("Permissions: plan.")


async def test_rules_that_cannot_be_read_make_every_action_ask_in_each_mode(
    client: SidecarClient, tmp_path: Path, asked: list[str]
) -> None:
    config = tmp_path / "home" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text('model = [\n[permissions]\ndeny = ["git push"]\n')
    session = await client.start_session(tmp_path / "project", model="fake-1")
    await session.run("/permissions allowAll")
    await session.run("push it")
    assert len(asked) == 1
    config.write_text('[permissions]\nallow = ["git push"]\n')
    await session.run("push it")
    assert len(asked) == 1, "the corrected file counts at once"
