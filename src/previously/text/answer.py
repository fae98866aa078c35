"""Answer: whether what a model wrote is a summary, freed of what models put around one.

Precision comes first: a good summary that is refused costs a call, and twice refused costs the
summary. What is merely doubtful is accepted and flagged.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from previously.errors import DraftRejected
from previously.measure import count_tokens, cut_to_tokens
from previously.model import EXTRACTIVE, Accepted, Part, Reply
from previously.text.sentences import sentences
from previously.text.spoken import NOBODY, without_reasoning

LONG_SHARE = 1.5  # of the target: longer answers are to be shortened
LONG_TOKENS_MIN = 64  # below this nothing is called long
TINY_TOKENS = 32  # that an answer may have more than its material: a short line is hard to shorten
COPY_TOKENS_MIN = 48
COPY_SHARE = 0.8
SHORT_TOKENS = 120  # a refusal says little; a summary of a refusal says who refused what
NEW_SHARE_MAX = 0.5  # of an answer's words that stem from the material, if it makes up its own
LOST_LISTED_MAX = 8
NAME_SEEN_MIN = 2
LEAK_CHARS_MIN = 12
GRAM_CHARS = 6

CUT = "cut off, ends at its last full sentence"
CUT_TO_SIZE = "cut to size at a sentence"

Material = Sequence[tuple[str, str]]

# --- what models put around a summary

_THOUGHT = re.compile(
    r"\A\W*(?:thoughts?|thinking|reasoning|analysis|思考(?:过程)?|分析|推理)\W*[:：].*?\n\s*"
    r"(?=\W*(?:final answer|answer|summary|note|final|摘要|总结|小结|概要|记录|回答|答案)\W*[:：])",
    re.DOTALL | re.IGNORECASE,
)
_WHOLE_BLOCK = re.compile(r"\A(```|~~~)[^\n`]*\n(.*?)\n?\1\s*\Z", re.DOTALL)
_PAIRS = {'"': '"', "“": "”", "「": "」", "『": "』", "'": "'", "‘": "’", "`": "`"}
_KIND_WORDS = (
    r"(?:(?:final|brief|short|concise|merged|updated|shortened|combined|plot|session)\s+)*"
    r"(?:summary|summar(?:is|iz)ation|recap|note|notes|answer|final answer|output|result)"
)
_LABEL = re.compile(
    rf"\A[\s#*_>\-【\[]*(?:(?:the\s+)?{_KIND_WORDS}"
    r"|(?:最终|合并后的|更新后的|精简后的|本轮|剧情|对话|会话)*(?:摘要|总结|小结|概要|概括|记录|前情提要|回答|答案))"
    r"(?:[\s*_】\]]*[:：][\s*_]*|[\s*_】\]]*\n+)",
    re.IGNORECASE,
)
_OPENER = re.compile(
    r"\A(?:(?:sure|certainly|of course|okay|ok|alright|understood|got it)[,.!]*\s+)?"
    r"(?:here(?:['’]s| is| are)|below is|the following is|this is)\s[^\n:]{0,120}?"
    r"(?:summary|recap|note|notes|account|version)[^\n:]{0,60}[:]\s*"
    r"|\A(?:好的|当然|没问题|明白了?|收到|可以)?[，,。！!\s]*(?:以下|下面|这)(?:就)?(?:是|为)"
    r"[^\n：:。]{0,40}[：:]\s*",
    re.IGNORECASE,
)


def cleaned(text: str) -> str:
    """The answer without reasoning, code fences, quotes and labels around it."""
    text = without_reasoning(text)
    before = None
    while text != before:
        before = text
        text = _THOUGHT.sub("", text.strip())
        block = _WHOLE_BLOCK.match(text)
        text = block[2].strip() if block else text
        text = _OPENER.sub("", _LABEL.sub("", text))
        text = _unquoted(text.strip())
    return text


def _unquoted(text: str) -> str:
    close = _PAIRS.get(text[:1])
    inner = text[1:-1]
    if close is None or len(text) < 3 or not text.endswith(close):
        return text
    return text if close in inner or text[0] in inner else inner


# --- what is no summary

_WORD = re.compile(r"[^\W_]")
_FENCE = re.compile(r"={3} [0-9a-f]{12} ={3}")
_PLACEHOLDER = re.compile(r"\{\{\s*[A-Z_]{3,}\s*\}\}|总结生成中")
_NOTHING = frozenset({"(nothing yet)", "（暂无）", "none", "n/a", "无", "暂无"})
_CANNOT = (
    r"(?:can(?:no|['’])?t|cannot|can not|won['’]?t|will not|must (?:respectfully )?decline"
    r"|have to decline|am (?:not able|unable|not comfortable)|['’]m (?:not able|unable|not "
    r"comfortable)|do(?: not|n['’]t) feel comfortable)\b"
)
_REFUSAL = re.compile(
    r"\A(?:(?:i['’]?m|i am) (?:\w+ )?sorry|sorry|apologies|i apologi[sz]e|unfortunately)?[,.;!]*"
    rf"\s*(?:but\s+)?(?:as an? [^,.]{{2,40}},\s*)?i\s?{_CANNOT}"
    r"|\Aas an? (?:(?:ai|artificial intelligence),|(?:ai |large )*(?:language model|assistant)\b)"
    r"|\A(?:this|the|your) (?:content|request|text|material)[^.]{0,60}"
    r"(?:violates|goes against|is against)"
    r"|\A(?:非常|很|十分|真的)?(?:抱歉|对不起|不好意思)[，,。！!\s]*(?:但是|但|不过)?[，,\s]*"
    r"(?:我|作为|本模型)[^。！？]{0,30}(?:无法|不能|不便|没办法|不可以|拒绝)"
    r"|\A作为(?:一个|一名|一款)?(?:AI|人工智能|大?语言模型|大模型)"
    r"|\A我(?:无法|不能|不会|没有办法|不便)"
    r"(?:协助|帮助|帮你|帮您|提供|满足|完成|处理|总结|概括|继续|生成|回答|参与|讨论|对)",
    re.IGNORECASE,
)
_OFFER = re.compile(
    r"\A(?:sure|certainly|of course|absolutely|great question)[,.!]\s.{0,40}"
    r"\b(?:i['’]|i |let me|let['’]s)"
    r"|\A(?:好的|当然|没问题)[，,。！!].{0,12}(?:我来|我会|我可以|我帮|让我)",
    re.IGNORECASE,
)
_ACTION = re.compile(r"\A\*[^*\n]{3,200}\*")
_SPEECH = re.compile(r"\A[\"“「『][^\"”」』\n]{2,300}[\"”」』]")
_FIRST_OR_SECOND = re.compile(r"\b(?:i|me|my|you|your|we|let['’]s)\b|我|你|您|咱", re.IGNORECASE)
_YOU = re.compile(r"\b(?:you|your)\b|你|您", re.IGNORECASE)
_ASKED = re.compile(r"\bask(?:s|ed|ing)?\b|\bquestion\b|\bwonder|问|疑", re.IGNORECASE)
_ASKS = re.compile(r"[?？][*_\s]*\Z")


def judge(part: Part, reply: Reply, *, last: bool, instructions: str = "") -> Accepted:
    """The words of the answer, or `DraftRejected` with the reason in words.

    `last` says that nobody will ask again: an answer that was cut off then ends at its last full
    sentence. `instructions` are ours, which must not come back as the answer.
    """
    if reply.model == EXTRACTIVE:  # it quotes, and is labelled so where it is shown
        return _accepted(_filled(reply.text.strip()))
    if reply.finish == "content_filter":
        raise DraftRejected("the model's own filter stopped the answer")
    if reply.finish == "length" and not last:
        raise DraftRejected("the answer was cut off; a shorter one is needed")
    text = _filled(cleaned(reply.text), had_words=bool(reply.text.strip()))
    flags: tuple[str, ...] = ()
    if reply.finish == "length":
        text, flags = whole_sentences(text), (CUT,)
        if not text:
            raise DraftRejected("the answer was cut off within its first sentence")
    _refuse_leaks(text, part.material, instructions)
    _refuse_chatter(text, part.material)
    found = _accepted(text, flags)
    _refuse_no_gain(found, part)
    return found


def _accepted(text: str, flags: tuple[str, ...] = ()) -> Accepted:
    return Accepted(text, count_tokens(text), flags)


def _filled(text: str, *, had_words: bool = False) -> str:
    if not text:
        raise DraftRejected(
            "the answer was only reasoning or marks" if had_words else "the answer was empty"
        )
    if not _WORD.search(text):
        raise DraftRejected("the answer was only punctuation")
    return text


def _refuse_leaks(text: str, material: Material, instructions: str) -> None:
    """Our own marks and words are no memory of anything."""
    said = _joined(material)
    if text.lower().strip(".。") in _NOTHING:
        raise DraftRejected("the answer says that there is nothing")
    if any(mark[0] not in said for mark in _PLACEHOLDER.finditer(text)):
        raise DraftRejected("the answer holds a placeholder")
    if _FENCE.search(text):
        raise DraftRejected("the answer repeats the marks around the material")
    ours = (s for s in sentences(instructions) if len(s) >= LEAK_CHARS_MIN and "{{" not in s)
    if any(sentence in text and sentence not in said for sentence in ours):
        raise DraftRejected("the answer repeats the instructions")


def _refuse_chatter(text: str, material: Material) -> None:
    """A refusal, a reply to the chat, or the next lines of its story."""
    first = text.lstrip("*_# ")
    if _REFUSAL.match(first) and count_tokens(text) <= SHORT_TOKENS:
        raise DraftRejected("the answer was a refusal")
    if _OFFER.match(first) and _is_new(text, material):
        raise DraftRejected("the answer replies to the conversation instead of noting it")
    if _plays_on(text, material) and _is_new(text, material):
        raise DraftRejected("the answer continues the scene instead of noting it")
    if _asks_the_user(text) and _is_new(sentences(text)[-1], material):
        raise DraftRejected("the answer ends with a question to the reader")


def _plays_on(text: str, material: Material) -> bool:
    """Whether it begins as a line of the scene does: an action, speech, or a speaker's label."""
    if _ACTION.match(text):
        return True
    names = {name for speaker, _ in material if (name := " ".join(speaker.split()))}
    label = next((n for n in names if re.match(re.escape(n) + r"\s*[:：]", text)), None)
    rest = text if label is None else re.split("[:：]", text, maxsplit=1)[1].lstrip()
    speech = _SPEECH.match(rest)
    if label is not None and (_ACTION.match(rest) or speech):
        return True
    return speech is not None and _FIRST_OR_SECOND.search(speech[0]) is not None


