"""The ask tool: questions to the user that only the user can answer, as one form.

The call waits for the answer. A question that is declined or not answered in time has a result like any
other: the model goes on with its default, or ends its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from sidecar._internal.async_cancel import unless_cancelled
from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import Form, FormAction, ToolContext, ToolReply
from sidecar.capabilities.output import cut_line
from sidecar.capabilities.typed_tool import TypedTool, error_reply
from sidecar.text.calls import NO_EFFECTS
from sidecar.text.forms import describe_answer

_TITLE_CHARS = 80
_GO_ON = "Go on with what you think best, or with the default, and say so; or end your turn."
_ENDS: dict[FormAction, str] = {
    "decline": f"The user declined to answer. {_GO_ON}",
    "cancel": f"The user dismissed the question. {_GO_ON}",
    "expired": f"The user did not answer in time. {_GO_ON}",
    "unasked": (
        "No client here can show a form. The question stands in the conversation as text. End your turn if "
        "you cannot go on without an answer: the next prompt has it. Else go on with what you think best, "
        "and say so."
    ),
}


class AskedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One question."""

    question: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    choices: Annotated[
        tuple[str, ...], msgspec.Meta(max_length=20, description="The answers on offer; none for free text.")
    ] = ()
    multiple: Annotated[bool, msgspec.Meta(description="Whether several choices may be chosen.")] = False
    default: Annotated[str, msgspec.Meta(description="The answer that you would give.")] = ""


class AskArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the ask tool."""

    questions: Annotated[
        tuple[AskedQuestion, ...],
        msgspec.Meta(min_length=1, max_length=8, description="All that you have to ask, at once."),
    ]


async def ask_user(arguments: AskArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Ask, and answer with the words of the user."""
    if context.ask_form is None:
        raise InvalidInput("the user cannot be asked here", hint="decide yourself, and say what you assumed")
    questions = arguments.questions
    message = questions[0].question if len(questions) == 1 else f"{len(questions)} questions"
    schema = schema_of(questions)
    form = Form(message=message, schema=schema, call_id=context.call_id)
    answer = await unless_cancelled(context.ask_form(form), cancel)
    if answer is None:
        return error_reply("ask was cancelled")
    if answer.why:
        return ToolReply(f"A hook of the user declined in place of the user: {answer.why}. {_GO_ON}")
    if answer.action != "accept":
        return ToolReply(_ENDS[answer.action])
    return ToolReply(f"The user answered:\n{describe_answer(schema, answer.content)}")


def schema_of(questions: Sequence[AskedQuestion]) -> dict[str, Any]:
    """Return *questions* as a flat schema, each a property with the question as its title.

    >>> schema_of([AskedQuestion(question="Which?", choices=("a", "b"), default="b")])["properties"]
    {'q1': {'title': 'Which?', 'type': 'string', 'enum': ['a', 'b'], 'default': 'b'}}
    """
    properties: dict[str, Any] = {}
    for number, each in enumerate(questions, 1):
        field: dict[str, Any] = {"title": each.question, "type": "string"}
        choices = list(dict.fromkeys(each.choices))
        is_offered = each.default in choices or (not choices and bool(each.default))
        default: Any = each.default
        if choices and each.multiple:
            field |= {"type": "array", "items": {"type": "string", "enum": choices}}
            default = [default]
        elif choices:
            field["enum"] = choices
        properties[f"q{number}"] = field | ({"default": default} if is_offered else {})
    return {"type": "object", "properties": properties, "required": list(properties)}


ASK = TypedTool(
    name="ask",
    description=(
        "Ask the user and wait for the answer. Seldom: only for what neither files nor commands tell and you "
        "cannot sensibly assume, such as a choice that is costly to take back. Ask all at once, with choices "
        "and your default. Never ask whether to go on, nor for permission: tools ask for that themselves."
    ),
    kind="other",
    effects=NO_EFFECTS,
    arguments=AskArguments,
    describe=lambda arguments: f"Ask: {cut_line(arguments.questions[0].question, _TITLE_CHARS)}",
    perform=ask_user,
)
