"""The firmware state of a guest: its UEFI variables and its TPM, packed.

The portal stores it while a server is shelved, because no host has the guest then. Images of a server contain its
variables without the TPM, as a property.
"""

import base64
import binascii
import contextlib
import re
import zlib
from typing import Literal

import msgspec

from compute_agent.contract.build import Frozen

PROPERTY = "novella_uefi_variables"
"""The image property with the variables. A server that is launched from an image with this property starts with them.
"""
MOST_TEXT = 48 * 1024
"""Limit of the property, in characters; a few thousand are usual."""
MOST_BYTES = 1 << 20
"""Limit of a packed state; some tens of thousands are usual."""
_MOST_UNPACKED = 16 << 20
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""Names of the files of a TPM's state."""
TOO_LARGE = f"The firmware state has more than {MOST_BYTES >> 10} KiB."


FirmwareKind = Literal["uefi", "secure"]
"""UEFI firmware without and with Secure Boot. The variables of one cannot be used with the other."""


class FirmwareState(Frozen, frozen=True):
    """UEFI variables and TPM of a guest."""

    variables: dict[FirmwareKind, bytes] = {}
    tpm: dict[str, bytes] = {}  # files of the TPM's state, encrypted with ``tpm_key``
    tpm_key: str = ""  # passphrase of ``tpm``; empty: no TPM


def pack(state: FirmwareState) -> bytes:
    """Return the packed state. Raises ValueError if it is too large."""
    packed = zlib.compress(msgspec.msgpack.encode(state), 9)
    if len(packed) > MOST_BYTES:
        raise ValueError(TOO_LARGE)
    return packed


def unpack(packed: bytes) -> FirmwareState | None:
    """Return the state; None if it is invalid or too large."""
    stream = zlib.decompressobj()
    try:
        state = msgspec.msgpack.decode(stream.decompress(packed, _MOST_UNPACKED), type=FirmwareState)
    except (zlib.error, msgspec.MsgspecError):
        return None
    return state if stream.eof and all(map(FILE_NAME.fullmatch, state.tpm)) else None


def to_property(variables: dict[FirmwareKind, bytes]) -> str:
    """Return the variables as an image property; empty without variables, or if they are too large."""
    with contextlib.suppress(ValueError):
        text = base64.b64encode(pack(FirmwareState(variables=variables))).decode() if variables else ""
        return text if len(text) <= MOST_TEXT else ""
    return ""


def from_property(text: str) -> dict[FirmwareKind, bytes]:
    """Return the variables; empty if the text is invalid or too large, because any user may have written it."""
    try:
        state = unpack(base64.b64decode(text, validate=True)) if len(text) <= MOST_TEXT else None
    except (binascii.Error, ValueError):
        return {}
    return state.variables if state is not None else {}
