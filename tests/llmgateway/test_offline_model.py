"""``offline-1`` as a model: calls, cites, streams, stops when told, and says what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway import collect_reply
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    DoneEmission,
    ErrorEmission,
    Reply,
    StreamOptions,
    TextBlock,
    TextEmission,
    ToolCallBlock,
    ToolDescriptor,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.llmgateway.offline import offline_model
from turns import user

STATEMENT = "I am offline-1, the built-in model without network"
ARGUMENTS = {
    "read": ("path", "offset", "limit"),
    "grep": ("pattern", "path"),
    "ls": ("path",),
    "find": ("pattern",),
    "bash": ("command",),
    "write": ("path", "content"),
    "edit": ("path", "old_text", "new_text"),
    "todo": ("entries",),
}


def tools(*names: str) -> tuple[ToolDescriptor, ...]:
    return tuple(
        ToolDescriptor(name, "", {"type": "object", "properties": {each: {} for each in ARGUMENTS[name]}})
        for name in names
    )


ALL = tools(*ARGUMENTS)


async def reply_to(
    *turns: Turn, offered: tuple[ToolDescriptor, ...] = ALL, options: StreamOptions | None = None
) -> Reply:
    conversation = Conversation(turns, system="be good", tools=offered)
    return await collect_reply(offline_model()(conversation, options or StreamOptions()))


def calls_of(reply: Reply) -> list[tuple[str, Any]]:
    return [(block.name, block.input) for block in reply.blocks if isinstance(block, ToolCallBlock)]


def text_of(reply: Reply) -> str:
    return "".join(block.text for block in reply.blocks if isinstance(block, TextBlock))


Answers = Mapping[str, Callable[[Any], tuple[Any, bool]]]


async def run(prompt: str, answers: Answers, *before: Turn) -> tuple[list[list[tuple[str, Any]]], str]:
    """Play the agent loop; return the calls of each round and the final text."""
    turns: list[Turn] = [*before, user(prompt)]
    rounds: list[list[tuple[str, Any]]] = []
    offered = tools(*answers)
    while True:
        reply = await reply_to(*turns, offered=offered)
        calls = [block for block in reply.blocks if isinstance(block, ToolCallBlock)]
        if not calls:
            return rounds, text_of(reply)
        rounds.append(calls_of(reply))
        results = [ToolResultBlock(call.id, *answers[call.name](call.input)) for call in calls]
        turns += [AssistantTurn(reply.blocks), ToolTurn(tuple(results))]


def says(output: Any, *, is_error: bool = False) -> Callable[[Any], tuple[Any, bool]]:
    return lambda arguments: (output, is_error)


@pytest.mark.parametrize(
    ("prompt", "calls"),
    [
        pytest.param("look at src/app.py", [("read", {"path": "src/app.py"})], id="a named path is read"),
        pytest.param(
            "see src/app.py:40",
            [("read", {"path": "src/app.py", "offset": 32, "limit": 17})],
            id="a named line is read with what is around it",
        ),
        pytest.param("where is `a.b(c)`?", [("grep", {"pattern": r"a\.b\(c\)"})], id="a term is literal"),
        pytest.param("run `make test`", [("bash", {"command": "make test"})], id="run calls bash"),
        pytest.param("write a.md: hi", [("write", {"path": "a.md", "content": "hi"})], id="write calls it"),
        pytest.param(
            "edit a.py: replace `x` with `y`", [("read", {"path": "a.py"})], id="an edit begins with a look"
        ),
        pytest.param(
            "todo: a; b",
            [("todo", {"entries": [{"content": each, "status": "pending"} for each in "ab"]})],
            id="todo items become a plan",
        ),
        pytest.param("what is in src/?", [("ls", {"path": "src/"})], id="a folder is listed"),
        pytest.param(
            "timeouts, handled",
            [("ls", {}), ("grep", {"pattern": "[Tt]imeout"}), ("grep", {"pattern": "[Hh]andled"})],
            id="otherwise it looks around and searches the rarest words",
        ),
        pytest.param("thanks!", [], id="small talk calls nothing"),
        pytest.param("remember: tabs", [], id="remembering calls nothing"),
    ],
)
async def test_opening_calls(prompt: str, calls: list[tuple[str, Any]]) -> None:
    reply = await reply_to(user(prompt))
    assert calls_of(reply) == calls
    assert reply.stop == ("tool_calls" if calls else "complete")


async def test_without_tools_the_answer_states_it() -> None:
    reply = await reply_to(user("look at a.py"), offered=())
    assert text_of(reply).startswith("No tool that I could use for this was offered")
    assert reply.stop == "refusal"


async def test_tool_choice_none_is_obeyed() -> None:
    reply = await reply_to(user("look at a.py"), options=StreamOptions(tool_choice="none"))
    assert calls_of(reply) == []


async def test_at_most_four_calls_in_a_round() -> None:
    reply = await reply_to(user(" ".join(f"`term_{i}`" for i in range(9))))
    assert len(calls_of(reply)) == 4


async def test_lines_are_cited_best_first_and_bounded() -> None:
    source = "\n".join(f"{i:6}\tx = load_config({i})" for i in range(1, 40)) + "\n    40\tdef load_config():"
    _, text = await run("where is load_config in src/app.py?", {"read": says(source)})
    cited = [line for line in text.split("\n") if line.startswith("- `")]
    assert cited[0] == "- `src/app.py:40` def load_config():"
    assert cited[1] == "- `src/app.py:1` x = load_config(1)"
    assert len(cited) == 12
    assert STATEMENT in text


async def test_a_file_that_is_elsewhere_is_found_and_read() -> None:
    def read(arguments: Any) -> tuple[str, bool]:
        found = arguments["path"] == "deep/down/app.py"
        return ("     1\tdef main():", False) if found else ("no such file", True)

    rounds, text = await run("look at app.py", {"read": read, "find": says("deep/down/app.py\ndeep/app.pyc")})
    assert rounds == [
        [("read", {"path": "app.py"})],
        [("find", {"pattern": "app.py"})],
        [("read", {"path": "deep/down/app.py"})],
    ]
    assert "`deep/down/app.py:1` def main():" in text


async def test_nothing_found_tries_the_parts_and_then_answers_with_help() -> None:
    rounds, text = await run("look at `fooBarBaz`", {"grep": says("no matches")})
    assert rounds == [
        [("grep", {"pattern": "fooBarBaz"})],
        [("grep", {"pattern": pattern}) for pattern in ("[Ff]oo", "[Bb]ar", "[Bb]az")],
    ]
    assert text.startswith("I found nothing for `fooBarBaz` in 4 lookups. Name a file and I read it")


@pytest.mark.parametrize(
    ("question", "heading"),
    [
        ("Wo ist plain_key definiert?", "Found for `plain_key`:"),
        ("Où est définie la fonction plain_key ?", "Found for `plain_key`:"),
        ("plain_key はどこで使われていますか", "Found for `plain_key`:"),
        ("Was macht die Datei keys.py?", "Found for the files you named:"),
        ("¿Qué hace keys.py?", "Found for the files you named:"),
    ],
)
async def test_a_question_in_any_language_is_answered_by_the_names_in_it(question: str, heading: str) -> None:
    grep = says("keys.py:1: def plain_key(text):")
    _, text = await run(question, {"grep": grep, "read": says("     1\tdef plain_key(text):")})
    assert text.startswith(f"{heading}\n\n- `keys.py:1` def plain_key(text):")


async def test_a_question_that_names_nothing_is_told_what_can_be_found() -> None:
    answers = {"grep": says("no matches"), "ls": says("README.md"), "find": says("README.md")}
    _, text = await run("Was ist dieses Projekt?", answers)
    assert "README.md" in text
    assert "In any language I find the files, symbols and words of the project" in text


async def test_an_edit_follows_a_look_at_the_file() -> None:
    answers = {"read": says("     1\tx"), "edit": says("Edited a.py: 1 replacement")}
    rounds, text = await run("edit a.py: replace `x` with `y`", answers)
    assert rounds[1] == [("edit", {"path": "a.py", "old_text": "x", "new_text": "y"})]
    assert "Edited a.py: 1 replacement" in text


async def test_a_command_is_not_followed_by_a_search_for_the_words_around_it() -> None:
    rounds, _ = await run(
        "run `git diff` and describe the result", {"bash": says("[exit 0]"), "grep": says("")}
    )
    assert rounds == [[("bash", {"command": "git diff"})]]


async def test_an_edit_of_an_unreadable_file_is_not_tried() -> None:
    answers = {"read": says("no such file: a.py", is_error=True), "edit": says("never")}
    rounds, text = await run("edit a.py: replace `x` with `y`", answers)
    assert len(rounds) == 1
    assert "read a.py failed: no such file: a.py" in text


async def test_the_reason_of_a_failure_is_shown_behind_a_long_path() -> None:
    reason = f"cannot write {'/a-long-name' * 20}/a.md: it has unsaved changes"
    _, text = await run("write a.md: hi", {"write": says(reason, is_error=True)})
    assert f"write a.md failed: {reason}" in text


async def test_the_output_of_a_command_is_shown_from_its_end() -> None:
    _, text = await run("run `seq 30`", {"bash": says("\n".join(map(str, range(1, 31))))})
    assert "`seq 30` answered:" in text
    assert "... 10 lines before\n11\n" in text


async def test_tool_answers_in_json_are_read_as_text() -> None:
    _, text = await run("`rate`", {"grep": says([{"type": "text", "text": "a.py:1: rate"}])})
    assert "`a.py:1` rate" in text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        pytest.param("rate_limit = 2  # rate", "rate_limit = 2  # rate", id="a plain line"),
        pytest.param("__rate__ = '_'", "`__rate__ = '_'`", id="underscores around a word"),
        pytest.param("rate = 2 * 3", "`rate = 2 * 3`", id="a star"),
        pytest.param("List<T> rate", "`List<T> rate`", id="an angle bracket"),
        pytest.param("`rate` is", "`` `rate` is ``", id="code"),
    ],
)
async def test_a_cited_line_is_shown_as_it_is(line: str, shown: str) -> None:
    _, text = await run("`rate`", {"grep": says(f"a.py:1: {line}")})
    assert f"- `a.py:1` {shown}\n" in text


async def test_the_help_shows_the_marks_that_a_command_needs() -> None:
    _, text = await run("hello", {})
    assert "```\nrun `COMMAND`\n" in text


async def test_call_ids_are_distinct_within_a_conversation_and_the_same_next_time() -> None:
    first = await reply_to(user("look at a.py and b.py"))
    turns: list[Turn] = [user("look at a.py and b.py"), AssistantTurn(first.blocks), user("look at c.py")]
    ids = [block.id for block in first.blocks if isinstance(block, ToolCallBlock)]
    second = await reply_to(*turns)
    ids += [block.id for block in second.blocks if isinstance(block, ToolCallBlock)]
    assert ids == ["offline-1", "offline-2", "offline-3"]
    assert await reply_to(*turns) == second


async def test_a_prompt_behind_a_digest_is_still_the_prompt() -> None:
    blocks = (
        TextBlock("[condensed earlier context]\n# Requests\n- look at old.py"),
        TextBlock("look at a.py"),
    )
    restored = user("[Restored file after compaction] x.py\nread y.py")
    assert calls_of(await reply_to(UserTurn(blocks), restored)) == [("read", {"path": "a.py"})]


async def test_it_streams_in_many_small_deltas_that_add_up() -> None:
    channel = offline_model()(Conversation((user("hello"),)), StreamOptions())
    emissions = [each async for each in channel]
    deltas = [each.delta for each in emissions if isinstance(each, TextEmission)]
    done = emissions[-1]
    assert isinstance(done, DoneEmission)
    assert isinstance(done.reply, Reply)
    assert max(len(delta.split()) for delta in deltas) <= 3
    assert "".join(deltas) == text_of(done.reply)
    assert [each.kind for each in emissions[-3:]] == ["usage", "stop", "done"]
    assert done.reply.usage.output_tokens == -(-len(text_of(done.reply)) // 4)


async def test_cancel_is_honoured_within_one_delta() -> None:
    token = CancelToken()
    seen = []
    async for emission in offline_model()(Conversation((user("hello"),)), StreamOptions(cancel=token)):
        seen.append(emission)
        token.cancel()
    assert [each.kind for each in seen] == ["text", "error"]
    assert isinstance(seen[-1], ErrorEmission)
    assert seen[-1].error.kind == "aborted"


async def test_max_output_tokens_cuts_the_text() -> None:
    reply = await reply_to(user("hello"), options=StreamOptions(max_output_tokens=5))
    assert (len(text_of(reply)), reply.stop) == (20, "max_output")


async def test_a_call_that_does_not_fit_the_limit_is_left_out_whole() -> None:
    reply = await reply_to(user("run `" + "x" * 200 + "`"), options=StreamOptions(max_output_tokens=80))
    assert (calls_of(reply), reply.stop) == ([], "max_output")
