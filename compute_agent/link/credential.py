"""The host's credential. It is generated here, and stored before it is sent; the portal stores only its hash."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import msgspec

from compute_agent.link.errors import StartError
from compute_agent.settings import AgentSettings

FILE_NAME = "credential.json"


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
