"""The rule files of a session: which count, what the model is shown of them, and where."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from long_talks import LONG, emitted
from sidecar.capabilities.edit import WRITE
from sidecar.capabilities.read import READ
from sidecar.conductor.engine import CompactionRequest, entry_with_turn
from sidecar.conductor.events import Notice
from sidecar.conductor.session import Session
from sidecar.conductor.workbench.rule_files import (
    ALL_RULES_CHARS,
    MAX_IMPORT_DEPTH,
    MAX_IMPORTS,
    MAX_RULE_FILES,
    RULE_FILE_CHARS,
    find_imports,
    is_project,
)
from sidecar.llmgateway.contract import ToolResultBlock, ToolTurn
from sidecar.llmgateway.scripted import Call, Say
from turns import text

NOTES = (
    "# Files\nsub/x.py was read; it sets x to 1.\n# Parser\nA stack of brackets reports the first open one."
)


def systems(stage: Any) -> list[str]:
    """Return the system prompt of each call."""
    return [call.conversation.system or "" for call in stage.model.calls]


def notices(session: Session) -> str:
    """Return all notices of *session*."""
    return "\n".join(str(notice.description) for notice in emitted(session, Notice))


def results(stage: Any, call: int = -1) -> str:
    """Return the tool results that a call was sent."""
    turns = stage.model.calls[call].conversation.turns
    found = [block for turn in turns for block in turn.blocks if isinstance(block, ToolResultBlock)]
    return "\n".join(str(block.output) for block in found)


async def a_stage(make_stage: Any, *script: Any, files: dict[str, str], **options: Any) -> Any:
    """A stage with *files*, each named from the session's folder."""
    stage = await make_stage([*script, *[[Say("done")]] * 6], tools=(READ, WRITE), **options)
    for name, body in files.items():
        stage.workspace.put(Path(os.path.normpath(stage.folder / name)), body)  # noqa: ASYNC240 # in memory
    return stage


async def system_with(make_stage: Any, files: dict[str, str], **options: Any) -> tuple[str, str]:
    """Return the system prompt of a session's first call among *files*, and its notices."""
    stage = await a_stage(make_stage, files=files, **options)
    session = await stage.session()
    await stage.ask(session, "1")
    return systems(stage)[0], notices(session)


async def test_both_files_of_every_folder_from_the_repository_down_count_in_order(make_stage: Any) -> None:
    files = {
        "../../.git": "gitdir: elsewhere",
        "../../AGENTS.md": "root rule",
        "../CLAUDE.md": "middle rule",
        "AGENTS.md": "own rule",
        "CLAUDE.md": "other own rule",
        "../../../AGENTS.md": "rule of a stranger",
    }
    system, _ = await system_with(make_stage, files)
    places = [system.index(rule) for rule in ("root rule", "middle rule", "own rule", "other own rule")]
    assert places == sorted(places)
    assert "stranger" not in system


async def test_without_a_repository_the_folder_of_the_session_counts_alone(make_stage: Any) -> None:
    system, _ = await system_with(make_stage, {"AGENTS.md": "own rule", "../AGENTS.md": "rule above"})
    assert "own rule" in system
    assert "rule above" not in system


def test_a_repository_that_holds_the_home_folder_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    folders = (tmp_path, tmp_path / "home", tmp_path / "home" / "code")
    assert [is_project(folder) for folder in folders] == [False, False, True]


async def test_the_users_own_rules_come_first(make_stage: Any, tmp_path: Path) -> None:
    files = {
        "../state/CLAUDE.md": "rule of the user, @more.md",
        "../state/more.md": "more",
        "AGENTS.md": "own rule",
    }
    system, _ = await system_with(make_stage, files, home=tmp_path / "state")
    assert system.index("rule of the user") < system.index("more.md:\n\nmore") < system.index("own rule")


async def test_the_same_text_is_shown_once(make_stage: Any) -> None:
    system, told = await system_with(make_stage, {"AGENTS.md": "one rule", "CLAUDE.md": "one rule"})
    assert (system.count("one rule"), told) == (1, "")


async def test_imports_are_read_beside_the_file_and_only_inside(make_stage: Any) -> None:
    files = {
        "AGENTS.md": "See @docs/style.md and ask @someone. Not @../../outside.md, nor @missing.md.",
        "docs/style.md": "style rule, with @deep/more.md",
        "docs/deep/more.md": "deep rule",
    }
    system, told = await system_with(make_stage, files)
    assert "Rules from docs/style.md:\n\nstyle rule" in system
    assert "Rules from docs/deep/more.md:\n\ndeep rule" in system
    assert "missing.md is not used: AGENTS.md imports it, and there is no such file" in told
    assert "someone" not in told


async def test_a_circle_of_imports_ends_and_is_told(make_stage: Any) -> None:
    system, told = await system_with(make_stage, {"AGENTS.md": "a rule @b.md", "b.md": "b rule @AGENTS.md"})
    assert (system.count("a rule"), system.count("b rule")) == (1, 1)
    assert "AGENTS.md imports itself, through 2 files" in told


