"""Text to train on without a download, split into a training and a validation part.

    pydoc   the language reference inside every CPython, `pydoc_data.topics`: topics by name,
            each tenth one is validation, joined by an empty line. It differs between Python
            versions, so its digests belong into the record of a run.
    text    a file of the user: the last 5 % of its bytes are validation.

Invariant: the two parts share no bytes of the source; `limit_bytes` cuts the training part only,
so runs with different limits are judged on the same validation text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from expdb.errors import BadInput

VAL_EVERY = 10
VAL_PART = 20
"""One part in this many of a user's text is validation: 5 %."""
TOPIC_BREAK = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PydocConfig:
    """The language reference of the running interpreter."""

    kind: str = "pydoc"
    batch_size: int = 12
    """Sequences in one micro-batch."""
    limit_bytes: int | None = None
    """Train on the first bytes only; None takes all."""

    def __post_init__(self) -> None:
        _check_sizes(self.batch_size, self.limit_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextConfig:
    """A text file of the user."""

    path: str
    kind: str = "text"
    batch_size: int = 12
    """Sequences in one micro-batch."""
    limit_bytes: int | None = None
    """Train on the first bytes only; None takes all."""

    def __post_init__(self) -> None:
        _check_sizes(self.batch_size, self.limit_bytes)


DataConfig = PydocConfig | TextConfig


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextData:
    """A text in two parts, as bytes."""

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


def load_data(config: DataConfig, *, seq_len: int) -> TextData:
    """Return the text that `config` names, long enough for windows of `seq_len` + 1 bytes.

    Raises: BadInput when the text is missing, unreadable or too short.
    """
    if isinstance(config, TextConfig):
        path = Path(config.path).expanduser()
        train, val = _read_text(path, min_part_bytes=seq_len + 1)
        name = path.name
    else:
        train, val = _read_pydoc()
        name = config.kind
    train = train[: config.limit_bytes]
    for part, text in (("training", train), ("validation", val)):
        if len(text) < seq_len + 1:
            raise BadInput(
                f"the {part} text of `{name}` has {len(text)} bytes; "
                f"seq_len {seq_len} needs {seq_len + 1}",
                hint="lower model.seq_len or raise data.limit_bytes",
            )
    return TextData(
        name=name,
        train=_as_tensor(train),
        val=_as_tensor(val),
        digest_train=hashlib.sha256(train).hexdigest(),
        digest_val=hashlib.sha256(val).hexdigest(),
        num_train_bytes=len(train),
        num_val_bytes=len(val),
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


def _check_sizes(batch_size: int, limit_bytes: int | None) -> None:
    if batch_size < 1:
        raise BadInput(f"`data.batch_size` must be at least 1, not {batch_size}")
    if limit_bytes is not None and limit_bytes < 1:
        raise BadInput(f"`data.limit_bytes` must be at least 1 or null, not {limit_bytes}")
