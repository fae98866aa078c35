"""The nouns: frozen values that check themselves, with no clock, database or network behind them.

`docs/glossary.md` has one word for each. A message's key packs its chat and its birth number, so
that identity never depends on order; `pos` is order and may change.
"""

from previously.model.asking import Accepted, Ask, Line, Part, Reply, Usage
from previously.model.chats import Chat, ChatRef
from previously.model.folds import Fold, FoldKey, Item, ItemKind, Shown
from previously.model.keys import (
    BIRTH_BITS,
    BIRTH_MASK,
    DIGEST_BYTES,
    POS_GAP,
    START,
    birth,
    digest,
    key,
)
from previously.model.messages import (
    BLANKS,
    CLIENT,
    HIDING,
    IMPORTED,
    ROLES,
    Kind,
    Message,
    NewMessage,
    State,
    TurnRecord,
)
from previously.model.prompts import (
    Block,
    Dropped,
    Prompt,
    Recall,
    Recalled,
    Trace,
    total_tokens,
    wire_all,
)
from previously.model.sent import Sent, SentTurn, Weight
from previously.model.snapshots import BACKLOG_MAX, Backlog, Snapshot, Uncovered
from previously.model.summaries import (
    EXTRACTIVE,
    PINNED,
    REST,
    Carried,
    NewCarried,
    Summary,
    SummaryStatus,
)
from previously.model.tasks import Cleaning, Draft, Task, Verdict
from previously.model.work import CANCELLED, Attempt, Intent, Lease, Rebuild, WorkState

__all__ = [
    "BACKLOG_MAX",
    "BIRTH_BITS",
    "BIRTH_MASK",
    "BLANKS",
    "CANCELLED",
    "CLIENT",
    "DIGEST_BYTES",
    "EXTRACTIVE",
    "HIDING",
    "IMPORTED",
    "PINNED",
    "POS_GAP",
    "REST",
    "ROLES",
    "START",
    "Accepted",
    "Ask",
    "Attempt",
    "Backlog",
    "Block",
    "Carried",
    "Chat",
    "ChatRef",
    "Cleaning",
    "Draft",
    "Dropped",
    "Fold",
    "FoldKey",
    "Intent",
    "Item",
    "ItemKind",
    "Kind",
    "Lease",
    "Line",
    "Message",
    "NewCarried",
    "NewMessage",
    "Part",
    "Prompt",
    "Rebuild",
    "Recall",
    "Recalled",
    "Reply",
    "Sent",
    "SentTurn",
    "Shown",
    "Snapshot",
    "State",
    "Summary",
    "SummaryStatus",
    "Task",
    "Trace",
    "TurnRecord",
    "Uncovered",
    "Usage",
    "Verdict",
    "Weight",
    "WorkState",
    "birth",
    "digest",
    "key",
    "total_tokens",
    "wire_all",
]
