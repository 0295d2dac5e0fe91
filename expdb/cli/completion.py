"""`expdb completion`, and the answers to the shell that has it.

The script of a shell calls `expdb` with `_EXPDB_COMPLETE=<shell>_complete`; click finds what stands
at the cursor, `query.completion` the names.

Invariant: a name is inserted as text: quoted for the shell where the shell does not do that itself,
and left out where it holds a control character. An error completes nothing and says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.cli.shells import BASH, FISH, SCRIPTS, ZSH
from expdb.cli.typed import Typed, typed
from expdb.errors import ExpdbError
from expdb.text import plain

if TYPE_CHECKING:
    from expdb.query.completion import Names

VARIABLE: Final = "_EXPDB_COMPLETE"

Item = CompletionItem[str]
Complete = Callable[[click.Context, str], list[Item]]


@click.command(cls=VerbCommand)
@click.argument("shell", type=click.Choice(list(SCRIPTS)))
@click.pass_obj
def completion(context: Context, shell: str) -> None:
    """Print the script that completes verbs, options, runs, metrics and steps in a shell.

    bash, in ~/.bashrc:  eval "$(expdb completion bash)"

    zsh, in ~/.zshrc behind compinit:  eval "$(expdb completion zsh)"

    fish, once:  expdb completion fish > ~/.config/fish/completions/expdb.fish

    Names come from the store that the command would use, also with -C DIR and --store DIR.
    """
    context.out.lines(SCRIPTS[shell].splitlines())


def answer(root: click.Group, instruction: str) -> list[str]:
    """Return the lines that the script of a shell waits for; none where nothing fits."""
    shell = next((one for one in SHELLS if instruction == f"{one.name}_complete"), None)
    if shell is None:
        return []
    try:
        found = shell(_completing(root), {}, "expdb", VARIABLE).complete()
    except (ExpdbError, click.ClickException, OSError, ValueError):
        return []
    return found.split("\n") if found else []


class _Bash(ShellComplete):
    """Bash inserts what it is told as it stands, from where its own word begins."""

    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        self._word = _typed_in_bash()
        return list(self._word.before), self._word.text

    def format_completion(self, item: Item) -> str:
        if item.type != "plain":
            return f"{item.type},"
        quoted = self._word.rest_of(item.value)
        return "" if quoted is None else f"plain,{quoted}"


class _Zsh(ShellComplete):
    """Zsh quotes what it inserts."""

    name: ClassVar[str] = "zsh"
    source_template: ClassVar[str] = ZSH

    def get_completion_args(self) -> tuple[list[str], str]:
        words = [" ".join(split_arg_string(word)) for word in _variable("COMP_WORDS").split("\n")]
        return words[1:-1], words[-1]

    def format_completion(self, item: Item) -> str:
        return f"{item.type}\n{item.value}\n{plain(item.help or '')}"


class _Fish(ShellComplete):
    """Fish quotes what it inserts, and takes a description behind a tab."""

    name: ClassVar[str] = "fish"
    source_template: ClassVar[str] = FISH

    def get_completion_args(self) -> tuple[list[str], str]:
        words = _variable("COMP_WORDS").split("\n")
        return words[1:], " ".join(split_arg_string(_variable("COMP_CWORD")))

    def format_completion(self, item: Item) -> str:
        described = f"\t{plain(item.help)}" if item.help else ""
        return f"{item.type},{item.value}{described}"


SHELLS: Final[tuple[type[ShellComplete], ...]] = (_Bash, _Zsh, _Fish)


def _variable(name: str) -> str:
    return os.environ.get(name, "")


def _typed_in_bash() -> Typed:
    line = _variable("COMP_LINE")
    if line:
        return typed(line, breaks=_variable("COMP_WORDBREAKS"))
    *before, word = _variable("COMP_WORDS").split("\n")
    return Typed(before=before[1:], text=word, replaced_from=0, quote="")


# ------------------------------------------------------------------- what click completes


class _Completing(click.Group):
    """The group of all verbs, whose parameters know the names of the store."""

    verbs: click.Group

    def list_commands(self, ctx: click.Context) -> list[str]:
        return self.verbs.list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = self.verbs.get_command(ctx, cmd_name)
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        for one in (command, *inner):
            for param in one.params if one is not None else ():
                _teach(param)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Item]:
        """Return the verbs from their table, so that no verb's module is loaded for its name."""
        from expdb.cli.verbs import all_verbs

        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        found = all_verbs().items()
        return [Item(name, help=verb.help) for name, verb in found if name.startswith(incomplete)]


def _completing(root: click.Group) -> _Completing:
    made = _Completing(name=root.name, params=root.params, **_same(root))
    made.verbs = root
    for param in made.params:
        _teach(param)
    return made


def _same(root: click.Group) -> dict[str, Any]:
    return {"invoke_without_command": True, "context_settings": root.context_settings}


def _teach(param: click.Parameter) -> None:
    """Let a parameter complete names of the store, by what it is called."""
    complete = COMPLETES.get(param.name or "")
    if complete is not None and not isinstance(param.type, click.Choice):
        param.shell_complete = complete  # type: ignore[method-assign, assignment]


def _from_store(find: Callable[[Names, str], list[str]]) -> Complete:
    """Return what completes a parameter with names of the store that the command would use."""

    def complete(ctx: click.Context, incomplete: str) -> list[Item]:
        from expdb.query.completion import Names
        from expdb.store.locate import find_store

        given = ctx.find_root().params
        start = Path.cwd() / (given.get("directory") or "")
        explicit = given.get("store") or os.environ.get("EXPDB_STORE") or None
        names = Names(find_store(start=start, explicit=explicit))
        return _items(find(names, incomplete), incomplete)

    return complete


def _items(names: Iterable[str], incomplete: str) -> list[Item]:
    """Return what can be inserted: visible text that no command would take for an option."""
    return [
        Item(name)
        for name in names
        if name.startswith(incomplete) and plain(name) == name and not name.startswith("-")
    ]


def _declared(ctx: click.Context, incomplete: str) -> list[Item]:
    from expdb.query.declared import declared
    from expdb.store.locate import git_main_top

    start = Path.cwd() / (ctx.find_root().params.get("directory") or "")
    return _items(declared([start, git_main_top(start) or start]), incomplete)


def _folder(ctx: click.Context, incomplete: str) -> list[Item]:
    return [Item(incomplete, type="dir")]


_runs = _from_store(lambda names, typed: names.runs(typed))


def _runs_or_declared(ctx: click.Context, incomplete: str) -> list[Item]:
    declared = _declared(ctx, incomplete)
    known = {item.value for item in declared}
    try:
        runs = _runs(ctx, incomplete)
    except ExpdbError:
        runs = []  # an experiment is measured before there is a store
    return [*declared, *(item for item in runs if item.value not in known)]


COMPLETES: Final[dict[str, Complete]] = {
    "run": _runs,
    "runs": _runs,
    "experiments": _declared,
    "target": _runs_or_declared,
    "metric": _from_store(lambda names, typed: names.metrics()),
    "remote": _from_store(lambda names, typed: names.remotes()),
    "remote_or_run": _from_store(lambda names, typed: [*names.remotes(), *names.runs(typed)]),
    "op": _from_store(lambda names, typed: names.ops()),
    "directory": _folder,
    "store": _folder,
    "folder": _folder,
}
"""Name of a parameter of any verb -> what completes it."""
