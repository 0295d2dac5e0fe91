"""`expdb rerun RUN`: the recorded command again, as a new run, with overrides appended."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from expdb import text
from expdb.actions.results import RerunPlan
from expdb.actions.resume import own_words, require_command, start_folder
from expdb.errors import BadInput
from expdb.git.command import GitError
from expdb.git.worktree import Unavailable, find_worktree
from expdb.index.reader import Reader
from expdb.model import Run
from expdb.query.status import edits_against
from expdb.store.resolve import Resolved

SHOWN = 3


def plan_rerun(reader: Reader, resolved: Resolved, overrides: Sequence[str] = ()) -> RerunPlan:
    """Return the command of a run without what says where it started from, and with `overrides`.

    An override with the same left side as a recorded one takes its place; the others are appended.

    Raises:
        BadInput: a step is named, or an override is an option, or no override at all.
        Refused: the command was recorded without a secret or as a sweep, or is no Python script, or
            its script is not found.
    """
    run = reader.run(resolved.run)
    if resolved.step is not None:
        who = text.short_id(run.id, reader.id_length)
        raise BadInput(
            "a run is run again from its first step: name it without a step",
            hint=f"from its weights: expdb rerun {who} expdb.fork={who}@{resolved.step}",
        )
    for word in overrides:
        _check(word)
    require_command(run, reader.id_length)
    cwd = start_folder(run, reader.store.root)
    return RerunPlan(
        argv=(*_without(own_words(run.command), overrides), *overrides),
        cwd=cwd,
        run=run,
        code=_code_now(run, Path(cwd)),
    )


def _check(word: str) -> None:
    if word.startswith("-"):
        raise BadInput(
            f"{text.plain(word)} is an option, not an override",
            hint="an override is KEY=VALUE, +KEY=VALUE or ~KEY",
        )
    if "=" not in word and not word.startswith("~"):
        raise BadInput(
            f"{text.plain(word)} is no override",
            hint="an override is KEY=VALUE, +KEY=VALUE or ~KEY",
        )


def _without(words: Sequence[str], overrides: Sequence[str]) -> tuple[str, ...]:
    # How a run was printed says nothing of how its repeat shall be.
    given = {word.partition("=")[0] for word in overrides} | {"expdb.print", "+expdb.print"}
    kept = (word for word in words[2:] if word.partition("=")[0] not in given)
    return (*words[:2], *kept)


def _code_now(run: Run, folder: Path) -> str:
    """Return how the code in `folder` differs from what the run was pinned to, in one line."""
    tree = run.pin.tree
    worktree = find_worktree(folder)
    if isinstance(worktree, Unavailable) or tree is None:
        return ""
    try:
        if worktree.tree_of(tree) is None:
            return f"the tree {tree[:7]} of the run is not in this repository"
        edits = edits_against(worktree, tree)
    except (GitError, OSError) as error:
        return f"whether the code is the same cannot be told: {error}"
    code = run.settings.get("code") or {}
    patterns = (*code.get("exclude", ()), *code.get("secret_files", ()))
    edits = [one for one in edits if one[0] != "?" or not _is_left_out(one[1], patterns)]
    if not edits:
        return ""
    names = ", ".join(text.plain(path) for _, path in edits[:SHOWN])
    more = f" and {len(edits) - SHOWN:,} more" if len(edits) > SHOWN else ""
    return f"the code differs from tree {tree[:7]} of the run: {names}{more}"


def _is_left_out(path: str, patterns: Sequence[str]) -> bool:
    """Tell whether a pin leaves out an untracked path: `outputs/` a folder, `*.log` a name."""
    parts = path.split("/")
    return any(
        any(fnmatch(part, pattern.rstrip("/")) for part in parts[:-1])
        or (not pattern.endswith("/") and fnmatch(parts[-1], pattern))
        for pattern in patterns
    )
