"""Every path inside a store; no other module builds one by hand.

Invariant: a name given by a user never leaves the store. Names in paths keep `a-z 0-9 _ - .`; all
else is `%XX` of its UTF-8 bytes, capitals too, so that case-folding file systems keep `Loss` and
`loss` apart.
"""

from __future__ import annotations

from pathlib import Path

from expdb.errors import BadInput
from expdb.store.ids import is_id

SAFE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-.")
MAX_BYTES = 180
KEPT_BYTES = 150
DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"com{i}" for i in range(10)), *(f"lpt{i}" for i in range(10))]
)
HIVE_DEFAULT = "__hive_default_partition__"

PASSED_OVER = frozenset([
    ".gitkeep", ".gitignore", ".gitattributes", ".directory", ".snapshot", "lost+found",
    ".DS_Store", ".localized", ".Spotlight-V100", ".Trashes", ".fseventsd", "Thumbs.db",
    "desktop.ini",
])  # fmt: skip
PASSED_OVER_BEGINS = (".nfs", ".fuse_hidden", "._", ".#")
"""What git, file managers and file systems leave in any folder."""


def is_passed_over(name: str) -> bool:
    """Tell whether a file of that name is nobody's business."""
    return name in PASSED_OVER or name.startswith(PASSED_OVER_BEGINS)


def encode_name(name: str) -> str:
    """Return `name` as one safe path part of at most 180 bytes; injective but for names over that.

    Raises:
        BadInput: the name is empty, or cannot be written as UTF-8.
    """
    if not name:
        raise BadInput("a name is empty")
    try:
        parts = [char if char in SAFE else _escaped(char) for char in name]
    except UnicodeEncodeError:
        raise BadInput(f"the name {name!a} is not UTF-8 text") from None
    out = "".join(parts)
    if out.split(".")[0] in DEVICES or out.startswith(HIVE_DEFAULT) or out[0] == ".":
        parts[0] = _escaped(out[0])
    if parts[-1] == ".":
        parts[-1] = _escaped(".")
    out = "".join(parts)
    if len(out) > MAX_BYTES:
        import hashlib

        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        out = f"{_first(parts, KEPT_BYTES)}~{digest}"
    return out


def _escaped(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())


def _first(parts: list[str], num_bytes: int) -> str:
    # Half a character would not decode, and one such folder fails a whole Hive glob in other
    # engines.
    out = ""
    for part in parts:
        if len(out) + len(part) > num_bytes:
            break
        out += part
    return out


def decode_name(part: str) -> str | None:
    """Return the name that `encode_name` made a path part of; None where it was cut, or is none."""
    if "~" in part:
        return None
    first, *escaped = part.split("%")
    try:
        found = (bytes([int(item[:2], 16)]) + item[2:].encode() for item in escaped)
        return (first.encode() + b"".join(found)).decode()
    except ValueError:
        return None


class StoreLayout:
    """The paths of one store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.meta = root / ".expdb"
        self.store_json = self.meta / "store.json"
        self.refs = self.meta / "refs"
        self.ops = self.meta / "ops"
        self.trash = self.meta / "trash"
        self.locks = self.meta / "locks"
        self.launch = self.meta / "launch"
        self.index = self.meta / "index"

    def packages(self, digest: str) -> Path:
        """Return the file of a set of installed packages; the digest is 64 hex digits."""
        return self.meta / "packages" / f"{digest}.json"

    def run_dir(self, experiment: str, run: str) -> Path:
        """Return the folder of a run; the experiment is a true name.

        Raises:
            BadInput: `run` does not have the form of an id.
        """
        if not is_id(run):
            raise BadInput(f"`{run}` is not a run id")
        return self.root / f"exp={encode_name(experiment)}" / f"run={run}"

    def ref(self, name: str) -> Path:
        """Return the file of a ref; the name is a true name."""
        return self.refs / f"{encode_name(name)}.json"


class RunLayout:
    """The paths of one run folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run_json = root / "run.json"
        self.status_json = root / "status.json"
        self.series_json = root / "series.json"
        self.config_json = root / "config.json"
        self.config_yaml = root / "config.yaml"
        self.unresolved_yaml = root / "unresolved.yaml"
        self.overrides_yaml = root / "overrides.yaml"
        self.attempts = root / "attempts"
        self.points = root / "points"
        self.events = root / "events.jsonl"
        self.marks = root / "marks.jsonl"
        self.evals = root / "evals"
        self.checkpoints = root / "checkpoints"
        self.media = root / "media"
        self.artifacts = root / "artifacts"
        self.artifacts_jsonl = root / "artifacts.jsonl"

    @property
    def id(self) -> str:
        """The run id that the folder is named by."""
        return self.root.name.removeprefix("run=")

    def attempt(self, number: int) -> Path:
        """Return the folder of an attempt (1, 2, ...)."""
        return self.attempts / str(number)

    def control(self, attempt: int) -> Path:
        """Return the folder of the requests to an attempt; it need not exist."""
        return self.attempt(attempt) / "control"

    def journal(self, attempt: int, rank: int, number: int) -> Path:
        """Return the path of a journal: rank-<rank>.<number>.wal."""
        return self.attempt(attempt) / f"rank-{rank}.{number}.wal"

    def media_journal(self, attempt: int, rank: int, number: int) -> Path:
        """Return the path of a journal of media: media-<rank>.<number>.wal."""
        return self.attempt(attempt) / f"media-{rank}.{number}.wal"

    def media_part(self, kind: str, attempt: int, rank: int, number: int) -> Path:
        """Return the path of what a journal of media holds of one kind, when it is sealed."""
        return self.media / f"{kind}-a{attempt}-r{rank}-{number}.parquet"

    def rank_owner(self, attempt: int, rank: int) -> Path:
        """Return the path of who writes under a rank beside 0."""
        return self.attempt(attempt) / f"rank-{rank}.owner.json"

    def rank_series(self, attempt: int, rank: int) -> Path:
        """Return the path of a rank's own summaries: those of the run for rank 0."""
        if rank == 0:
            return self.series_json
        return self.attempt(attempt) / f"rank-{rank}.series.json"

    def parts_list(self, attempt: int, rank: int) -> Path:
        """Return the path of a rank's list of sealed parts."""
        return self.attempt(attempt) / f"rank-{rank}.json"

    def part(self, attempt: int, rank: int, first_seq: int, last_seq: int) -> Path:
        """Return the path of a sealed part."""
        return self.points / f"part-a{attempt}-r{rank}-{first_seq}-{last_seq}.parquet"

    def checkpoint(self, step: int) -> Path:
        """Return the folder of a checkpoint."""
        return self.checkpoints / f"step={step}"
