"""Completion: what stands at the cursor, the names of the store, and real bash around it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.cli.shells import SCRIPTS
from expdb.cli.typed import Typed, typed
from expdb.cli.verbs import all_verbs
from expdb.store.files import write_json
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.series import SeriesBook
from expdb.store.store import open_store

BREAKS = " \t\n\"'@><=;|&(:"
ROOT = Path(__file__).parents[2]
EVIL = (
    "a b", "it's", 'say "x"', "$(touch pwned)", "`touch pwned`", "x;touch pwned", "a*b", "~", "é",
    "漢字", "back\\slash", "a|b", "a&b", "<x>", "{a,b}", "#no", "bang!",
)  # fmt: skip
LEFT_OUT = ("two\nlines", "\x1b[31mred", "\u202eevil", "-option")


def add_run(root: Path, run: str, experiment: str, *, variant: str = "", seed: int = 0) -> Path:
    layout = RunLayout(StoreLayout(root).run_dir(experiment, run))
    layout.root.mkdir(parents=True)
    body = {"id": run, "experiment": experiment, "variant": variant, "seed": seed}
    write_json(layout.run_json, body, durable=False)
    return layout.root


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of names that are hard to complete."""
    top = tmp_path_factory.mktemp("completion")
    root = open_store(top / "runs", create=True).root
    for at, experiment in enumerate((*EVIL, *LEFT_OUT)):
        add_run(root, f"e{at:09d}", experiment)
    for step in (100, 200):
        (add_run(root, f"k3f9x2m7q{step // 100}", "baseline", seed=step) / "checkpoints").mkdir()
        path = root / f"exp=baseline/run=k3f9x2m7q{step // 100}/checkpoints/step={step}"
        path.mkdir()
    add_run(root, "h4q8z1rn6c", "exp01", variant="+optim.lr=0.005")
    add_run(root, "t1h6y3cz8r", "exp01", variant="+name=$(touch pwned)")
    long = add_run(root, "x5j2v8c0ke", "long" * 60)
    SeriesBook().save(long / "series.json")
    series = {"series": {"val/loss": {}, "val/$(touch pwned)": {}, "bad\nname": {}}}
    write_json(long / "series.json", series, durable=False)
    refs = StoreLayout(root).refs
    for name, run in (("paper-fig2", "k3f9x2m7q2"), ("Best One", "h4q8z1rn6c")):
        write_json(StoreLayout(root).ref(name), {"name": name, "run": run}, durable=False)
    (refs / "broken.json").write_text("{")
    return top


