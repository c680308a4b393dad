"""Rules and decisions by their words, in ten languages."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidecar.window_budget.rule_words as rule_words
from sidecar.window_budget import wording
from sidecar.window_budget.wording import (
    find_permission,
    find_rule_words,
    load_words,
    sets_rule,
    states_decision,
)

FRAGMENTS = re.findall(
    r"[\w' ]{2,30}",
    "|".join(each for each in (vars(wording) | vars(rule_words)).values() if type(each) is str),
)


@pytest.mark.parametrize(
    "sentence",
    [
        "Never touch the vendored code.",
        "Hands off src/legacy.",
        "No new dependencies.",
        "The config format has to stay as it is.",
        "Use tabs, not spaces.",
        "Fasse vendor/ nicht an.",
        "Ab jetzt nur noch Port 8080.",
        "Keine neuen Abhängigkeiten.",
        "Du darfst die API nicht ändern.",
        "Nunca toques el código de terceros.",
        "No modifiques la API pública.",
        "Ne touche jamais au dossier vendor.",
        "Ne modifie pas l'API publique.",
        "Não altere a API pública.",
        "Non toccare la cartella vendor.",
        "Никогда не меняй публичный API.",
        "Не трогай каталог vendor.",
        "不要修改公共接口。",
        "所有时间戳必须用毫秒。",
        "vendorには触らないでください。",
        "公開APIは必ず互換性を保つこと。",
        "공개 API를 절대 바꾸지 마세요.",
    ],
)
def test_a_rule_is_known_by_its_words(sentence: str) -> None:
    assert sets_rule(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Fix the parser and run the tests.",
        "What does this function return?",
        "No problem, go on.",
        "Repariere den Parser.",
        "Arregla el analizador.",
        "Corrige l'analyseur.",
        "Исправь парсер.",
        "修复解析器。",
        "パーサーを直してください。",
        "파서를 고쳐 주세요.",
    ],
)
def test_a_plain_request_is_no_rule(sentence: str) -> None:
    assert not sets_rule(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Decision: keep the ring buffer.",
        "I went with optimistic locking.",
        "Ich habe mich für SQLite entschieden.",
        "Decidí usar una cola.",
        "J'ai choisi une file d'attente.",
        "Optamos por uma fila.",
        "Я решил использовать очередь.",
        "决定采用环形缓冲区。",
        "リングバッファを採用することにしました。",
        "링 버퍼를 사용하기로 했습니다.",
    ],
)
def test_a_decision_is_known_by_its_words(sentence: str) -> None:
    assert states_decision(sentence)


@pytest.mark.parametrize(
    ("sentence", "allows"),
    [
        ("You can push to main now.", True),
        ("We can't leave it as it is.", False),
        ("You couldn’t push to main.", False),
        ("You may not push to main.", False),
    ],
)
def test_words_that_deny_a_permission_give_none(sentence: str, allows: bool) -> None:
    assert (find_permission(sentence) is not None) is allows


@given(st.lists(st.sampled_from([*FRAGMENTS, " ", ". ", "\n", "x", "不要", "’"]), max_size=12).map("".join))
def test_one_search_finds_what_a_search_for_each_kind_of_words_finds(text: str) -> None:
    """No word that begins inside the words before it is found twice, and none is passed over."""
    lower = text.lower().replace("’", "'")
    words = load_words()
    patterns = [words.rule, words.order, words.opening, words.bare, words.permission, words.withdrawal]
    kinds = [] if text.isascii() else ["RULE", "PERMISSION", "WITHDRAWAL"]
    patterns += (getattr(wording, f"_ASIAN_{kind}") for kind in kinds)
    spans = sorted(each.span() for pattern in patterns for each in pattern.finditer(lower))
    assert [*find_rule_words(text)] == (spans if len(lower) == len(text) else [(0, len(text))])
