"""The user's rules in their settings file: added and removed for good, with everything else as it was."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.llmgateway.user_rules import SettingsError, UserRules
from sidecar.permissions.rules import parse_rules

ONE_A_LINE = """model = "m"

[permissions]  # mine
allow = [
  "a *",  # one, with "quotes" ]
  "b",
]

[models.x]
name = "y"
"""
IN_TEXT = 'summarizer = """\n[permissions]\nallow = ["no"]\n"""\n'


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        pytest.param(None, ("a",), id="there is no file"),
        pytest.param("", ("a",), id="it is empty"),
        pytest.param('model = "m"', ("a",), id="there is no table, and no end of the line"),
        pytest.param("[permissions]", ("a",), id="the table is empty"),
        pytest.param('[permissions]\ndeny = ["x"]\n', ("a",), id="there is another list"),
        pytest.param("[permissions]\nallow = []\n", ("a",), id="the list is empty"),
        pytest.param('[permissions]\r\nallow = ["b"]\r\n', ("a", "b"), id="lines of Windows"),
        pytest.param(ONE_A_LINE, ("a", "a *", "b"), id="one a line, with comments"),
        pytest.param(IN_TEXT, ("a",), id="a text that looks like a table"),
    ],
)
def test_a_rule_is_added_and_removed_and_all_else_stays(
    tmp_path: Path, text: str | None, allowed: tuple[str, ...]
) -> None:
    config, rules = tmp_path / "config.toml", UserRules(tmp_path)
    if text is not None:
        config.write_text(text, newline="")
    before = tomllib.loads(text or "")
    rules.change("allow", "a")
    assert rules.read() == parse_rules(allowed, before.get("permissions", {}).get("deny", []))
    rules.change("allow", "a")
    assert config.read_text().count('"a"') == 1
    rules.change("allow", "a", remove=True)
    after = tomllib.loads(config.read_text())
    left = after.pop("permissions")
    theirs = before.pop("permissions", {})
    assert after == before
    assert {name: listed for name, listed in left.items() if listed} == {k: v for k, v in theirs.items() if v}
    if text is ONE_A_LINE:
        assert '"a *",  # one, with "quotes" ]' in config.read_text()


@pytest.mark.parametrize("rule", ["a *", "b"])
def test_a_rule_among_others_is_removed(tmp_path: Path, rule: str) -> None:
    (tmp_path / "config.toml").write_text(ONE_A_LINE)
    rules = UserRules(tmp_path)
    rules.change("allow", rule, remove=True)
    assert [each.text for each in rules.read().allow] == [each for each in ("a *", "b") if each != rule]


@pytest.mark.parametrize(
    "text", ["[permissions\n", "model = gpt-5\n", 'permissions = "x"\n', "[permissions]\nallow = 5\n"]
)
def test_a_file_with_a_mistake_stays_as_it_is(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(SettingsError, match="mistake") as caught:
        UserRules(tmp_path).change("deny", "git push")
    assert "correct it" in str(caught.value.hint)
    assert (tmp_path / "config.toml").read_text() == text


def test_a_form_that_cannot_be_changed_is_left_and_the_line_to_write_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('permissions = {deny = ["x"]}\n')
    with pytest.raises(SettingsError) as caught:
        UserRules(tmp_path).change("deny", "git push")
    assert caught.value.hint == 'write by hand: [permissions] deny = ["git push", "x"]'
    assert (tmp_path / "config.toml").read_text() == 'permissions = {deny = ["x"]}\n'


def test_what_is_no_rule_is_refused_with_the_next_step(tmp_path: Path) -> None:
    rules = UserRules(tmp_path)
    with pytest.raises(InvalidInput, match="one plain command") as wrong:
        rules.change("allow", "a && b")
    assert "edit: docs/**" in str(wrong.value.hint)
    with pytest.raises(InvalidInput, match="no rule 'b' is set to allow") as unknown:
        rules.change("allow", "b", remove=True)
    assert unknown.value.hint == "the rules are: none"
    assert not (tmp_path / "config.toml").exists()


def test_a_change_by_hand_is_seen(tmp_path: Path) -> None:
    rules = UserRules(tmp_path)
    rules.change("deny", "git push")
    (tmp_path / "config.toml").write_text('[permissions]\ndeny = ["rm", "git push -f"]\n')
    assert rules.read() == parse_rules((), ("rm", "git push -f"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
def test_a_new_file_is_the_users_alone(tmp_path: Path) -> None:
    UserRules(tmp_path).change("deny", "git push")
    assert (tmp_path / "config.toml").stat().st_mode & 0o777 == 0o600


def test_a_mistake_elsewhere_does_not_keep_a_rule_out(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("# mine\nmodle = 5\n")
    UserRules(tmp_path).change("deny", "git push")
    assert [each.text for each in UserRules(tmp_path).read().deny] == ["git push"]
