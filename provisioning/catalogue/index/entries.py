"""The format of an index: JSON, described in the operator guide and by ``manage.py catalogue schema``."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Literal
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec import Meta

from provisioning.catalogue.errors import CatalogueError
from provisioning.common.values.text import has_control_characters
from provisioning.images.records.fields import BASE, READ_ONLY
from provisioning.images.services.sources import CHECKSUMS, Origin

LARGEST = 1 << 20
"""Maximum size of an index in bytes."""
MOST = 500
"""Maximum number of images in an index."""
_WORD = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,63}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PROPERTY = re.compile(r"(os|hw)_[a-z0-9_]{1,60}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,254}")
_HEX = re.compile(r"[0-9a-f]+")
LOGIN = "os_admin_user"
Text = Annotated[str, Meta(max_length=300)]
Address = Annotated[str, Meta(max_length=2048)]


class Checksum(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The checksum of the file as it is downloaded: its value, or the https address of a file of checksums."""

    algorithm: Literal["sha256", "sha512"]
    value: Annotated[str, Meta(max_length=128, description="hexadecimal, in lower case")] = ""
    file: Annotated[str, Meta(max_length=2048, description="https address of a file of checksums")] = ""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An image. ``min_disk`` is in GiB, ``min_ram`` in MiB, ``size`` (of the download) in bytes."""

    id: Annotated[str, Meta(max_length=64, description="the same for all versions of the image")]
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    version: Annotated[str, Meta(max_length=64)]
    distro: Annotated[str, Meta(max_length=64, description="the image property os_distro")]
    architecture: Literal["x86_64", "aarch64"]
    user: Annotated[str, Meta(max_length=32, description="the login user, the image property os_admin_user")]
    disk_format: Literal["qcow2", "raw", "vmdk", "vdi", "vhd", "vhdx"]
    file: Annotated[Address, Meta(description="an address, or the name of a file beside the index")]
    checksum: Checksum
    min_disk: Annotated[int, Meta(ge=0, le=100_000)]
    min_ram: Annotated[int, Meta(ge=0, le=10_000_000)]
    size: Annotated[int, Meta(ge=1, le=1 << 50)] | None = None
    compression: Literal["", "xz", "gz"] = ""
    os_type: Literal["linux", "windows", ""] = "linux"
    properties: dict[str, Annotated[str, Meta(max_length=255)]] = {}
    description: Text = ""
    mark: Annotated[str, Meta(max_length=2, description="letters shown instead of a drawing")] = ""

    @property
    def logo(self) -> str:
        """One or two letters, for a distribution without a drawing."""
        return self.mark or self.name[:1].upper()

    @property
    def image_properties(self) -> dict[str, str]:
        """The properties of the image record."""
        values = {"os_distro": self.distro, "os_type": self.os_type, LOGIN: self.user, "os_version": self.version}
        return {
            "architecture": self.architecture,
            **{name: value for name, value in values.items() if value},
            **self.properties,
        }

    @property
    def host(self) -> str:
        """The host that the file is downloaded from; empty for a file in the folder of the catalogue."""
        return urlsplit(self.file).hostname or ""

    @property
    def origin(self) -> Origin:
        """The file for an import."""
        checksum = self.checksum
        return Origin(self.file, checksum.algorithm, checksum.value, checksum.file, self.compression)


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An index. An index with an earlier ``updated`` does not replace a later one."""

    format: Literal[1]
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    updated: Annotated[datetime, Meta(tz=True)]
    images: Annotated[list[Entry], Meta(max_length=MOST)]


def read(content: bytes, address: str = "") -> Index:
    """Parse and check an index. Raises CatalogueError with all its faults.

    ``address``: where the index was downloaded; files in the same folder get complete addresses.
    """
    if len(content) > LARGEST:
        raise CatalogueError(f"The index is larger than {LARGEST >> 20} MiB.")
    try:
        index = msgspec.json.decode(content, type=Index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CatalogueError(f"The index is invalid: {error}.") from None
    faults = list(_faults(index))
    if faults:
        raise CatalogueError(f"The index is invalid: {'; '.join(faults[:10])}.")
    if not address:
        return index
    beside = [msgspec.structs.replace(entry, file=urljoin(address, entry.file)) for entry in index.images]
    return msgspec.structs.replace(index, images=beside)


def schema() -> dict[str, object]:
    """Return the JSON schema of an index."""
    return msgspec.json.schema(Index)


def _faults(index: Index) -> Iterator[str]:
    if has_control_characters(index.name):
        yield "its name has control characters"
    seen: set[str] = set()
    for entry in index.images:
        if entry.id in seen:
            yield f"two images have the id {entry.id[:80]!r}"
        seen.add(entry.id)
        for fault in _faults_of(entry):
            yield f"{entry.id[:80]!r}: {fault}"


def _faults_of(entry: Entry) -> Iterator[str]:
    patterns = {"id": _WORD, "version": _VERSION, "distro": _WORD, "user": _USER}
    for name, pattern in patterns.items():
        if not pattern.fullmatch(getattr(entry, name)):
            yield f"invalid {name}"
    texts = (entry.name, entry.description, entry.mark, *entry.properties.values())
    if any(has_control_characters(text) for text in texts):
        yield "a text has control characters"
    for name in entry.properties:
        if not _PROPERTY.fullmatch(name) or name in BASE or name in READ_ONLY:
            yield f"the property {name[:80]!r} is not os_… or hw_…"
    remote = _is_address(entry.file)
    if not remote and not _FILE.fullmatch(entry.file):
        yield "file is neither an http or https address nor the name of a file"
    yield from _faults_of_checksum(entry.checksum)


def _faults_of_checksum(checksum: Checksum) -> Iterator[str]:
    if bool(checksum.value) == bool(checksum.file):
        yield "the checksum needs either value or file"
    if checksum.value and (len(checksum.value) != CHECKSUMS[checksum.algorithm] or not _HEX.fullmatch(checksum.value)):
        yield f"the checksum is not a {checksum.algorithm} in hexadecimal"
    if checksum.file and not (checksum.file.startswith("https://") and _is_address(checksum.file)):
        yield "the file of checksums is not an https address"


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False
