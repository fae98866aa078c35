"""Use cases: what the doors may ask of the house."""

from previously.service.changes import BODY_CHARS_MAX, Changes
from previously.service.chats import NAME_CHARS_MAX, Chats
from previously.service.desk import OWNER, Background
from previously.service.prompting import AtMost, Glance
from previously.service.reading import Place, Reading
from previously.service.wishes import Wishes
from previously.service.work import Settled, TaskState, Work

__all__ = [
    "BODY_CHARS_MAX",
    "NAME_CHARS_MAX",
    "OWNER",
    "AtMost",
    "Background",
    "Glance",
    "Place",
    "Service",
    "Settled",
    "TaskState",
]


class Service(Chats, Changes, Wishes, Work, Reading):
    """One store, one background; every method changes all it says or nothing."""
