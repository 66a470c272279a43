"""The keys that encrypt tokens: files in ``TOKEN_KEYS_DIR``, numbered; the highest number issues, all verify."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from pathlib import Path

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings

_lock = threading.Lock()
_known: tuple[Path, int, MultiFernet] | None = None


def current() -> MultiFernet:
    """Return the keys of ``TOKEN_KEYS_DIR``, read again when the folder changed; the first key is made on first use."""
    global _known
    folder = Path(settings.TOKEN_KEYS_DIR)
    known = _known
    with contextlib.suppress(FileNotFoundError):
        if known is not None and known[:2] == (folder, folder.stat().st_mtime_ns):
            return known[2]
    with _lock:
        if not _numbers(folder):
            _write(folder, 1)
        changed = folder.stat().st_mtime_ns
        names = sorted(_numbers(folder), reverse=True)
        fernet = MultiFernet([Fernet((folder / str(number)).read_bytes().strip()) for number in names])
        _known = (folder, changed, fernet)
        return fernet


def rotate(keep: int = 3) -> int:
    """Add a key that issues from now on, drop the oldest beyond ``keep``, and return the new key's number.

    Tokens of a dropped key end: rotate no oftener than the token lifetime divided by ``keep - 1``.
    """
    folder = Path(settings.TOKEN_KEYS_DIR)
    number = max(_numbers(folder), default=0) + 1
    _write(folder, number)
    for old in sorted(_numbers(folder))[:-keep]:
        (folder / str(old)).unlink(missing_ok=True)
    return number


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]


def _write(folder: Path, number: int) -> None:
    """Write a new key whole or not at all; when two processes make the same one, the first wins."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = folder / f".{number}.{secrets.token_hex(4)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(Fernet.generate_key())
    try:
        with contextlib.suppress(FileExistsError):
            (folder / str(number)).hardlink_to(temporary)
    finally:
        temporary.unlink()
