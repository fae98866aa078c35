"""Stand-ins for tests and demonstrations: a summariser that follows a script, an upstream that
answers at once. Both are real at the seam: the one is an `Llm`, the other an HTTP server.

`python -m previously.testing --port 8378` runs the upstream from a shell.
"""

from previously.testing.answers import Answer, Failure, Trouble, count_messages, refusal
from previously.testing.scripted import Line, Script, ScriptedLlm, plain_note
from previously.testing.upstream import FakeUpstream, Seen

__all__ = [
    "Answer",
    "Failure",
    "FakeUpstream",
    "Line",
    "Script",
    "ScriptedLlm",
    "Seen",
    "Trouble",
    "count_messages",
    "plain_note",
    "refusal",
]
