"""What the command line says: safe on any terminal, and only of what there is."""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest

import expdb
from expdb.cli import main as cli
from expdb.cli.output import Output
from expdb.cli.verbs import ALIASES, all_verbs
from expdb.errors import ExpdbError
from expdb.git.command import GitError
from expdb.signs import STATE_GLYPHS, to_ascii

EVIL = "\x1b[31m\x1b]0;evil\x07\u202etxt\n"


def output() -> tuple[Output, io.StringIO, io.StringIO]:
    stdout, stderr = io.StringIO(), io.StringIO()
    return Output(stdout=stdout, stderr=stderr, env={}), stdout, stderr


def is_plain(text: str) -> bool:
    return not any(char in text for char in "\x1b\x07\u202e")


@pytest.mark.parametrize(
    "error",
    [
        ExpdbError(f"a {EVIL} b", hint=(f"h {EVIL}", "k"), details=(f"d {EVIL}",)),
        GitError(f"git failed: {EVIL}", rc=1, err=EVIL),
        click.UsageError(f"no {EVIL}"),
        click.ClickException(f"no {EVIL}"),
        RuntimeError(f"fault {EVIL}"),
    ],
)
def test_no_error_reaches_the_terminal_as_it_is(
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*args: object) -> int:
        raise error

    monkeypatch.setattr(cli, "_run", fail)
    for args in (["ls"], ["--debug", "ls"]):
        assert cli.main(args) != 0
        said = capsys.readouterr()
        assert "\\x1b[31m" in said.err
        assert is_plain(said.err)
        assert said.out == ""


def test_talk_of_every_kind_is_plain() -> None:
    out, stdout, stderr = output()
    out.error(EVIL, details=(EVIL,))
    out.warning(EVIL)
    out.hint(EVIL)
    out.resolution(EVIL)
    out.next([("label", EVIL), ("hint", EVIL)])
    assert stderr.getvalue().count("\\x1b[31m") == 7
    assert is_plain(stderr.getvalue())
    assert stdout.getvalue() == ""


def test_a_command_of_resume_is_plain_on_a_terminal_and_exact_in_a_pipe(own_lab, mine) -> None:
    run = mine("show", "exp06_dead", "-q").out.strip()
    (path,) = own_lab.top.glob(f"runs/exp=*/run={run}/run.json")
    path.write_text(path.read_text().replace('"train.py",', '"train.py","\\u001b[31m",'))
    done = mine("resume", run, "--dry-run")
    assert done.out == path_command(path)


def path_command(path: Path) -> str:
    data = json.loads(path.read_text())
    return shlex.join([*data["command"], f"expdb.resume={data['id']}"]) + "\n"


def test_every_glyph_of_a_state_has_an_ascii_form() -> None:
    for look in STATE_GLYPHS.values():
        assert to_ascii(look.glyph) == look.ascii
        assert to_ascii(look.glyph).isascii()


def test_candidates_of_an_error_are_ascii_in_a_pipe() -> None:
    out, _, stderr = output()
    glyphs = [look.glyph for look in STATE_GLYPHS.values()]
    out.error("several → runs", details=[f"k3f9 {glyph} …" for glyph in glyphs])
    assert stderr.getvalue().isascii()
    assert stderr.getvalue().count("\n") == len(glyphs) + 1


def texts(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every text of the code, with `{}` for what is filled in; docstrings are left out."""
    for path in folder.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        docs = {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = (str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
                yield path, "".join(parts)
            elif isinstance(node, ast.Constant) and node not in docs:
                yield path, str(node.value)


COMMAND = re.compile(r"\bexpdb (?:--store \S+ |-C \S+ )*([a-z]+)((?: +[^ :;,`)]+)*)")
NOT_VERBS = {"itself", "and", "itself.", "is", "has", "reads", "needs", "or", "run", "snapshot"}


def test_every_command_that_is_proposed_exists() -> None:
    """A hint with a verb or an option that is not there sends people into a wall."""
    verbs = {**all_verbs(), **{alias: all_verbs()[name] for alias, name in ALIASES.items()}}
    wrong, found = [], 0
    for path, text in texts(Path(expdb.__file__).parent):
        for verb, rest in COMMAND.findall(text):
            if verb not in verbs:
                is_sentence = verb in NOT_VERBS or not text.lstrip().startswith("expdb ")
                if not is_sentence or f": expdb {verb}" in text:
                    wrong.append(f"{path.name}: expdb {verb}")
                continue
            found += 1
            if verbs[verb].target.startswith("expdb_tui"):
                continue
            command = cli.expdb.get_command(click.Context(cli.expdb), verb)
            assert command is not None
            options = {name for param in command.params for name in param.opts} | {"--help"}
            takes = {
                name
                for param in command.params
                if isinstance(param, click.Option) and not param.is_flag
                for name in param.opts
            }
            words = rest.split()
            for before, word in pairwise(["", *words]):
                if before in takes:
                    continue  # a value, as in `--sort -age`
                if word.startswith("-") and word.split("=")[0] not in options and word != "->":
                    wrong.append(f"{path.name}: expdb {verb} {word}")
    assert wrong == []
    assert found > 40


def test_damaged_files_are_warned_of_on_stderr_and_in_json(own_lab, mine) -> None:
    run = mine("show", "exp01", "-q").out.strip()
    (path,) = own_lab.top.glob(f"runs/exp=*/run={run}/series.json")
    path.write_text("{")
    done = mine("compare", "baseline", "exp01", "--json")
    assert done.code == 0, done.err
    warnings = json.loads(done.out)["warnings"]
    assert len(warnings) == 1
    assert "series.json" in warnings[0]
    assert f"warning: {warnings[0]}\n" in done.err
    shown = mine("compare", "baseline", "exp01")
    assert f"warning: {warnings[0]}\n" in shown.err
    assert "series.json" not in shown.out


def test_a_damaged_op_is_warned_of_and_undo_goes_on(own_lab, mine) -> None:
    assert mine("rollback", "-y", "-q").code == 0
    folder = next((own_lab.top / "runs/.expdb/ops").iterdir())
    (folder / "17-aaaaaaaaaa.json").write_text("{")
    for args in (["ops"], ["undo"]):
        done = mine(*args)
        assert done.code == 0, done.err
        assert done.err.startswith("warning: the op file 17-aaaaaaaaaa.json is damaged")
    assert (own_lab.top / "knobs.py").read_text() == "WIDTH = 2\n"


def test_reading_goes_on_where_the_store_of_an_unfinished_op_is_gone(own_lab, mine) -> None:
    mark = {"op": "aaaaaaaaaa", "store": "/gone", "kind": "rollback", "what": "rollback to x"}
    folder = own_lab.top / ".git/expdb"
    folder.mkdir(exist_ok=True)
    (folder / "UNFINISHED").write_text(json.dumps({"format": 1, "created_at_ms": 1, **mark}))
    listed = mine("ls")
    assert listed.code == 0
    assert "is not there: /gone" in listed.err
    assert "expdb --store DIR rollback --continue" in listed.err
    assert "is not there: /gone" in mine("status").out
    assert mine("rollback", "--continue").code == 4
