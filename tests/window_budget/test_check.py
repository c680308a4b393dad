"""The check of a model's summary: what is no summary, and lines that cannot be true."""

from __future__ import annotations

import pytest

from sidecar.window_budget.check import drop_unfounded, find_fault
from sidecar.window_budget.language import language_of

HEADINGS = ("Objective", "Guardrails", "Status", "Rationale", "Plan", "Carryover")
WHOLE = "".join(
    f"# {heading}\nThe parser of the importer is done and the tests have passed.\n" for heading in HEADINGS
)


@pytest.mark.parametrize(
    "reply",
    [
        "I cannot help with that.",
        "I'm sorry, but I can't summarise this conversation.",
        "Es tut mir leid, das kann ich nicht.",
        "Lo siento, no puedo ayudar con eso.",
        "抱歉，我无法完成这个请求。",
        "申し訳ありませんが、できません。",
        "I don't have any conversation to summarise.",
    ],
)
@pytest.mark.parametrize("headings", [HEADINGS, ()])
def test_a_refusal_is_no_summary(reply: str, headings: tuple[str, ...]) -> None:
    assert find_fault(reply, headings) == "it is a refusal"


@pytest.mark.parametrize(
    "reply",
    [
        "Sure! I have finished the lexer.",
        "好的，我已经完成了。",
        "Okay, what next?",
        "I've updated the parser. Let me know if you want anything else.",
        "The lexer is done. What should I do next?",
        "Here is the code you asked for: `x = 1`",
        "Ich habe den Lexer fertiggestellt.",
        "J'ai terminé le lexer.",
        "He terminado el lexer.",
        "Я закончил лексер.",
        "レキサーを完成させました。次は何をしますか？",
    ],
)
def test_an_answer_to_the_user_is_no_summary(reply: str) -> None:
    assert find_fault(reply) == "it answers the user instead of summarising"


def test_signs_alone_are_no_summary() -> None:
    assert find_fault("{}") == find_fault(" ... ") == "it has no words"


@pytest.mark.parametrize(
    "reply",
    [
        "The user asked to fix the lexer; it was fixed in lexer.py. Next: the tests.",
        "Here is the summary: the user wants a lexer.",
        "- I have fixed the lexer\n- tests are next",
        "# Status\nI have fixed the lexer. Is it fast?",
        "It is open which parser is wanted? " * 30,
        "der Lexer ist fertig, die Tests laufen",
    ],
)
def test_a_short_summary_may_stand(reply: str) -> None:
    assert find_fault(reply, ("Status",)) is None


def test_a_summary_that_begins_with_the_first_heading_comes_to_the_last() -> None:
    assert find_fault(WHOLE, HEADINGS) is None
    assert find_fault(WHOLE[: WHOLE.index("# Plan")], HEADINGS) == "it ends before its last heading"
    assert find_fault("The work went well. " * 60, HEADINGS) is None


def test_a_summary_is_in_the_language_of_the_user() -> None:
    assert find_fault(WHOLE, HEADINGS, "German") == "it is written in English and not in German"
    assert find_fault(WHOLE, HEADINGS, "English") is None
    assert find_fault(WHOLE, HEADINGS, None) is None


SOURCE = "we fixed src/app/a.py with `make check FAST=1`, at deadbee1, version 1.2.3; server.py listens"


