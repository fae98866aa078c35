"""Overflow: whether an upstream's refusal means that the prompt does not fit the model's window.

A pure function of status and body. What providers say is data: a new provider is a new row. Rate
limits speak of tokens too, and so do refusals of an answer that would be too long; neither is met
by asking about less.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from previously.llm.body import NAME_KEYS, Leaf, leaves

WINDOW_TOKENS_MIN = 16  # a smaller figure was not the window
WINDOW_TOKENS_MAX = 1_000_000_000

_SMALL_PART = 4  # a prompt of a quarter of the window is not what did not fit


class Overflow(NamedTuple):
    """A prompt that was too long, with the figures that the refusal names."""

    window_tokens: int | None = None
    requested_tokens: int | None = None  # as the upstream counts, with the answer if it said so


# Who you are, what you pay, how often you ask: these never speak of the window.
_OTHER_STATUSES = frozenset({401, 402, 403, 404, 429})

# Codes and types, in any spelling of case. They stand even beside words about limits.
_NAMES = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Azure, Groq, Cerebras
        "context_window_exceeded",
        "contextwindowexceedederror",  # LiteLLM
        "exceed_context_size_error",  # llama.cpp
        "model_context_window_exceeded",  # Anthropic
        "request_too_large",  # Anthropic, by bytes
        "string_too_long",  # gateways that check with pydantic, by characters
        "string_above_max_length",  # OpenAI, by characters
        "tokens_limit_reached",  # GitHub Models
    }
)

# Where a body says its figures outside of any sentence.
_WINDOW_KEYS = ("n_ctx", "max_context_length", "max_model_len", "context_window")
_REQUESTED_KEYS = ("n_prompt_tokens", "prompt_tokens", "input_tokens")

_OTHER_LIMITS = re.compile(
    r"tokens? per |requests? per |per[- ](?:minute|day|hour|second)|\b(?:TPM|TPD|RPM|ITPM|OTPM)\b"
    r"|rate[ _-]?limit|too many requests|throttl|please wait|\bquota|\bbilling|\bcredits?\b"
    r"|每分钟|每秒|每日|每天|速率|频率|频繁|限流|并发|配额|额度|余额|欠费",
    re.IGNORECASE,
)

# {W} is the window, {R} what was requested, {P} the prompt's and {A} the answer's part of it.
_PHRASES: tuple[tuple[str, str], ...] = (
    (
        "vLLM",
        (
            r"maximum context length is {W} tokens.{0,60}requested \d+ output tokens and your"
            r" prompt contains at least {P} input tokens,? for a total of at least {R}"
        ),
    ),
    ("vLLM", r"maximum context length is {W} tokens and your request has {P} input tokens"),
    (
        "OpenAI, Azure, DeepSeek, vLLM",
        (
            r"maximum context length is {W} tokens.{0,30}requested {R} tokens"
            r" \({P} (?:in the messages|in your prompt)"
        ),
    ),
    (
        "OpenAI, OpenRouter, SGLang, text-generation-webui",
        (
            r"maximum context length (?:is|of) {W}(?: tokens)?"
            r"(?:.{0,40}?(?:resulted in|requested|request has|contains)"
            r"(?: about| over| at least| a total of)? {R})?"
        ),
    ),
    ("Mistral", r"contains {R} tokens.{0,60}too large for model with {W} maximum context length"),
    ("Anthropic", r"prompt is too long: {R} tokens > {W} maximum"),
    ("Anthropic", r"exceed context limit: {P} \+ {A} > {W}"),
    ("Fireworks", r"prompt is too long: {R}, model maximum context length: {W}"),
    (
        "Gemini",
        (
            r"input token count(?: \({R}\))? exceeds the maximum number of tokens allowed"
            r"(?: \({W}\))?"
        ),
    ),
    ("Vertex", r"input token count is {R} but (?:the )?model only supports up to {W}"),
    ("Bedrock", r"input is too long for requested model"),
    ("Bedrock", r"number of input tokens exceeds maximum length"),
    ("xAI", r"maximum prompt length is {W}(?: but the request contains {R})?"),
    ("Cerebras", r"length of the messages.{0,40}current length is {R} while limit is {W}"),
    ("Groq", r"reduce the length of the messages"),
    (
        "llama.cpp",
        (
            r"(?:request|input|prompt)(?: \({R} tokens\))? (?:exceeds|is larger than) the"
            r" (?:available|max) context size(?: \({W})?"
        ),
    ),
    ("LM Studio", r"keep the first {R} tokens when context the overflows.{0,60} only {W} tokens"),
    ("LM Studio", r"n_keep \({R}\) >= n_ctx \({W}\)"),
    ("LM Studio", r"tokens to keep from the initial prompt is greater than the context length"),
    ("Moonshot", r"exceeded model token limit: {W}(?: \(requested: {R}\))?"),
    ("DashScope", r"range of input length should be \[\d+, ?{W}\]"),
    ("MiniMax", r"context window exceeds limit"),
    ("SiliconFlow", r"number of input tokens \({R}\) has exceeded max_prompt_tokens \({W}\)"),
    ("SiliconFlow", r"length of prompt_tokens \({R}\) must be less than max_seq_len \({W}\)"),
    ("Cohere", r"cannot exceed {W} - received {R}"),
    ("Cohere", r"too many tokens: (?:size limit exceeded|(?:the )?total number of tokens)"),
    ("SGLang, Together", r"input \({R} tokens\) is longer than the model's context length \({W}"),
    ("SGLang", r"input length \({R} tokens\) exceeds the maximum allowed length \({W}"),
    (
        "TGI",
        (
            r"`?inputs`? tokens \+ `?max_new_tokens`? must be <= {W}"
            r"(?:\. given: {P} `?inputs`? tokens and {A})?"
        ),
    ),
    ("TGI", r"`?inputs`? must have less than {W} tokens\. given: {R}"),
    ("TabbyAPI", r"length {R}(?: \+ \d+)? is greater than max_seq_len {W}"),
    ("TensorRT-LLM", r"prompt length \({R}\) exceeds maximum input length \({W}\)"),
    ("Cloudflare", r"tokens \({R}\) exceeded this model context window limit \({W}\)"),
    ("GitHub Copilot", r"prompt token count of {R} exceeds the limit of {W}"),
    ("GitHub Models", r"request body too large for .{1,60} model\. max size: {W} tokens"),
    ("Volcengine", r"total tokens of image and text exceed max message tokens"),
    ("Qianfan", r"the max input (?:characters|length|tokens) is \d+"),
    ("Zhipu", r"prompt exceeds max(?:imum)? length"),
    ("LiteLLM", r"ContextWindowExceededError"),
)

# What the others may say. A sentence about the answer's limit uses the same words.
_HINTS: tuple[tuple[str, str], ...] = (
    (
        "any",
        (
            r"\b(?:prompt|input|context|conversation)(?: text| tokens?| length)?(?: is|:)? too"
            r" (?:long|large|big)\b"
        ),
    ),
    ("any", r"longer than the (?:model's )?context (?:length|window|size)"),
    ("any", r"context (?:length|window|size|limit)(?: (?:was|has been|is))? (?:exceeded|overflow)"),
    (
        "any",
        (
            r"exceed(?:s|ed|ing)? (?:(?:the|this|your|its|model|model's|max|maximum|available|total"
            r"|allowed|allowable) )*(?:context|prompt|input)(?: token)?"
            r" (?:length|window|size|limit)"
        ),
    ),
    ("any", r"exceed(?:s|ed|ing)? (?:the |this |model |model's )*(?:max(?:imum)? )?token limit"),
    (
        "any, Chinese",
        (
            r"(?:输入|提示词?|上下文|prompt|tokens?|文本|内容|消息|对话)[^。；;]{0,16}?"
            r"(?:超过|超出|超长|过长|太长|大于)(?:[^。；;]{0,16}?(?:长度|限制|上限|窗口|最大)[^\d。]{0,12}{W})?"
        ),
    ),
)


_ANSWER_LIMITS = re.compile(
    r"max(?:imum)?[_ ](?:completion[_ ]|output[_ ]|new[_ ])?tokens\W.{0,60}"
    r"(?:exceed|too (?:large|big|high)|greater|must be|at most|range)|(?:output|completion) token",
    re.IGNORECASE | re.DOTALL,
)


def _compiled(rows: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(_spelled_out(phrase), re.I | re.S) for _, phrase in rows)


def _spelled_out(phrase: str) -> str:
    groups = {"{W}": "window", "{R}": "requested", "{P}": "prompt", "{A}": "answer"}
    for mark, name in groups.items():
        phrase = phrase.replace(mark, rf"(?P<{name}>\d[\d,]*)")
    return phrase


_PHRASE_PATTERNS = _compiled(_PHRASES)
_HINT_PATTERNS = _compiled(_HINTS)


def overflow(status: int, body: object) -> Overflow | None:
    """The overflow that a refusal speaks of, if it speaks of one.

    The body is bytes, a text, or JSON that was read already. A status of 200 stands for an error
    inside an answer or a stream.
    """
    if status in _OTHER_STATUSES:
        return None
    found = leaves(body)
    texts = [(key, value) for key, value in found if isinstance(value, str)]
    said = _said([text for key, text in texts if key not in NAME_KEYS])
    if not any(key in NAME_KEYS and text.casefold() in _NAMES for key, text in texts) and (
        said is None or any(_OTHER_LIMITS.search(text) for _, text in texts)
    ):
        return None
    said = said or Overflow()
    return Overflow(
        _field(found, _WINDOW_KEYS) or said.window_tokens,
        _field(found, _REQUESTED_KEYS) or said.requested_tokens,
    )


def _said(texts: list[str]) -> Overflow | None:
    """The overflow that sentences speak of."""
    found: list[dict[str, str | None]] = []
    for text in texts:
        patterns = _PHRASE_PATTERNS
        if not _ANSWER_LIMITS.search(text):
            patterns += _HINT_PATTERNS
        found += [match.groupdict() for pattern in patterns if (match := pattern.search(text))]
    return _figures(found) if found else None


def _figures(found: list[dict[str, str | None]]) -> Overflow | None:
    """The first of each figure; None if the answer that was asked for is what is too large."""

    def figure(name: str) -> int | None:
        said = next((groups[name] for groups in found if groups.get(name)), None)
        return None if said is None else int(said.replace(",", ""))

    window, prompt, answer = figure("window"), figure("prompt"), figure("answer")
    if window is not None and prompt is not None and prompt * _SMALL_PART <= window:
        return None
    requested = figure("requested")
    if requested is None and prompt is not None:
        requested = prompt + (answer or 0)
    return Overflow(_plausible(window), requested)


def _field(leaves: list[Leaf], names: tuple[str, ...]) -> int | None:
    found = (value for key, value in leaves if key in names and isinstance(value, int))
    return _plausible(next(found, None))


def _plausible(tokens: int | None) -> int | None:
    if tokens is None or not WINDOW_TOKENS_MIN <= tokens <= WINDOW_TOKENS_MAX:
        return None
    return tokens
