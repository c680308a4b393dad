"""Marks of a template in the text of an answer: reasoning and calls are taken out of it."""

from __future__ import annotations

from collections import deque
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measures import fastest
from sidecar.llmgateway.contract import DoneEmission, TextBlock, ThinkingBlock
from sidecar.llmgateway.providers.markup import IN_TEXT, MarkedAssembly, MarkedCall, MarkupReader, Prose

LS = MarkedCall("ls", '{"path": "."}')
CALL = '<tool_call>\n{"name": "ls", "arguments": {"path": "."}}\n</tool_call>'
CASES = [
    pytest.param("plain text", "", "plain text", [], id="plain text"),
    pytest.param("<think>hm</think>\n\nso", "hm", "so", [], id="reasoning at the beginning"),
    pytest.param("\n<think>hm</think>so", "hm", "so", [], id="reasoning after a blank line"),
    pytest.param("<think>hm", "hm", "", [], id="reasoning without an end"),
    pytest.param("<think></think>so", "", "so", [], id="empty reasoning"),
    pytest.param("Use <think> in XML", "", "Use <think> in XML", [], id="a mark in the middle is text"),
    pytest.param(f"I look.\n{CALL}", "", "I look.\n", [LS], id="a call"),
    pytest.param(CALL + "\n" + CALL, "", "\n", [LS, LS], id="two calls"),
    pytest.param(CALL.removesuffix("\n</tool_call>"), "", "", [LS], id="a call without an end"),
    pytest.param(f"<think>a</think>{CALL}", "a", "", [LS], id="reasoning, then a call"),
    pytest.param(
        '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
        "",
        '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
        [],
        id="no tool of that name",
    ),
    pytest.param("see `<tool_call>` here", "", "see `<tool_call>` here", [], id="a mark in a line is text"),
    pytest.param("<tool_call>no json</tool_call>", "", "<tool_call>no json</tool_call>", [], id="not a call"),
    pytest.param('[TOOL_CALLS][{"name": "ls", "arguments": {"path": "."}}]', "", "", [LS], id="a list"),
    pytest.param('[TOOL_CALLS]ls[ARGS]{"path": "."}', "", "", [LS], id="a name and arguments"),
    pytest.param('[TOOL_CALLS]ls{"path": "."}[TOOL_CALLS]ls{"path": "."}', "", "", [LS, LS], id="two names"),
    pytest.param("[TOOL_CALLS] is a mark", "", "[TOOL_CALLS] is a mark", [], id="a sentence about it"),
    pytest.param(
        "<tool_call><function=ls><parameter=path>\n.\n</parameter></function></tool_call>",
        "",
        "",
        [LS],
        id="a function with parameters",
    ),
    pytest.param(
        "I look.\n<function=ls>\n<parameter=path>\n.\n</parameter>\n</function>\n</tool_call>",
        "",
        "I look.\n",
        [LS],
        id="a function without the mark around it",
    ),
    pytest.param(
        "<function=ls><parameter=path>.</parameter></function>\nso", "", "\nso", [LS], id="a function alone"
    ),
    pytest.param(
        "<function=rm></function>", "", "<function=rm></function>", [], id="no function of that name"
    ),
    pytest.param(
        '<|python_tag|>{"name": "ls", "parameters": {"path": "."}}', "", "", [LS], id="a token of Llama"
    ),
    pytest.param(
        "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>"
        '{"path": "."}<|tool_call_end|><|tool_calls_section_end|>',
        "",
        "I look.",
        [LS],
        id="tokens of Kimi",
    ),
    pytest.param(
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ls\n```json\n"
        '{"path": "."}\n```<｜tool▁call▁end｜><｜tool▁call▁begin｜>ls<｜tool▁sep｜>{"path": "."}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "",
        "",
        [LS, LS],
        id="tokens of DeepSeek",
    ),
    pytest.param("the token <|python_tag|> is", "", "the token <|python_tag|> is", [], id="a token in prose"),
    pytest.param(
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>so<|return|>",
        "hm",
        "so",
        [],
        id="channels of gpt-oss",
    ),
    pytest.param(
        "<|channel|>analysis<|message|>hm<|start|>assistant<|channel|>final<|message|>so",
        "hm",
        "so",
        [],
        id="channels without the tokens between them",
    ),
    pytest.param("<|channel|>analysis<|message|>hm", "hm", "", [], id="a channel without an end"),
    pytest.param(
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.ls <|constrain|>json<|message|>{"path": "."}<|call|>',
        "",
        "I look.",
        [LS],
        id="a call in a channel",
    ),
    pytest.param(
        '<|start|>assistant to=functions.ls<|channel|>commentary json<|message|>{"path": "."}',
        "",
        "",
        [LS],
        id="a recipient before the channel",
    ),
    pytest.param(
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>final<|message|>So.",
        "",
        "I look.\n\nSo.",
        [],
        id="two messages for the user",
    ),
    pytest.param("the token <|channel|> is", "", "the token <|channel|> is", [], id="a header in prose"),
    pytest.param("so<|im_end|>", "", "so", [], id="a token at the end"),
    pytest.param("so<|im_end|>\n<|endoftext|>", "", "so", [], id="two tokens at the end"),
    pytest.param("<|im_end|> ends it", "", "<|im_end|> ends it", [], id="a token at the beginning of prose"),
    pytest.param("</think>\n\nso", "", "so", [], id="nothing before the end of reasoning"),
    pytest.param("Write `</think>`\n", "", "Write `</think>`\n", [], id="an end of reasoning in code"),
    pytest.param(
        "It is:\n```\n</think>\n```\n", "", "It is:\n```\n</think>\n```\n", [], id="one in a block of code"
    ),
    pytest.param("an </think> in a line", "", "an </think> in a line", [], id="one inside a line"),
    pytest.param("a < b [c] <tool", "", "a < b [c] <tool", [], id="the beginning of a mark at the end"),
]


