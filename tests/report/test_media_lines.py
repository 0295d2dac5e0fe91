"""The media and artifacts of a run in `show`: counts, and each key with `--all`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import expdb
from expdb.cli.main import main
from expdb.query.media import RunMedia
from expdb.report import json as documents
from expdb.report import media_shown, shown
from expdb.store.artifacts import Artifact, ArtifactFile
from expdb.store.media import MediaKey

PATH = "runs/exp=exp01/run=t1h6y3cz8r"


def key(kind: str, name: str, count: int, first: int, last: int) -> MediaKey:
    return MediaKey(kind=kind, key=name, count=count, first_step=first, last_step=last)


def artifact(name: str, path: str, size: int, *files: str, version: int = 1) -> Artifact:
    found = tuple(
        ArtifactFile(name=file, path=f"{path}/{file}", bytes=1, sha256="") for file in files
    )
    return Artifact(name=name, version=version, path=path, bytes=size, files=found)


MEDIA = RunMedia(
    keys=(
        key("text", "samples", 12, 0, 300),
        key("text", "judge/\x1b[31mwhy", 1, 300, 300),
        key("hist", "layer/0/weight", 1234, 0, 300),
        key("table", "confusion", 1, 300, 300),
        key("image", "attention/" + "head" * 30, 3, 100, 300),
    ),
    artifacts=(
        artifact("report.txt", "artifacts/report.txt", 300, ""),
        artifact("plots", "artifacts/plots", 1_200_000, "a.png", "b.png"),
        artifact("report.txt", "artifacts/report.txt~2", 400, "", version=2),
    ),
)


def render(cast: Any, style: Any, **more: Any) -> list[str]:
    run = cast.run("t1h6y3cz8r")
    return shown.render(run, style, path=PATH, num_keys=41, media=MEDIA, **more)


def test_show_counts_media_and_names_artifacts(cast: Any, screen: Any, golden: Any) -> None:
    golden("show-media-100.txt", render(cast, screen(), all=True))
    lines = render(cast, screen(terminal=False, ascii=True), all=True)
    golden("show-media-pipe.txt", lines)
    assert all(line.isascii() for line in lines)


def test_without_all_there_are_two_lines(cast: Any, screen: Any) -> None:
    lines = [line.strip() for line in render(cast, screen())]
    assert (
        "media        13 texts in 2 keys, 1,234 histograms in 1 key, 1 table in 1 key,"
        " 3 images in 1 key"
    ) in lines
    assert "artifacts    report.txt (version 2), plots/ (2 files); 1.2 MB" in lines
    assert not any("samples" in line for line in lines)


def test_nothing_has_no_line(cast: Any, screen: Any) -> None:
    lines = shown.render(cast.run("t1h6y3cz8r"), screen(), path=PATH, num_keys=41, all=True)
    assert not any(word in line for line in lines for word in ("media", "artifact"))
    assert media_shown.lines(RunMedia(), screen()) == []


def test_many_artifacts_are_not_all_named() -> None:
    found = tuple(artifact(f"a{at}", f"artifacts/a{at}", 1, "") for at in range(7))
    facts = dict(media_shown.facts(RunMedia(artifacts=found)))
    assert facts["artifacts"] == "a0, a1, a2, a3 and 3 more; 7 B"


def test_the_document_has_all_of_it(cast: Any) -> None:
    made = documents.shown(cast.run("t1h6y3cz8r"), MEDIA)
    assert made["media"][0] == {
        "kind": "text", "key": "samples", "count": 12, "first_step": 0, "last_step": 300,
    }  # fmt: skip
    assert [item["version"] for item in made["artifacts"]] == [1, 1, 2]
    assert documents.shown(cast.run("t1h6y3cz8r"))["media"] == []


def test_the_verb_reads_the_run_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "runs"
    (tmp_path / "x.txt").write_text("x")
    with expdb.start({"expdb": {"print": "quiet"}}, store=root, name="exp01") as run:
        for step in range(3):
            run.log_text("samples", "x", step=step)
        run.artifact(tmp_path / "x.txt")
    with (run.dir / "artifacts.jsonl").open("a") as file:
        file.write("no json\n")

    def call(*words: str) -> tuple[str, str]:
        assert main(["--store", str(root), "show", "exp01", *words]) == 0
        said = capsys.readouterr()
        return said.out, said.err

    found = json.loads(call("--json")[0])
    assert [(item["key"], item["count"]) for item in found["media"]] == [("samples", 3)]
    assert [item["name"] for item in found["artifacts"]] == ["x.txt"]
    assert found["problems"] == ["artifacts.jsonl: line 2 is damaged"]
    out, err = call("--all")
    assert "3 texts in 1 key" in out
    assert "samples" in out
    assert "artifacts.jsonl: line 2 is damaged" in err
    assert call("-q")[0] == f"{run.id}\n"
