"""nftables: loads a ruleset in one transaction, in the calling thread's network namespace.

Small texts are loaded with libnftables, which takes a millisecond; the program ``nft`` takes ten milliseconds. Large
texts are loaded with the program and its limits, and so are all texts if the library is missing.
"""

import ctypes
import functools
import socket
import threading
from pathlib import Path
from typing import Any

import msgspec
from pyroute2.netlink import NLM_F_REQUEST
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nfnetlink.nftsocket import NFT_MSG_GETGEN, nfgen_msg
from pyroute2.nftables.main import NFTables

from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.processes.programs import ProgramError, run_program

LIBRARY = "libnftables.so.1"
SMALL = 1 << 16
"""Limit of a text that is loaded by the library, in bytes."""
FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}
"""Number of the kernel for a family (NFPROTO) → nft's name."""
_ONE_AT_A_TIME = threading.Lock()
_SEEN: dict[int, int] = {}
"""Inode of a network namespace → generation of its rules after this process's last change."""


class NftError(Exception):
    """The kernel or nft rejected the text, and nothing has changed. The message is for operators."""


def load(ruleset: str) -> None:
    """Load a text, all or nothing; raises NftError."""
    before = generation()
    _run(ruleset)
    if _SEEN.get(_namespace(), before) == before:
        settle()


def untouched() -> bool:
    """Return whether only this process has changed rules in the calling thread's namespace since ``settle`` or its
    first change; raises NftError.
    """
    now = generation()
    return _SEEN.get(_namespace(), now) == now


def settle() -> None:
    """Accept the current rules of the calling thread's namespace as intended; raises NftError."""
    _SEEN[_namespace()] = generation()


def generation() -> int:
    """Return the kernel's generation of the namespace's rules, which every change of a rule changes."""
    try:
        with NFTables(nfgen_family=socket.AF_UNSPEC) as nftables:
            (row,) = nftables.request_get(nfgen_msg(), NFT_MSG_GETGEN, NLM_F_REQUEST)
    except (NetlinkError, OSError) as error:
        raise NftError(str(error)) from error
    return int(row.get_attr("NFTA_GEN_ID"))


def contents(family: str, table: str) -> list[dict[str, Any]]:
    """Return the contents of a table in nft's JSON (libnftables-json(5)); raises NftError."""
    try:
        output = run_program("nft", "-j", "list", "table", family, table)
    except ProgramError as error:
        raise NftError(str(error)) from error
    return list(msgspec.json.decode(output)["nftables"])


def apply(ruleset: str, *, alone: bool = False) -> None:
    """Load a text, all or nothing. Raises RetryableHostError.

    ``alone``: the namespace contains only rules of this process, so the rules after the change are accepted as intended
    (``settle``).
    """
    try:
        load(ruleset)
        if alone:
            settle()
    except NftError as error:
        raise RetryableHostError("The host could not set its filters.", detail=str(error)) from error


def takes(ruleset: str) -> bool:
    """Return whether a text could be loaded; changes nothing."""
    try:
        _run(ruleset, check=True)
    except NftError:
        return False
    return True


def tables() -> set[tuple[str, str]]:
    """Return family and name of each table, without reading the contents; raises NftError."""
    try:
        with NFTables(nfgen_family=socket.AF_UNSPEC) as nftables:
            rows = [(row["nfgen_family"], row.get_attr("NFTA_TABLE_NAME")) for row in nftables.get_tables()]
    except (NetlinkError, OSError) as error:
        raise NftError(str(error)) from error
    return {(FAMILIES.get(family, ""), name) for family, name in rows}


def _namespace() -> int:
    return Path("/proc/thread-self/ns/net").stat().st_ino


def _run(text: str, *, check: bool = False) -> str:
    library = _library()
    script = text.encode()
    if library is None or len(script) > SMALL:
        try:
            return run_program("nft", *(["-c"] if check else []), "-f", "-", stdin=script).decode()
        except ProgramError as error:
            raise NftError(str(error)) from error
    with _ONE_AT_A_TIME:
        context = library.nft_ctx_new(0)
        if not context:
            raise NftError("nftables cannot be reached")
        try:
            library.nft_ctx_buffer_error(context)
            library.nft_ctx_buffer_output(context)
            library.nft_ctx_set_dry_run(context, check)
            failed = library.nft_run_cmd_from_buffer(context, script)
            buffer = library.nft_ctx_get_error_buffer if failed else library.nft_ctx_get_output_buffer
            words: bytes = buffer(context) or b""
        finally:
            library.nft_ctx_free(context)
    if failed:
        raise NftError(words.decode(errors="replace").strip()[-500:])
    return words.decode(errors="replace")


@functools.cache
def _library() -> Any:
    """Return the library, None if it is not installed."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return None
    pointer = ctypes.c_void_p
    library.nft_ctx_new.restype = pointer
    library.nft_ctx_new.argtypes = [ctypes.c_uint32]
    library.nft_ctx_set_dry_run.argtypes = [pointer, ctypes.c_bool]
    library.nft_run_cmd_from_buffer.argtypes = [pointer, ctypes.c_char_p]
    for name in ("nft_ctx_free", "nft_ctx_buffer_error", "nft_ctx_buffer_output"):
        getattr(library, name).argtypes = [pointer]
    for name in ("nft_ctx_get_error_buffer", "nft_ctx_get_output_buffer"):
        getattr(library, name).argtypes = [pointer]
        getattr(library, name).restype = ctypes.c_char_p
    return library
