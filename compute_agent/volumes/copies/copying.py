"""Copies whole volumes with ``qemu-img``, from and to exports.

``qemu-img`` runs under the account of storage daemons (``account``; None: the agent's own account), and has access only
to the files and sockets of the copy.
"""

import contextlib
import errno
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from compute_agent.contract.build import VolumeConnection
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import StoppedError
from compute_agent.virt.machine.host_address import Certificates
from compute_agent.virt.processes.programs import Limits, ProgramError, run_long, run_program
from compute_agent.virt.processes.rights import lent
from compute_agent.virt.processes.storage_account import StorageAccount
from compute_agent.volumes.daemons.export_address import check_certificates
from compute_agent.volumes.errors import CopyFailedError, NoSpaceError

LIMITS = Limits(seconds=24 * 3600, cpu_seconds=12 * 3600, memory=2 << 30)
MOST_STILL = 60.0
"""Seconds without data after which a copy from another host is interrupted, because the network may swallow packets."""
FORMATS = {"raw": "raw", "qcow2": "qcow2", "vmdk": "vmdk", "vdi": "vdi", "vhd": "vpc", "vhdx": "vhdx"}
"""The names that ``qemu-img`` uses for the formats of images."""
PARALLEL = ("-W", "-m", "16")
"""Options of copies from another host: 16 requests at a time, in any order, hide the time of encryption and network."""
SOCKET = "?socket="
CLIENT = ("ca-cert.pem", "client-cert.pem", "client-key.pem")
_MEMORY = Path("/dev/shm")  # noqa: S108 (a folder is made in it for each copy)


def local(name: str, socket: Path) -> str:
    """Return the address of an export on a unix socket."""
    return f"nbd+unix:///{name}{SOCKET}{socket}"


def to_file(
    source: str, path: Path, disk_format: str, size: int, stopped: Stopped, account: StorageAccount | None = None
) -> None:
    """Copy an export of ``size`` bytes into a new file.  Raises CopyFailedError, StoppedError."""
    if disk_format not in FORMATS:
        raise CopyFailedError(f"A volume cannot be copied into the format {disk_format!r}.")
    path.touch(mode=0o600)
    words = ("-f", "raw", "-O", FORMATS[disk_format], source, str(path))
    _convert(*words, total=size, stopped=stopped, account=account, files=[_socket(source), path])


def over(
    image: Path, overlay: Path, size: int, target: str, stopped: Stopped, account: StorageAccount | None = None
) -> None:
    """Write a raw file over an export of ``size`` bytes, and zeros after the end of the file.

    ``overlay`` is the path of a small temporary file.
    """
    overlay.unlink(missing_ok=True)
    try:
        run_program("qemu-img", "create", "-q", "-f", "qcow2", "-b", str(image), "-F", "raw", str(overlay), str(size))
        words = ("-n", "-f", "qcow2", "-O", "raw", "-W", "-m", "8", str(overlay), target)
        files = [overlay, _socket(target)]
        _convert(*words, total=size, stopped=stopped, account=account, files=files, read=[image])
    except ProgramError as error:
        raise CopyFailedError("The image could not be written to the volume.", detail=str(error)) from error
    finally:
        overlay.unlink(missing_ok=True)


def file_over(content: Path, target: str, stopped: Stopped, account: StorageAccount | None = None) -> None:
    """Write a raw file, its holes as zeros, over an export of the same size.  Raises CopyFailedError, StoppedError."""
    words = ("-n", "-f", "raw", "-O", "raw", "-W", "-m", "8", str(content), target)
    size = content.stat().st_size
    _convert(*words, total=size, stopped=stopped, account=account, files=[content, _socket(target)])


def fetch(
    origin: VolumeConnection,
    certificates: Certificates | None,
    target: str,
    size: int,
    stopped: Stopped,
    account: StorageAccount | None = None,
) -> None:
    """Copy an export of another host to an export of this host, which has ``size`` bytes and reads as zeros.

    The caller has checked ``origin``.
    """
    place: dict[str, str] = {"type": "unix", "path": origin.socket}
    node: dict[str, object] = {"driver": "nbd", "export": origin.export, "server": place}
    files = [_socket(target), *([Path(origin.socket)] if origin.socket else [])]
    with contextlib.ExitStack() as held:
        words: list[str] = []
        source = "json:" + json.dumps({"driver": "raw", "file": node})
        if not origin.socket:
            words, source = _remote(origin, certificates, account, held)
        words += [*PARALLEL, "-n", "--target-is-zero", "-O", "raw", source, target]
        _convert(*words, total=size, stopped=stopped, account=account, files=files)


