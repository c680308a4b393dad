"""What ``sidecar permissions`` says: the rules, and which one decides about an action."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.cli import main

RULES = '[permissions]\nallow = ["npm run *", "edit: docs/**"]\ndeny = ["git push"]\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(RULES, encoding="utf-8")
    monkeypatch.setenv("INDUSAGI_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return home


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["git -C x push -f"], "is refused, because your rule 'git push' denies it"),
        (["npm run deploy"], "runs without a question, because your rule 'npm run *' allows it"),
        (["ls | head"], "runs without a question, because `ls` only reads; `head` only reads"),
        (["git add a"], '"always" would allow `git` add, commit, stash'),
        (["rm $x"], '"always" is not offered'),
        (["edit: docs/a.md"], "runs without a question, because your rule 'edit: docs/**' allows it"),
        (["edit: .envrc"], ".envrc is protected as start-up commands of a program"),
        (["make", "--mode", "plan"], "is refused, because the mode is plan, which allows only reading"),
    ],
)
def test_the_decision_and_its_reason(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["permissions", "test", *arguments]) == 0
    assert said in capsys.readouterr().out.replace("\n", " ")


def test_the_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions"]) == 0
    out = capsys.readouterr().out
    assert "deny  git push" in out
    assert "allow edit: docs/**" in out


def test_a_mistake_is_said(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    (home / "config.toml").write_text('[permissions]\nallow = ["a; b"]\n', encoding="utf-8")
    assert main(["permissions", "test", "ls"]) == 2
    assert "the rule 'a; b' must be one plain command" in capsys.readouterr().out.replace("\n", " ")
