"""Names that attack: through every verb, in every form, they are text, and the store keeps them in.

What attacks: terminal escapes, markup, path parts, line breaks, text that runs backwards, length.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pytest

from expdb.cli.verbs import all_verbs
from expdb.model import Event
from expdb.report.json import HIDDEN
from expdb.store.marks import add_mark
from tests.query.made import make_run, make_store, write_run

EVIL = (
    "\x1b[31mred\x1b]0;title\x07 \x9b31m\x85c1\x7f two\nlines\r\tand\x00nul",
    "[bold]<b>&amp;|`*_#~ $(touch x); 'quoted\" \\ =1+1",
    "../../../outside/\u202eevil\u2066\u200f\ufeff\u2028\U000e0041\U0001f468\u200d\U0001f469",
    "-rf --debug",
    "x" * 10_000,
)
OBEYED = ("Cc", "Cf", "Zl", "Zp")
LISTS = (
    ["ls"], ["ls", "--over", "seed"], ["log"], ["log", "--graph"], ["rank"],
    ["rank", "--over", "seed"], ["status"], ["events", "--since", "2000-01-01"], ["tag"], ["label"],
    ["ops"], ["rm", "--list"], ["fsck"], ["best"], ["baseline"],
    ["ls", "--cols", "run,label,study,name"],
    ["sql", "select * from runs"], ["sql", "select * from params"],
    ["sql", "select * from events"], ["sql", "select * from refs"],
)  # fmt: skip
OF_ONE = (
    ["show"], ["show", "--all"], ["show", "--digest"], ["show", "--health"], ["path"], ["note"],
    ["label"], ["events"], ["tail"], ["compare", "{first}"],
    ["compare", "{first}", "--over", "seed"], ["rerun", "--dry-run"], ["resume", "--dry-run"],
    ["rm", "--dry-run"], ["ctl", "pause"],
)  # fmt: skip
SLOW_FORMS = ("--csv", "--md", "--jsonl", "-q")
FORMS = ("", "--json", *SLOW_FORMS)


@dataclass(frozen=True)
class Evil:
    """A store of runs with names that attack."""

    top: Path
    runs: tuple[str, ...]


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Evil:
    top = tmp_path_factory.mktemp("evil") / "work"
    top.mkdir()
    store = make_store(top / "runs")
    runs = []
    for at, name in enumerate(EVIL):
        run = f"{'abcde'[at]}{at:09d}"
        config = {"seed": at, "optim": {"lr": 0.1 * at}, "name": name, name: {name: name}}
        write_run(
            store,
            make_run(
                run, experiment=name, variant=f"+{name}={name}", seed=at, minutes=at,
                reason=name, config=config, value=2.0 + at / 100, data={name: name},
                points={name: {0: 1.0, 300: 2.0}, "val/loss": {0: 3.0, 300: 2.0 + at / 100}},
                environment={"python": name, name: name}, command=("python", name, f"+exp={name}"),
                events=(Event(step=3, severity="warn", rule=name, message=name),), study=name,
            ),
        )  # fmt: skip
        layout = next(store.root.glob(f"exp=*/run={run}"))
        (layout / "attempts" / "1" / "log.txt").write_text(f"  step 1   {name}\n", errors="replace")
        runs.append(run)
    return Evil(top=top, runs=tuple(runs))


@pytest.fixture
def run(evil: Evil, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    from expdb.cli.main import main

    monkeypatch.chdir(evil.top)
    monkeypatch.setenv("FORCE_COLOR", "0")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(evil.top.parent))

    def call(*args: str) -> tuple[int, str, str]:
        code = main(list(args))
        said = capsys.readouterr()
        return int(code), said.out, said.err

    return call


def obeyed(text: str) -> set[str]:
    """Return the characters that a terminal would obey rather than show."""
    return {char for char in text if char != "\n" and unicodedata.category(char) in OBEYED}


def tree(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def outside(evil: Evil) -> set[str]:
    return {name for name in tree(evil.top.parent) if not name.startswith("work/runs/")}


def check(form: str, out: str) -> None:
    if form == "--json":
        json.loads(out)
    elif form == "--jsonl":
        assert all(json.loads(line) for line in out.splitlines())
    elif form == "--csv":
        assert len({len(row) for row in csv.reader(io.StringIO(out))}) <= 1
    elif form == "--md":
        rows = [line for line in out.split("\n\n")[0].splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in rows}) <= 1
        assert "<b>" not in out.replace("\\<b\\>", "")


@pytest.mark.parametrize(
    "form", ["", "--json", *(pytest.param(form, marks=pytest.mark.slow) for form in SLOW_FORMS)]
)
def test_every_list_shows_them_as_text(run, evil: Evil, form: str) -> None:
    before = outside(evil)
    for args in LISTS:
        code, out, err = run(*args, *([form] if form else []))
        where = f"{args} {form}: {err[:300]}"
        assert code in (0, 1, 2, 3, 5), where
        assert "a fault in expdb" not in err, where
        assert not obeyed(out), where
        assert not obeyed(err), where
        if code == 0:
            check(form, out)
        if args == ["ls"] and form in ("", "--csv", "--md"):
            assert "\\x1b" in out
    assert outside(evil) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", ["", *(pytest.param(form, marks=pytest.mark.soak) for form in FORMS[1:])]
)
def test_every_verb_of_a_run_shows_them_as_text(run, evil: Evil, form: str) -> None:
    before = outside(evil)
    for args in OF_ONE:
        for one in evil.runs:
            words = [word.format(first=evil.runs[0]) for word in args[1:]]
            code, out, err = run(args[0], one, *words, *([form] if form else []))
            where = f"{args} {one} {form}: {err[:300]}"
            assert code in (0, 2, 3, 4), where
            assert "a fault in expdb" not in err, where
            if "--dry-run" not in args:  # a command in a pipe is exact, so that it can be run
                assert not obeyed(out), where
            assert not obeyed(err), where
            if code == 0:
                check(form, out)
    assert outside(evil) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", EVIL)
def test_a_name_as_a_word_of_any_verb_is_an_error_in_text(run, evil: Evil, name: str) -> None:
    before, inside = outside(evil), tree(evil.top / "runs")
    for verb in all_verbs():
        if verb in ("init", "import", "completion", "tui", "reindex", "fsck", "tag", "label"):
            continue
        code, out, err = run(verb, "--", name, *(["stop"] if verb == "ctl" else []))
        assert code in (0, 2, 3, 4), (verb, err[:300])
        assert "a fault in expdb" not in err, (verb, err[:300])
        assert not obeyed(out + err), verb
    for args in (
        ["tag", "--", name, evil.runs[0]], ["label", "--", evil.runs[1], name],
        ["label", "-d", name, evil.runs[1]], ["ls", "-w", name], ["ls", "--sort", name],
        ["ls", "--cols", name], ["ls", "--since", name], ["ls", "--study", name],
        ["compare", *evil.runs[:2], "--metric", name], ["sql", "--", name], ["nosuch" + name],
        ["note", "--", evil.runs[2], name], ["note", evil.runs[2]], ["label"], ["tag"], ["ops"],
        ["show", evil.runs[0]], ["show", evil.runs[1]], ["show", evil.runs[2]],
        ["probe", "repro", "--", name], ["probe", "repro", evil.runs[0]],
        ["probe", "lr", "--", name], ["probe", "data", "--", name], ["probe", "data", evil.runs[0]],
        ["probe", "memory", "--", evil.runs[0], name], ["probe", "memory", "--optim", name],
        ["probe", "memory", "--params", "7B", "--optim", name], ["probe", name],
        ["probe", "data", "--train", name, "--val", name],
        ["probe", "data", "--split", name, "--out", name], ["probe", "memory", "--params", name],
        ["resume", "--lr-scale", name, evil.runs[0]],
    ):  # fmt: skip
        code, out, err = run(*args)
        assert code in (0, 2, 3, 4), (args, err[:300])
        assert "a fault in expdb" not in err, (args, err[:300])
        assert not obeyed(out + err), args
    assert outside(evil) == before
    new = tree(evil.top / "runs") - inside
    assert all(len(part.encode()) < 256 for path in new for part in path.split("/"))


def test_marks_of_files_made_by_others_are_text_too(run, evil: Evil) -> None:
    from expdb.store.layout import RunLayout

    layout = RunLayout(next((evil.top / "runs").glob(f"exp=*/run={evil.runs[3]}")))
    for name in EVIL:
        add_mark(layout, "label", name)
        add_mark(layout, "note", name)
    for args in (["show"], ["label"], ["note"]):
        code, out, err = run(args[0], evil.runs[3])
        assert (code, obeyed(out + err)) == (0, set())
    for form in FORMS:
        code, out, err = run("ls", "--cols", "run,label", *([form] if form else []))
        assert (code, obeyed(out + err)) == (0, set())


def test_json_hides_nothing_and_changes_nothing() -> None:
    from expdb.report.json import dumps

    hidden = [
        chr(code) for code in range(0x20, sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in OBEYED
    ]  # fmt: skip
    assert all(HIDDEN.fullmatch(char) for char in hidden)
    text = "".join(hidden)
    assert json.loads(dumps({"a": text}))["a"] == text
    assert not obeyed(dumps({"a": text}))
