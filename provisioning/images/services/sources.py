"""Files that imports read: on the web, or in the folder of the image catalogue.

A file can have a checksum, which is verified before the import ends, and be compressed.
"""

import contextlib
import hashlib
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import unquote, urlsplit

from django.conf import settings

from provisioning.images.data.web_download import web_file
from provisioning.images.errors import DownloadError, ImageContentError

CATALOGUE = "catalogue"
"""Method of an import from the image catalogue; users cannot request it."""
CHECKSUMS = {"sha256": 64, "sha512": 128}
"""Algorithms of checksums, and their number of hexadecimal digits."""
LARGEST_LIST = 1 << 20
"""Maximum size of a file of checksums, in bytes."""
LIST_TIMEOUT = 60
"""Seconds for the download of a file of checksums."""
PIECE = 1 << 20
SHOWN = 12
"""Number of digits of checksums in messages."""
MOST_MEMORY = 192 << 20
"""Maximum bytes of memory to decompress a file; ``xz -9`` needs 65 MiB."""
_LINE = re.compile(r"(?:SHA(?:256|512) \((?P<bsd>[^)]+)\) = )?(?P<digest>[0-9a-f]{64,128})(?:[ \t]+[*]?(?P<gnu>\S.*))?")


@dataclass(frozen=True)
class Origin:
    """The file of an import from the catalogue.

    ``uri`` is an address, or the name of a file in the folder of the catalogue. Either ``digest`` (hexadecimal) or
    ``digest_uri``, the https address of a file of checksums.
    """

    uri: str
    algorithm: str
    digest: str = ""
    digest_uri: str = ""
    compression: str = ""

    @property
    def method(self) -> dict[str, Any]:
        """The method as in ``ImageTask.input``, without unset values."""
        values = {name: value for name, value in vars(self).items() if value}
        return {"name": CATALOGUE, **values}


class _File(Protocol):
    """A file that is read once; ``total`` is its size in bytes, None if unknown."""

    total: int | None

    def __iter__(self) -> Iterator[bytes]: ...


@dataclass
class Source:
    """The data of an import. ``came`` and ``total`` count the bytes of the file, which can be compressed."""

    file: _File
    name: str
    algorithm: str = ""
    digest: str = ""
    compression: str = ""
    came: int = 0

    @property
    def total(self) -> int | None:
        return self.file.total

    @property
    def size(self) -> int | None:
        """The number of bytes of the data; None if unknown."""
        return None if self.compression else self.file.total

    def __iter__(self) -> Iterator[bytes]:
        """Yield the data. Raises ImageContentError at the end if the checksum differs."""
        return _decompressed(self._read(), self.compression, self.name) if self.compression else self._read()

    def _read(self) -> Iterator[bytes]:
        digest = hashlib.new(self.algorithm) if self.algorithm else None
        for piece in self.file:
            self.came += len(piece)
            if digest is not None:
                digest.update(piece)
            yield piece
        if digest is not None and digest.hexdigest() != self.digest:
            raise ImageContentError(
                f"The checksum of {self.name} is wrong: {self.algorithm} {digest.hexdigest()[:SHOWN]}… instead of"
                f" {self.digest[:SHOWN]}…. The file was not used."
            )


@contextmanager
def opened(method: Mapping[str, Any]) -> Iterator[Source]:
    """Open the file of an import method during the block.

    Raises ImportUriError if an address is not allowed, DownloadError if a file or its checksum is not available.
    """
    uri, algorithm, digest = str(method["uri"]), str(method.get("algorithm", "")), str(method.get("digest", ""))
    if method.get("digest_uri"):
        digest = published_digest(str(method["digest_uri"]), algorithm, name_of(uri))
    with contextlib.ExitStack() as stack:
        if "://" in uri:
            remote = stack.enter_context(web_file(uri))
            file, name = cast("_File", remote), remote.shown
        else:
            file, name = stack.enter_context(_local(uri)), uri
        yield Source(file, name, algorithm, digest, str(method.get("compression", "")))


def published_digest(uri: str, algorithm: str, name: str) -> str:
    """Return the checksum of a file from the file of checksums at an https address. Raises DownloadError."""
    result: dict[str, str] = {}
    with web_file(uri, seconds=LIST_TIMEOUT, secure=True) as remote:
        content = b""
        for piece in remote:
            content += piece
            if len(content) > LARGEST_LIST:
                raise DownloadError(f"The list of checksums {remote.shown} is larger than {LARGEST_LIST >> 20} MiB.")
    for line in content.decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line.strip())
        if match is not None and len(match["digest"]) == CHECKSUMS[algorithm]:
            result[(match["bsd"] or match["gnu"] or "").removeprefix("./")] = match["digest"]
    if name not in result and len(result) != 1:  # a list for one file can have the name that a link refers to
        raise DownloadError(f"The list of checksums {remote.shown} has no {algorithm} of {name}.")
    return result.get(name) or next(iter(result.values()))


def name_of(uri: str) -> str:
    """Return the file name in an address."""
    return unquote(urlsplit(uri).path).rpartition("/")[2]


class _Local:
    """A file in the folder of the catalogue."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.total: int | None = path.stat().st_size

    def __iter__(self) -> Iterator[bytes]:
        while piece := self._file.read(PIECE):
            yield piece

    def close(self) -> None:
        self._file.close()


@contextmanager
def _local(name: str) -> Iterator[_Local]:
    path = Path(settings.CATALOGUE) / name
    if name in {"", ".", ".."} or "/" in name or not path.is_file():
        raise DownloadError(f"The folder of the catalogue has no file {name[:80]}.")
    try:
        file = _Local(path)
    except OSError as error:
        raise DownloadError(f"The file {name} in the folder of the catalogue cannot be read.") from error
    try:
        yield file
    finally:
        file.close()


def _decompressed(pieces: Iterable[bytes], compression: str, name: str) -> Iterator[bytes]:
    """Yield the decompressed data in pieces of limited size. Raises ImageContentError."""
    try:
        yield from (_from_xz if compression == "xz" else _from_gz)(pieces)
    except (lzma.LZMAError, zlib.error, EOFError) as error:
        raise ImageContentError(
            f"{name} cannot be decompressed: it is damaged or not in {compression} format."
        ) from error


def _from_xz(pieces: Iterable[bytes]) -> Iterator[bytes]:
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY)
    for piece in pieces:
        specified = piece
        while not decompressor.eof:
            data = decompressor.decompress(specified, PIECE)
            specified = b""
            if data:
                yield data
            elif decompressor.needs_input:
                break
    if not decompressor.eof:
        raise EOFError


def _from_gz(pieces: Iterable[bytes]) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(wbits=31)
    for piece in pieces:
        specified = piece
        while specified and not decompressor.eof:
            data = decompressor.decompress(specified, PIECE)
            specified = decompressor.unconsumed_tail
            if data:
                yield data
    if not decompressor.eof:
        raise EOFError
