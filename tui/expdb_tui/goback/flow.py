"""Going back to a run, and undoing: the plan is read, shown, asked, and carried out.

Invariant: nothing is written before the plan was confirmed; what is refused is told with its
reasons, and the screen below stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from expdb.actions.results import RollbackPlan, RollbackResult, UndoResult, WorktreeResult
from expdb.actions.rollback import execute, prepare, to_worktree
from expdb.actions.undo import undo
from expdb.actions.undo_plan import UndoPlan, plan_undo
from expdb.errors import ExpdbError, Refused
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.text import plain
from expdb_tui.goback.plan import (
    WORK_TREE,
    refused_shown,
    rollback_shown,
    undo_shown,
    worktree_shown,
)
from expdb_tui.screens.page import Page
from expdb_tui.session import Session
from expdb_tui.widgets.dialog import CONFIRMED, Dialog, PlanShown

Answer = TypeVar("Answer")
GROUP = "change"


@dataclass(frozen=True, slots=True)
class Failed:
    """What was refused, as a value."""

    error: ExpdbError


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of a rollback, and the folder of the work tree."""

    plan: RollbackPlan
    top: Path


def go_back(page: Page, run: str, step: int | None = None) -> None:
    """Show the plan of a rollback to a run, and carry it out where it is confirmed."""
    session = page.main.session
    word = run if step is None else f"{run}@{step}"

    def ask(reader: Reader) -> Planned:
        worktree = _worktree(session)
        return Planned(prepare(reader, worktree, word), worktree.top)

    def take(found: Planned) -> None:
        shown = rollback_shown(found.plan, page.main.marks)
        _show(page, shown, lambda answer: _answered(page, found, answer))

    page.say("looking at the work tree")
    _read(page, ask, take, what="This cannot be gone back to")


def undo_newest(page: Page) -> None:
    """Show what undoing the newest operation would do, and carry it out where it is confirmed."""
    session = page.main.session

    def take(plan: UndoPlan) -> None:
        def answered(answer: str | None) -> None:
            if answer == CONFIRMED:
                write = lambda reader: undo(reader, session.worktree_of(), plan.op.id)  # noqa: E731
                _read(page, write, lambda done: _undone(page, done), what="This cannot be undone")

        _show(page, undo_shown(plan, page.main.marks), answered)

    ask = lambda reader: plan_undo(reader, session.worktree_of())  # noqa: E731
    _read(page, ask, take, what="Nothing can be undone")


def _worktree(session: Session) -> WorkTree:
    """Return the work tree.

    Raises:
        Refused: there is none.
    """
    found = session.worktree_of()
    if found is None:
        raise Refused(
            "this is no git work tree: there is no code here to go back with",
            hint="config and weights of a run: expdb path RUN",
        )
    return found


def _show(page: Page, plan: PlanShown, answered: Callable[[str | None], None]) -> None:
    page.app.push_screen(Dialog(plan), answered)


def _read(
    page: Page, question: Callable[[Reader], Answer], then: Callable[[Answer], None], *, what: str
) -> None:
    """Ask, or write, in a thread; what is refused becomes a dialog with its reasons."""

    def ask(reader: Reader) -> Answer | Failed:
        try:
            return question(reader)
        except ExpdbError as error:
            return Failed(error)

    def take(found: Answer | Failed) -> None:
        if isinstance(found, Failed):
            _show(page, refused_shown(what, found.error), lambda answer: None)
        else:
            then(found)

    page.read(ask, take, group=GROUP, is_new=True)


def _answered(page: Page, found: Planned, answer: str | None) -> None:
    session, plan = page.main.session, found.plan
    if answer == CONFIRMED:
        page.say("going back")
        write = lambda reader: execute(reader, _worktree(session), plan)  # noqa: E731
        _read(
            page, write, lambda done: _gone_back(page, done), what="The work tree stays as it was"
        )
    elif answer == WORK_TREE:
        _ask_worktree(page, found)


def _ask_worktree(page: Page, found: Planned) -> None:
    session, plan = page.main.session, found.plan
    run = plan.target.run.id
    folder = found.top.parent / f"at-{run[:4]}"

    def answered(answer: str | None) -> None:
        if answer != CONFIRMED:
            return
        word = f"{run}@{plan.target.step}"

        def write(reader: Reader) -> WorktreeResult:
            worktree = _worktree(session)
            return to_worktree(reader, worktree, folder, word)

        _read(page, write, lambda done: _made(page, done), what="No work tree was made")

    _show(page, worktree_shown(plan, str(folder)), answered)


def _gone_back(page: Page, done: RollbackResult) -> None:
    count = done.num_paths
    files = f"{count} file{'' if count == 1 else 's'}"
    _changed(
        page, f"{plain(done.what)}: {files} restored; expdb undo takes it back (op {done.op[:4]})"
    )


def _undone(page: Page, done: UndoResult) -> None:
    _changed(page, f"undone: {plain(done.undone.what)}   (op {done.op[:4]})")


def _made(page: Page, done: WorktreeResult) -> None:
    _changed(page, f"made {plain(done.path)}; there: expdb tui")


def _changed(page: Page, said: str) -> None:
    page.main.head = page.main.session.head_now()
    page.say(said)
    page.reload()
