"""The check of a model's summary: what is no summary, and lines that cannot be true."""

from __future__ import annotations

import pytest

from sidecar.conductor.window.compaction.check import (
    NOTE_CHARS,
    drop_unfounded,
    find_fault,
    is_in_other_language,
    plain_text,
    shorten_note,
)

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


TYPED = {
    "English": "The parser of the importer is slow and we know that it reads all of the lines. Mend it, and "
    "then write a test for this with the data from the other file, so that it has what is needed.",
    "German": "Der Parser ist nicht schnell genug, und wir wissen auch warum: das Lesen der Zeilen. Bitte "
    "behebe es, und schreib dann einen Test dazu mit den Daten aus der anderen Datei, so wie es soll.",
    "Chinese": "解析器太慢了，我们知道原因是每一行都被读取了两次。请修复这个问题，"
    "然后为它写一个测试，使用另一个文件里的数据，不要改变接口。",
    "Russian": "Парсер работает медленно, и мы знаем почему: он читает каждую строку по два раза. "
    "Исправь это и напиши потом тест для него с данными из другого файла, чтобы он был быстрый и не хуже.",
}
NOTES = {
    "English": "The user wants the parser to be fast. The reading of the lines was the cause, and it is "
    "mended. The test is the next step; it has the data of the other file.",
    "German": "Der Parser soll schnell werden. Die Ursache ist das Lesen der Zeilen, und es ist behoben. "
    "Der Test ist der nächste Schritt, mit den Daten der anderen Datei. Das ist noch nicht der Fall.",
    "Chinese": "用户要求修复解析器太慢的问题。原因是每一行被读取了两次，已经修复。"
    "下一步是写一个测试，使用另一个文件的数据。",
    "Russian": "Парсер был медленный, он читает строку по два раза, и это исправлено. Потом будет тест "
    "для него, и он с данными из другого файла. Мы не знаем, быстрый он или не быстрый.",
}


@pytest.mark.parametrize("typed", TYPED)
@pytest.mark.parametrize("note", NOTES)
def test_a_note_is_in_the_language_of_the_user(typed: str, note: str) -> None:
    assert is_in_other_language(NOTES[note], TYPED[typed]) is (typed != note)


def test_the_language_of_a_few_words_is_not_judged() -> None:
    assert not is_in_other_language(NOTES["German"], "fix the parser")
    assert not is_in_other_language("Fertig.", TYPED["English"])
    assert find_fault(NOTES["German"] * 6, HEADINGS, TYPED["English"]) is not None


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
        "- 12 tests pass, e.g. #411",
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
        ("- it listens on port 8081", "8081"),
        ("- it takes 3.75 s", "3.75"),
    ],
)
def test_a_line_with_an_invented_name_goes(line: str, name: str) -> None:
    kept, dropped = drop_unfounded(f"# Status\n{line}\n- done", SOURCE.__contains__)
    assert kept == "# Status\n- done"
    assert dropped == (f"{line}: {name} occurs nowhere",)


def test_a_line_that_says_a_rule_in_other_words_goes() -> None:
    rules = ["Never push commits to main.", "Fasse den Ordner vendor nicht an."]
    digest = "# Guardrails\n- Always push commits to main\n- Never push commits to main.\n- Push often"
    kept, dropped = drop_unfounded(digest, SOURCE.__contains__, rules)
    assert kept == "# Guardrails\n- Never push commits to main.\n- Push often"
    assert dropped == ("- Always push commits to main: the rule is: Never push commits to main.",)


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("Never push to main.", "- pushing to main is allowed"),
        ("Don't use mocks in the tests.", "- The user prefers mocks in tests, with fixtures"),
        ("Always run the linter.", "- Always skip the linter"),
        ("Niemals die Datei config.yml ändern.", "- Die Datei config.yml ändern"),
        ("Ne modifie jamais le fichier schema.sql.", "- Le fichier schema.sql peut être modifié"),
        ("不要修改数据库迁移文件。", "- 可以修改数据库迁移文件"),
        ("データベースの移行を変更しないでください。", "- データベースの移行を変更してもよい"),
    ],
)
def test_a_rule_said_in_other_words_is_dropped_in_any_language(rule: str, line: str) -> None:
    assert drop_unfounded(line, lambda _: True, [rule]) == ("", (f"{line}: the rule is: {rule}",))


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("Never push to main.", "- The user said: never push to main."),
        ("Only use tabs, no spaces.", "- main.py uses spaces"),
        ("Never push to main.", "- the branch was rebased on main, and the tests of the importer pass"),
        ("Always run the linter.", "- lint.py is new"),
    ],
)
def test_other_lines_stay(rule: str, line: str) -> None:
    assert drop_unfounded(line, lambda _: True, [rule]) == (line, ())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("- chose SQLite over Postgres", "We chose Postgres over SQLite, as it locks rows."),
        ("retry_limit: 30 -> 3", "set the retry_limit from 3 -> 30"),
        ("Wir nehmen Redis statt Kafka.", "Nimm bitte Kafka statt Redis."),
        ("use lodash rather than ramda", "I would use ramda rather than lodash here"),
    ],
)
def test_a_line_that_turns_two_names_round_goes(line: str, said: str) -> None:
    kept, dropped = drop_unfounded(f"{line}\nthe rest", lambda name: True, (), plain_text(said))
    assert kept == "the rest"
    assert len(dropped) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("the lexer and the parser", "the parser and the lexer"),
        ("chose Postgres over SQLite", "We chose Postgres over SQLite; not SQLite over Postgres."),
        ("chose SQLite over Postgres", "We chose SQLite over Redis."),
        ("lexer.py or parser.py", "parser.py or lexer.py"),
    ],
)
def test_names_in_an_order_of_their_own_stay(line: str, said: str) -> None:
    assert drop_unfounded(line, lambda name: True, (), plain_text(said)) == (line, ())


def test_a_long_note_keeps_its_headings_and_its_telling_lines() -> None:
    prose = ["All went as it should, and nothing else is to be said about that here."] * 80
    note = "\n".join(["# Status", *prose, "- src/parser.py:42 still fails", "# Plan", "- ship v1.2.3"])
    short = shorten_note(note)
    assert len(short) <= NOTE_CHARS
    assert [line for line in short.split("\n") if line not in prose] == [
        *("# Status", "- src/parser.py:42 still fails", "# Plan", "- ship v1.2.3")
    ]
    assert shorten_note("# Status\n- fine") == "# Status\n- fine"
    assert len(shorten_note("word " * 2_000)) <= NOTE_CHARS
