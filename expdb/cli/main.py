"""`expdb`: the command group, and the one place where an error becomes an exit code.

Invariant: help loads click and the table of verbs, no verb's module. No traceback reaches a user
without `--debug`; with it the traceback comes first and the same lines last.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TextIO

import click

from expdb.cli.command import Wrong, usage
from expdb.cli.context import Context
from expdb.cli.exit import ExitCode
from expdb.cli.output import Output
from expdb.cli.verbs import ALIASES, GROUPS, all_verbs
from expdb.errors import ExpdbError
from expdb.text import plain


class VerbGroup(click.Group):
    """The group of all verbs; a verb's module is imported when the verb is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every verb, in the order of help."""
        return list(all_verbs())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a verb, None when there is no such verb."""
        verb = all_verbs().get(ALIASES.get(cmd_name, cmd_name))
        if verb is None:
            return None
        module, _, attribute = verb.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{verb.target} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; an unknown one is an error that names the nearest."""
        name = args[0]
        if name not in all_verbs() and name not in ALIASES:
            import difflib

            near = difflib.get_close_matches(name, [*all_verbs(), *ALIASES], n=2, cutoff=0.5)
            hint = f"nearest: {', '.join(near)}" if near else "all verbs: expdb --help"
            raise Wrong(f"no verb is called {plain(name)}", hint=hint, usage=False, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs by group, one line each, from the table."""
        width = max(len(name) for name in all_verbs())
        for group, verbs in GROUPS.items():
            with formatter.section(group):
                rows = [(f"{name:<{width}}", verb.help) for name, verb in verbs.items()]
                formatter.write_dl(rows, col_max=width + 4)


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from expdb.model import NEEDS

        click.echo(f"expdb {NEEDS}")
        ctx.exit()


@click.command(
    cls=VerbGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("-C", "directory", metavar="DIR", help="Work as if started in DIR.")
@click.option("--store", metavar="DIR", help="The store; else EXPDB_STORE, else found upward.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Print the version.",
)
@click.pass_context
def expdb(ctx: click.Context, directory: str | None, store: str | None, debug: bool) -> None:
    """Git for training runs: list, compare, rank them, and roll back to the best one."""
    context = ctx.ensure_object(Context)
    context.explicit_store = store
    if directory is not None:
        try:
            os.chdir(directory)
        except OSError as error:
            raise click.UsageError(
                f"-C {plain(directory)}: {(error.strerror or 'cannot go there').lower()}"
            ) from None
        context.directory = Path.cwd()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    out = Output(stdout=_open(sys.stdout), stderr=_open(sys.stderr), env=os.environ)
    context = Context(out=out, env=os.environ, directory=Path.cwd())
    debug = "--debug" in args
    try:
        with redirect_stdout(out.stdout):  # click writes help by itself
            code = _run(args, context)
        out.flush()
    except OSError as error:
        return _lost(out, error, debug)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except (click.ClickException, ExpdbError) as error:
        _say_traceback(out, debug)
        return _report(context, error)
    except Exception as error:  # noqa: BLE001 - the outermost border: a fault here is ours
        return _fault(out, error, debug)
    return code


def _open(stream: TextIO | None) -> TextIO:
    """Return a standard stream; one that was closed before the start swallows what it gets."""
    return Path(os.devnull).open("w", encoding="utf-8") if stream is None else stream


def _run(args: list[str], context: Context) -> int:
    if asked := context.env.get("_EXPDB_COMPLETE"):
        from expdb.cli.completion import answer

        context.out.lines(answer(expdb, asked))
        return ExitCode.OK
    # Not `expdb.main`: it ends the process by itself on a broken pipe and on Ctrl-C.
    try:
        with expdb.make_context("expdb", args, obj=context) as ctx:
            result: Any = expdb.invoke(ctx)
    except click.exceptions.Exit as done:
        return done.exit_code
    return result if isinstance(result, int) else ExitCode.OK


def _say_traceback(out: Output, debug: bool) -> None:
    if debug:
        import traceback

        for line in traceback.format_exc().splitlines():
            out.talk(plain(line))


def _report(context: Context, error: click.ClickException | ExpdbError) -> int:
    out = context.out
    if isinstance(error, ExpdbError):
        out.error(error.message, details=error.details)
        for hint in _hints(context, error):
            out.hint(hint)
        return error.exit_code
    message = " ".join(error.format_message().split()).rstrip(".")
    is_name = message[1:2].isupper()  # RUN
    out.error(message if is_name else message[:1].lower() + message[1:])
    if isinstance(error, Wrong) and error.hint:
        out.hint(error.hint)
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if ctx is not None and not (isinstance(error, Wrong) and not error.usage):
        out.hint(usage(ctx))
    return error.exit_code


def _hints(context: Context, error: ExpdbError) -> tuple[str, ...]:
    from expdb.store.candidates import NoSuchRun

    if not isinstance(error, NoSuchRun):
        return error.hints
    from expdb.query.declared import never_run

    said = never_run(error.word, error.known, context.declared())
    return (said, *(hint for hint in error.hints if hint != "expdb ls")) if said else error.hints


def _lost(out: Output, error: OSError, debug: bool) -> int:
    """End when the output cannot be written: quietly where the reader of a pipe has gone."""
    why = out.give_up()
    if isinstance(error, BrokenPipeError):
        return ExitCode.OK
    if not why:
        return _fault(out, error, debug)
    _say_traceback(out, debug)
    out.error(f"the output cannot be written: {why}")
    return ExitCode.USAGE


def _fault(out: Output, error: Exception, debug: bool) -> int:
    _say_traceback(out, debug)
    out.error(f"a fault in expdb: {type(error).__name__}: {plain(str(error))}")
    out.hint("where: the same command with --debug behind expdb")
    return ExitCode.INTERNAL


if __name__ == "__main__":
    sys.exit(main())
