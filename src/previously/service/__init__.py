"""Use cases: what the doors may ask of the house."""

from previously.service.carrying import Carrying
from previously.service.changes import BODY_CHARS_MAX, Changes
from previously.service.chats import NAME_CHARS_MAX, Chats
from previously.service.desk import OWNER, Background
from previously.service.prompting import AtMost, Glance
from previously.service.reading import Place, Reading
from previously.service.trials import Trial, Trials
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
    "Trial",
]


class Service(Chats, Carrying, Changes, Wishes, Work, Trials, Reading):
    """One store, one background; every method changes all it says or nothing."""
