"""User data with several parts, as cloud-init reads it.

Source: cloud-init, "User data formats" (MIME multi-part archive) and "Merging user data sections".
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from email import message_from_bytes
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

CLOUD_CONFIG = "#cloud-config"
OWN = "user-data"
"""File name of the part with the user data that the caller has sent."""
MERGE = "list(append)+dict(no_replace,recurse_list)+str()"
"""How cloud-init merges an added part: its lists are appended, and values that are already set stay."""
_TYPES = {CLOUD_CONFIG: "cloud-config", "#!": "x-shellscript", "#cloud-boothook": "cloud-boothook"}


def with_config(user_data: str | None, config: Mapping[str, Any] | str, name: str) -> str:
    """Return user data, in base64, with another cloud-config, given as values or as text. Raises ValueError for user
    data that is not base64.
    """
    archive = _archive(base64.b64decode("".join((user_data or "").split()), validate=True))
    text = config if isinstance(config, str) else f"{CLOUD_CONFIG}\n{json.dumps(config)}\n"
    part = _part(text.encode(), name)
    part["Merge-Type"] = MERGE
    archive.attach(part)
    return base64.b64encode(archive.as_bytes()).decode()


def own_part(user_data: str) -> str:
    """Return the user data that the caller has sent, in base64, without the added parts."""
    try:
        read = message_from_bytes(base64.b64decode(user_data, validate=True))
    except (binascii.Error, ValueError):
        return user_data
    if not read.is_multipart() or OWN not in [part.get_filename() for part in _parts(read)]:
        return "" if _is_ours(read) else user_data
    own = next(part for part in _parts(read) if part.get_filename() == OWN)
    return base64.b64encode(_payload(own)).decode()


def added_part(user_data: str, name: str) -> str:
    """Return the text of the part that was added last with a name; empty if there is none."""
    try:
        read = message_from_bytes(base64.b64decode(user_data, validate=True))
    except (binascii.Error, ValueError):
        return ""
    parts = [part for part in _parts(read) if part.get_filename() == name] if _is_ours(read) else []
    return _payload(parts[-1]).decode("utf-8", "replace") if parts else ""


def added_names(user_data: str) -> list[str]:
    """Return the names of the added parts, in order."""
    try:
        read = message_from_bytes(base64.b64decode(user_data, validate=True))
    except (binascii.Error, ValueError):
        return []
    names = [part.get_filename() or "" for part in _parts(read)] if _is_ours(read) else []
    return [name for name in names if name and name != OWN]


_MARK = "X-Novella-Parts"


def _is_ours(message: Message) -> bool:
    return message.get(_MARK) is not None


def _parts(message: Message) -> list[Message]:
    payload = message.get_payload()
    return [part for part in payload if isinstance(part, Message)] if isinstance(payload, list) else []


def _payload(part: Message) -> bytes:
    if part.is_multipart():
        del part["Content-Disposition"]
        return part.as_bytes()
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _archive(data: bytes) -> Message:
    """Return a multipart archive with the user data as its first part; user data that already is such an archive is
    returned unchanged.
    """
    read = message_from_bytes(data)
    if _is_ours(read) and read.is_multipart():
        return read
    archive = MIMEMultipart(boundary=f"novella-{hashlib.sha256(data).hexdigest()[:24]}")
    archive[_MARK] = "1"
    if read.is_multipart():  # cloud-init reads an archive in an archive
        read.add_header("Content-Disposition", "attachment", filename=OWN)
        archive.attach(read)
    elif data.strip():
        archive.attach(_part(data, OWN))
    return archive


def _part(data: bytes, name: str) -> Message:
    """Return a part. cloud-init reads the type of plain text from its first line."""
    start = data.lstrip()[:40].decode("utf-8", "replace")
    kind = next((found for mark, found in _TYPES.items() if start.startswith(mark)), "plain")
    part = MIMEText("", kind, "utf-8")
    part.set_payload(base64.encodebytes(data).decode())
    part.add_header("Content-Disposition", "attachment", filename=name)
    return part
