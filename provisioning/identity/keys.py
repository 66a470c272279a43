"""Keys that encrypt: files in a folder, numbered; the highest number encrypts, all decrypt.

A file ``<number>.next`` is a key that decrypts and does not encrypt yet: on several machines a new key is added to all
of them before the first one uses it.
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
    """The folder has no keys; new ones are created by ``ensure`` alone, since they open nothing that exists."""


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
        """Return the keys, read again when the folder changed; KeysMissingError when it has none."""
        folder = self.folder
        known = self._known
        with contextlib.suppress(FileNotFoundError):
            if known is not None and known[:2] == (folder, folder.stat().st_mtime_ns):
                return known[2]
        with self._lock:
            if not _numbers(folder):
                log.error("There are no keys in %s: restore the folder, or run manage.py bootstrap.", folder)
                raise KeysMissingError("The keys of this cloud cannot be read now.")
            changed = folder.stat().st_mtime_ns
            fernet = MultiFernet([Fernet(key) for key in self._keys()])
            self._known = (folder, changed, fernet)
            return fernet

    def ensure(self) -> None:
        """Create the first key unless there is one."""
        if not _numbers(self.folder):
            _write(self.folder, "1")

    def newest(self) -> Fernet:
        """Return the key that encrypts from now on, alone."""
        return Fernet(_read(self.folder / str(max(_numbers(self.folder)))))

    def add(self) -> int:
        """Add a key that encrypts from now on, and return its number."""
        number = max(_numbers(self.folder), default=0) + 1
        _write(self.folder, str(number))
        return number

    def add_next(self) -> int:
        """Add a key that decrypts only, until ``use_next``; returns its number, also when it was added before."""
        number = max(_numbers(self.folder), default=0) + 1
        _write(self.folder, f"{number}{NEXT}")
        return number

    def use_next(self) -> int | None:
        """Let the key of ``add_next`` encrypt from now on; returns its number, or None when there is no such key."""
        number = max(_numbers(self.folder), default=0) + 1
        try:
            (self.folder / f"{number}{NEXT}").rename(self.folder / str(number))
        except FileNotFoundError:
            return None
        return number

    def drop(self, keep: int) -> None:
        """Drop the oldest keys beyond ``keep``: what they encrypted is lost."""
        for old in sorted(_numbers(self.folder))[:-keep]:
            (self.folder / str(old)).unlink(missing_ok=True)

    def fingerprints(self) -> list[str]:
        """Return the fingerprints of all keys: first the one that encrypts, the one that is next last."""
        return [fingerprint(key) for key in self._keys()]

    def _keys(self) -> list[bytes]:
        folder = self.folder
        names = [str(number) for number in sorted(_numbers(folder), reverse=True)]
        names += sorted(path.name for path in folder.glob(f"*{NEXT}") if path.stem.isdigit())
        return [_read(folder / name) for name in names]


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


def fingerprint(key: bytes) -> str:
    """Return 16 hex digits that name a key and disclose nothing of it."""
    return hashlib.sha256(b"novella key\0" + key).hexdigest()[:16]


def _read(path: Path) -> bytes:
    return path.read_bytes().strip()


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]


def _write(folder: Path, name: str) -> None:
    """Write a new key whole or not at all; when two processes create the same one, the first wins."""
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
