"""The rules of a user over time: found, taken back by later words, disputed where that is not clear."""

from __future__ import annotations

import pytest

from sidecar.window_budget.rules import Rulings, find_statements

REVOKED = [
    ("English", "Never push to main.", "You may push to main now."),
    ("English", "Don't touch src/legacy.py.", "It's fine to touch src/legacy.py now."),
    ("English", "No new dependencies.", "Go ahead and add new dependencies."),
    ("English", "Never rename parser_0_0, other teams import it.", "You can rename parser_0_0 now."),
    ("English", "Always run the linter before you commit.", "You no longer need to run the linter."),
    ("English", "Always use tabs.", "Never use tabs."),
    ("English", "Keep functions under 20 lines.", "Keep functions under 40 lines."),
    ("English", "Use tabs for indentation, not spaces.", "Forget the rule about tabs."),
    ("English", "Do not deploy on Fridays.", "Deploying on Fridays is allowed now."),
    ("English", "Do not force-push.", "The ban on force-push no longer applies."),
    ("German", "Fass vendor/ niemals an.", "Du darfst vendor/ jetzt anfassen."),
    ("German", "Push niemals auf main.", "Du darfst jetzt auf main pushen."),
    ("German", "Keine neuen Abhängigkeiten.", "Neue Abhängigkeiten sind jetzt erlaubt."),
    ("German", "Verwende immer Tabs.", "Die Regel mit den Tabs gilt nicht mehr."),
    ("Spanish", "Nunca toques vendor/lib.c.", "Ahora puedes tocar vendor/lib.c."),
    ("Spanish", "No modifiques la API pública.", "Ya puedes modificar la API pública."),
    ("French", "Ne touche jamais à vendor/lib.c.", "Tu peux toucher à vendor/lib.c maintenant."),
    ("French", "Ne modifie pas l'API publique.", "Maintenant tu peux modifier l'API publique."),
    ("Portuguese", "Nunca altere config.yml.", "Agora você pode alterar config.yml."),
    ("Italian", "Non toccare la cartella vendor.", "Ora puoi toccare la cartella vendor."),
    ("Russian", "Никогда не трогай каталог vendor.", "Теперь можно трогать каталог vendor."),
    ("Russian", "Не меняй публичный API.", "Теперь можешь менять публичный API."),
    ("Chinese", "不要修改公共接口。", "现在可以修改公共接口了。"),
    ("Chinese", "禁止推送到 main。", "现在可以推送到 main。"),
    ("Japanese", "vendorには触らないでください。", "vendorに触ってもいいです。"),
    ("Japanese", "mainにプッシュしないでください。", "今はmainにプッシュしてもいいです。"),
    ("Korean", "main에 푸시하지 마세요.", "이제 main에 푸시해도 됩니다."),
]

KEPT = [
    ("Never push to main.", "You may run the tests now."),
    ("Never push to main.", "Never push to release."),
    ("Never push to main.", "You may not push to main, not even now."),
    ("Never touch api.py.", "You may touch store.py now."),
    ("Always run the linter.", "Always run the tests."),
    ("Never edit files in vendor/ or third_party/.", "You may edit files in docs/ now."),
    ("Fass vendor/ niemals an.", "Du darfst vendor/ auch jetzt nicht anfassen."),
    ("Nunca toques api.py.", "Puedes leer los tests."),
    ("不要修改公共接口。", "可以运行测试。"),
]

UNCLEAR = [
    ("Never push to main.", "You may push now."),
    ("Never push to main or to release.", "You may push to main now."),
]


def rulings_of(*sentences: str) -> Rulings:
    rulings = Rulings()
    for number, sentence in enumerate(sentences):
        for statement in find_statements(sentence):
            rulings.add(f"{number}", statement)
    return rulings


@pytest.mark.parametrize(("language", "rule", "later"), REVOKED)
def test_a_later_word_takes_a_rule_back(language: str, rule: str, later: str) -> None:
    assert [each.statement.text for each in rulings_of(rule).all()] == [rule], language
    first = next(iter(rulings_of(rule, later).all()))
    assert (first.statement.text, first.ended_by) == (rule, "1")


@pytest.mark.parametrize(("rule", "later"), KEPT)
def test_a_word_about_something_else_leaves_a_rule_alone(rule: str, later: str) -> None:
    first = next(iter(rulings_of(rule, later).all()))
    assert (first.statement.text, first.ended_by, first.disputed_by) == (rule, None, [])


@pytest.mark.parametrize(("rule", "later"), UNCLEAR)
def test_where_it_is_not_clear_the_rule_stands_and_is_disputed(rule: str, later: str) -> None:
    first = next(iter(rulings_of(rule, later).all()))
    assert (first.statement.text, first.ended_by, first.disputed_by) == (rule, None, ["1"])


def test_a_rule_that_was_taken_back_can_be_set_again() -> None:
    rulings = rulings_of("Never push to main.", "You may push to main now.", "Never push to main.")
    assert [(each.key, each.ended_by) for each in rulings.all()] == [("0", "1"), ("2", None)]


def test_the_same_rule_twice_is_one_rule() -> None:
    rulings = rulings_of("Never push to main.", "never push to main!")
    assert [each.key for each in rulings.all()] == ["0"]


def test_one_sentence_may_allow_one_thing_and_forbid_another() -> None:
    rulings = rulings_of("Never push to main.", "You may push to main now, but never force-push.")
    assert [(each.statement.text, each.ended_by) for each in rulings.all()] == [
        ("Never push to main.", "1"),
        ("You may push to main now, but never force-push.", None),
    ]


def test_the_one_rule_among_many_alike_is_found() -> None:
    rules = [f"Never rename module_{number} of the package." for number in range(500)]
    rulings = rulings_of(*rules, "You may rename module_490 of the package now.")
    assert [each.key for each in rulings.all() if each.ended_by] == ["490"]


def test_a_rule_without_a_subject_before_its_comma_is_ended_by_no_other_rule() -> None:
    rulings = Rulings()
    said = "Es ist nicht erlaubt, importer_2 gegen prod laufen zu lassen.\na.rs bleibt wie es ist"
    for number, each in enumerate(find_statements(said)):
        rulings.add(str(number), each)
    assert [ruling.ended_by for ruling in rulings.all()] == [None, None]
