"""Overflow: whether a provider refuses a conversation because it does not fit the model's window. Pure.

There is no common code for it. Each service has a sentence of its own, and some have several; a few only
answer with a status. The table has one row for each wording, with the services that use it. A wording must
say that the conversation is too long: "max_tokens exceeds the limit of 8192" is about the answer, and
"too many tokens per minute" about the rate. A row that is missing costs a user the conversation, because it
is then never made shorter. A row that is too wide costs one compaction in vain.

Beside the table stands a rule for the services that are not in it: a refusal of the request, not a failure of
the server, that names the conversation, a comparison with a limit, and a measure of text. It must not name
something else that has a limit, such as the answer, an image, a tool or an account.
"""

from __future__ import annotations

import re
from typing import Final

_STATUS: Final = frozenset({None, 400, 413, 422, 500})
_STATUS_WITHOUT_REASON: Final = frozenset({400, 413})
_TOO_LARGE: Final = 413
_SERVER_FAILURE: Final = 500
_CODES: Final = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "model_max_prompt_tokens_exceeded",
        "request_too_large",
        "string_above_max_length",
        "1261",
    }
)
"""The codes of OpenAI and most compatible services, llama.cpp, z.ai, Copilot, Anthropic, and z.ai again."""

WORDINGS: Final[tuple[tuple[str, str], ...]] = (
    ("Anthropic, Fireworks, Vertex, Ollama", r"prompt (?:is )?too long"),
    ("Anthropic, LM Studio, vLLM", r"exceeds? (?:the )?context (?:limit|window|size)"),
    ("Anthropic", r"request_too_large|request exceeds the maximum size"),
    ("Groq, proxies", r"request (?:entity )?(?:body )?(?:is )?too large"),
    ("OpenAI, vLLM, OpenRouter, DeepSeek", r"maximum context length"),
    ("OpenAI, Azure", r"input tokens exceed the configured limit"),
    ("OpenAI, Groq, vLLM", r"reduce the length of the (?:messages|prompt|input)"),
    ("all compatible services", r"context[_ ](?:length|window|size|limit)[_ ](?:is |has been )?exceeded"),
    ("LiteLLM, llama.cpp", r"exceed(?:s|ed)? (?:the |this )?(?:available |maximum |model'?s? )*context"),
    ("LiteLLM", r"context ?window ?exceeded"),
    ("Bedrock", r"inputs? (?:is |are )?too long|too many input tokens|number of input tokens exceeds"),
    ("Google, Vertex", r"input token count\b.{0,40}\b(?:exceeds|only supports)"),
    ("xAI", r"maximum prompt length"),
    ("Mistral", r"too large for model with"),
    ("Kimi", r"exceeded model token limit"),
    ("z.ai", r"prompt exceeds max(?:imum)? length|prompt 超长"),
    ("MiniMax", r"context window exceeds limit"),
    ("DashScope", r"range of input length should be"),
    ("Doubao", r"exceed max message tokens"),
    ("Copilot", r"prompt token count of \d+ exceeds"),
    ("Cohere", r"number of tokens in the prompt cannot exceed"),
    ("TGI, Together", r"tokens \+ `?max_new_tokens`? must be <=|inputs`? must have less than"),
    ("SGLang, Together", r"is longer than the (?:model'?s|maximum) (?:context|model) length"),
    ("TensorRT-LLM", r"exceeds (?:the )?maximum sequence length"),
    ("SGLang, OpenRouter", r"input length\b.{0,20}\bexceeds (?:the )?(?:maximum|model|context)"),
    ("NIM, TensorRT-LLM", r"prompt length\b.{0,20}\b(?:exceeds|is greater than)"),
    ("LM Studio, Ollama", r"(?:greater than|exceeds) the context length|context the overflows"),
    ("LM Studio", r"context length of only|context overflow|reached context length"),
    ("vLLM", r"too long to fit into the model|context length is only|max_model_len"),
    ("llama.cpp, Jan", r"configured context size is|larger than the (?:model'?s )?context|n_ctx"),
    ("llama-cpp-python", r"exceed context window of"),
    ("MLC", r"larger than the model input length"),
    ("ExLlama, Baseten", r"max_seq_len"),
    ("Azure, GitHub Models", r"too many tokens in the prompt|tokens limit exceeded for this model"),
    ("Azure", r"tokens must be reduced"),
    ("Cohere", r"total number of tokens\b.{0,40}\bexceed"),
    ("vLLM", r"max_(?:completion_)?tokens must be at least 1, got -"),
    ("llama.cpp", r"context shift is disabled"),
    ("Amazon", r"content_length_exceeds|expected maxlength"),
    ("Copilot", r"max_prompt_tokens_exceeded"),
)
"""The services, and their wording as a regular expression."""