def answer(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    *,
    shell: str = "bash",
) -> list[str]:
    """Return what expdb tells the script of a shell, in this process."""
    from expdb.cli.main import main

    monkeypatch.setenv("_EXPDB_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_WORDBREAKS", BREAKS)
    *before, word = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", "\n".join(before if shell == "fish" else [*before, word]))
    monkeypatch.setenv("COMP_CWORD", word)
    assert main([]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out.splitlines()


@pytest.fixture
def told(monkeypatch, capsys, names):
    """Return what bash inserts for a line."""
    monkeypatch.chdir(names)

    def tell(line: str) -> list[str]:
        found = answer(monkeypatch, capsys, line)
        return [one.removeprefix("plain,") for one in found if one.startswith("plain,")]

    return tell


def test_verbs_options_and_choices(told):
    assert told("expdb ") == list(all_verbs())
    assert told("expdb lo") == ["log"]
    assert told("expdb --st") == ["--store"]
    assert "--digest" in told("expdb show --")
    assert told("expdb compare --fail-if w") == ["worse"]
    assert told("expdb completion ") == ["bash", "zsh", "fish"]


def test_runs_are_refs_experiments_variants_and_ids(told):
    found = told("expdb show ")
    assert {"HEAD", "best", "paper-fig2", "baseline", "exp01", "k3f9x2m7q1"} <= set(found)
    assert "broken" in found  # its file name says it; its content is looked at where it is used
    assert "long" * 60 in found
    assert told("expdb show k3") == ["k3f9x2m7q1", "k3f9x2m7q2"]
    assert told("expdb show nothing") == []
    assert told("expdb show exp01+o") == ["exp01+optim.lr=0.005"]
    assert told("expdb compare baseline pap") == ["paper-fig2"]
    assert told("expdb show Be") == ["Best\\ One"]


def test_steps_and_selectors_stand_behind_a_run(told):
    assert told("expdb show baseline@") == ["best", "last", "200", "100"]
    assert told("expdb show k3f9x2m7q1@1") == ["100"]
    assert told("expdb show k3f9@2") == ["200"]
    assert told("expdb show paper-fig2@") == ["best", "last", "200"]
    assert told("expdb show exp01@") == ["best", "last"]
    assert told("expdb show baseline:") == ["s100", "s200", "prev", "parent", "best", "all"]
    assert told("expdb show baseline:s1") == ["s100"]
    assert told("expdb show baseline:s100@l") == ["last"]


def test_metrics_come_from_the_newest_runs(told):
    assert told("expdb rank v") == ["val/\\$\\(touch\\ pwned\\)", "val/loss"]
    assert told("expdb compare a b --metric val/l") == ["val/loss"]


def test_only_as_many_ids_as_help_are_offered(told, names):
    for at in range(60):
        (names / f"runs/exp=many/run=z{at:09d}").mkdir(parents=True, exist_ok=True)
    assert "k3f9x2m7q1" not in told("expdb show ")
    assert told("expdb show k3f9x2m7q1") == ["k3f9x2m7q1"]
    shutil.rmtree(names / "runs/exp=many")


def test_the_store_is_the_one_that_the_command_would_use(told, names, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert told("expdb show base") == []
    assert told(f"expdb -C {names} show base") == ["baseline"]
    assert told(f"expdb --store {names}/runs show base") == ["baseline"]
    monkeypatch.setenv("EXPDB_STORE", str(names / "runs"))
    assert told("expdb show base") == ["baseline"]


def test_folders_are_left_to_the_shell(monkeypatch, capsys, names):
    monkeypatch.chdir(names)
    assert answer(monkeypatch, capsys, "expdb -C ") == ["dir,"]


def test_run_takes_what_is_declared_whether_it_ran_or_not(told, names):
    for name in ("exp01", "exp99_never", "sub/inner"):
        (names / "conf/exp" / f"{name}.yaml").parent.mkdir(parents=True, exist_ok=True)
        (names / "conf/exp" / f"{name}.yaml").write_text("")
    assert told("expdb run e") == ["exp01", "exp99_never"]
    assert told("expdb run exp01 s") == ["sub/inner"]
    found = told("expdb probe lr e")
    assert {"exp01", "exp99_never"} <= set(found)  # runs too, and each name once
    assert len(found) == len(set(found))
    assert told("expdb probe lr k3") == ["k3f9x2m7q1", "k3f9x2m7q2"]
    assert told("expdb probe th") == ["throughput"]


def test_zsh_and_fish_get_names_as_they_are(monkeypatch, capsys, names):
    monkeypatch.chdir(names)
    found = answer(monkeypatch, capsys, "expdb show a", shell="zsh")
    assert found[:3] == ["plain", "a b", ""]
    assert len(found) % 3 == 0
    assert answer(monkeypatch, capsys, "expdb lo", shell="zsh")[:2] == ["plain", "log"]
    assert "plain,a b" in answer(monkeypatch, capsys, "expdb show a", shell="fish")
    assert answer(monkeypatch, capsys, "expdb show a", shell="tcsh") == []


def test_a_damaged_store_completes_what_is_left(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    root = open_store(tmp_path / "runs", create=True).root
    (add_run(root, "k3f9x2m7q1", "exp01") / "run.json").write_text("[")
    (root / "exp=%ZZ").mkdir()
    (root / "exp=file").write_text("")
    (root / ".expdb/refs/x~y.json").write_bytes(b"\xff")
    for line in ("expdb show ", "expdb show exp01:", "expdb show exp01+", "expdb rank "):
        answer(monkeypatch, capsys, line)
    assert "plain,exp01" in answer(monkeypatch, capsys, "expdb show e")


@pytest.mark.parametrize(
    ("line", "text", "start", "quote"),
    [
        ("expdb show ", "", 0, ""),
        ("expdb show exp01", "exp01", 0, ""),
        ("expdb show exp01@b", "exp01@b", 6, ""),
        ("expdb show exp01:s2@", "exp01:s2@", 9, ""),
        ("expdb show exp01+a=0", "exp01+a=0", 8, ""),
        ("expdb show 'a b", "a b", 0, "'"),
        ("expdb show 'a b' c", "c", 0, ""),
        ('expdb show "a\\"b:c', 'a"b:c', 0, '"'),
        ("expdb show a\\ b", "a b", 0, ""),
        ("expdb show ''", "", 0, ""),
    ],
)
def test_the_word_at_the_cursor(line, text, start, quote):
    found = typed(line, breaks=BREAKS)
    assert (found.text, found.replaced_from, found.quote) == (text, start, quote)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@settings(max_examples=20)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1),
        min_size=1,
        max_size=20,
    )
)
def test_what_is_inserted_is_read_back_by_bash_as_the_name(found):
    quoted = []
    for value in found:
        for quote in ("", "'", '"'):
            rest = Typed(before=(), text="", replaced_from=0, quote=quote).rest_of(value)
            if rest is not None:
                quoted.append((f"{quote}{rest}{quote}", value))
    script = "printf '%s\\0' " + " ".join(one for one, _ in quoted)
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == [value for _, value in quoted]