async def test_imports_that_go_too_deep_end_and_are_told(make_stage: Any) -> None:
    chain = {f"r{level}.md": f"rule {level}. @r{level + 1}.md" for level in range(9)}
    system, told = await system_with(make_stage, {"AGENTS.md": "@r0.md", **chain})
    assert f"rule {MAX_IMPORT_DEPTH - 1}." in system
    assert f"rule {MAX_IMPORT_DEPTH}." not in system
    assert f"r{MAX_IMPORT_DEPTH}.md is not used: it is imported too deep" in told


async def test_too_many_files_are_told(make_stage: Any) -> None:
    imported = {f"r{number}.md": f"rule {number}" for number in range(MAX_RULE_FILES + 1)}
    files = {"AGENTS.md": " ".join(f"@{name}" for name in imported), **imported}
    system, told = await system_with(make_stage, files)
    assert system.count("Rules from") == MAX_RULE_FILES
    assert f"r{MAX_RULE_FILES - 1}.md is not used: there are {MAX_RULE_FILES} rule files" in told


async def test_a_long_file_is_cut_and_that_is_told(make_stage: Any) -> None:
    system, told = await system_with(make_stage, {"AGENTS.md": "long rule " * 5_000})
    assert "characters cut; read AGENTS.md for the rest" in system
    assert f"AGENTS.md has 50,000 characters; the model is shown {RULE_FILE_CHARS:,} of them" in told


async def test_where_the_room_is_short_the_nearer_files_keep_theirs(make_stage: Any) -> None:
    files = {
        "../.git": "gitdir: elsewhere",
        "../AGENTS.md": "far " * 6_000,
        "AGENTS.md": "near " * 6_000,
        "CLAUDE.md": "own " * 6_000,
    }
    system, told = await system_with(make_stage, files, window=200_000)
    assert len(system) < ALL_RULES_CHARS + 3_000
    assert (system.count("near "), system.count("own "), system.count("far ")) == (4_800, 6_000, 0)
    assert "the model is shown 1 of them" in told


async def test_rules_take_a_quarter_of_a_small_window_at_most(make_stage: Any) -> None:
    stage = await a_stage(make_stage, files={"AGENTS.md": "rule " * 9_000}, window=8_000)
    session = await stage.session()
    await stage.ask(session, "1")
    assert session.window.request.usage(detail=True).rules[0].tokens < 8_000 // 3
    assert "the model is shown 8,000 of them" in notices(session)


def test_imports_in_code_are_not_imports() -> None:
    text = "```\n@a.md\n```\n~~~\n@b.md\n~~~\n`@c.md` me@d.md\n- @e.md, and @./f.md."
    assert list(find_imports(text)) == ["e.md", "./f.md"]


async def test_rules_of_a_folder_come_with_the_first_read_below_it(make_stage: Any) -> None:
    files = {
        "sub/AGENTS.md": "rule of sub @more.md",
        "sub/more.md": "more of sub",
        "sub/deep/x.py": "x = 1\n",
    }
    stage = await a_stage(
        make_stage,
        [Call("read", {"path": "sub/deep/x.py"}, "c1")],
        [Call("read", {"path": "sub/deep/x.py"}, "c2")],
        files=files,
    )
    session = await stage.session()
    await stage.ask(session, "1")
    assert results(stage).count("rule of sub") == 1
    assert "more of sub" in results(stage)
    assert "files below sub" in results(stage)
    assert len(set(systems(stage))) == 1, "the requests before must stay a prefix of this one"
    assert "rule of sub" not in systems(stage)[-1]
    known = {file.uri.rpartition("/")[2]: file for file in await session.workbench.files.list_in_context()}
    assert set(known) == {"x.py", "AGENTS.md", "more.md"}
    finished = [event.data for event in session.record.log.after(0) if event.kind == "toolFinished"]
    assert "rule of sub" not in str(finished)


async def test_two_reads_at_once_show_the_rules_once(make_stage: Any) -> None:
    stage = await a_stage(
        make_stage,
        [Call("read", {"path": "sub/x.py"}, "c1"), Call("read", {"path": "sub/y.py"}, "c2")],
        files={"sub/AGENTS.md": "rule of sub", "sub/x.py": "x", "sub/y.py": "y"},
    )
    await stage.ask(await stage.session(), "1")
    assert results(stage).count("rule of sub") == 1


async def test_the_rules_of_a_result_that_was_blanked_move_to_the_system_prompt(make_stage: Any) -> None:
    stage = await a_stage(
        make_stage,
        [Call("read", {"path": "sub/x.py"}, "c1")],
        files={"sub/AGENTS.md": "rule of sub", "sub/x.py": "x"},
    )
    session = await stage.session()
    await stage.ask(session, "1")
    blank = ToolTurn((ToolResultBlock("c1", "[cleared]", is_error=False),))
    entries = [
        entry_with_turn(each, blank) if each.kind == "tool" else each
        for each in session.record.history.current
    ]
    await session.record.history.replace(await session.record.history.prepare_branch(entries))
    await stage.ask(session, "2")
    assert "rule of sub" in systems(stage)[-1]


