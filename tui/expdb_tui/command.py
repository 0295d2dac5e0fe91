"""`expdb tui`: the click command; textual is imported inside it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from expdb.cli.command import VerbCommand
from expdb.cli.context import Context
from expdb.errors import BadInput, Corrupt

if TYPE_CHECKING:
    from expdb.store.store import Store
    from expdb_tui.app import ExpdbApp
    from expdb_tui.memory import Memory
    from expdb_tui.palette import Ground

PORT = 8400


@click.command(cls=VerbCommand)
@click.argument("run", required=False)
@click.option(
    "--light/--dark",
    "light",
    default=None,
    help="The ground it draws on; else EXPDB_GROUND, else as last time.",
)
@click.option("--fresh", is_flag=True, help="Begin anew, and remember nothing.")
@click.option("--reset", is_flag=True, help="Forget how this store was looked at, then begin.")
@click.option("--keys", "lists_keys", is_flag=True, help="Print the keys by name, for a file.")
@click.option("--serve", is_flag=True, help="Show it in a browser of this machine.")
@click.option("--port", default=PORT, show_default=True, help="The port of --serve.")
@click.pass_obj
def tui(
    context: Context,
    run: str | None,
    light: bool | None,
    fresh: bool,
    reset: bool,
    lists_keys: bool,
    serve: bool,
    port: int,
) -> None:
    """Browse runs in the terminal, or open RUN: `?` lists the keys, `q` quits.

    Order, filter, columns and screen are those of last time, for each store. Own keys stand in
    ~/.config/expdb/keys.yaml: `expdb tui --keys` prints what can stand there.

    With --serve the address has a token: only who has it reaches the app.
    """
    if lists_keys:
        _list_keys(context)
        return
    store = context.open_store()
    found = None
    if run is not None:
        with context.reader() as reader:
            found = context.resolve(reader, run).run
    said = context.env.get("EXPDB_GROUND", "")
    ground: Ground | None = said if said in ("light", "dark") else None  # type: ignore[assignment]
    if light is not None:
        ground = "light" if light else "dark"
    if serve:
        from expdb_tui.serve import serve as serve_apps

        words = ["--store", str(store.root.resolve()), "tui", *([found] if found else [])]
        words += [f"--{ground}"] if ground is not None else []
        words += ["--fresh"] if fresh else []
        serve_apps(words, port=port, say=context.out.talk)
        return
    is_served = "WebDriver" in context.env.get("TEXTUAL_DRIVER", "")
    if not is_served:
        _take_terminal(context.env.get("TERM", ""))
    app = _app(
        context, store, run=found, ground=ground, memory=_memory(context, store, fresh, reset)
    )
    try:
        app.run()
    finally:
        app.window.reset(sys.stderr.write)
        sys.stderr.flush()


def _take_terminal(term: str) -> None:
    """Refuse to draw where nothing can be drawn, and go by the size of the terminal itself.

    Raises:
        BadInput: there is no terminal, or one that knows no commands.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("the terminal app needs a terminal", hint="expdb ls")
    if term in ("dumb", "unknown"):
        raise BadInput(f"the terminal app needs a terminal, and TERM is {term}", hint="expdb ls")
    # A size that a parent has exported holds only until somebody resizes the window.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)


def _list_keys(context: Context) -> None:
    from expdb_tui.app import usual_keys
    from expdb_tui.keys import read_keys
    from expdb_tui.places import keys_file

    context.out.lines(read_keys(keys_file(context.env), usual_keys()).as_file())


def _memory(context: Context, store: Store, fresh: bool, reset: bool) -> Memory:
    """Return what is remembered of a store.

    Raises:
        Corrupt: it is to be forgotten, and cannot be.
    """
    from expdb_tui.memory import Memory, memory_of
    from expdb_tui.places import state_folder

    memory = memory_of(store, state_folder(context.env))
    if reset:
        try:
            memory.forget()
        except OSError as error:
            raise Corrupt(f"what was remembered cannot be forgotten: {error.strerror}") from None
    if fresh:
        return Memory(None)
    memory.load()
    return memory


def _app(
    context: Context, store: Store, *, run: str | None, ground: Ground | None, memory: Memory
) -> ExpdbApp:
    from expdb.cli.verbs import all_verbs
    from expdb_tui.app import ExpdbApp, usual_keys
    from expdb_tui.keys import KeyNames, read_keys
    from expdb_tui.palette import depth_of
    from expdb_tui.places import keys_file, state_folder
    from expdb_tui.session import Session
    from expdb_tui.window import has_title

    env = context.env
    session = Session(
        store=store,
        directory=context.directory,
        head_of=context.head,
        worktree_of=lambda: context.worktree,
        declared_of=lambda: list(context.declared()),
        verbs={name: verb.help for name, verb in all_verbs().items()},
    )
    usual, said = usual_keys(), ""
    try:
        keys = read_keys(keys_file(env), usual)
    except BadInput as error:
        keys, said = KeyNames(usual), f"{error.message}  {error.hints[0] if error.hints else ''}"
    is_served = "WebDriver" in env.get("TEXTUAL_DRIVER", "")
    remembered: Ground = "light" if memory.of("app").get("ground") == "light" else "dark"
    app = ExpdbApp(
        session,
        ascii=context.out.style.ascii and not is_served,
        ground=ground or remembered,
        depth="true" if is_served else "16" if env.get("NO_COLOR") else depth_of(env),
        run=run,
        has_title=not is_served and has_title(env),
        keys=keys,
        said=said,
        memory=memory,
    )
    app.faults = state_folder(env) / "faults.log"
    return app
