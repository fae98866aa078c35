"""What a client says of a request beside its messages, and what earlier requests have shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

TYPES = frozenset({"normal", "swipe", "regenerate", "continue", "impersonate", "quiet"})
HEARD_MAX = 128  # paragraphs and lines of replies that are remembered
AWAY = -1  # in the place of turns: a later request did not have it
ASIDE = frozenset({"impersonate", "quiet"})  # their answers never join the history


@dataclass(frozen=True, slots=True)
class Hints:
    """The request's own words about itself; all may be missing."""

    type: str = ""
    stream: bool | None = None
    last_id: int | None = None  # the client's floor of the newest message
    names: frozenset[str] = frozenset()
    swipe: int | None = None  # which of the replies to the last question is asked for, from 1 on

    @staticmethod
    def read(ours: Mapping[str, Any], type_header: str = "", stream: object = None) -> Hints:
        """From the body's `previously` object, the header form of its type, and `stream`."""
        kind = str(type_header or ours.get("type") or "").strip().lower()
        named = (str(ours.get(field) or "") for field in ("user", "char", "group"))
        names = {name.strip() for one in named for name in one.split(",")}
        return Hints(
            type=kind if kind in TYPES else "",
            stream=stream if isinstance(stream, bool) else False,
            last_id=_number(ours.get("last_id")),
            names=frozenset(names - {""}),
            swipe=_number(ours.get("swipe")),
        )

    @property
    def tells(self) -> bool:
        """Whether the client says what kind of turn it asks for."""
        return self.type in ("normal", "swipe", "regenerate")


def _number(given: object) -> int | None:
    """Clients write numbers as texts, and nothing as an empty one."""
    told = "" if given is None else str(given).strip()
    return int(told) if told.isdecimal() and told.isascii() else None


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a text stood that no stored message says."""

    after: int  # the last stored message before it; 0: none
    later: int  # how much was said after it
    spoken: bool  # it may have been said by somebody: it is no instruction
    order: int  # among what else stood there…
    request: int  # …in that request
    newest: int  # message that was stored then
    stays: int = 0  # for how many turns it has been there; less: it was gone since
    first: tuple[int, int] = (0, 0)  # request that had it first behind `after`, and `later` then
    plain: int | None = None  # `later` without what was known to wander; None: nobody counted
    room: int = 0  # how much stood after it, instructions and a narrator's lines as well


@dataclass(frozen=True, slots=True)
class Habit:
    """What earlier requests of a client have shown. It may be empty: then less is certain."""

    spots: Mapping[bytes, Spot] = field(default_factory=dict[bytes, Spot])
    floating: frozenset[bytes] = frozenset()  # texts that stood at more than one place: injected
    requests: int = 0
    told: frozenset[int] = frozenset()  # the last messages that the last request showed
    streams: bool | None = None  # whether its turns are streamed
    last_id: int | None = None  # of its last turn
    views: Mapping[int, int] = field(default_factory=dict[int, int])  # shown shortened, from where
    asked: tuple[bytes, ...] = ()  # the paragraphs of what was asked last and is not understood
    others: bool = False  # replies have been kept that did not come from us
    in_touch: bool = True  # its last request was one of this chat, whatever else it meant
    doubts: int = 0  # requests since its last turn that were not understood
    heard: tuple[bytes, ...] = ()  # those of the replies to what was not understood, newest last

    def understood(self, hints: Hints) -> Habit:
        """After a turn of the client, with which every doubt has ended."""
        return replace(
            self,
            streams=hints.stream,
            last_id=hints.last_id,
            asked=(),
            in_touch=True,
            doubts=0,
            heard=(),
        )

    def hearing(self, marks: Sequence[bytes]) -> Habit:
        """With the paragraphs of a reply that was passed on: whoever shows it again has kept it.
        Not of one to a request that may be another chat's, under the same name."""
        if not self.in_touch:
            return self
        heard = dict.fromkeys((*self.heard, *marks))
        return replace(self, heard=tuple(heard)[-HEARD_MAX:])

    def joined(self, mine: Habit) -> Habit:
        """What all have written down, with what this process has heard itself."""
        return replace(self.hearing(mine.heard), in_touch=mine.in_touch)

    def written(self) -> dict[str, Any]:
        """What is worth to outlive a process: texts that are injected, or may be, with what stands
        around them, and how turns are told from side requests."""
        doubt = any(s.spoken for s in self.spots.values())
        spots = {
            mark.hex(): [
                *(s.after, s.later, s.order, s.request, s.newest, s.stays, *s.first, s.plain),
                *(s.spoken, s.room),
            ]
            for mark, s in self.spots.items()
            if doubt
        }
        told = sorted(self.told) if spots else []
        floating = sorted(m.hex() for m in self.floating)
        return {
            "floating": floating,
            "spots": spots,
            "told": told,
            "streams": self.streams,
            "views": sorted(self.views.items()),
            "asked": [mark.hex() for mark in self.asked],
            "others": self.others,
            "in_touch": self.in_touch,
            "doubts": self.doubts,
            "heard": [mark.hex() for mark in self.heard],
        }

    def recalling(self, written: Mapping[str, Any]) -> Habit:
        """With what this or another process has written down; what it saw itself goes first."""
        if not written:
            return self
        floating = frozenset(map(bytes.fromhex, written["floating"]))
        spots = {
            # Requests are numbered by each process for itself.
            bytes.fromhex(mark): Spot(
                after,
                later,
                spoken=more[4] if len(more) > 4 else True,
                room=more[5] if len(more) > 5 else 0,
                order=order,
                request=-1 - n,
                newest=newest,
                stays=more[0] if more else 0,
                first=(-1 - more[1], more[2]) if len(more) > 1 else (-1 - n, later),
                plain=more[3] if len(more) > 3 else None,
            )
            for mark, (after, later, order, n, newest, *more) in written["spots"].items()
            if isinstance(after, int)  # as it is written since
        }
        return replace(
            self,
            heard=tuple(map(bytes.fromhex, written.get("heard", ()))),
            floating=self.floating | floating,
            spots={**spots, **self.spots},
            told=self.told or frozenset(written["told"]),
            streams=written.get("streams") if self.streams is None else self.streams,
            views={**dict(written.get("views", ())), **self.views},
            asked=self.asked or tuple(map(bytes.fromhex, written.get("asked", ()))),
            others=self.others or written.get("others", False),
            doubts=self.doubts or written.get("doubts", 0),
            in_touch=True,
        ).joined(self)
