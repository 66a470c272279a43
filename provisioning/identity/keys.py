"""Keys that encrypt: files in a folder, numbered; the highest number encrypts, all decrypt."""

import contextlib
import os
import secrets
import threading
from pathlib import Path

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings


class KeyFolder:
    """The keys in the folder that a setting names."""

    def __init__(self, setting: str) -> None:
        """Take the name of the setting, which is read at each use."""
        self._setting = setting
        self._lock = threading.Lock()
        self._known: tuple[Path, int, MultiFernet] | None = None

    @property
    def folder(self) -> Path:
        return Path(getattr(settings, self._setting))

    def current(self) -> MultiFernet:
        """Return the keys, read again when the folder changed; the first key is made on first use."""
        folder = self.folder
        known = self._known
        with contextlib.suppress(FileNotFoundError):
            if known is not None and known[:2] == (folder, folder.stat().st_mtime_ns):
                return known[2]
        with self._lock:
            if not _numbers(folder):
                _write(folder, 1)
            changed = folder.stat().st_mtime_ns
            names = sorted(_numbers(folder), reverse=True)
            fernet = MultiFernet([Fernet((folder / str(number)).read_bytes().strip()) for number in names])
            self._known = (folder, changed, fernet)
            return fernet

    def newest(self) -> Fernet:
        """Return the key that encrypts from now on, alone."""
        return Fernet((self.folder / str(max(_numbers(self.folder)))).read_bytes().strip())

    def add(self) -> int:
        """Add a key that encrypts from now on, and return its number."""
        number = max(_numbers(self.folder), default=0) + 1
        _write(self.folder, number)
        return number

    def drop(self, keep: int) -> None:
        """Drop the oldest keys beyond ``keep``: what they encrypted is lost."""
        for old in sorted(_numbers(self.folder))[:-keep]:
            (self.folder / str(old)).unlink(missing_ok=True)


TOKENS = KeyFolder("TOKEN_KEYS_DIR")
"""They encrypt tokens."""
CREDENTIALS = KeyFolder("CREDENTIAL_KEYS_DIR")
"""They encrypt the credentials that are kept for users."""


def current() -> MultiFernet:
    return TOKENS.current()


def rotate(keep: int = 3) -> int:
    """Add a key of tokens that issues from now on, drop the oldest beyond ``keep``, and return the new key's number.

    Tokens of a dropped key end: rotate no oftener than the token lifetime divided by ``keep - 1``.
    """
    number = TOKENS.add()
    TOKENS.drop(keep)
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