def _asks_the_user(text: str) -> bool:
    if not _ASKS.search(text):
        return False
    question = sentences(text)[-1]
    return _YOU.search(question) is not None and _ASKED.search(question) is None


def _refuse_no_gain(found: Accepted, part: Part) -> None:
    material = part.material
    size = sum(x.tokens for x in part.lines) or count_tokens("\n".join(part.notes))
    if found.tokens > max(size + TINY_TOKENS, part.tokens_max):
        raise DraftRejected("the answer is longer than its material")
    if found.tokens <= max(part.tokens_max, COPY_TOKENS_MIN) or found.tokens < size * COPY_SHARE:
        return  # a copy that has the size asked for does no harm
    if _share_from(found.text, material) >= COPY_SHARE:
        raise DraftRejected("the answer repeats the material word for word")


def _joined(material: Material) -> str:
    return "\n".join(text for _, text in material)


def _grams(text: str) -> list[str]:
    plain = "".join(char.lower() for char in text if char.isalnum())
    return [plain[i : i + GRAM_CHARS] for i in range(max(1, len(plain) - GRAM_CHARS + 1))]


def _share_from(text: str, material: Material) -> float:
    """How much of a text stems from the material, by its short runs of letters."""
    said = set(_grams("".join(f"{speaker}{words}" for speaker, words in material)))
    grams = _grams(text)
    return sum(gram in said for gram in grams) / len(grams)


