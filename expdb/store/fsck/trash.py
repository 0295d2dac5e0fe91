"""Where a repair sets things aside: `.expdb/trash/fsck-<utc>/<path within the store>`.

Invariant: nothing is deleted, and nothing that this process may not read is moved: that it cannot
be read is then no sign of damage.
"""

from __future__ import annotations

import errno
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from expdb.store.files import fsync_dir
from expdb.store.fsck.report import relative
from expdb.store.layout import StoreLayout


class Trash:
    """The folder of one repair; it is made when the first thing goes into it."""

    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout
        self._folder: Path | None = None
        self.moved: dict[str, str] = {}
        """Path -> where it went, both relative to the store."""
        self.copied: dict[str, str] = {}
        """Path of a file that was replaced -> where its former content is."""

    @property
    def folder(self) -> Path | None:
        """The folder, None while nothing was set aside."""
        return self._folder

    def move(self, path: Path) -> bool:
        """Move a file or folder into the trash; False where it is gone, or may not be read.

        Raises:
            OSError: it cannot be moved; it is where it was.
        """
        if not _is_ours(path):
            return False
        target = self._place(path)
        try:
            path.rename(target)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.move(path, target)  # the run's folder is a link to another file system
        fsync_dir(target.parent)
        fsync_dir(path.parent)
        self.moved[relative(path, self._layout.root)] = relative(target, self._layout.root)
        return True

    def copy(self, path: Path) -> bool:
        """Keep a copy of a file that is about to be replaced; False as in `move`.

        A folder that stands in the place of a file is moved.

        Raises:
            OSError: there is no room for it.
        """
        if not _is_ours(path):
            return False
        if path.is_dir():
            return self.move(path)
        target = self._place(path)
        try:
            shutil.copy2(path, target)
        except FileNotFoundError:
            return False
        with target.open("rb") as file:
            os.fsync(file.fileno())
        fsync_dir(target.parent)
        self.copied[relative(path, self._layout.root)] = relative(target, self._layout.root)
        return True

    def _place(self, path: Path) -> Path:
        target = self._made() / relative(path, self._layout.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        number = 1
        free = target
        while os.path.lexists(free):
            number += 1
            free = target.with_name(f"{target.name}~{number}")
        return free

    def _made(self) -> Path:
        if self._folder is None:
            stamp = f"fsck-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
            number = 1
            self._layout.trash.mkdir(parents=True, exist_ok=True)
            while True:
                folder = self._layout.trash / (stamp if number == 1 else f"{stamp}-{number}")
                try:
                    folder.mkdir()
                    break
                except FileExistsError:
                    number += 1
            fsync_dir(self._layout.trash)
            self._folder = folder
        return self._folder


def _is_ours(path: Path) -> bool:
    """Tell whether a file, or every file of a folder, is there and may be read."""
    if not os.path.lexists(path):
        return False
    if path.is_symlink() or not path.is_dir():
        return path.is_symlink() or os.access(path, os.R_OK)
    return os.access(path, os.R_OK | os.X_OK) and all(
        os.access(Path(folder) / name, os.R_OK)
        for folder, _, names in os.walk(path)
        for name in names
        if not (Path(folder) / name).is_symlink()
    )
