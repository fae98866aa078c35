"""One table of what providers say: what is an overflow, what is none, and its figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from previously.llm.overflow import Overflow, overflow

GIVEN = json.loads((Path(__file__).parents[1] / "fixtures" / "overflow_bodies.json").read_text())


def openai(message: str, code: str | None = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, **more}}


def anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def vllm(message: str) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": "BadRequestError", "code": 400}


OVERFLOWS: dict[str, tuple[int, Any, int | None, int | None]] = {
    "OpenAI, a message by characters": (
        400,
        openai(
            "Invalid 'messages[1].content': string too long. Expected a string with maximum length "
            "1048576, but got a string with length 1540820 instead.",
            "string_above_max_length",
        ),
        None,
        None,
    ),
    "OpenAI, older": (
        400,
        openai(
            "This model's maximum context length is 4097 tokens, however you requested 4226 tokens "
            "(3970 in your prompt; 256 for the completion). Please reduce your prompt."
        ),
        4_097,
        4_226,
    ),
    "OpenAI, inside a stream": (
        200,
        {"type": "error", "code": "context_length_exceeded", "message": "Your input is large."},
        None,
        None,
    ),
    "Azure behind its gateway": (
        400,
        {"statusCode": 400, "message": json.dumps(openai("x", "context_length_exceeded"))},
        None,
        None,
    ),
    "Anthropic through a compatible server": (
        400,
        anthropic("prompt is too long: 1,003,078 tokens > 1,000,000 maximum"),
        1_000_000,
        1_003_078,
    ),
    "Vertex": (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "Unable to submit request because the input token count is 1100000 "
                    "but model only supports up to 1048576. Reduce the input token count.",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        1_048_576,
        1_100_000,
    ),
    "Bedrock": (400, {"message": "Input is too long for requested model."}, None, None),
    "Bedrock with Claude behind it": (
        400,
        {
            "message": "The model returned the following errors: prompt is too long: 227255 tokens "
            "> 200000 maximum"
        },
        200_000,
        227_255,
    ),
    "Bedrock, Titan": (
        400,
        {"message": "Input Tokens Exceeded: Number of input tokens exceeds maximum length."},
        None,
        None,
    ),
    "Cohere": (
        400,
        {
            "message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - "
            "received 4126. Try using a shorter prompt."
        },
        4_081,
        4_126,
    ),
    "Cohere, newer": (
        400,
        {"id": "x", "message": "too many tokens: size limit exceeded by 477 tokens."},
        None,
        None,
    ),
    "DashScope, by its own code": (
        400,
        {"code": "InvalidParameter", "message": "Range of input length should be [1, 30720]"},
        30_720,
        None,
    ),
    "DashScope, in Chinese": (
        400,
        openai("输入长度超过模型最大长度限制：30720"),
        30_720,
        None,
    ),
    "Zhipu, in Chinese": (400, {"error": {"code": "1261", "message": "Prompt 超长"}}, None, None),
    "Moonshot, in Chinese": (400, openai("上下文长度超出模型限制 131072"), 131_072, None),
    "a Chinese gateway": (
        400,
        {"code": 400, "msg": "请求失败", "detail": "对话内容过长，请缩短后重试"},
        None,
        None,
    ),
    "Qianfan": (
        200,
        {"error_code": 336103, "error_msg": "the max input characters is 11200"},
        None,
        None,
    ),
    "Volcengine": (
        400,
        openai("Total tokens of image and text exceed max message tokens. Request id: 021"),
        None,
        None,
    ),
    "MiniMax": (
        200,
        {"base_resp": {"status_code": 2013, "status_msg": "context window exceeds limit (2013)"}},
        None,
        None,
    ),
    "SiliconFlow": (
        400,
        {
            "code": 20015,
            "message": "number of input tokens (204703) has exceeded max_prompt_tokens (202752) "
            "limit.",
            "data": None,
        },
        202_752,
        204_703,
    ),
    "OpenRouter with Anthropic behind it": (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": json.dumps(
                        anthropic("prompt is too long: 208310 tokens > 200000 maximum")
                    ),
                    "provider_name": "Anthropic",
                },
            }
        },
        200_000,
        208_310,
    ),
    "Together": (
        422,
        openai(
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: "
            "9110 `inputs` tokens and 512 `max_new_tokens`"
        ),
        8_193,
        9_622,
    ),
    "TGI": (
        422,
        {
            "error": "Input validation error: `inputs` must have less than 1024 tokens. "
            "Given: 1168",
            "error_type": "validation",
        },
        1_024,
        1_168,
    ),
    "Groq": (
        400,
        openai(
            "Please reduce the length of the messages or completion.", "context_length_exceeded"
        ),
        None,
        None,
    ),
    "Cerebras": (
        400,
        openai(
            "Please reduce the length of the messages or completion. Current length is 9010 while "
            "limit is 8192",
        ),
        8_192,
        9_010,
    ),
    "Fireworks": (
        400,
        openai("The prompt is too long: 150000, model maximum context length: 131071"),
        131_071,
        150_000,
    ),
    "xAI": (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 "
            "tokens.",
        },
        131_072,
        537_812,
    ),
    "vLLM, where the answer no longer fits": (
        400,
        vllm(
            "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum "
            "context length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - "
            "2104)."
        ),
        4_096,
        2_104,
    ),
    "vLLM, in a validator's list": (
        422,
        {
            "detail": [
                {"loc": ["body"], "msg": "Input length exceeds maximum context length", "type": "x"}
            ]
        },
        None,
        None,
    ),
    "SGLang": (
        400,
        vllm("The input (61709 tokens) is longer than the model's context length (40960 tokens)."),
        40_960,
        61_709,
    ),
    "SGLang, newer": (
        400,
        vllm(
            "Requested token count exceeds the model's maximum context length of 131072 tokens. "
            "You requested a total of 140000 tokens: 139000 tokens from the input messages."
        ),
        131_072,
        140_000,
    ),
    "llama.cpp, older": (
        500,
        {
            "error": {
                "code": 500,
                "message": "the request exceeds the available context size. try increasing it",
                "type": "server_error",
            }
        },
        None,
        None,
    ),
    "Ollama": (400, {"error": "the input length exceeds the context length"}, None, None),
    "LM Studio": (
        400,
        {
            "error": "Trying to keep the first 6004 tokens when context the overflows. However, "
            "the model is loaded with context length of only 4096 tokens, which is not enough."
        },
        4_096,
        6_004,
    ),
    "LM Studio, newer": (
        400,
        {"error": "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"},
        7_424,
        15_028,
    ),
    "LM Studio, MLX": (200, {"error": {"message": "Context size has been exceeded."}}, None, None),
    "KoboldCpp": (
        503,
        {"detail": {"msg": "Error: prompt is too long for this context", "type": "server_error"}},
        None,
        None,
    ),
    "text-generation-webui": (
        400,
        openai(
            "This model maximum context length is 4096 tokens. However, your messages resulted in "
            "over 5210 tokens."
        ),
        4_096,
        5_210,
    ),
    "TabbyAPI": (
        400,
        {"detail": "ValueError: Request length 71599 + 2048 is greater than max_seq_len 65536"},
        65_536,
        71_599,
    ),
    "LiteLLM": (
        400,
        {
            "error": {
                "message": "litellm.ContextWindowExceededError: litellm.BadRequestError: "
                "AnthropicException - "
                + json.dumps(anthropic("prompt is too long: 208310 tokens > 200000 maximum"))
                + "\nReceived Model Group=claude\nAvailable Model Group Fallbacks=None",
                "type": None,
                "param": None,
                "code": "400",
            }
        },
        200_000,
        208_310,
    ),
    "GitHub Models": (
        413,
        openai(
            "Request body too large for gpt-4o model. Max size: 8000 tokens.",
            "tokens_limit_reached",
        ),
        8_000,
        None,
    ),
    "Cloudflare": (
        413,
        {
            "errors": [
                {
                    "message": "AiError: The estimated number of input and maximum output tokens "
                    "(40000) exceeded this model context window limit (24000).",
                    "code": 5021,
                }
            ],
            "success": False,
        },
        24_000,
        40_000,
    ),
    "a plain text": (400, "Error: context length exceeded", None, None),
    "a mark before the JSON": (
        400,
        "\ufeff" + json.dumps(openai("maximum context length is 512 tokens")),
        512,
        None,
    ),
}

OTHERS: dict[str, tuple[int, Any]] = {
    "Groq, per minute, as 413": (
        413,
        openai(
            "Request too large for model `llama-3.3-70b` in organization `org_x` on tokens per "
            "minute (TPM): Limit 6000, Requested 8200, please reduce your message size.",
            "rate_limit_exceeded",
        ),
    ),
    "tokens per day": (
        400,
        openai("You exceeded your token limit of 100000 tokens per day."),
    ),
    "Azure, rate": (
        400,
        openai("Your requests have exceeded the token rate limit of your pricing tier."),
    ),
    "an overflow's words in a rate limit": (
        429,
        openai("Too many tokens: the prompt is too long for your rate limit."),
    ),
    "quota": (429, openai("You exceeded your current quota.", "insufficient_quota")),
    "quota, as 400": (400, openai("Input exceeds the input token limit of your quota.")),
    "Gemini, quota": (
        429,
        openai("Quota exceeded for metric: generate_content_free_tier_input_token_count"),
    ),
    "OpenAI, answer too large": (
        400,
        openai(
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, "
            "whereas you provided 100000.",
            "invalid_value",
        ),
    ),
    "Anthropic, answer too large": (
        400,
        anthropic(
            "max_tokens: 128000 > 8192, which is the maximum allowed number of output tokens for x"
        ),
    ),
    "answer too large in other words": (
        400,
        openai("max_tokens (9000) exceeds the maximum token limit of 8192"),
    ),
    "vLLM, only the answer does not fit": (
        400,
        vllm(
            "'max_tokens' or 'max_completion_tokens' is too large: 200000. This model's maximum "
            "context length is 131072 tokens and your request has 30 input tokens."
        ),
    ),
    "DeepSeek, only the answer does not fit": (
        400,
        openai(
            "This model's maximum context length is 65536 tokens. However, you requested 65736 "
            "tokens (200 in the messages, 65536 in the completion)."
        ),
    ),
    "DashScope, answer's range": (
        400,
        openai("Range of max_tokens should be [1, 8192]", "invalid_parameter_error"),
    ),
    "image": (
        400,
        anthropic(
            "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > "
            "5242880 bytes"
        ),
    ),
    "image's edges": (400, anthropic("At least one of the image dimensions exceed max size: 8000")),
    "nginx": (
        413,
        "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>nginx</body>",
    ),
    "no body": (400, b""),
    "half a body": (400, b'{"error": {"message": "This mo'),
    "another bad request": (400, openai("Unknown parameter: 'foo'.", "unknown_parameter")),
    "wrong model": (404, openai("The model `x` does not exist", "model_not_found")),
    "wrong key": (401, openai("context_length_exceeded", "invalid_api_key")),
    "server's fault": (500, openai("The server had an error", "server_error")),
    "a user's words in a validator's list": (
        422,
        {
            "detail": [
                {
                    "type": "missing",
                    "loc": ["body", "model"],
                    "msg": "Field required",
                    "input": {"messages": [{"content": "maximum context length is 512 tokens"}]},
                }
            ]
        },
    ),
    "a window in a field is no refusal": (
        400,
        {"error": {"message": "Unknown parameter: 'foo'.", "n_ctx": 4_096}},
    ),
    "Chinese, per minute": (400, openai("请求内容超过每分钟 token 限制，请稍后再试")),
    "Chinese, too often": (429, openai("您的请求过于频繁")),
    "Chinese, no money": (400, openai("账户余额不足，无法处理该输入内容，超出额度")),
    "a list of nothing": (400, []),
    "too deep": (400, "[" * 5_000),
    "a number": (400, 12),
}


@pytest.mark.proves("G-65")
@pytest.mark.parametrize("case", GIVEN, ids=lambda case: case["name"])
def test_what_was_collected_is_told_apart(case: dict[str, Any]) -> None:
    assert (overflow(case["status"], case["body"]) is not None) is case["overflow"]


@pytest.mark.proves("G-65")
@pytest.mark.parametrize("who", OVERFLOWS)
def test_an_overflow_is_recognised_with_its_figures(who: str) -> None:
    status, body, window, requested = OVERFLOWS[who]
    assert overflow(status, body) == Overflow(window, requested)
    raw = body if isinstance(body, str) else json.dumps(body)  # Chinese comes as escapes too
    assert overflow(status, raw.encode()) == Overflow(window, requested)


@pytest.mark.proves("G-65", "E-13")
@pytest.mark.parametrize("what", OTHERS)
def test_what_is_no_overflow_is_none(what: str) -> None:
    status, body = OTHERS[what]
    assert overflow(status, body) is None
    if not isinstance(body, str | bytes):
        assert overflow(status, json.dumps(body, ensure_ascii=False).encode()) is None


def test_the_table_is_as_long_as_it_should_be() -> None:
    assert sum(case["overflow"] for case in GIVEN) >= 18
    assert len(OVERFLOWS) >= 20
    assert len(OTHERS) >= 20


@pytest.mark.parametrize("depth", range(4))
def test_json_in_json_is_opened(depth: int) -> None:
    body: Any = openai("maximum context length is 4096 tokens")
    for _ in range(depth):
        body = {"error": {"message": f"upstream said: {json.dumps(body)}"}}
    assert overflow(400, body) == Overflow(4_096, None)


def test_an_endless_body_takes_no_time() -> None:
    body = {"error": {"message": "exceeds the " * 200_000, "list": [["x"] * 100] * 10_000}}
    assert overflow(400, body) is None