def check(
    deltas: list[str], thinking: str, text: str, calls: list[MarkedCall], *, tools: bool = True
) -> None:
    reader = MarkupReader({"ls"} if tools else ())
    pieces = [piece for delta in deltas for piece in reader.read(delta)] + list(reader.finish())
    prose = [piece for piece in pieces if isinstance(piece, Prose)]
    assert "".join(each.text for each in prose if each.is_thinking) == thinking
    assert "".join(each.text for each in prose if not each.is_thinking) == text
    assert [piece for piece in pieces if isinstance(piece, MarkedCall)] == calls


@pytest.mark.parametrize(("answer", "thinking", "text", "calls"), CASES)
def test_an_answer_is_taken_apart_however_it_is_cut(
    answer: str, thinking: str, text: str, calls: list[MarkedCall]
) -> None:
    for size in (1, 2, 5, 7, len(answer)):
        check([answer[i : i + size] for i in range(0, len(answer), size)], thinking, text, calls)


def test_without_tools_calls_are_text() -> None:
    check([CALL], "", CALL, [], tools=False)


JSON = '{"name": "ls", "arguments": {"path": "."}}'
INVOKED = '<invoke name="ls">\n<parameter name="path">.</parameter>\n</invoke>'


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(f"<function_calls>\n{INVOKED}\n</function_calls>", id="invocations"),
        pytest.param(INVOKED, id="an invocation alone"),
        pytest.param(f"<minimax:tool_call>\n{INVOKED}\n</minimax:tool_call>", id="MiniMax"),
        pytest.param(f"<|tool_call|>[{JSON}]<|/tool_call|>", id="Phi"),
        pytest.param(f"<|tool_call|>[{JSON}]", id="Granite"),
        pytest.param('<function=ls>{"path": "."}</function>', id="a function with an object"),
        pytest.param('{"name": "ls", "parameters": {"path": "."}}', id="an object alone"),
        pytest.param('{"type": "function", "name": "ls", "parameters": {"path": "."}}', id="with its type"),
    ],
)
def test_a_call_in_the_form_of_a_template(answer: str) -> None:
    for size in (1, 3, len(answer)):
        check([answer[at : at + size] for at in range(0, len(answer), size)], "", "", [LS])


