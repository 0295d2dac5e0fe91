"""What `push` and `pull` share: which remote and runs the words name, and what is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from expdb.cli.context import Context
from expdb.cli.exit import ExitCode

if TYPE_CHECKING:
    from expdb.actions.exchange import Exchanged
    from expdb.store.remotes import Remote
    from expdb.store.store import Store


def remote_and_runs(store: Store, words: Sequence[str]) -> tuple[Remote, list[str]]:
    """Return the remote, and the words behind it: the first word where it names one, else the only
    remote there is.

    Raises:
        NotFound: there is no remote, or several and the first word names none.
    """
    from expdb.store.remotes import find_remote, read_remotes

    remotes = read_remotes(store.layout)
    if words and (words[0] in remotes or len(remotes) != 1):
        return find_remote(store.layout, words[0]), list(words[1:])
    return find_remote(store.layout), list(words)


def say(context: Context, done: Exchanged, *, quiet: bool, as_json: bool) -> int:
    """Print what was brought, and return the exit code."""
    from expdb.report import exchange as report

    out = context.out
    if as_json:
        out.json(report.json_of(done))
    elif quiet:
        out.lines([one.run for one in done.of("new", "updated")])
    elif done.dry_run:
        out.lines(report.render_plan(done, out.style), page=True)
    else:
        for line in report.render_done(done, out.talk_style):
            out.talk(line)
    for note in done.notes:
        out.warning(note)
    refused = done.of("refused")
    if refused:
        out.error(report.said_of_refused(done), details=report.details(refused, out.talk_style))
        for hint in dict.fromkeys(one.hint for one in refused if one.hint):
            out.hint(hint)
    if done.dry_run:
        out.talk("nothing written")
    elif done.verb == "pull" and done.of("new") and not (as_json or quiet):
        out.next([("undo", "expdb undo")], gap=False)
    is_refused = bool(refused) or any(note.startswith("refused: ") for note in done.notes)
    return ExitCode.REFUSED if is_refused else ExitCode.OK
