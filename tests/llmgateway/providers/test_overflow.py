"""Refusals of a conversation that is too long, as the services word them, and refusals of other things."""

# ruff: noqa: E501 - the sentences of the services stay whole

from __future__ import annotations

import pytest

from sidecar.llmgateway.providers.failures import ProviderFailure, to_gateway_error

OVERFLOWS: list[tuple[str, str, int | None]] = [
    ("Anthropic", "prompt is too long: 233153 tokens > 200000 maximum", 200_000),
    ("Anthropic, with the answer", "input length and `max_tokens` exceed context limit: 174167 + 64000 > 200000", 200_000),
    ("Anthropic, with advice", "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length", 200_000),
    ("Anthropic, bytes", "request_too_large: Request exceeds the maximum size", None),
    ("Bedrock", "The model returned the following errors: Input is too long for requested model.", None),
    ("Bedrock, several", "inputs too long", None),
    ("Bedrock, counted", "Too many input tokens. Max input tokens: 8192, request input token count: 9000", 8_192),
    ("Bedrock, Nova", "Input Tokens Exceeded: Number of input tokens exceeds maximum length.", None),
    ("OpenAI", "This model's maximum context length is 8192 tokens. You requested 9,000.", 8_192),
    ("OpenAI, responses", "Your input exceeds the context window of this model. Please adjust your input and try again.", None),
    ("OpenAI, gpt-5", "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 290000 tokens.", 272_000),
    ("OpenAI, a code in the text", "Error: context_length_exceeded", None),
    ("Azure", "This model's maximum context length is 128000 tokens, however you requested 130001 tokens (126001 in your prompt; 4000 for the completion).", 128_000),
    ("GitHub Models", "Request body too large for gpt-4o model. Max size: 8000 tokens.", None),
    ("Copilot", "prompt token count of 135000 exceeds the limit of 128000", 128_000),
    ("OpenRouter", "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens.", 131_072),
    ("OpenRouter, Poolside", "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 131_040),
    ("LiteLLM", "litellm.ContextWindowExceededError: the prompt does not fit", None),
    ("LiteLLM, a count", "Input length (265330) exceeds model's maximum context length (262144).", 262_144),
    ("DeepSeek", "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens.", 65_536),
    ("Google", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
    ("Vertex, no count", "The input token count exceeds the maximum number of tokens allowed 1048576.", 1_048_576),
    ("Vertex, unable to submit", "Unable to submit request because the input token count is 1100000 but model only supports up to 1048576. Reduce the input token count and try again.", 1_048_576),
    ("Vertex, Claude", "Prompt is too long", None),
    ("xAI", "This model's maximum prompt length is 131072 but the request contains 150000 tokens.", 131_072),
    ("Groq", "Please reduce the length of the messages or completion.", None),
    ("Mistral", "Prompt contains 9000 tokens, too large for model with 8192 maximum context length", 8_192),
    ("Mistral, drafts", "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 32_768),
    ("Kimi", "Invalid request: Your request exceeded model token limit: 262144 (requested: 270000)", 262_144),
    ("z.ai", "Prompt exceeds max length", None),
    ("z.ai, counted", "Request 182387 input tokens exceeds the model's maximum context length 202750", 202_750),
    ("z.ai, as a reason", "model_context_window_exceeded", None),
    ("MiniMax", "invalid params, context window exceeds limit (2013)", None),
    ("DashScope", "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]", 983_616),
    ("Doubao", "Total tokens of image and text exceed max message tokens.", None),
    ("Cohere", "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.", 4_081),
    ("Fireworks", "The prompt is too long: 140000, model maximum context length: 131071", 131_071),
    ("Together, TGI", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32769. Given: 33000 `inputs` tokens and 512 `max_new_tokens`", 32_769),
    ("TGI, input alone", "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000", 4_096),
    ("Together", "The input (300000 tokens) is longer than the model's context length (262144 tokens).", 262_144),
    ("SGLang", "The input (61709 tokens) is longer than the model's context length (40960 tokens).", 40_960),
    ("SGLang, memory", "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).", 59_862),
    ("SGLang, with the answer", "Requested token count exceeds the model's maximum context length of 131072 tokens.", 131_072),
    ("NIM", "Prompt length (5000) exceeds maximum input length (4096).", 4_096),
    ("vLLM", "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion).", 16_384),
    ("vLLM, engine", "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller.", 4_096),
    ("vLLM, newer", "You passed 4097 input tokens and requested 1 output tokens. However, the model's context length is only 4096 tokens.", 4_096),
    ("vLLM, total", "The prompt (total length 5000) is too long to fit into the model (context length 4096).", 4_096),
    ("llama.cpp", "the request exceeds the available context size. try increasing the context size", None),
    ("llama.cpp, counted", "the request (9000 tokens) exceeds the available context size (4096 tokens)", 4_096),
    ("llama-cpp-python", "Requested tokens (5000) exceed context window of 4096", 4_096),
    ("Jan", "Prompt has 5000 tokens, but the configured context size is 4096 tokens", 4_096),
    ("LM Studio", "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.", 4_096),
    ("LM Studio, tokens to keep", "The number of tokens to keep from the initial prompt is greater than the context length.", None),
    ("LM Studio, context size", "Context size has been exceeded.", None),
    ("LM Studio, mid-generation", "Reached context length of 4096 tokens with this model, but this model does not currently support mid-generation context overflow.", 4_096),
    ("Ollama", "prompt too long; exceeded max context length by 12 tokens", None),
    ("Ollama, input", "the input length exceeds the context length", None),
    ("MLC", "Request prompt has 5000 tokens in total, larger than the model input length limit 4096.", 4_096),
    ("Baseten", "length of prompt_tokens (163280) must be less than max_seq_len (32768).", 32_768),
    ("Cloudflare", "The estimated number of input and maximum output tokens (131073) exceeded this model context window limit (131072).", 131_072),
    ("watsonx", "the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model", 8_192),
    ("GLM", "tokens in request more than max tokens allowed", None),
    ("Perplexity", "The total number of tokens exceeds the model limit of 127072", 127_072),
    ("Kimi, bytes", "total message size 2200000 exceeds limit 2097152", None),
    ("Spark", "token数量超过上限。对话历史+问题的字数太多，需要精简输入", None),
    ("Baichuan", "请求的token数超过模型限制", None),
    ("Qianfan", "the length of messages must be less than 11200 characters", None),
    ("Snowflake", "max tokens of 8192 exceeded", None),
    ("SambaNova", "Max sequence length of 8192 exceeded", None),
    ("LMDeploy", "The input token length 9000 exceeds session_len 8192", None),
    ("TensorRT-LLM", "Input length (9000) + max new tokens exceeds maximum sequence length", None),
    ("Bedrock, a limit", "ValidationException: Input exceeds the max input token limit", None),
    ("Bedrock, Titan", "Malformed input request: expected maxLength: 2048, actual: 3000", None),
    ("Cohere, by size", "too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs.", None),
    ("Cohere, both", "too many tokens: total number of tokens (prompt and prediction) cannot exceed 4081 - received 5000. Try a smaller max_tokens value.", 4_081),
    ("OpenAI, a string", "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got 2000000.", None),
    ("Azure, advice", "The input or output tokens must be reduced in order to run successfully", None),
    ("vLLM, nothing left", "max_tokens must be at least 1, got -808.", None),
    ("Google, bytes", "Request payload size exceeds the limit: 20971520 bytes.", None),
    ("Kiro", "CONTENT_LENGTH_EXCEEDS_THRESHOLD", None),
    ("a service that is not in the table", "Your message is too long for our context", None),
    ("Cerebras", "Error code: 400", None),
    ("Cerebras, no body", "400 status code (no body)", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "window"), [pytest.param(message, window, id=name) for name, message, window in OVERFLOWS]
)
def test_every_wording_of_a_conversation_that_is_too_long(message: str, window: int | None) -> None:
    error = to_gateway_error(ProviderFailure(message, 400), "p")
    assert (error.is_overflow, error.window_tokens) == (True, window)


@pytest.mark.parametrize("status", [400, 413])
@pytest.mark.parametrize("code", ["context_length_exceeded", "model_max_prompt_tokens_exceeded", "1261"])
def test_a_code_alone_is_enough(status: int, code: str) -> None:
    assert to_gateway_error(ProviderFailure("no", status, code=code), "p").is_overflow


@pytest.mark.parametrize("message", ["Payload Too Large", "Error code: 413", ""])
def test_a_request_that_is_too_large_is_an_overflow_however_it_is_worded(message: str) -> None:
    assert to_gateway_error(ProviderFailure(message, 413), "p").is_overflow


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Rate limit reached: too many tokens per minute", 429),
        ("Request too large for gpt-4o on tokens per min (TPM)", 429),
        ("Request too large for gpt-4o on tokens per min (TPM)", 400),
        ("Too many tokens, please wait before trying again.", 400),
        ("Throttling error: too many input tokens", None),
        ("max_tokens must be at most 8192", 400),
        ("max_tokens exceeds the limit of 8192", 400),
        ("Prompt tokens limit exceeded: 36163 > 29652. To increase, visit the credits page", 402),
        ("the image exceeds the maximum of 5 MB", 400),
        ("invalid schema", 400),
        ("3", 400),
        ("unsupported parameter: context", 400),
        ("Error code: 500", 500),
        ("overloaded", 529),
        ("max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens", 400),
        ("max_tokens is too large: 100000. This model supports at most 16384 completion tokens", 400),
        ("Invalid 'messages[2].tool_calls[0].id': string too long, with maximum length 40", 400),
        ("thinking.budget_tokens: Input should be greater than or equal to 1024", 400),
        ("the image dimensions exceed the maximum size of the input: 8000 pixels", 400),
        ("Too many images in the request", 400),
        ("daily token limit exceeded", 400),
        ("context deadline exceeded", 400),
        ("the request exceeds the window of the pool", 500),
        ("您的请求频率超过限制", 400),
    ],
)
def test_other_refusals_are_not_taken_for_overflow(message: str, status: int | None) -> None:
    assert not to_gateway_error(ProviderFailure(message, status), "p").is_overflow
