"""A small made-up corpus and queries about it, the same every time."""

from __future__ import annotations

import random
from dataclasses import dataclass

from previously.model import NewMessage

PEOPLE = ("Mara", "Tomas", "白鸦", "Dr. O'Neil", "李 明")
_CHINESE = (
    "白鸦 灯塔 守夜人 承诺 蜡烛 星期四 船长 港口 雾 银币 信 争吵 绳索 罗盘 暴风雨 笛声 三号门 密钥"
)
_ENGLISH = (
    "promise candle lantern harbour captain quarrel letter rope compass storm city study watch run"
    " travel bakery negative silver Thursday keeper"
)
_INFLECTED = (
    "promised candles lanterns harbours captains quarrelling letters ropes compasses stormed cities"
    " studied watches running travelled bakeries negatively"
)
CHINESE, ENGLISH, INFLECTED = _CHINESE.split(), _ENGLISH.split(), _INFLECTED.split()
ODD = (
    "ＡＢＣ号码１２３",
    "café au lait",
    "3.14159 and 1,234.5",
    "🎉 done 🎉",
    "東京タワーへ行く",
    "안녕하세요 세계",
    "straße NAÏVE",
    "v2.0-beta_3",
    "don't!",
    "ﬁne ½ ①",
)
SYNTAX = (
    "",
    "   ",
    "。，！？",
    '"',
    '"*()-:',
    "a*",
    "^x",
    "NEAR(a b)",
    "terms:白",
    "-promise",
    "白 AND 鸦",
    "OR",
    "NOT",
    "{a b}:c",
    "\x00",
    "白\x00鸦",
    "'; DROP TABLE message; --",
    "\\",
    "%_%",
    "$1 :x ?",
    "\ud83c",
    "(((",
    "&|!<->",
)


@dataclass(frozen=True)
class Corpus:
    """Texts by chat, and what is asked about them."""

    texts: list[NewMessage]
    queries: list[str]


def sentence(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(ODD)
    mixed = rng.random()
    if mixed < 0.45:
        return (
            "，".join("".join(rng.choices(CHINESE, k=3)) for _ in range(rng.randint(1, 4))) + "。"
        )
    if mixed < 0.85:
        return " ".join(rng.choices(ENGLISH + INFLECTED, k=rng.randint(3, 25))).capitalize() + "."
    words = (rng.choice(CHINESE if rng.random() < 0.5 else ENGLISH) for _ in range(8))
    return " ".join(words) + f" {rng.randint(0, 40)}"


def messages(count: int, seed: int) -> list[NewMessage]:
    rng = random.Random(seed)
    return [
        NewMessage(
            rng.choice(["user", "assistant"]),
            " ".join(sentence(rng) for _ in range(rng.randint(1, 3))),
            name=rng.choice([None, None, *PEOPLE]),
        )
        for _ in range(count)
    ]


def queries(seed: int) -> list[str]:
    """Two hundred, with every word that is in the corpus."""
    rng = random.Random(seed)
    made = dict.fromkeys([*SYNTAX, *ODD, *CHINESE, *ENGLISH, *INFLECTED])
    made |= dict.fromkeys(sorted({c for word in CHINESE for c in word})[:25])
    made |= dict.fromkeys(str(n) for n in range(0, 40, 5))
    while len(made) < 200:
        made[sentence(rng)[: rng.choice([2, 4, 8, 40, 400])]] = None
    return list(made)
