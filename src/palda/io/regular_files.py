"""Opening files that a folder of palda names or holds: only regular files, never through a symbolic link."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

_FLAGS = os.O_RDONLY
for _flag in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):  # opening a FIFO must not wait
    _FLAGS |= getattr(os, _flag, 0)


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; ``OSError`` if it is a symbolic link, a device, a FIFO or a folder."""
    if path.is_symlink():
        raise OSError(f"{path.name} is a symbolic link; copy the file itself")
    handle = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path.name} is not a regular file")
    return os.fdopen(handle, "rb")