@pytest.mark.parametrize(
    "line",
    [
        "- fixed src/app/a.py",
        "- fixed /home/x/src/app/a.py",
        "- fixed `src/app/a.py`",
        "- ran `make check`",
        "- commit deadbee1 has version 1.2.3",
        "- server.py listens",
        "- nothing else was done",
        "- the read/write path of TCP/IP, client/server and/or red/green/blue",
    ],
)
def test_a_line_with_names_that_occur_stays(line: str) -> None:
    assert drop_unfounded(line, SOURCE.__contains__) == (line, ())


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("- fixed src/app/b.py", "src/app/b.py"),
        ("- ran `make ship-it now`", "make ship-it now"),
        ("- commit 0badc0de", "0badc0de"),
        ("- version 9.9.9 is out", "9.9.9"),
        ("- client.py is new", "client.py"),
        ("- it lies in /etc/made-up", "/etc/made-up"),
        ("- it lies in ./made/up", "./made/up"),
    ],
)
def test_a_line_with_an_invented_name_goes(line: str, name: str) -> None:
    kept, dropped = drop_unfounded(f"# Status\n{line}\n- done", SOURCE.__contains__)
    assert kept == "# Status\n- done"
    assert dropped == (f"{line}: {name} occurs nowhere",)


def test_a_line_that_turns_a_rule_round_goes() -> None:
    rules = ["Never push commits to main.", "Fasse den Ordner vendor nicht an."]
    digest = "# Guardrails\n- Always push commits to main\n- Never push commits to main.\n- Push often"
    kept, dropped = drop_unfounded(digest, SOURCE.__contains__, rules)
    assert kept == "# Guardrails\n- Never push commits to main.\n- Push often"
    assert dropped == ("- Always push commits to main: the rule is: Never push commits to main.",)


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("Never push to main.", "- pushing to main is allowed"),
        ("Never push to main.", "- The user wants changes pushed directly to main."),
        ("Don't use mocks in the tests.", "- The user prefers mocks in tests, with fixtures"),
        ("Always run the linter.", "- No need to run the linter"),
        ("Niemals die Datei config.yml ändern.", "- Die Datei config.yml ändern"),
        ("Ne modifie jamais le fichier schema.sql.", "- Le fichier schema.sql peut être modifié"),
        ("不要修改数据库迁移文件。", "- 可以修改数据库迁移文件"),
        ("Only use tabs, no spaces.", "- Indent with spaces instead of tabs."),
        ("Answer in German.", "- answer in English"),
    ],
)
def test_a_line_that_turns_a_rule_round_is_dropped_in_any_words(rule: str, line: str) -> None:
    assert drop_unfounded(line, lambda _: True, [rule]) == ("", (f"{line}: the rule is: {rule}",))


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("Never push to main.", "- do not push to main"),
        ("Never push to main.", "- pushed the topic branch; main is untouched"),
        ("Don't use mocks in the tests.", "- tests avoid mocks"),
        ("Niemals die Datei config.yml ändern.", "- Die Datei config.yml wird nie geändert"),
        ("Only use tabs, no spaces.", "- main.py uses spaces"),
    ],
)
def test_a_line_that_agrees_with_a_rule_stays(rule: str, line: str) -> None:
    assert drop_unfounded(line, lambda _: True, [rule]) == (line, ())


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The parser is not fast enough and we know that it is the reading of the lines.", "English"),
        ("El analizador no es rápido y ya sabemos que la causa está en las líneas que se leen.", "Spanish"),
        (
            "Le parseur est lent et nous savons que la cause est dans la lecture des lignes du fichier.",
            "French",
        ),
        (
            "O parser não está rápido e a causa é a leitura das linhas que vem do arquivo com os dados.",
            "Portuguese",
        ),
        ("Парсер работает медленно, и мы знаем почему: он читает каждую строку по два раза.", "Russian"),
        ("解析器太慢了，我们知道原因：每一行都被读取了两次，需要修复这个问题。", "Chinese"),
        ("パーサーが遅いです。各行が二回読まれているのが原因だと分かっています。", "Japanese"),
        ("파서가 느립니다. 각 줄을 두 번 읽는 것이 원인이라는 것을 알고 있습니다.", "Korean"),
        ("src/app/a.py src/app/b.py src/app/c.py src/app/d.py src/app/e.py", None),
        ("ok", None),
    ],
)
def test_a_language_is_known_by_script_and_common_words(text: str, language: str | None) -> None:
    assert language_of(text) == language
