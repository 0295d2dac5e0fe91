"""Text to train on without a download, split into a training and a validation part.

    pydoc   the language reference inside every CPython, `pydoc_data.topics`: topics by name,
            each tenth one is validation, joined by an empty line. It differs between Python
            versions, so its digests belong into the record of a run.
    micro   generated lines, see `expdb.demo.micro`; the same bytes everywhere.
    text    a file of the user: the last 5 % of its bytes are validation.
    mix     several of them by weight: pydoc, text, micro or one of its families.

Invariant: the two parts share no bytes of the source; `limit_bytes` cuts the training part only,
so runs with different limits are judged on the same validation text.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from expdb.demo.fields import nearest
from expdb.demo.micro import FAMILIES, micro_text
from expdb.errors import BadInput

VAL_EVERY = 10
VAL_PART = 20
"""One part in this many of a user's text is validation: 5 %."""
TOPIC_BREAK = "\n\n"
SOURCES = ("pydoc", "text", "micro", *FAMILIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    """What every text has. A batch's number counts micro-batches from 0, left out ones too."""

    batch_size: int = 12
    """Sequences in one micro-batch."""
    limit_bytes: int | None = None
    """Train on the first bytes of each source only; None takes all."""
    bad_batches: tuple[int, ...] = ()
    """Numbers of batches that are random bytes instead: a fault to look at."""
    skip_batches: tuple[int, ...] = ()
    """Numbers of batches that are never given out."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise BadInput(f"`data.batch_size` must be at least 1, not {self.batch_size}")
        if self.limit_bytes is not None and self.limit_bytes < 1:
            raise BadInput(f"`data.limit_bytes` must be at least 1 or null, not {self.limit_bytes}")
        for name in ("bad_batches", "skip_batches"):
            if any(number < 0 for number in getattr(self, name)):
                raise BadInput(f"`data.{name}` must be batch numbers of at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class PydocConfig(DataConfig):
    """The language reference of the running interpreter."""

    kind: str = "pydoc"


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroConfig(DataConfig):
    """Generated lines of four families."""

    kind: str = "micro"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextConfig(DataConfig):
    """A text file of the user."""

    path: str
    kind: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class MixConfig(DataConfig):
    """Several sources; each sequence is of one of them, drawn by weight."""

    sources: dict[str, float]
    """Name -> weight, of any sum."""
    kind: str = "mix"
    path: str | None = None
    """The file of the source `text`."""

    def __post_init__(self) -> None:
        DataConfig.__post_init__(self)
        if not self.sources:
            raise BadInput("`data.sources` names no source", hint=f"known: {', '.join(SOURCES)}")
        for name, weight in self.sources.items():
            if name not in SOURCES:
                raise BadInput(f"unknown source `data.sources.{name}`", hint=nearest(name, SOURCES))
            if not (math.isfinite(weight) and weight > 0.0):
                raise BadInput(
                    f"`data.sources.{name}` must be a positive number, not {weight}",
                    hint=f"leave a source out: ~data.sources.{name}",
                )
        if "text" in self.sources and not self.path:
            raise BadInput("`data.path` has no value", hint="give data.path=FILE")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextData:
    """A text in two parts, as bytes; of a mix, its sources one after another."""

    name: str
    train: Tensor
    """uint8 [num_train_bytes]"""
    val: Tensor
    """uint8 [num_val_bytes]"""
    digest_train: str
    """SHA-256 of the training bytes, hex."""
    digest_val: str
    """SHA-256 of the validation bytes, hex."""
    num_train_bytes: int
    num_val_bytes: int
    sources: Mapping[str, TextData] = field(default_factory=dict)
    """Name -> text of each source of a mix; empty for one text."""

    @property
    def held_out(self) -> Mapping[str, Tensor]:
        """The validation text of each source by name; of one text under the empty name."""
        return {name: one.val for name, one in self.sources.items()} or {"": self.val}


def load_data(config: DataConfig, *, seq_len: int) -> TextData:
    """Return the text that `config` names, each source long enough for windows of `seq_len` + 1.

    Raises: BadInput when a text is missing, unreadable or too short.
    """
    if isinstance(config, MixConfig):
        sources = {
            name: _load(name, config.path, config.limit_bytes, seq_len) for name in config.sources
        }
        train, val = (
            b"".join(bytes(getattr(one, part).numpy()) for one in sources.values())
            for part in ("train", "val")
        )
        return _text_data(config.kind, train, val, sources)
    kind = str(getattr(config, "kind", ""))
    return _load(kind, getattr(config, "path", None), config.limit_bytes, seq_len)


def _load(source: str, path: str | None, limit_bytes: int | None, seq_len: int) -> TextData:
    name = source
    if source == "text":
        file = Path(path or "").expanduser()
        train, val = _read_text(file, min_part_bytes=seq_len + 1)
        name = file.name
    elif source == "pydoc":
        train, val = _read_pydoc()
    else:
        train, val = micro_text(source)
    train = train[:limit_bytes]
    for part, text in (("training", train), ("validation", val)):
        if len(text) < seq_len + 1:
            raise BadInput(
                f"the {part} text of `{name}` has {len(text)} bytes; "
                f"seq_len {seq_len} needs {seq_len + 1}",
                hint="lower model.seq_len or raise data.limit_bytes",
            )
    return _text_data(name, train, val, {})


def _text_data(name: str, train: bytes, val: bytes, sources: Mapping[str, TextData]) -> TextData:
    return TextData(
        name=name,
        train=_as_tensor(train),
        val=_as_tensor(val),
        digest_train=hashlib.sha256(train).hexdigest(),
        digest_val=hashlib.sha256(val).hexdigest(),
        num_train_bytes=len(train),
        num_val_bytes=len(val),
        sources=sources,
    )


def read_topics() -> Mapping[str, str]:
    """Return the interpreter's language reference by topic.

    Raises: BadInput when this Python comes without it.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise BadInput(
            "this Python comes without `pydoc_data.topics`, the text of data=pydoc",
            hint="python train.py data=text data.path=FILE",
        ) from error
    found: Mapping[str, str] = topics
    return found


def split_topics(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the training and validation topics: by name, every tenth is validation."""
    ordered = sorted(names)
    val = ordered[::VAL_EVERY]
    return [name for name in ordered if name not in set(val)], val


def _read_pydoc() -> tuple[bytes, bytes]:
    topics = read_topics()
    train, val = split_topics(topics)
    return (
        TOPIC_BREAK.join(topics[name] for name in train).encode(),
        TOPIC_BREAK.join(topics[name] for name in val).encode(),
    )


def _read_text(path: Path, *, min_part_bytes: int) -> tuple[bytes, bytes]:
    if not path.exists():
        raise BadInput(f"the text file `{path}` does not exist", hint="give data.path=FILE")
    if not path.is_file():
        raise BadInput(f"`{path}` is not a file", hint="give data.path=FILE")
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BadInput(f"the text file `{path}` cannot be read: {error.strerror}") from error
    if len(text) < VAL_PART * min_part_bytes:
        raise BadInput(
            f"the text file `{path}` has {len(text)} bytes; "
            f"{VAL_PART * min_part_bytes} are needed, 5 % of them for validation",
            hint="give a longer text or lower model.seq_len",
        )
    cut = len(text) - len(text) // VAL_PART
    return text[:cut], text[cut:]


def _as_tensor(text: bytes) -> Tensor:
    # A bytearray, since torch warns about tensors over memory that it may not write.
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)