async def test_any_number_of_imports_costs_a_bounded_number_of_looks(make_stage: Any) -> None:
    stage = await a_stage(make_stage, files={"AGENTS.md": " ".join(f"@{n}.md" for n in range(100_000))})
    looked: list[int] = []
    find_existing = stage.workspace.find_existing

    async def count(paths: Any) -> Any:
        looked.append(len(paths))
        return await find_existing(paths)

    stage.workspace.find_existing = count
    session = await stage.session()
    await stage.ask(session, "1")
    assert max(looked) <= MAX_IMPORTS
    assert notices(session).count("is not used") <= MAX_IMPORTS


async def test_a_call_that_fails_shows_no_rules(make_stage: Any) -> None:
    stage = await a_stage(
        make_stage, [Call("read", {"path": "sub/none.py"}, "c1")], files={"sub/AGENTS.md": "rule of sub"}
    )
    session = await stage.session()
    await stage.ask(session, "1")
    await stage.ask(session, "2")
    assert "rule of sub" not in results(stage) + systems(stage)[-1]


async def a_compacted_read(make_stage: Any, engine: str) -> tuple[Any, Session]:
    stage = await a_stage(
        make_stage,
        [Call("read", {"path": "sub/x.py"}, "c1")],
        *[[Say(LONG)]] * 3,
        [Say(NOTES)],
        files={"sub/AGENTS.md": "rule of sub", "sub/x.py": "x = 1\n"},
    )
    session = await stage.session(engine=engine)
    for prompt in ("one", "two", "three"):
        await stage.ask(session, prompt)
    done = await session.compact(CompactionRequest()).outcome
    assert done.status == "completed"
    return stage, session


@pytest.mark.parametrize("engine", ["windowBudget", "runtime", "agentcore", "summarizing"])
async def test_after_a_compaction_the_rules_of_a_folder_are_still_known(make_stage: Any, engine: str) -> None:
    stage, session = await a_compacted_read(make_stage, engine)
    await stage.ask(session, "four")
    assert "rule of sub" in systems(stage)[-1] + results(stage)
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    await stage.ask(loaded, "five")
    assert "rule of sub" in systems(stage)[-1] + results(stage)


async def test_after_an_undo_the_rules_of_a_folder_are_where_they_were(make_stage: Any) -> None:
    stage, session = await a_compacted_read(make_stage, "runtime")
    await stage.ask(session, "four")
    assert "rule of sub" in systems(stage)[-1]
    await session.undo(None, force=False, expect_head=None)
    await stage.ask(session, "five")
    assert "rule of sub" not in systems(stage)[-1]
    assert "rule of sub" in results(stage)


async def test_rules_that_changed_since_they_were_shown_are_shown_as_they_are_now(make_stage: Any) -> None:
    stage = await a_stage(
        make_stage,
        [Call("read", {"path": "sub/x.py"}, "c1")],
        files={"sub/AGENTS.md": "old rule", "sub/x.py": "x"},
    )
    session = await stage.session()
    await stage.ask(session, "1")
    stage.workspace.put(stage.folder / "sub" / "AGENTS.md", "new rule")
    await stage.ask(session, "2")
    assert "new rule" in systems(stage)[-1]


async def test_the_usage_and_the_command_list_the_files_with_their_sizes(
    make_stage: Any, tmp_path: Path
) -> None:
    stage = await a_stage(
        make_stage,
        [Call("read", {"path": "sub/x.py"}, "c1")],
        files={
            "../state/AGENTS.md": "user",
            "AGENTS.md": "long rule " * 5_000,
            "sub/AGENTS.md": "sub",
            "sub/x.py": "x",
        },
        home=tmp_path / "state",
    )
    session = await stage.session()
    await stage.ask(session, "1")
    found = session.window.request.usage(detail=True).rules
    assert found is not None
    assert [(each.scope, each.in_system, each.size_bytes) for each in found] == [
        ("user", True, 4),
        ("project", True, 50_000),
        ("folder", False, 3),
    ]
    assert [each.cut_chars > 0 for each in found] == [False, True, False]
    assert all(each.tokens > 0 for each in found)
    assert session.window.request.usage().rules is None
    told = str((await stage.ask(session, "/context")).text)
    assert f"- rules of AGENTS.md: {found[1].tokens:,} tokens in the system prompt, " in told
    assert f"- rules of sub/AGENTS.md: {found[2].tokens:,} tokens in the conversation" in told


async def test_a_file_that_is_written_into_a_folder_shows_its_rules_too(make_stage: Any) -> None:
    stage = await a_stage(
        make_stage,
        [Call("write", {"path": "sub/new.py", "content": "x = 1\n"}, "c1")],
        files={"sub/CLAUDE.md": "rule of sub"},
    )
    session = await stage.session()
    submitted = await session.submit(text("1"))
    await submitted.outcome
    assert ("rule of sub" in results(stage)) == ("wrote" in results(stage).lower())