def _is_new(text: str, material: Material) -> bool:
    return _share_from(text, material) < NEW_SHARE_MAX


# --- size

_STOP = re.compile(r"[。！？!?…]+[」』”’\"')）】》*_]*|\.+[”’\"')\]*_]*(?=\s|\Z)")


def whole_sentences(text: str) -> str:
    """The text up to its last full stop; empty if it has none."""
    ends = [stop.end() for stop in _STOP.finditer(text)]
    return text[: ends[-1]].strip() if ends else ""


def is_long(found: Accepted, tokens_max: int) -> bool:
    """Whether it should be said in fewer words."""
    return found.tokens > max(LONG_SHARE * tokens_max, LONG_TOKENS_MIN)


def cut_to_size(found: Accepted, tokens_max: int) -> Accepted:
    """The beginning that may stay, up to a full sentence if there is one, with a flag."""
    limit = int(max(LONG_SHARE * tokens_max, LONG_TOKENS_MIN))
    text = cut_to_tokens(found.text, limit)
    kept = whole_sentences(text) or text.rstrip()
    return replace(_accepted(kept), flags=(*found.flags, CUT_TO_SIZE))


# --- what a reader would miss

_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}")


def losses(material: Material, text: str) -> tuple[str, ...]:
    """Flags for numbers and names of the material that the text no longer has."""
    said = _joined(material)
    kept = set(_NUMBER.findall(text))
    numbers = (n for n in _NUMBER.findall(said) if len(n) > 1 and n not in kept)
    seen = Counter(_NAME.findall(said))
    speakers = (speaker for speaker, _ in material if speaker and speaker not in NOBODY)
    often = (name for name, times in seen.items() if times >= NAME_SEEN_MIN)
    names = (name for name in (*speakers, *often) if name not in text)
    return (*_flag("lost numbers", numbers), *_flag("lost names", names))


def _flag(what: str, lost: Iterable[str]) -> tuple[str, ...]:
    found = list(dict.fromkeys(lost))
    if not found:
        return ()
    more = f" and {len(found) - LOST_LISTED_MAX} more" if len(found) > LOST_LISTED_MAX else ""
    return (f"{what}: {', '.join(found[:LOST_LISTED_MAX])}{more}",)


_YES = frozenset({"yes", "是", "true", "finished", "完", "结束"})


def says_yes(text: str) -> bool:
    """Whether an answer is the one word that was asked for, alone or as a JSON value."""
    word = cleaned(text).strip().strip("\"'`.。!！*").lower()
    if word.startswith("{"):
        try:
            found: Any = json.loads(word)
        except ValueError:
            return False
        word = str(next(iter(found.values()))).lower() if len(found) == 1 else ""
    return word in _YES
