"""The one store: every method is one transaction on whichever database it was given."""

from __future__ import annotations

from previously.store.sql.access import Access
from previously.store.sql.chats import Chats
from previously.store.sql.messages import Messages
from previously.store.sql.profiles import Profiles
from previously.store.sql.prompts import Prompts
from previously.store.sql.search import Search
from previously.store.sql.settings import StoredSettings
from previously.store.sql.summaries import Summaries
from previously.store.sql.work import Work


class SqlStore(Chats, Messages, Summaries, Prompts, Work, Search, StoredSettings, Profiles, Access):
    """SQLite or PostgreSQL, one set of transactions."""
