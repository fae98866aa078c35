"""`previously demo`: a story of 416 floors, folded, and where a promise of floor 12 is found."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from previously import app
from previously.cli.options import command
from previously.errors import ChatNotFound
from previously.formats import openai
from previously.model import EXTRACTIVE, Block, Chat, Item, Message, Prompt, Summary
from previously.service import Place

LANGUAGES = ("en", "zh")
PROMISE_FLOOR = 12
SETTLE_S = 300.0
INDEX_BATCH = 128
EXCERPT_CHARS = 300


def add(commands: Any) -> None:
    """Its options."""
    parser = command(
        commands, "demo", run, "Fold a story of 416 floors and show what became of a promise."
    )
    parser.add_argument(
        "--language", choices=LANGUAGES, default="en", help="which story (default %(default)s)"
    )
    parser.add_argument("--chat", metavar="NAME", help="chat to put it in (default demo-LANGUAGE)")
    parser.add_argument(
        "--budget-tokens", type=int, metavar="N", help="largest prompt (default 8000)"
    )


@dataclass(frozen=True, slots=True)
class Report:
    """What the demonstration found."""

    title: str
    chat: str
    floors: int
    history_tokens: int
    summaries: dict[str, int]
    seconds: float
    prompt_tokens: int
    budget_tokens: int
    parts: dict[str, tuple[int, int]]  # of the prompt: tokens, and how many things
    question: str
    promise: str
    found: str  # fragment | summary | verbatim | nowhere
    how: str
    covers: tuple[str, ...]  # what stands for the promise's floor, smallest first
    shown_by: str | None  # the one of them that is in the prompt


async def run(args: argparse.Namespace) -> int:
    """Import the story unless it is there, fold it, build the prompt of its last floor."""
    location = app.database_location(args.database, args.data)
    name = args.chat or f"demo-{args.language}"
    await _prepare(location, name, args.language)
    began = time.monotonic()
    async with await app.build(location) as house:
        chat = await house.service.find_chat(name)
        await house.service.settle(chat.ref, SETTLE_S)
        seconds = time.monotonic() - began
        built = await house.service.prompt(chat.ref, args.budget_tokens)
        report = await _report(house, chat, args.language, built, seconds)
    if args.json:
        print(json.dumps(asdict(report), ensure_ascii=False, indent=1))
    else:
        print((_in_chinese if args.language == "zh" else _in_english)(report))
    return 0


async def _prepare(location: app.Location, name: str, language: str) -> None:
    """The story in a chat that quotes instead of asking a model; its last floor is the question."""
    async with await app.build(location, worker=False) as house:
        with suppress(ChatNotFound):
            await house.service.find_chat(name)
            return
        *told, asked = openai.read(_sample(f"{language}.jsonl"))
        (chat,) = await house.service.import_chats({name: told})
        await house.service.open_chat(name, settings={"summary_profile": EXTRACTIVE})
        while await house.store.index_some(INDEX_BATCH, ripe=False):
            pass
        await house.service.append(chat.ref, [asked])


def _sample(name: str) -> str:
    return (files("previously") / "samples" / name).read_text(encoding="utf-8")


async def _report(
    house: app.House, chat: Chat, language: str, built: Prompt, seconds: float
) -> Report:
    facts = json.loads(_sample(f"{language}.facts.json"))
    needle = next(f["needle"] for f in facts["facts"] if f["floor"] == PROMISE_FLOOR)
    places = [p async for p in house.service.places(chat.ref, built)]
    summaries = [s async for s in house.service.summaries(chat.ref)]
    place = places[PROMISE_FLOOR]
    line = (await house.store.covering(chat.ref, chat.lane, [place.message.id]))[place.message.id]
    named = {s.id: _named(s) for s in summaries}
    found, how = _where(built, needle)
    return Report(
        title=facts["title"],
        chat=chat.ref.name,
        floors=len(places),
        history_tokens=sum(p.message.tokens for p in places),
        summaries=dict(Counter(s.kind for s in summaries)),
        seconds=round(seconds, 1),
        prompt_tokens=built.tokens,
        budget_tokens=built.trace.budget_tokens,
        parts=_parts(built.trace.blocks),
        question=_excerpt(places[-1].message, ""),
        promise=_excerpt(place.message, needle),
        found=found,
        how=how,
        covers=tuple(named[i] for i in line),
        shown_by=_shown_by(place, named),
    )


def _named(summary: Summary) -> str:
    return f"{summary.kind} {Item.of(summary)}"


def _shown_by(place: Place, named: dict[int, str]) -> str | None:
    return named.get(place.summary_id or 0) if place.how == "summary" else None


def _parts(blocks: Sequence[Block]) -> dict[str, tuple[int, int]]:
    parts = {"summaries": [0, 0], "verbatim": [0, 0], "recalled": [0, 0]}
    names = {"cover": "summaries", "fragment": "recalled"}
    for block in blocks:
        part = parts[names.get(block.place, "verbatim")]
        part[0] += block.tokens
        part[1] += len(block.sources)
    return {name: (tokens, count) for name, (tokens, count) in parts.items()}


def _where(built: Prompt, needle: str) -> tuple[str, str]:
    """In which part of the prompt these words stand, and why they do."""
    holding = [b for b in built.trace.blocks if needle in str(b.wire.get("content"))]
    hit = next((r for r in built.trace.recalled if needle in r.message.body), None)
    if hit is not None and any(b.place == "fragment" for b in holding):
        return "fragment", f"#{hit.floor} (score {hit.score:.1f}; {hit.reason})"
    cover = next((b for b in holding if b.place == "cover"), None)
    if cover is not None:
        return "summary", ""
    return ("verbatim", "") if holding else ("nowhere", "")


def _excerpt(message: Message, needle: str) -> str:
    text = needle or " ".join(message.body.split())
    return text if len(text) <= EXCERPT_CHARS else f"…{text[-EXCERPT_CHARS:]}"


def _in_english(report: Report) -> str:
    kinds = ", ".join(f"{count} {kind}s" for kind, count in report.summaries.items())
    share = report.history_tokens / report.prompt_tokens
    ways = {
        "fragment": f"yes, word for word: recalled as {report.how}",
        "summary": f"yes, word for word: in {report.shown_by}",
        "verbatim": "yes: it is still recent",
        "nowhere": "not word for word",
    }
    under = " in ".join(report.covers) or "no summary yet"
    shown = f"; the prompt holds {report.shown_by}" if report.shown_by else ""
    said = f"{report.floors} floors, {report.history_tokens:,} tokens as they were said"
    size = f"{report.prompt_tokens:,} tokens of at most {report.budget_tokens:,}"
    return "\n".join(
        [
            f"{report.title}: {said}.",
            f"Folded in {report.seconds} s, without a model: {kinds}.",
            "",
            f"The prompt of the last floor has {size}, {share:.1f} times less:",
            *(_part_line(name, *part) for name, part in report.parts.items()),
            "",
            f"Floor {report.floors - 1} asks: {report.question}",
            f"Floor {PROMISE_FLOOR} said: {report.promise}",
            f"In the prompt: {ways[report.found]}.",
            f"Its floor is covered by {under}{shown}.",
            "",
            f"Look around: previously prompt {report.chat} --trace",
        ]
    )


def _part_line(name: str, tokens: int, count: int) -> str:
    what = {"summaries": "summaries", "verbatim": "messages", "recalled": "old messages"}[name]
    return f"  {name:9} {tokens:6,} tokens in {count} {what}"


def _in_chinese(report: Report) -> str:
    words = {"mini": "小总结", "volume": "卷", "era": "大卷"}
    kinds = "、".join(f"{words.get(kind, kind)} {n}" for kind, n in report.summaries.items())
    share = report.history_tokens / report.prompt_tokens
    ways = {
        "fragment": f"在，一字不差：作为旧文引回 {report.how}",
        "summary": f"在，一字不差：写在 {report.shown_by} 里",
        "verbatim": "在：还在近文里",
        "nowhere": "没有原话",
    }
    names = {"summaries": "摘要", "verbatim": "近文", "recalled": "引回"}
    under = " ⊂ ".join(report.covers) or "还没有摘要"
    shown = f"；提示词里是 {report.shown_by}" if report.shown_by else ""
    size = f"{report.prompt_tokens:,} 词元（上限 {report.budget_tokens:,}）"
    return "\n".join(
        [
            f"《{report.title}》：{report.floors} 楼，原文 {report.history_tokens:,} 词元。",
            f"{report.seconds} 秒折叠完毕，没有用模型：{kinds}。",
            "",
            f"最后一楼的提示词 {size}，只有原文的 1/{share:.1f}：",
            *(
                f"  {names[name]} {tokens:6,} 词元，{count} 条"
                for name, (tokens, count) in report.parts.items()
            ),
            "",
            f"第 {report.floors - 1} 楼问：{report.question}",
            f"第 {PROMISE_FLOOR} 楼说过：{report.promise}",
            f"提示词里在不在：{ways[report.found]}。",
            f"这一楼由 {under} 覆盖{shown}。",
            "",
            f"逐楼查看：previously prompt {report.chat} --trace",
        ]
    )
