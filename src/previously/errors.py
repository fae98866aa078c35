"""Every exception of this package, typed by what the caller does next.

PreviouslyError
├── UserError              tell the user; trying again changes nothing
│   ├── BadInput           an argument, a request or a setting is wrong; names the field
│   ├── ChatNotFound
│   ├── MessageNotFound
│   ├── SummaryNotFound
│   ├── TaskNotFound
│   ├── ProfileNotFound
│   ├── AskFirst           it would cost more than the month has left; ask whether it should
│   ├── Conflict           it was changed meanwhile; look again before you overwrite
│   ├── StoreLocked        another process has the database open for writing
│   ├── SchemaTooNew       the database was written by a newer version
│   ├── SchemaTooOld       the database was written by an older version, and is open for reading
│   ├── ReadOnly           the memory was opened for reading
│   └── NotConfigured      a profile or an upstream is missing
├── RetryError             try the same thing again later
│   ├── ModelUnavailable   the model did not answer; `retry_after_s` if it said so
│   ├── OverBudget         the month's money is used up; the work waits
│   └── StoreUnavailable   the database could not take the write (disk full, I/O error)
├── AnswerError            the model answered, but not with a summary
│   ├── DraftRejected      says why; one re-ask, then the task has failed for now
│   └── TooLong            the request does not fit the model's window: ask about less at once
└── PlanAnewError          the world has moved on; plan again from stored state
    ├── StaleDraft         a source changed while the model was writing
    └── LeaseLost          another worker has taken over this chat
"""

from __future__ import annotations


class PreviouslyError(Exception):
    """Root of everything this package raises on purpose."""


class UserError(PreviouslyError):
    """Tell the user; trying again changes nothing."""


class BadInput(UserError):
    """An argument, request or setting is wrong. `field` names it where there is one."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class ChatNotFound(UserError):
    """No chat of this owner has this name."""


class MessageNotFound(UserError):
    """The chat has no such message."""


class SummaryNotFound(UserError):
    """The chat has no such summary."""


class TaskNotFound(UserError):
    """No such task has failed; it was done, or its messages have changed."""


class ProfileNotFound(UserError):
    """No profile of this owner has this name."""


class AskFirst(UserError):
    """It would cost more than the month has left; whoever wants it anyway says so."""


class Conflict(UserError):
    """It was changed meanwhile; look again before you overwrite."""


class StoreLocked(UserError):
    """Another process has the database open for writing."""


class SchemaTooNew(UserError):
    """The database was written by a newer version of this program."""


class SchemaTooOld(UserError):
    """The database was written by an older version and cannot be brought up while reading."""


class ReadOnly(UserError):
    """The memory was opened for reading."""


class NotConfigured(UserError):
    """A profile or an upstream is missing."""


class RetryError(PreviouslyError):
    """Try the same thing again later."""


class ModelUnavailable(RetryError):
    """The model did not answer."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OverBudget(RetryError):
    """The month's money is used up; background work waits, and says so."""


class StoreUnavailable(RetryError):
    """The database could not take the write: disk full, I/O error."""


class AnswerError(PreviouslyError):
    """The model answered, but not with a summary."""


class DraftRejected(AnswerError):
    """What came back is no summary; the message says why."""


class TooLong(AnswerError):
    """The request does not fit the model's window; `window_tokens` if the model said how large."""

    def __init__(self, message: str, *, window_tokens: int | None = None) -> None:
        super().__init__(message)
        self.window_tokens = window_tokens


class PlanAnewError(PreviouslyError):
    """The world has moved on; plan again from stored state."""


class StaleDraft(PlanAnewError):
    """A source changed while the model was writing."""


class LeaseLost(PlanAnewError):
    """Another worker has taken over this chat."""