HARNESS = """
source <(expdb completion bash)
COMP_LINE=$1 COMP_POINT=${#1}
eval "COMP_WORDS=($2)"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_expdb_completion expdb
printf '%s\\0' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_real_bash_inserts_hostile_names_as_text_and_runs_nothing(names, tmp_path):
    shim = tmp_path / "bin/expdb"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m expdb.cli.main "$@"\n')
    shim.chmod(0o755)
    env = {**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def complete(line: str, words: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", HARNESS, "bash", line, words],
            cwd=names,
            env={**env, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            check=True,
        )
        assert done.stderr == b""
        return done.stdout.decode().split("\0")[:-1]

    found = complete("expdb show ", "expdb show ''")
    script = "printf '%s\\0' " + " ".join(found)
    done = subprocess.run(["bash", "-c", script], cwd=names, capture_output=True, check=True)
    read = done.stdout.decode().split("\0")[:-1]
    assert set(EVIL) <= set(read)
    assert not any(name in read for name in LEFT_OUT)
    assert complete("expdb show exp01+optim.lr=0", "expdb show exp01+optim.lr = 0") == ["0.005"]
    assert complete("expdb show 'it", """expdb show "'it" """) == ["it'\\''s"]
    assert not (names / "pwned").exists()


def test_the_scripts_are_printed_and_say_how_to_install_them(here):
    for shell, script in SCRIPTS.items():
        assert here("completion", shell).out == script
    said = here("completion", "--help").out
    for line in ('eval "$(expdb completion bash)"', 'eval "$(expdb completion zsh)"'):
        assert line in said
    assert "> ~/.config/fish/completions/expdb.fish" in said
    assert here("completion", "tcsh").code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_is_read_by_its_shell(shell):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}")
    subprocess.run([program, "-n"], input=SCRIPTS[shell].encode(), check=True)


def test_completion_opens_no_database(names):
    code = (
        "import os, sys\n"
        "from expdb.cli.main import main\n"
        "main([])\n"
        "print([m for m in ('duckdb', 'pyarrow', 'numpy', 'hydra') if m in sys.modules])"
    )
    env = {
        **os.environ,
        "_EXPDB_COMPLETE": "bash_complete",
        "COMP_LINE": "expdb show k3f9x2m7q1@",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=names, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "plain,k3f9x2m7q1@best",
        "plain,k3f9x2m7q1@last",
        "plain,k3f9x2m7q1@100",
        "[]",
    ]
