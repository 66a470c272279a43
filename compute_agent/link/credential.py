"""The host's credential, which is valid on one machine only. It is generated here, and stored before it is sent; the
portal stores only its hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import uuid
from dataclasses import dataclass
from pathlib import Path

import msgspec

from compute_agent.link.errors import StartError
from compute_agent.settings import AgentSettings

FILE_NAME = "credential.json"

SYSTEM = Path("/etc/machine-id")
"""machine-id(5): generated when the system was installed."""
FIRMWARE = Path("/sys/class/dmi/id/product_uuid")
"""Differs between a virtual machine and its clone; readable by root only."""
MADE = Path("/var/lib/misc/novella-machine-id")
MADE_BY_USERS = Path(".local/state/novella/machine-id")
"""The path of a generated id for an agent that does not run as root, relative to the home directory of its user."""


class Credential(msgspec.Struct):
    """The host's secret, and whether the portal has accepted it."""

    host: str
    secret: str
    enrolled: bool = False
    next: str = ""
    """The new secret of a renewal that the portal has requested and not yet completed; empty: none."""


@dataclass(frozen=True)
class Renewal:
    """Rotates a host's secret at the portal's request. At any time, a secret that the portal accepts is on disk."""

    state_dir: Path
    credential: Credential

    def offer(self) -> str:
        """Return the new secret, which is already on disk. Returns the same secret until the portal has stored it."""
        if not self.credential.next:
            self.credential.next = secrets.token_urlsafe(32)
            store(self.state_dir, self.credential)
        return self.credential.next

    def activate(self) -> bool:
        """Use the new secret from now on. Return False if there is none."""
        if not self.credential.next:
            return False
        self.credential.secret, self.credential.next = self.credential.next, ""
        store(self.state_dir, self.credential)
        return True


def load_or_make(state_dir: Path, host: str) -> Credential:
    """Return the stored credential, or a new one that is already on disk (mode 0600).  Raises StartError."""
    path = state_dir / FILE_NAME
    if path.exists():
        try:
            credential = msgspec.json.decode(path.read_bytes(), type=Credential)
        except msgspec.DecodeError as error:
            raise StartError(f"{path} is not a credential; remove it to enrol this host again.") from error
        if credential.host != host:
            raise StartError(f"{state_dir} belongs to the host {credential.host!r}, not to {host!r}.")
        return credential
    credential = Credential(host, secrets.token_urlsafe(32))
    store(state_dir, credential)
    return credential


def store(state_dir: Path, credential: Credential) -> None:
    """Write the credential atomically."""
    path = state_dir / FILE_NAME
    fresh = path.with_suffix(".new")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123 (mode first)
        file.write(msgspec.json.encode(credential))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


@dataclass(frozen=True)
class JoinToken:
    """The source of the one-time token. The token is read when it is needed, and not stored."""

    host: str
    value: str | None
    file: Path | None

    @classmethod
    def of(cls, settings: AgentSettings) -> JoinToken:
        return cls(settings.host, settings.join_token, settings.join_token_file)

    def read(self) -> str | None:
        """Return the token; None if there is no token, or no file. Raises StartError if the file cannot be read."""
        if self.value or self.file is None:
            return self.value
        try:
            text = self.file.read_text().strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StartError(f"The join token file {self.file} cannot be read: {error.strerror}.") from error
        if not text.startswith("{"):
            return text or None
        try:
            tokens = json.loads(text)
        except ValueError as error:
            raise StartError(f"The join token file {self.file} is neither a token nor a JSON object.") from error
        token = tokens.get(self.host)
        return token if isinstance(token, str) and token else None


def machine_id() -> str:
    """Return 64 hexadecimal digits that are the same at every start on this machine, and different on other machines.

    machine-id(5) asks not to expose the system's id, so only a hash of it leaves the machine. If the system has no id,
    one is generated and stored outside the agent's state folder, which may be copied to another machine. Raises
    StartError.
    """
    number = _read(SYSTEM) or _made()
    return hashlib.sha256(f"novella-agent {number} {_read(FIRMWARE)}".encode()).hexdigest()


def _read(path: Path) -> str:
    """Return a file's first word; empty if there is none or the file cannot be read."""
    try:
        words = path.read_text().split()
    except (OSError, UnicodeDecodeError):
        return ""
    return words[0] if words and words[0] != "uninitialized" else ""


def _made() -> str:
    path = MADE if os.geteuid() == 0 else Path.home() / MADE_BY_USERS
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _read(path):
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            fresh.write_text(f"{uuid.uuid4().hex}\n")
            fresh.replace(path)
    except OSError as error:
        raise StartError(
            f"This machine has no {SYSTEM}, and {path} cannot be written ({error.strerror}):"
            " set a unique id with --machine-id."
        ) from error
    return _read(path)
