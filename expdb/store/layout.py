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

    __slots__ = ("root",)

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def meta(self) -> Path:
        """The folder of what is not a run."""
        return self.root / ".expdb"

    @property
    def store_json(self) -> Path:
        """The id and the format of the store."""
        return self.root / ".expdb/store.json"

    @property
    def refs(self) -> Path:
        """The folder of refs and tags."""
        return self.root / ".expdb/refs"

    @property
    def ops(self) -> Path:
        """The folder of ops, by month."""
        return self.root / ".expdb/ops"

    @property
    def trash(self) -> Path:
        """The folder of removed runs."""
        return self.root / ".expdb/trash"

    @property
    def locks(self) -> Path:
        """The folder of locks."""
        return self.root / ".expdb/locks"

    @property
    def launch(self) -> Path:
        """The folder of launches of several ranks."""
        return self.root / ".expdb/launch"

    @property
    def index(self) -> Path:
        """The folder of index generations."""
        return self.root / ".expdb/index"

    @property
    def jobs(self) -> Path:
        """The folder of declared runs that a process has taken on."""
        return self.root / ".expdb/jobs"

    @property
    def notify(self) -> Path:
        """The folder of what each channel has told."""
        return self.root / ".expdb/notify"

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
    """The paths of one run folder; each is made when it is asked for, as 10,000 runs are read."""

    __slots__ = ("root",)

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def run_json(self) -> Path:
        """What the run is, written once."""
        return self.root / "run.json"

    @property
    def status_json(self) -> Path:
        """Its changing part; its version is that of the run."""
        return self.root / "status.json"

    @property
    def series_json(self) -> Path:
        """The summaries of its series."""
        return self.root / "series.json"

    @property
    def config_json(self) -> Path:
        """The whole config, flat."""
        return self.root / "config.json"

    @property
    def config_yaml(self) -> Path:
        """The config as it was composed and resolved."""
        return self.root / "config.yaml"

    @property
    def unresolved_yaml(self) -> Path:
        """The config before its interpolations were resolved."""
        return self.root / "unresolved.yaml"

    @property
    def overrides_yaml(self) -> Path:
        """What was said on the command line of Hydra."""
        return self.root / "overrides.yaml"

    @property
    def attempts(self) -> Path:
        """The folder of the attempts."""
        return self.root / "attempts"

    @property
    def points(self) -> Path:
        """The folder of the sealed parts."""
        return self.root / "points"

    @property
    def curves(self) -> Path:
        """The buckets of its long series; derived."""
        return self.root / "curves.parquet"

    @property
    def events(self) -> Path:
        """The events, one a line."""
        return self.root / "events.jsonl"

    @property
    def marks(self) -> Path:
        """Labels and notes, one a line."""
        return self.root / "marks.jsonl"

    @property
    def evals(self) -> Path:
        """The folder of the evals."""
        return self.root / "evals"

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.root / "checkpoints"

    @property
    def media(self) -> Path:
        """The folder of sealed media."""
        return self.root / "media"

    @property
    def artifacts(self) -> Path:
        """The folder of artifacts."""
        return self.root / "artifacts"

    @property
    def artifacts_jsonl(self) -> Path:
        """The list of artifacts, one a line."""
        return self.root / "artifacts.jsonl"

    @property
    def id(self) -> str:
        """The run id that the folder is named by."""
        return self.root.name.removeprefix("run=")

    def attempt(self, number: int) -> Path:
        """Return the folder of an attempt (1, 2, ...)."""
        return self.root / f"attempts/{number}"

    def monitor_json(self, attempt: int) -> Path:
        """Return the path of what the rules of an attempt stood on."""
        return self.attempt(attempt) / "monitor.json"

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
