"""Copies of whole volumes by ``qemu-img``, from and to exports."""

import json
from pathlib import Path

from compute_agent.contract.build import VolumeConnection
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import StoppedError
from compute_agent.virt.programs import Limits, ProgramError, run_long, run_program
from compute_agent.volumes.daemon import TCP_WITHOUT_TLS, Certificates
from compute_agent.volumes.errors import CopyFailedError, NotExportedError

LIMITS = Limits(seconds=24 * 3600, cpu_seconds=12 * 3600, memory=2 << 30)
FORMATS = {"raw": "raw", "qcow2": "qcow2", "vmdk": "vmdk", "vdi": "vdi", "vhd": "vpc", "vhdx": "vhdx"}
"""What ``qemu-img`` calls the formats of images."""


def local(name: str, socket: Path) -> str:
    """Return the address of an export on a unix socket."""
    return f"nbd+unix:///{name}?socket={socket}"


def to_file(source: str, path: Path, disk_format: str, size: int, stopped: Stopped) -> None:
    """Copy an export of ``size`` bytes into a new file.  Raises CopyFailedError, StoppedError."""
    if disk_format not in FORMATS:
        raise CopyFailedError(f"A volume cannot be copied into the format {disk_format!r}.")
    _convert("-f", "raw", "-O", FORMATS[disk_format], source, str(path), total=size, stopped=stopped)


def over(image: Path, overlay: Path, size: int, target: str, stopped: Stopped) -> None:
    """Write a raw file over an export of ``size`` bytes, and zeros behind it.  ``overlay``: a name for a small file."""
    overlay.unlink(missing_ok=True)
    try:
        run_program("qemu-img", "create", "-q", "-f", "qcow2", "-b", str(image), "-F", "raw", str(overlay), str(size))
        _convert("-n", "-f", "qcow2", "-O", "raw", "-W", "-m", "8", str(overlay), target, total=size, stopped=stopped)
    except ProgramError as error:
        raise CopyFailedError("The image could not be written to the volume.", detail=str(error)) from error
    finally:
        overlay.unlink(missing_ok=True)


def fetch(
    origin: VolumeConnection, certificates: Certificates | None, target: str, size: int, stopped: Stopped
) -> None:
    """Copy what another host exports to an export of this one of ``size`` bytes, which reads as zeros.

    The caller has checked ``origin``.
    """
    place: dict[str, str] = {"type": "unix", "path": origin.socket}
    node: dict[str, object] = {"driver": "nbd", "export": origin.export, "server": place}
    words = []
    if not origin.socket:
        if certificates is None or not certificates.complete:
            raise NotExportedError(TCP_WITHOUT_TLS)
        node["server"] = {"type": "inet", "host": origin.address, "port": str(origin.port)}
        words = ["--object", f"tls-creds-x509,id=tls,endpoint=client,dir={certificates.folder}"]
        node |= {"tls-creds": "tls", "tls-hostname": origin.tls_hostname}
    source = "json:" + json.dumps({"driver": "raw", "file": node})
    _convert(*words, "-n", "--target-is-zero", "-O", "raw", source, target, total=size, stopped=stopped)


def _convert(*words: str, total: int, stopped: Stopped) -> None:
    try:
        run_long("qemu-img", "convert", "-p", *words, limits=LIMITS, stopped=stopped, total=total)
    except ProgramError as error:
        if stopped():
            raise StoppedError("The volume was not copied to its end.") from error
        raise CopyFailedError("The volume's data could not be copied.", detail=str(error)) from error
