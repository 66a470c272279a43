"""Encryption keys: numbered files in a directory. The key with the highest number encrypts; all keys decrypt.

A file ``<number>.next`` is a key that only decrypts: with several machines, a new key is copied to all of them before
the first one uses it.
"""

import contextlib
import hashlib
import logging
import os
import secrets
import threading
from pathlib import Path

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings

from provisioning.common.errors import UnavailableError

NEXT = ".next"

log = logging.getLogger(__name__)


class KeysMissingError(UnavailableError):
    """The directory has no keys. They are not created automatically, because new keys cannot decrypt existing data."""


class KeyFolder:
    """The keys in the directory of a setting."""

    def __init__(self, setting: str) -> None:
        """``setting`` is the name of the setting, which is read at each use."""
        self._setting = setting
        self._lock = threading.Lock()
        self._known: tuple[Path, int, MultiFernet] | None = None

    @property
    def folder(self) -> Path:
        return Path(getattr(settings, self._setting))

    def current(self) -> MultiFernet:
        """Return the keys, read again when the directory has changed.  Raises KeysMissingError if it has none."""
        folder = self.folder
        known = self._known
        with contextlib.suppress(FileNotFoundError):
            if known is not None and known[:2] == (folder, folder.stat().st_mtime_ns):
                return known[2]
        with self._lock:
            if not _numbers(folder):
                log.error("There are no keys in %s: restore the directory, or run manage.py bootstrap.", folder)
                raise KeysMissingError(
                    "Tokens and credentials cannot be processed: the cloud has no keys. "
                    "Ask an operator; the log has the details."
                )
            changed = folder.stat().st_mtime_ns
            fernet = MultiFernet([Fernet(key) for key in self._keys()])
            self._known = (folder, changed, fernet)
            return fernet

    def ensure(self) -> None:
        """Create the first key if there is none."""
        if not _numbers(self.folder):
            _write(self.folder, "1")

    def newest(self) -> Fernet:
        """Return only the key that encrypts."""
        return Fernet(_read(self.folder / str(max(_numbers(self.folder)))))

    def add(self) -> int:
        """Add a key that encrypts from now on, and return its number."""
        number = max(_numbers(self.folder), default=0) + 1
        _write(self.folder, str(number))
        return number

    def add_next(self) -> int:
        """Add a key that only decrypts until ``use_next``; return its number, also if it already exists."""
        number = max(_numbers(self.folder), default=0) + 1
        _write(self.folder, f"{number}{NEXT}")
        return number

    def use_next(self) -> int | None:
        """Encrypt with the key of ``add_next`` from now on; return its number, or None if there is no such key."""
        number = max(_numbers(self.folder), default=0) + 1
        try:
            (self.folder / f"{number}{NEXT}").rename(self.folder / str(number))
        except FileNotFoundError:
            return None
        return number

    def drop(self, keep: int) -> None:
        """Delete the oldest keys beyond ``keep``. Data that they encrypted becomes unreadable."""
        for old in sorted(_numbers(self.folder))[:-keep]:
            (self.folder / str(old)).unlink(missing_ok=True)

    def fingerprints(self) -> list[str]:
        """Return the fingerprints of all keys: the encrypting key first, the next key last."""
        return [fingerprint(key) for key in self._keys()]

    def _keys(self) -> list[bytes]:
        folder = self.folder
        names = [str(number) for number in sorted(_numbers(folder), reverse=True)]
        names += sorted(path.name for path in folder.glob(f"*{NEXT}") if path.stem.isdigit())
        return [_read(folder / name) for name in names]


TOKENS = KeyFolder("TOKEN_KEYS_DIR")
"""The keys that encrypt tokens."""
CREDENTIALS = KeyFolder("CREDENTIAL_KEYS_DIR")
"""The keys that encrypt users' credentials."""


def current() -> MultiFernet:
    return TOKENS.current()


def rotate(keep: int = 3) -> int:
    """Add a key for new tokens, delete the oldest beyond ``keep``, and return the new key's number.

    Tokens of a deleted key become invalid, so the interval must not be shorter than the token lifetime divided by
    ``keep - 1``.
    """
    number = TOKENS.add()
    TOKENS.drop(keep)
    return number


def fingerprint(key: bytes) -> str:
    """Return 16 hex digits that identify a key without disclosing it."""
    return hashlib.sha256(b"novella key\0" + key).hexdigest()[:16]


def _read(path: Path) -> bytes:
    return path.read_bytes().strip()


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]


def _write(folder: Path, name: str) -> None:
    """Write a new key atomically. If two processes create the same one, the first wins."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = folder / f".{name}.{secrets.token_hex(4)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(Fernet.generate_key())
    try:
        with contextlib.suppress(FileExistsError):
            (folder / name).hardlink_to(temporary)
    finally:
        temporary.unlink()
