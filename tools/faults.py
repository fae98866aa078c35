"""Plant known faults, one at a time, and expect the tests to notice each of them.

    python tools/faults.py [NAME…]      with names: only those

Each fault is planted in a copy of the tree; the working tree is never touched. `tests/README.md`
lists them by the invariant they break.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 240


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong line, and the tests that must go red for it."""

    name: str
    breaks: str
    file: str
    right: str
    wrong: str
    tests: str


FAULTS = (
    Fault(
        "holes-forgotten-in-fold",
        "I1",
        "folding.py",
        "chosen += [m for m in run if from_pos <= m.pos < tail_pos]",
        "pass",
        "tests/core/test_folding.py",
    ),
    Fault(
        "waiting-messages-leave-the-tail",
        "I1",
        "folding.py",
        "tail_pos = min(tail_pos, _first_waiting(snapshot, tail_pos))",
        "pass",
        "tests/core/test_folding.py",
    ),
    Fault(
        "candidates-leave-the-tail",
        "I1",
        "folding.py",
        "message.eligible or message.state == State.CANDIDATE",
        "message.eligible",
        "tests/core/test_folding.py",
    ),
    Fault(
        "skipped-turns-are-no-holes",
        "I1",
        "store/leaves.py",
        "coverage.open_holes(conn, ref, lane, [m.id for m in skipped], now_ms)",
        "pass",
        "tests/store/test_contract.py",
    ),
    Fault(
        "invalid-leaves-open-no-holes",
        "I1",
        "store/coverage.py",
        "open_holes(conn, ref, lane, wanted - have, now_ms)",
        "pass",
        "tests/flows/test_changes.py",
    ),
    Fault(
        "a-tail-too-long-to-load-loses-its-beginning",
        "I1",
        "folding.py",
        "    if snapshot.tail_cut:\n",
        "    if False:\n",
        "tests/core/test_folding.py",
    ),
    Fault(
        "a-volume-that-reaches-into-the-tail-stays-shut",
        "I1",
        "folding.py",
        "found += _opened(children.get(cover.id, ()), children, tail_pos) or [cover]",
        "found += [cover]",
        "tests/core/test_folding.py",
    ),
    Fault(
        "a-fold-that-moves-cannot-move-back",
        "I1",
        "store/snapshots.py",
        "START if back else found.tail_pos",
        "found.tail_pos",
        "tests/flows/test_late_folds.py -k rollback",
    ),
    Fault(
        "a-fold-of-the-old-state-is-kept",
        "I1",
        "store/folds.py",
        "if seen is None or seen[0] != seen_rev:",
        "if seen is None:",
        "tests/flows/test_late_folds.py -k change_before",
    ),
    Fault(
        "a-switch-keeps-the-folds-of-the-other-lane",
        "I1",
        "store/chats.py",
        "    conn.execute(sa.update(fold).where(fold.c.chat_id == ref.id).values(stale=True))\n"
        "    conn.execute(sa.update(work)",
        "    conn.execute(sa.update(work)",
        "tests/flows/test_switch.py -k written_nothing",
    ),
    Fault(
        "a-branch-has-summaries-of-what-it-does-not-hold",
        "I4",
        "store/branches.py",
        "        ~_LEFT_BEHIND,\n",
        "",
        "tests/store/test_branches.py",
    ),
    Fault(
        "overlapping-leaves-both-stand",
        "I2",
        "store/coverage.py",
        "if taken.isdisjoint(ids):",
        "if True:",
        "tests/flows/test_changes.py",
    ),
    Fault(
        "a-cover-reaches-into-the-tail",
        "I2",
        "folding.py",
        "tail_pos = _whole_covers(covers, tail_pos)",
        "covers = [replace(c, last_pos=c.first_pos) for c in covers]",
        "tests/core/test_folding.py",
    ),
    Fault(
        "an-insertion-inside-a-leaf-goes-unnoticed",
        "I2",
        "store/coverage.py",
        "same and ordered and between[leaf.id] == len(here)",
        "same and ordered",
        "tests/flows/test_changes.py",
    ),
    Fault(
        "the-covers-of-every-lane-are-shown",
        "I2",
        "store/backlog.py",
        '        S.lane == sa.bindparam("lane"),\n        IS_READY,\n',
        "        IS_READY,\n",
        "tests/flows/test_switch.py -k only_the_new",
    ),
    Fault(
        "an-empty-answer-is-a-summary",
        "I3",
        "text/answer.py",
        "    if not text:\n        raise DraftRejected(\n",
        "    if text is None:\n        raise DraftRejected(\n",
        "tests/flows/test_story.py",
    ),
    Fault(
        "a-cut-off-answer-is-a-summary",
        "I3",
        "text/answer.py",
        'if reply.finish == "length" and not last:',
        'if reply.finish == "never":',
        "tests/core/test_gate.py",
    ),
    Fault(
        "hashes-are-not-compared",
        "I4",
        "store/coverage.py",
        "return same and ordered",
        "return ordered",
        "tests/flows/test_changes.py",
    ),
    Fault(
        "a-change-is-not-carried-up-to-the-top",
        "I4",
        "store/coverage.py",
        "        flipped.add(row.id)\n        if now_valid",
        "        if now_valid",
        "tests/store/test_coverage.py -k carried_up",
    ),
    Fault(
        "an-edit-is-told-to-one-lane-only",
        "I4",
        "store/coverage.py",
        'conn.execute(_LANES, {"chat": ref.id}).all():',
        'conn.execute(_LANES, {"chat": ref.id}).all()[:1]:',
        "tests/flows/test_switch.py -k changed_meanwhile",
    ),
    Fault(
        "a-draft-is-not-compared-with-what-is-stored",
        "I4",
        "store/leaves.py",
        "    _refuse_changed(conn, ref, draft)\n",
        "",
        "tests/store/test_contract.py",
    ),
    Fault(
        "a-lease-keeps-nobody-out",
        "I5",
        "store/work.py",
        ".where(W.chat_id == _CHAT, _FREE)",
        ".where(W.chat_id == _CHAT)",
        "tests/store/test_contract.py",
    ),
    Fault(
        "a-failed-transaction-is-kept",
        "I6",
        "store/sqlite.py",
        'raw.execute("ROLLBACK TO job")',
        "pass",
        "tests/store/test_contract.py",
    ),
    Fault(
        "summarising-marks-messages",
        "I7",
        "store/leaves.py",
        "    _link(conn, made.id, sources)\n",
        "    _link(conn, made.id, sources)\n"
        "    conn.execute(sa.update(M.id.table).values(version=M.version + 1))\n",
        "tests/flows/test_story.py",
    ),
    Fault(
        "a-branch-writes-into-its-source",
        "I7",
        "store/branches.py",
        "audit.repair(conn, made.target, lane, now_ms)",
        "conn.execute(sa.delete(hole).where(hole.c.chat_id == made.source.id))",
        "tests/flows/test_left_behind.py -k making",
    ),
    Fault(
        "the-budget-is-not-kept",
        "I9",
        "assembler.py",
        "while before + said > room:",
        "while False:",
        "tests/core/test_folding.py",
    ),
    Fault(
        "the-order-depends-on-memory-addresses",
        "I10",
        "folding.py",
        "return sorted(chosen, key=_first_pos)",
        "return sorted(chosen, key=lambda x: id(x) * 2654435761 % 4294967296)",
        "tests/core/test_folding.py",
    ),
    Fault(
        "a-key-is-told-with-what-the-upstream-said",
        "I11",
        "llm/remote.py",
        "return raw if self._secret is None else self._secret.redact_bytes(raw)",
        "return raw",
        "tests/flows/test_models.py -k a_key_is_in_no",
    ),
    Fault(
        "a-key-is-kept-with-an-attempt",
        "I11",
        "llm/remote.py",
        "return raw if self._secret is None else self._secret.redact_bytes(raw)",
        "return raw",
        "tests/web/rest/test_secrets.py",
    ),
    Fault(
        "an-export-holds-embeddings",
        "I8",
        "formats/openai.py",
        "return json.dumps({**others, **message.wire()}, ensure_ascii=False)",
        'return json.dumps({**others, **message.wire(), "embedding": [0.5] * 64})',
        "tests/web/rest/test_secrets.py",
    ),
    Fault(
        "switching-off-changes-nothing",
        "I12",
        "service/prompting.py",
        "if not snapshot.settings.enabled:",
        "if False:",
        "tests/flows/test_changes.py",
    ),
    Fault(
        "a-wish-is-taken-up-by-another-lane",
        "G-27",
        "store/backlog.py",
        "if wish.lane == lane)",
        "if wish.lane)",
        "tests/flows/test_switch.py -k wish",
    ),
    Fault(
        "a-wish-is-forgotten-while-the-chat-rests",
        "A-51",
        "planner.py",
        "    if decided.next_ms is not None or _rests(snapshot):\n",
        "    if decided.next_ms is not None:\n",
        "tests/core/test_planner.py",
    ),
    Fault(
        "a-block-is-moved",
        "prefix",
        "assembler.py",
        "(*before, *(b for group in tail for b in group), *fragments, *pending)",
        "(*(b for group in tail for b in group), *before, *fragments, *pending)",
        "tests/flows/test_story.py",
    ),
    Fault(
        "an-edit-does-not-move-the-fold",
        "G-24",
        "store/coverage.py",
        "        mark_stale(conn, ref, min(touched))",
        "        pass",
        "tests/flows/test_changes.py",
    ),
    Fault(
        "answers-without-use-are-kept",
        "G-66",
        "engine/asking.py",
        "await self._calls.forget(self._request.chat, (first.hash, again.hash))",
        "pass",
        "tests/flows/test_scenarios.py",
    ),
    Fault(
        "a-result-is-parted-from-its-call",
        "E-19",
        "text/cuts.py",
        "return not after.joined and after.source != before.source",
        "return after.source != before.source",
        "tests/engine/test_tree.py",
    ),
    Fault(
        "cuts-move-with-a-message-that-is-gone",
        "G-64",
        "text/cuts.py",
        "roundest = high >> free_bits << free_bits",
        "roundest = high",
        "tests/core/test_cuts.py",
    ),
    Fault(
        "the-call-budget-is-not-kept",
        "G-63",
        "engine/asking.py",
        "if self.tally.calls >= self._limits.calls_max:",
        "if False:",
        "tests/engine/test_tree.py",
    ),
    Fault(
        "words-left-out-are-not-told",
        "G-59",
        "engine/tree.py",
        "self._asking.tally.hurt.update(dict.fromkeys(hurt))",
        "pass",
        "tests/engine/test_tree.py",
    ),
    Fault(
        "what-a-user-wrote-is-overwritten",
        "G-27",
        "store/leaves.py",
        "if revisions.rivals(conn, ref, made):",
        "if False:",
        "tests/flows/test_revisions.py",
    ),
    Fault(
        "a-scene-leaks-to-the-absent",
        "presence",
        "text/turns.py",
        "if current and current[-1].presence != group[0].presence:",
        "if False:",
        "tests/core/test_turns.py tests/flows/test_presence.py",
    ),
    Fault(
        "a-reply-in-doubt-is-forgotten",
        "alignment",
        "web/turns.py",
        "habit = self._habits.get(name, NOTHING_KNOWN).hearing(marks)",
        "habit = self._habits.get(name, NOTHING_KNOWN)",
        "tests/web/test_habits.py",
    ),
    Fault(
        "what-came-before-our-reply-is-believed",
        "alignment",
        "align/certainty.py",
        "return known != sorted(known, reverse=True) and any(map(scene.was_seen, news))",
        "return False",
        "tests/core/test_align_heard.py",
    ),
    Fault(
        "another-reply-is-believed-at-once",
        "alignment",
        "align/certainty.py",
        "if _is_strange(scene, hints, news):",
        "if False:",
        "tests/core/test_align_heard.py",
    ),
    Fault(
        "stored-messages-are-seen-behind-later-replies",
        "alignment",
        "align/looking.py",
        "first = next(ours, len(laid.pieces))",
        "first = len(laid.pieces)",
        "tests/core/test_align_heard.py",
    ),
    Fault(
        "a-change-is-written-that-leads-nowhere",
        "alignment",
        "align/__init__.py",
        "if turn is not None and not turn.mends:",
        "if True:",
        "tests/core/test_align_heard.py",
    ),
    Fault(
        "an-instruction-that-strayed-is-a-question",
        "alignment",
        "align/moves.py",
        "known = mark in self.habit.floating or mark in self._strayed",
        "known = mark in self.habit.floating",
        "tests/core/test_align_heard.py",
    ),
    Fault(
        "a-lasting-doubt-never-ends",
        "alignment",
        "align/__init__.py",
        "if not stored or habit.doubts < DOUBTS_MIN:",
        "if True:",
        "tests/core/test_align_heard.py",
    ),
    Fault(
        "another-story-is-joined-to-a-chat-by-its-name",
        "alignment",
        "align/reading.py",
        "in_touch = is_in_touch(scene)",
        "in_touch = True",
        "tests/web/test_habits.py",
    ),
    Fault(
        "a-doubt-that-is-over-is-told-for-ever",
        "alignment",
        "store/sending.py",
        '    conn.execute(_UNDERSTOOD, {"chat": one.chat_id})\n',
        "",
        "tests/store/test_sending.py",
    ),
    Fault(
        "an-unnamed-chat-is-not-known-by-its-replies",
        "identity",
        "web/finding.py",
        "return any(replies[-REPLIES_BACK:]) and sum(told for _, told in said) > 1",
        "return False",
        "tests/web/test_tavern.py -k unnamed",
    ),
    Fault(
        "what-another-server-saw-is-not-read",
        "alignment",
        "web/turns.py",
        "alone = self._service.store.exclusive or self._unwritten(ref)",
        "alone = True",
        "tests/web/test_shared.py -k in_doubt",
    ),
    Fault(
        "lore-in-front-is-lent-as-if-it-had-been-said",
        "alignment",
        "web/unread.py",
        " | self._ahead[request.name]",
        "",
        "tests/web/test_unread.py",
    ),
    Fault(
        "a-note-behind-all-others-is-not-reached",
        "I2",
        "store/coverage.py",
        "if reach > covered_to:",
        "if False:",
        "tests/flows/test_changes.py -k moved_back",
    ),
)


def plant(fault: Fault, tree: Path) -> None:
    """Write the wrong line into a copy of the tree."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tree / name)
    shutil.copy(ROOT / "pyproject.toml", tree)
    path = tree / "src" / "previously" / fault.file
    text = path.read_text(encoding="utf-8")
    if text.count(fault.right) != 1:
        sys.exit(f"{fault.name}: the right line stands {text.count(fault.right)} times; mend me")
    path.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")


def goes_red(fault: Fault) -> bool:
    """Whether the tests notice."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        plant(fault, tree)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", *fault.tests.split()]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    if done.returncode not in (0, 1, 2):  # 2: stopped at the first failure
        sys.exit(f"{fault.name}: pytest broke\n{done.stdout.decode()[-2000:]}")
    return done.returncode != 0


def main() -> int:
    """One line per fault; 1 if any goes unnoticed."""
    chosen = [f for f in FAULTS if not sys.argv[1:] or f.name in sys.argv[1:]]
    missed = 0
    for fault in chosen:
        start = time.monotonic()
        red = goes_red(fault)
        missed += not red
        word = "noticed" if red else "MISSED "
        took_s = time.monotonic() - start
        print(f"{word} {took_s:5.1f} s  {fault.breaks:8} {fault.name}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
