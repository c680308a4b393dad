"""Rules that choose among values of which only one can hold."""

from __future__ import annotations

import pytest

from sidecar.window_budget.choices import find_choice
from sidecar.window_budget.rules import Rulings, content_stems, state


def outcome_of(first: str, second: str) -> str:
    """What the second rule makes of the first one: "ends", "disputes", or "stands"."""
    rulings = Rulings()
    for key, text in (("0", first), ("1", second)):
        for statement in state(text, is_rule=True):
            rulings.add(key, statement)
    ruling = next(iter(rulings.all()))
    return "ends" if ruling.ended_by else "disputes" if ruling.disputed_by else "stands"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("use tabs", "use spaces"),
        ("Always use tabs.", "Indent with 4 spaces from now on."),
        ("Use tabs for the indentation.", "Use spaces instead of tabs."),
        ("Use tabs, never spaces.", "Use spaces, never tabs."),
        ("Use tabs not spaces.", "Use spaces not tabs."),
        ("Verwende immer Tabs zum Einrücken.", "Verwende immer Leerzeichen."),
        ("Usa siempre tabuladores.", "Usa siempre espacios."),
        ("Utilise toujours des tabulations.", "Utilise toujours des espaces."),
        ("Use sempre tabulações.", "Use sempre espaços."),
        ("Всегда используй табуляцию для отступов.", "Всегда используй пробелы для отступов."),
        ("始终使用制表符缩进。", "始终使用空格缩进。"),
        ("インデントには必ずタブを使ってください。", "インデントには必ずスペースを使ってください。"),
        ("항상 탭으로 들여쓰기하세요.", "항상 공백으로 들여쓰기하세요."),
        ("Use single quotes for strings.", "Use double quotes."),
        ("Use camelCase for variables.", "Use snake_case for variables."),
        ("Always use npm.", "Always use pnpm instead of npm."),
        ("Always answer in English.", "Always reply in German."),
        ("Antworte immer auf Deutsch.", "Antworte immer auf Englisch."),
    ],
)
def test_the_later_of_two_values_that_exclude_each_other_stands(first: str, second: str) -> None:
    assert (outcome_of(first, second), outcome_of(second, first)) == ("ends", "ends")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Use tabs in Makefiles.", "Use spaces in Python."),
        ("Put spaces around operators.", "Use tabs."),
        ("Never use tabs.", "Use spaces."),
        ("タブは使わないでください。", "スペースを使ってください。"),
        ("Use camelCase for variables.", "Use PascalCase for classes."),
        ("Answer in English.", "Write comments in German."),
        ("Use pytest for tests.", "Use ruff for linting."),
        ("Convert tabs and spaces alike.", "Use tabs."),
    ],
)
def test_values_for_different_things_stand_beside_each_other(first: str, second: str) -> None:
    assert (outcome_of(first, second), outcome_of(second, first)) == ("stands", "stands")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Always use pytest for tests.", "Use unittest for the test."),
        ("Nutze immer Redis für Sitzungen.", "Nutze Postgres für Sitzungen."),
    ],
)
def test_two_values_for_one_use_are_shown_as_a_conflict(first: str, second: str) -> None:
    """Both may hold, so both stand, and each names the other."""
    assert (outcome_of(first, second), outcome_of(second, first)) == ("disputes", "disputes")


def test_a_clause_without_a_clear_value_is_no_choice() -> None:
    for clause in ("Do not use tabs", "Tabs or spaces, I do not care", "Fix the parser", "Tabs and spaces"):
        assert find_choice(clause, content_stems) is None
