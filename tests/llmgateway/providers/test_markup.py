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
JSON = '{"name": "ls", "arguments": {"path": "."}}'
INVOKED = '<invoke name="ls">\n<parameter name="path">.</parameter>\n</invoke>'
FUNCTION = "<function=ls><parameter=path>\n.\n</parameter></function>"
WHOLE = [
    pytest.param("<think>hm</think>\n\nso", "hm", "so", [], id="reasoning at the beginning"),
    pytest.param("\n<think>hm</think>so", "hm", "so", [], id="reasoning after a blank line"),
    pytest.param("<think>hm", "hm", "", [], id="reasoning without an end"),
    pytest.param("<think></think>so", "", "so", [], id="empty reasoning"),
    pytest.param(f"I look.\n{CALL}", "", "I look.\n", [LS], id="a call behind text"),
    pytest.param(CALL + "\n" + CALL, "", "\n", [LS, LS], id="two calls"),
    pytest.param(f"<think>a</think>{CALL}", "a", "", [LS], id="reasoning, then a call"),
    pytest.param('[TOOL_CALLS]ls{"path": "."}[TOOL_CALLS]ls{"path": "."}', "", "", [LS, LS], id="two names"),
    pytest.param(
        f"I look.\n{FUNCTION}\n</tool_call>", "", "I look.\n", [LS], id="an end without a beginning"
    ),
    pytest.param(f"{FUNCTION}\nso", "", "\nso", [LS], id="text behind a function"),
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
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>final<|message|>So.",
        "",
        "I look.\n\nSo.",
        [],
        id="two messages for the user",
    ),
    pytest.param("so<|im_end|>", "", "so", [], id="a token at the end"),
    pytest.param("so<|im_end|>\n<|endoftext|>", "", "so", [], id="two tokens at the end"),
    pytest.param("</think>\n\nso", "", "so", [], id="nothing before the end of reasoning"),
]
ONE_CALL = {
    "a call": CALL,
    "a call without an end": CALL.removesuffix("\n</tool_call>"),
    "a list": f"[TOOL_CALLS][{JSON}]",
    "a name and arguments": '[TOOL_CALLS]ls[ARGS]{"path": "."}',
    "a function with parameters": f"<tool_call>{FUNCTION}</tool_call>",
    "a token of Llama": '<|python_tag|>{"name": "ls", "parameters": {"path": "."}}',
    "a recipient before the channel": (
        '<|start|>assistant to=functions.ls<|channel|>commentary json<|message|>{"path": "."}'
    ),
    "invocations": f"<function_calls>\n{INVOKED}\n</function_calls>",
    "an invocation alone": INVOKED,
    "MiniMax": f"<minimax:tool_call>\n{INVOKED}\n</minimax:tool_call>",
    "Phi": f"<|tool_call|>[{JSON}]<|/tool_call|>",
    "Granite": f"<|tool_call|>[{JSON}]",
    "a function with an object": '<function=ls>{"path": "."}</function>',
    "an object alone": '{"name": "ls", "parameters": {"path": "."}}',
    "with its type": '{"type": "function", "name": "ls", "parameters": {"path": "."}}',
}
"""Answers that are one call of ``ls`` and nothing else."""

TEXT_ALONE = {
    "plain text": "plain text",
    "a mark in the middle": "Use <think> in XML",
    "no tool of that name": '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
    "a mark in a line": "see `<tool_call>` here",
    "not a call": "<tool_call>no json</tool_call>",
    "a sentence about it": "[TOOL_CALLS] is a mark",
    "no function of that name": "<function=rm></function>",
    "a token in prose": "the token <|python_tag|> is",
    "a header in prose": "the token <|channel|> is",
    "a token at the beginning of prose": "<|im_end|> ends it",
    "an end of reasoning in code": "Write `</think>`\n",
    "one in a block of code": "It is:\n```\n</think>\n```\n",
    "one inside a line": "an </think> in a line",
    "the beginning of a mark at the end": "a < b [c] <tool",
    "an object with other members": '{"name": "ls", "version": 1}',
    "an object that names no tool": '{"name": "rm", "arguments": {}}',
    "text behind an object": f"{JSON} is a call",
    "an object that is cut off": '{"na',
    "another bracket": "{x}",
}
"""Answers that stay as they are."""


def check(
    deltas: list[str], thinking: str, text: str, calls: list[MarkedCall], *, tools: bool = True
) -> None:
    reader = MarkupReader({"ls"} if tools else ())
    pieces = [piece for delta in deltas for piece in reader.read(delta)] + list(reader.finish())
    prose = [piece for piece in pieces if isinstance(piece, Prose)]
    assert "".join(each.text for each in prose if each.is_thinking) == thinking
    assert "".join(each.text for each in prose if not each.is_thinking) == text
    assert [piece for piece in pieces if isinstance(piece, MarkedCall)] == calls


@pytest.mark.parametrize(
    ("answer", "thinking", "text", "calls"),
    [
        *WHOLE,
        *(pytest.param(answer, "", "", [LS], id=name) for name, answer in ONE_CALL.items()),
        *(pytest.param(answer, "", answer, [], id=name) for name, answer in TEXT_ALONE.items()),
    ],
)
def test_an_answer_is_taken_apart_however_it_is_cut(
    answer: str, thinking: str, text: str, calls: list[MarkedCall]
) -> None:
    for size in (1, 2, 3, 5, 7, len(answer)):
        check([answer[i : i + size] for i in range(0, len(answer), size)], thinking, text, calls)


def test_without_tools_calls_are_text() -> None:
    check([CALL], "", CALL, [], tools=False)


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