_OVERFLOW: Final = re.compile("|".join(wording for _, wording in WORDINGS), re.IGNORECASE)
_CONVERSATION: Final = re.compile(
    r"\b(?:prompt|input|context|conversation|history|messages?|sequence|request|payload)\b|token|输入|请求|上下文|对话|消息",
    re.IGNORECASE,
)
_TOO_MUCH: Final = re.compile(
    r"\b(?:too (?:long|large|big|many)|(?:long|larg|great)er than (?!or equal)|more than|exceed(?:s|ed)?"
    r"|must be less than)\b|超过|超出|超长|过长|超限",
    re.IGNORECASE,
)
_TEXT_MEASURE: Final = re.compile(
    r"\b(?:length|long|context|window|size|characters)\b|token|长|字数", re.IGNORECASE
)
_OTHER_LIMIT: Final = re.compile(
    r"max_\w*tokens|(?:completion|output|answer|reasoning) tokens|image|file|tool|schema|\bname|\bid\b|field"
    r"|metadata|cache|deadline|timeout|connection|daily|monthly|hourly|per.(?:day|month|hour|minute)|credit"
    r"|balance|billing|plan\b|频|并发|速率|次数|每|额度|余额",
    re.IGNORECASE,
)
_RATE: Final = re.compile(
    r"rate.?limit|too many requests|throttl|tokens per (?:min|day)|\bTPM\b|please wait|quota", re.IGNORECASE
)
_NO_REASON: Final = re.compile(
    r"(?:error code: )?(?:\d{3})?\s*(?:status code)?\s*(?:\(no body\))?", re.IGNORECASE
)
_TOKENS: Final = r"(\d[\d,]{2,9})"
_WINDOW: Final = re.compile(
    rf"""
    maximum\ (?:context|prompt|model)\ length\ (?:is|of)\ {_TOKENS} | maximum\ context\ length:?\ \(?{_TOKENS}
  | context\ (?:size|length|window|limit)\ (?:limit\ )?(?:of\ |is\ )?(?:only\ )?\(?{_TOKENS}
  | >\ {_TOKENS}(?:\ maximum|$|,) | {_TOKENS}\ maximum\ context
  | maximum\ number\ of\ tokens\ allowed\ \(?{_TOKENS} | max_seq_len\ \(?{_TOKENS}
  | only\ supports\ up\ to\ {_TOKENS} | model\ token\ limit:\ {_TOKENS}
  | (?:configured|model|model's)\ limit\ of\ {_TOKENS}
  | must\ be\ <=\ {_TOKENS} | must\ have\ less\ than\ {_TOKENS} | input\ length\ should\ be\ \[\d+,\ {_TOKENS}
  | exceeds\ the\ limit\ of\ {_TOKENS}
  | (?<!with\ )maximum\ (?:allowed\ )?(?:input\ )?length\ (?:of\ )?\(?{_TOKENS}
  | input\ length\ limit\ {_TOKENS} | cannot\ exceed\ (?:the\ total\ tokens\ limit\ )?{_TOKENS}
  | max\ input\ tokens:\ {_TOKENS}
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_overflow(message: str, status: int | None, code: str) -> bool:
    """Whether a failure means that the conversation does not fit.

    Args:
        message: the sentence of the provider.
        status: the HTTP status, None in the middle of a stream.
        code: the provider's own name for the failure.

    >>> is_overflow("Your request exceeded model token limit: 262144", 400, "invalid_request_error")
    True
    >>> is_overflow("Rate limit reached: too many tokens in the prompt", 400, "")
    False
    """
    if status not in _STATUS:
        return False
    if code in _CODES:
        return True
    if status in _STATUS_WITHOUT_REASON and _NO_REASON.fullmatch(message.strip()):
        # Cerebras refuses in this way, without a body.
        return True
    if status != _TOO_LARGE and _RATE.search(message):
        return False
    if status == _TOO_LARGE or _OVERFLOW.search(message):
        return True
    parts = (_CONVERSATION, _TOO_MUCH, _TEXT_MEASURE)
    is_refusal = status != _SERVER_FAILURE and not _OTHER_LIMIT.search(message)
    return is_refusal and all(part.search(message) for part in parts)


def window_tokens_in(message: str) -> int | None:
    """Return the window in tokens that *message*, the refusal of a long conversation, names, or None.

    >>> window_tokens_in("This model's maximum context length is 8192 tokens. You requested 9000 tokens.")
    8192
    >>> window_tokens_in("the request (9000 tokens) exceeds the available context size (4096 tokens)")
    4096
    """
    found = _WINDOW.search(message)
    return int(next(filter(None, found.groups())).replace(",", "")) if found else None
