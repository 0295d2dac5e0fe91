"""Plans of a rollback, of a work tree beside, and of an undo, as a dialog shows them.

Invariant: every path is named, with what it is now; what stands in the way leaves no deed, and
names the command that solves it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from expdb.actions.results import BlockedPath, PlanPath, RollbackPlan
from expdb.actions.undo_plan import UndoPlan
from expdb.errors import ExpdbError
from expdb.query.results import ABSENT
from expdb.signs import to_ascii
from expdb.text import ago, cells, config_value, decimals_for, metric, plain, size
from expdb_tui.ink import Piece, fit
from expdb_tui.marks import Marks
from expdb_tui.session import now_ms
from expdb_tui.widgets.dialog import Deed, PlanShown

LETTERS = {"create": ("A", "better"), "change": ("M", "warn"), "delete": ("D", "fail")}
BY_FOLDER = 500
"""From so many paths on they are counted by folder first."""
MOST_FOLDERS = 20
NAME = (30, 50)
Pairs = list[tuple[str, Sequence[Piece]]]
WORK_TREE = "w"


def rollback_shown(plan: RollbackPlan, marks: Marks) -> PlanShown:
    """Return what a rollback would do, or what is in its way."""
    target = plan.target
    title: list[Piece] = [
        ("Go back to ", "text+bold"), (plain(target.run.name), "text+bold"),
        (f"  {target.run.id}, step {target.step}", "dim"),
    ]  # fmt: skip
    if target.value is not None and target.run.objective is not None:
        key = target.run.objective.metric
        said = metric(target.value, decimals_for([target.value]), key=key)
        title.append((f", {plain(key)} {said}", "dim"))
    pairs: Pairs = [("", [(plain(line), "dim")]) for line in target.why]
    keys = [(WORK_TREE, "in a work tree")]
    if plan.nothing_to_do:
        pairs.append(("nothing", [("to do: the work tree equals it, and HEAD is there", "text")]))
        return PlanShown(title=title, pairs=pairs, keys=keys)
    if plan.blocked or plan.own_paths:
        pairs += _in_the_way(plan)
        return PlanShown(title=title, pairs=pairs, keys=keys)
    pairs += _code(plan)
    pairs += _config(plan, marks)
    pairs += _rest(plan)
    return PlanShown(title=title, pairs=pairs, deeds=[Deed(label="Go back")], keys=keys)


def _code(plan: RollbackPlan) -> Pairs:
    to = f"commit {plan.base_commit[:7]}"
    if plan.commit != plan.base_commit:
        to = f"snapshot {plan.commit[:7]}"
    if not plan.paths:
        return [("code", [(to, "text"), (", no file changes", "dim")])]
    at = "" if plan.head_commit is None else f"  from {plan.head_commit[:7]}"
    count = f", {_counted(len(plan.paths))}" if plan.paths else ""
    return [("code", [(to, "text"), (at + count, "dim")]), *path_pairs(plan.paths)]


def _counted(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'} change{'s' if count == 1 else ''}"


def path_pairs(paths: Sequence[PlanPath]) -> Pairs:
    """Return every path with its letter and what becomes of an edit; of many the folders first."""
    out: Pairs = []
    if len(paths) > BY_FOLDER:
        folders = Counter(path.path.rpartition("/")[0] + "/" for path in paths)
        for folder, count in folders.most_common(MOST_FOLDERS):
            out.append(("", [(f"{plain(folder):<30}", "text"), (f"  {_counted(count)}", "dim")]))
        out.append(("", []))
    width = min(NAME[1], max([NAME[0], *(cells(plain(path.path)) for path in paths)]))
    for path in paths:
        letter, role = LETTERS[path.action]
        name = fit([(plain(path.path), "text")], max(width, cells(plain(path.path))))
        out.append(("", [(f"  {letter} ", role), *name, (f"  {_fate(path)}", "dim")]))
    return out


def _fate(path: PlanPath) -> str:
    note = plain(path.note)
    if path.note in ("edited", "staged", "untracked"):
        return f"{note}: it is saved first"
    return note


def _config(plan: RollbackPlan, marks: Marks) -> Pairs:
    if plan.config_of is None:
        return []
    differ = [one for one in plan.config if one.differs]
    if not differ:
        return [("config", [("same as of the newest run here", "dim")])]
    arrow = "->" if marks.rule == "-" else "→"
    out: Pairs = []
    for one in differ:
        old, new = ("-" if v is ABSENT else config_value(v, 20) for v in one.values[:2])
        moved: list[Piece] = [(f"{plain(one.key)} ", "text"), (f"{plain(old)} {arrow} ", "dim")]
        out.append(("" if out else "config", [*moved, (plain(new), "text+bold")]))
    return out


def _rest(plan: RollbackPlan) -> Pairs:
    checkpoint = plan.checkpoint
    state = "complete" if checkpoint.complete else plain(checkpoint.problem or "not complete")
    where = "HEAD" if plan.branch in (None, "detached") else f"branch {plain(plan.branch or '')}"
    edits: Pairs = []
    if plan.num_edits:
        edits.append(("edits", [(f"{_edits(plan.num_edits)} saved first", "text")]))
    back: list[Piece] = [("u", "accent"), (" or ", "dim"), ("expdb undo", "accent")]
    return [
        ("weights", _weights(plan, f", {state}")),
        *edits,
        ("stays", [(f"git's {where} and its commits, ignored files", "text")]),
        ("undo", [*back, (" brings all of this back", "text")]),
    ]


def _weights(plan: RollbackPlan, state: str = "") -> list[Piece]:
    one = plan.checkpoint
    return [(f"checkpoint {one.step}", "text"), (f"  {size(one.bytes)}{state}", "dim")]


def _edits(count: int) -> str:
    return f"the {count} edit{'' if count == 1 else 's'} of now {'is' if count == 1 else 'are'}"


def _in_the_way(plan: RollbackPlan) -> Pairs:
    """Return what stops a rollback, and the command that solves each."""
    out: Pairs = [
        ("blocked", [(f"{len(plan.blocked)} in the way, nothing is written", "fail+bold")])
    ]
    out += _blocked(plan.blocked)
    run = f"{plan.target.run.id}@{plan.target.step}"
    if not plan.blocked:
        out = [("blocked", [("it would change the code of expdb itself", "fail+bold")])]
        out += [("", [(f"  {plain(path)}", "text")]) for path in plan.own_paths[:20]]
        out.append(("solve", [(f"expdb rollback {run} --self", "accent")]))
    elif all(one.savable for one in plan.blocked):
        out.append(
            ("solve", [(f"expdb rollback {run} --force", "accent"), ("  saves them first", "dim")])
        )
    out.append(("or", [("w", "accent"), (" makes a work tree beside this one", "text")]))
    return out


def _blocked(blocked: Sequence[BlockedPath]) -> Pairs:
    return [
        ("", [(f"  {plain(one.path)}  ", "text"), (plain(one.reason), "fail")]) for one in blocked
    ]


def worktree_shown(plan: RollbackPlan, folder: str) -> PlanShown:
    """Return what a work tree beside this one would be."""
    target = plan.target
    title: list[Piece] = [
        ("A work tree at ", "text+bold"), (plain(target.run.name), "text+bold"),
        (f"  {target.run.id}, step {target.step}", "dim"),
    ]  # fmt: skip
    pairs: Pairs = [
        ("folder", [(plain(folder), "text")]),
        ("code", [(f"commit {plan.commit[:7]}, detached", "text")]),
        ("weights", _weights(plan)),
        ("stays", [("this work tree as it is", "text")]),
        ("remove", [(f"git worktree remove {plain(folder)}", "accent")]),
    ]  # fmt: skip
    return PlanShown(title=title, pairs=pairs, deeds=[Deed(label="Make it")])


def undo_shown(plan: UndoPlan, marks: Marks) -> PlanShown:
    """Return what an undo would take back."""
    op, is_ascii = plan.op, marks.rule == "-"
    what = to_ascii(plain(op.what)) if is_ascii else plain(op.what)
    title: list[Piece] = [
        ("Undo ", "text+bold"), (what, "text+bold"),
        (f"  op {op.id}, {ago(op.created_at_ms, now_ms())}", "dim"),
    ]  # fmt: skip
    arrow = "->" if is_ascii else "→"
    pairs: Pairs = []
    if plan.ref:
        moved: list[Piece] = [
            (f"{plain(plan.ref_now)} {arrow} ", "dim"),
            (plain(plan.ref_then), "text+bold"),
        ]
        pairs.append((plan.ref, [*moved, ("  as before", "dim")]))
    elif not plan.is_of_tree:
        pairs.append(("store", [("is as before it", "text")]))
    else:
        if plan.blocked:
            pairs.append(
                ("blocked", [(f"{len(plan.blocked)} in the way, nothing is written", "fail+bold")])
            )
            pairs += _blocked(plan.blocked)
            pairs.append(
                (
                    "solve",
                    [
                        (f"expdb undo {op.id[:4]} --force", "accent"),
                        ("  saves single files first", "dim"),
                    ],
                )
            )
            return PlanShown(title=title, pairs=pairs)
        said = _counted(len(plan.paths)) if plan.paths else "no file changes"
        pairs += [("code", [(said, "text")]), *path_pairs(plan.paths)]
        head = "follows the baseline" if plan.head is None else f"{plan.head.run}@{plan.head.step}"
        pairs.append(("HEAD", [(head, "text"), ("  as before", "dim")]))
    if op.work_tree and not plan.is_of_tree:
        pairs.append(("files", [("of the work tree stay as they are", "dim")]))
    pairs.append(("again", [("this undo can be undone itself", "dim")]))
    return PlanShown(title=title, pairs=pairs, deeds=[Deed(label="Undo")])


def refused_shown(what: str, error: ExpdbError) -> PlanShown:
    """Return why something cannot be done, with what to do instead."""
    pairs: Pairs = [("refused", [(plain(error.message), "fail")])]
    pairs += [("", [(plain(line), "text")]) for line in error.details]
    pairs += [
        ("solve" if at == 0 else "", [(plain(line), "accent")])
        for at, line in enumerate(error.hints)
    ]
    return PlanShown(title=[(what, "text+bold")], pairs=pairs)