@pytest.mark.parametrize("form", [CALL, f"[TOOL_CALLS][{JSON}]", f"<|python_tag|>{JSON}", INVOKED])
@pytest.mark.parametrize(
    "quote",
    [
        pytest.param("So:\n```\n{}\n```\nThat is all.", id="a fence"),
        pytest.param("So:\n\n~~~xml\n{}\n~~~\n", id="a fence with a language"),
        pytest.param("````\n```\n{}\n```\n````\n", id="a fence in a fence"),
        pytest.param("1. so\n   ```\n   {}\n   ```\n", id="a fence in a list"),
        pytest.param("```\n{}\n", id="a fence without an end"),
        pytest.param("So:\n\n    {}\n", id="an indented block"),
    ],
)
def test_a_call_in_a_block_of_code_is_text(form: str, quote: str) -> None:
    answer = quote.replace("{}", form)
    for size in (1, 3, len(answer)):
        check([answer[at : at + size] for at in range(0, len(answer), size)], "", answer, [])
    behind = "So:\n```\nx\n```\n"
    check([f"{behind}{CALL}"], "", behind, [LS])


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param('{"name": "ls", "version": 1}', id="other members"),
        pytest.param('{"name": "rm", "arguments": {}}', id="no tool"),
        pytest.param(f"{JSON} is a call", id="text behind it"),
        pytest.param('{"na', id="cut off"),
        pytest.param("{x}", id="another bracket"),
    ],
)
def test_an_answer_that_begins_with_a_bracket_is_text(answer: str) -> None:
    for size in (1, 3, len(answer)):
        check([answer[at : at + size] for at in range(0, len(answer), size)], "", answer, [])


@given(st.lists(st.text("<>[]/ \ntool_caTOLCS{}x", max_size=9)))
def test_text_that_holds_no_whole_mark_stays_as_it_is(deltas: list[str]) -> None:
    if "<tool_call>" not in "".join(deltas) and "[TOOL_CALLS]" not in "".join(deltas):
        check(deltas, "", "".join(deltas), [])


def test_text_is_passed_on_as_it_comes() -> None:
    reader = MarkupReader({"ls"})
    assert [list(reader.read(delta)) for delta in ("one", " two", "\n<tool", "box")] == [
        [Prose("one")],
        [Prose(" two")],
        [Prose("\n")],
        [Prose("<toolbox")],
    ]


@pytest.mark.parametrize(
    ("answer", "thinking", "text"),
    [
        pytest.param("hm\n</think>\n\nso", "hm\n", "so", id="on a line of its own"),
        pytest.param("hm</think>\n\nso", "hm", "so", id="at the end of a line"),
        pytest.param("hm\n</think>so", "hm\n", "so", id="at the beginning of a line"),
        pytest.param("hm</think>", "hm", None, id="at the end of the answer"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_text_before_a_lone_end_of_reasoning_was_reasoning(
    answer: str, thinking: str, text: str | None, size: int
) -> None:
    assembly = MarkedAssembly({"ls"})
    for at in range(0, len(answer), size):
        assembly.add_text(answer[at : at + size])
    done = assembly.finish("m")[-1]
    assert isinstance(done, DoneEmission)
    assert done.reply.blocks == (ThinkingBlock(thinking, IN_TEXT), *([TextBlock(text)] if text else []))


def test_a_second_end_of_reasoning_leaves_the_text_before_it() -> None:
    assembly = MarkedAssembly(())
    assembly.add_text("<think>hm</think>\n</think>\nso\n</think>\nand so")
    done = assembly.finish("m")[-1]
    assert isinstance(done, DoneEmission)
    assert done.reply.blocks == (ThinkingBlock("hm", IN_TEXT), TextBlock("so\nand so"))


@pytest.mark.parametrize("piece", ["x" * 1_000, "a <[ b" * 100, "`" * 1_000, "-     " * 30 + "\n"])
def test_a_delta_costs_the_same_however_long_its_line_is(piece: str) -> None:
    def read(n_deltas: int) -> None:
        reader = MarkupReader({"ls"})
        for _ in range(n_deltas):
            deque(reader.read(piece), maxlen=0)

    short, long = fastest(partial(read, 50), partial(read, 800), rounds=3)
    assert long < 64 * short
