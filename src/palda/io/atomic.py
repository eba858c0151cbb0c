"""Atomic writes: a file is complete or absent, even if the process is killed or the machine stops.

A file is written under a temporary name beside its target and renamed when it is complete. The temporary name depends
on the target alone, and the file is locked as long as its process runs. So the next process overwrites what a killed
one left behind, and a second process that wants to write the same target at the same time gets an error.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

TEMPORARY_FILE = re.compile(r"\.palda-[0-9a-f]{16}(-[0-9a-f]{8})?\.part")
"""Names of temporary files; no other files have such names."""

_MAX_NAME = 255  # bytes of a file name
_BUSY = "another process is writing it"
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}  # of file systems without locks
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Path of a temporary file to write; it is synced and renamed to ``target`` at the end, and deleted on failure.

    If ``target`` is a symbolic link, the file that it points to is replaced. Raises ``OSError`` if the target is not a
    regular file, or if another process or thread is writing it.
    """
    real = replaceable(target)
    unfinished = _reservations.pop(real, None) or _TemporaryFile(real)
    try:
        yield unfinished.path
        sync(unfinished.path)
        unfinished.path.replace(replaceable(real))
        if os.name == "posix":
            sync(real.parent)  # the name as well
    finally:
        unfinished.discard()


@contextmanager
def reserved(*targets: Path) -> Iterator[None]:
    """Reserve files that are written later in the block, so that a second process gets its error before its work."""
    with ExitStack() as stack:
        for real in map(replaceable, targets):
            _reservations[real] = _TemporaryFile(real)
            stack.callback(_release, real)
        yield


def sibling(target: Path, suffix: str) -> Path:
    """Path beside the target with the suffix added to its name, which is shortened if it would be too long."""
    name = f"{target.name}{suffix}"
    if len(os.fsencode(name)) > _MAX_NAME:
        end = f"-{_digest(target.name)}{suffix}"
        start = os.fsencode(target.name)[: _MAX_NAME - len(os.fsencode(end))]
        name = start.decode("utf-8", "ignore") + end
    return target.with_name(name)


def temporary_name(name: str) -> str:
    """Name of the temporary file for a file of this name."""
    return f".palda-{_digest(name)}.part"


class FileLock:
    """Exclusive use of a file by this process, until it is released or the process ends; it is created if absent.

    Raises ``BlockingIOError`` if another process or another object uses it.
    """

    _flags = os.O_RDWR | os.O_CREAT

    def __init__(self, path: Path) -> None:
        self._handle: int | None = None
        if sys.platform != "win32":
            self._handle, _ = _lock(Path(os.path.realpath(path)), self._flags)

    def release(self) -> None:
        """Let others use it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


class FolderLock(FileLock):
    """Exclusive use of a folder, likewise."""

    _flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)


class _TemporaryFile:
    """The locked temporary file of a target."""

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(temporary_name(target.name))
        self._handle: int | None = None
        if sys.platform != "win32":
            self._handle, is_locked = _lock(self.path, os.O_RDWR | os.O_CREAT)
            if is_locked:
                os.ftruncate(self._handle, 0)
                return
            self.discard()
        # without locks, each process needs a file of its own
        self.path = target.with_name(f".palda-{_digest(target.name)}-{secrets.token_hex(4)}.part")

    def discard(self) -> None:
        """Delete the file, unless it has been renamed, and unlock it."""
        handle, self._handle = self._handle, None
        try:
            with suppress(OSError):
                if handle is None or os.path.samestat(os.fstat(handle), self.path.lstat()):
                    self.path.unlink()
        finally:
            if handle is not None:
                os.close(handle)


_reservations: dict[Path, _TemporaryFile] = {}


def _release(real: Path) -> None:
    unused = _reservations.pop(real, None)
    if unused is not None:
        unused.discard()


if sys.platform != "win32":

    def _lock(path: Path, flags: int) -> tuple[int, bool]:
        """Open and lock a file or folder; returns the handle, and False if the file system has no locks."""
        while True:
            handle = os.open(path, flags | _NO_FOLLOW, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), path.lstat()):
                    return handle, True
            except BlockingIOError:
                os.close(handle)
                raise BlockingIOError(errno.EWOULDBLOCK, _BUSY, str(path)) from None
            except FileNotFoundError:
                pass
            except OSError as refused:
                if refused.errno in _NO_LOCKS:
                    return handle, False
                os.close(handle)
                raise
            os.close(handle)  # another process removed or renamed the file before it was locked here


def replaceable(target: Path) -> Path:
    """The file to replace: that of a symbolic link; raises ``OSError`` if it is not a regular file."""
    real = Path(os.path.realpath(target))
    try:
        mode = real.lstat().st_mode
    except FileNotFoundError:
        return real
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "it is a symbolic link to itself", str(target))
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a folder", str(target))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a device, a pipe or a socket; only regular files are replaced", str(target))
    return real


def _digest(name: str) -> str:
    return blake2b(os.fsencode(name), digest_size=8).hexdigest()


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
