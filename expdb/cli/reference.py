"""Writes docs/cli.md from the commands themselves: `python -m expdb.cli.reference docs/cli.md`.

Invariant: the text depends on the code alone, so a test can tell whether the file is up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from expdb.cli.exit import ExitCode
from expdb.cli.main import expdb
from expdb.cli.verbs import ALIASES, GROUPS

HEAD = """# The command line

Written by `python -m expdb.cli.reference docs/cli.md` from the commands themselves.

A RUN is a word with optional selectors and a step: `exp01`, `baseline@300`, `exp01:s2@best`,
`exp01:prev`, `k3f9:parent@last`. A word is looked up in this order: `HEAD` and `best`; refs and
tags; experiments (the latest finished run without overrides); a full id; the first 4 or more
characters of one. What a word became is said on stderr.

Data goes to stdout, talk to stderr. `--json` prints one document with a `schema_version`; `-q`
prints ids alone. Numbers that are not finite are the texts `"NaN"`, `"Infinity"`, `"-Infinity"`.
"""

ENVIRONMENT = {
    "EXPDB_STORE": "the store, where `--store` names none",
    "EXPDB_ASCII": "`1`: only ASCII signs",
    "EXPDB_HINTS": "`0`: no hints and no next commands",
    "NO_COLOR, FORCE_COLOR": "no colour at all; colour in pipes too",
    "PAGER": "`cat` or empty: no pager",
}


def render() -> str:
    """Return the text of docs/cli.md."""
    root = click.Context(expdb, info_name="expdb")
    parts = [HEAD, "## Options of every verb\n", "They stand before the verb.\n", _options(expdb)]
    for group, verbs in GROUPS.items():
        parts.append(f"## {group}\n")
        for name in verbs:
            command = expdb.get_command(root, name)
            if command is not None:
                parts.append(_verb(name, command, root))
    parts.append("## Exit codes\n")
    parts.append(_table(["code", "when"], [[str(int(c)), c.__doc__ or ""] for c in ExitCode]))
    parts.append("## Environment\n")
    parts.append(_table(["variable", "does"], [[f"`{k}`", v] for k, v in ENVIRONMENT.items()]))
    return "\n".join(parts)


def _verb(name: str, command: click.Command, root: click.Context) -> str:
    context = click.Context(command, info_name=name, parent=root)
    usage = " ".join(["expdb", name, *command.collect_usage_pieces(context)])
    aliases = [alias for alias, verb in ALIASES.items() if verb == name]
    also = f"Also `expdb {aliases[0]}`.\n" if aliases else ""
    text = "\n".join(line.strip() for line in (command.help or "").strip().splitlines())
    parts = [f"### {name}\n", f"    {usage}\n", f"{text}\n", also, _options(command)]
    if isinstance(command, click.Group):
        parts += [_verb(f"{name} {sub}", one, root) for sub, one in command.commands.items()]
    return "\n".join(part for part in parts if part)


def _options(command: click.Command) -> str:
    rows = []
    for param in command.params:
        if isinstance(param, click.Option):
            names = ", ".join(f"`{name}`" for name in [*param.opts, *param.secondary_opts])
            takes = "" if param.is_flag else f" {param.make_metavar(click.Context(command))}"
            rows.append([names + takes.replace("|", "\\|"), param.help or ""])
    return _table(["option", "does"], rows) if rows else ""


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def main(argv: list[str]) -> int:
    """Write the reference to the file named."""
    if len(argv) != 1:
        raise SystemExit("usage: python -m expdb.cli.reference FILE")
    Path(argv[0]).write_text(render(), encoding="utf-8", newline="\n")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