def fetch_file(
    origin: VolumeConnection,
    certificates: Certificates | None,
    path: Path,
    disk_format: str,
    size: int,
    stopped: Stopped,
    account: StorageAccount | None = None,
) -> None:
    """Copy an export of another host, of ``size`` bytes, into a new file; holes stay holes. Raises CopyFailedError,
    NotExportedError, StoppedError.
    """
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    with contextlib.ExitStack() as held:
        words, source = _remote(origin, certificates, account, held)
        words += [*PARALLEL, "-O", disk_format, source, str(path)]
        _convert(*words, total=size, stopped=stopped, account=account, files=[path], most_still=MOST_STILL)


def fetch_piece(
    origin: VolumeConnection,
    certificates: Certificates | None,
    path: Path,
    piece: range,
    stopped: Stopped,
    account: StorageAccount | None = None,
) -> None:
    """Copy some bytes of an export of another host to the same place of a raw file, which reads as zeros there or has a
    part of them already; holes stay holes. ``piece`` begins and ends at multiples of 512. Raises the errors of
    ``fetch_file``.
    """
    extent = {"offset": piece.start, "size": len(piece)}
    target = {"driver": "raw", **extent, "file.driver": "file", "file.filename": str(path).replace(",", ",,")}
    with contextlib.ExitStack() as held:
        words, source = _remote(origin, certificates, account, held, extent)
        into = ",".join(f"{name}={value}" for name, value in target.items())
        words += [*PARALLEL, "-n", "--target-is-zero", "--target-image-opts", source, into]
        _convert(*words, total=len(piece), stopped=stopped, account=account, files=[path], most_still=MOST_STILL)


def _remote(
    origin: VolumeConnection,
    certificates: Certificates | None,
    account: StorageAccount | None,
    held: contextlib.ExitStack,
    extent: Mapping[str, int] | None = None,
) -> tuple[list[str], str]:
    """Return the arguments of ``qemu-img`` for an export over TLS, and the address of the export. ``held``: an exit
    stack that removes the certificates for this run. ``extent``: the offset and size of the requested piece.
    """
    shown = held.enter_context(_shown(check_certificates(certificates), account))
    server = {"type": "inet", "host": origin.address, "port": str(origin.port)}
    secure = {"tls-creds": "tls", "tls-hostname": origin.tls_hostname}
    node = {"driver": "nbd", "export": origin.export, "server": server, **secure}
    words = ["--object", f"tls-creds-x509,id=tls,endpoint=client,dir={shown}"]
    return words, "json:" + json.dumps({"driver": "raw", **(extent or {}), "file": node})


def _socket(address: str) -> Path:
    """Return the socket of an address that ``local`` returned."""
    return Path(address.partition(SOCKET)[2])


@contextlib.contextmanager
def _shown(certificates: Certificates, account: StorageAccount | None) -> Iterator[Path]:
    """Yield a folder in memory with the client's certificates, which the account can read. The folder is removed after
    the block.
    """
    if account is None:
        yield certificates.folder
        return
    folder = Path(tempfile.mkdtemp(prefix="novella-tls-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        for name in CLIENT:
            path = folder / name
            path.touch(mode=0o600)
            path.write_bytes((certificates.folder / name).read_bytes())
            account.show(path, 0o440)
        account.show(folder, 0o710)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _convert(
    *words: str,
    total: int,
    stopped: Stopped,
    account: StorageAccount | None,
    files: Sequence[Path],
    read: Sequence[Path] = (),
    most_still: float = math.inf,
) -> None:
    command = ("qemu-img", "convert", "-p", *words)
    try:
        with lent(account, *files, read=read) as rights:
            run_long(*command, limits=LIMITS, stopped=stopped, total=total, rights=rights, most_still=most_still)
    except ProgramError as error:
        if stopped():
            raise StoppedError("The volume was not copied completely.") from error
        if os.strerror(errno.ENOSPC) in str(error):
            raise NoSpaceError("There is no space left for the data.", detail=str(error)) from error
        raise CopyFailedError("The volume's data could not be copied.", detail=str(error)) from error
