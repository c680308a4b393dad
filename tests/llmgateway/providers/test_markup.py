"""Marks of a template in the text of an answer: reasoning and calls are taken out of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.providers.markup import MarkedCall, MarkupReader, Prose

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
