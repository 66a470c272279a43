"""Reads an index and its signature: the built-in one, from a folder, or from an address."""

from pathlib import Path

from django.conf import settings

from provisioning.catalogue.errors import CatalogueError
from provisioning.catalogue.index import signatures
from provisioning.catalogue.index.entries import LARGEST
from provisioning.images.data.web_download import web_file

BUILT_IN, NONE = "built-in", "none"
BUILT_IN_FILE = Path(__file__).with_name("built_in.json")
INDEX, SUFFIX = "index.json", ".sig"
LARGEST_SIGNATURE = 16 << 10
TIMEOUT = 30
"""Seconds for the download of an index, and of its signature."""


def is_address(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def signed_index(source: str) -> tuple[bytes, str]:
    """Return the bytes of an index, and the trusted key that signed it.

    The built-in index is a part of the program and has no signature. Raises CatalogueError, ImportUriError,
    DownloadError.
    """
    if source == BUILT_IN:
        return BUILT_IN_FILE.read_bytes(), ""
    if is_address(source):
        content, signature = _downloaded(source, LARGEST), _downloaded(source + SUFFIX, LARGEST_SIGNATURE)
    else:
        path = Path(source) / INDEX
        content, signature = _from_file(path, LARGEST), _from_file(path.with_name(INDEX + SUFFIX), LARGEST_SIGNATURE)
    return content, signatures.check(content, signature, settings.CATALOGUE_KEYS)


def _downloaded(address: str, limit: int) -> bytes:
    content = bytearray()
    with web_file(address, seconds=TIMEOUT) as remote:
        for piece in remote:
            content += piece
            if len(content) > limit:
                raise _too_large(remote.shown, limit)
    return bytes(content)


def _from_file(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise CatalogueError(f"{path} cannot be read ({error.strerror}).") from error
    if len(content) > limit:
        raise _too_large(str(path), limit)
    return content


def _too_large(shown: str, limit: int) -> CatalogueError:
    return CatalogueError(f"{shown} is larger than {limit >> 10} KiB.")
