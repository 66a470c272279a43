"""Disks of a guest that moves: the files that its host sends, and their adaptation on the host that receives them.

The root disk travels as its file, an overlay on a cached image that both hosts have: only the guest's own data is
copied. Without the same image on the receiving host, the content of the disk is copied into a complete file. Nothing in
a received file can cause QEMU to open another file than the cached image: its header is checked before the file is
used, and the path of the image is written by this host.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from compute_agent.contract.build import InstanceSpec, boot_volume, is_cd
from compute_agent.contract.moves import EPHEMERAL, FLAT, LOCAL, ROOT, SWAP, GuestOrigin, SentDisk
from compute_agent.disk_formats import qcow2
from compute_agent.disk_formats.reading import DiskFormatError
from compute_agent.virt.driver import Fetch, SentFile, SentGuest
from compute_agent.virt.errors import ImageUnacceptableError, RetryableHostError, UnsupportedError
from compute_agent.virt.libvirt.connection import translated
from compute_agent.virt.libvirt.disks import GIB, create_disks, local_disks
from compute_agent.virt.libvirt.domains import Domains
from compute_agent.virt.libvirt.paths import InstancePaths
from compute_agent.virt.libvirt.resizing import aside
from compute_agent.virt.processes import durable
from compute_agent.virt.processes.programs import ProgramError, run_program
from compute_agent.virt.processes.rights import Rights

_NOT_RECEIVED = "The host could not store the guest's disks."
_STRANGE = "The root disk that another host sent is not acceptable."


class MoveOperations(Domains):
    """Sending and receiving the disks of a guest."""

    def disks_to_send(self, uuid: str) -> SentGuest:
        domain = self._domain(uuid)
        with translated("report the guest's state"):
            if domain.isActive():
                raise UnsupportedError("The guest runs.")
            if domain.hasManagedSaveImage():
                raise UnsupportedError("The guest is suspended.")
        paths = self._paths.instance(uuid)
        if aside(paths.root_disk).exists():
            raise RetryableHostError("The guest's disk is still being merged after a resize.")
        named = {ROOT: paths.root_disk, EPHEMERAL: paths.ephemeral_disk, SWAP: paths.swap_disk}
        named |= {path.name.removesuffix(".raw"): path for path in paths.local_files}
        files = tuple(SentFile(name, path) for name, path in named.items() if path.exists())
        base = _base_of(paths.root_disk) if paths.root_disk.exists() else ""
        return SentGuest(files, Path(base) if base else None)

    def receive_disks(self, spec: InstanceSpec, base: Path | None, origin: GuestOrigin, fetch: Fetch) -> None:
        self._power_off(spec.uuid)
        paths = self._folder(spec.uuid)
        sent = {disk.name: disk for disk in origin.disks}
        named = [(local, sent.get(_name_of(local.path, paths))) for local in local_disks(spec, paths)]
        copied = [(local, disk) for local, disk in named if disk is not None and disk.size <= local.size]
        own_root = boot_volume(spec) is None
        targets = [local.path for local, _ in copied] + ([paths.root_disk] if own_root and ROOT in sent else [])
        cd = is_cd(spec.image)
        image = self._paths.lend(base) if base is not None else None
        if cd and image is None:
            raise RetryableHostError("The host has no image for the guest's CD-ROM drive.")
        try:
            for target in targets:
                if target.exists() and not _part(target).exists():
                    target.replace(_part(target))  # perhaps complete already, before a restart of the agent
            create_disks(spec, image if cd else None, paths)
            if own_root:
                _receive_root(spec, paths.root_disk, None if cd else image, origin, sent, fetch)
            for local, disk in copied:
                part = _part(local.path)
                fetch(disk, part, "raw")
                os.truncate(part, local.size)
                durable.keep(part, local.path)
        except (OSError, ProgramError) as error:
            raise RetryableHostError(_NOT_RECEIVED, detail=str(error)) from error


def _name_of(path: Path, paths: InstancePaths) -> str:
    if path.name.startswith(LOCAL):
        return path.name.removesuffix(".raw")
    return {paths.root_disk: ROOT, paths.ephemeral_disk: EPHEMERAL, paths.swap_disk: SWAP}.get(path, "")


def _part(target: Path) -> Path:
    """Return the path of a disk that is being received, which has no other use."""
    return target.with_suffix(".received")


def _receive_root(
    spec: InstanceSpec, target: Path, base: Path | None, origin: GuestOrigin, sent: Mapping[str, SentDisk], fetch: Fetch
) -> None:
    """Create the root disk. It has at least the size of the flavor."""
    part = _part(target)
    if origin.base and (base is None or base.name != origin.base):
        fetch(_needed(sent, FLAT), part, "qcow2")
        _check_header(part, "")
    else:
        fetch(_needed(sent, ROOT), part, "raw")
        _check_header(part, origin.base)
        if base is not None and origin.base:
            # -u: only the header changes. The image is the same, because its name is the hash of its data.
            run_program("qemu-img", "rebase", "-q", "-u", "-f", "qcow2", "-b", str(base), "-F", "raw", str(part))
    size, has = spec.flavor.root_gb * GIB, int(_info(part)["virtual-size"])  # type: ignore[call-overload]
    if 0 < size < has:
        raise ImageUnacceptableError(f"The guest's disk has {-(-has // GIB)} GiB and cannot shrink.")
    if size > has:
        run_program("qemu-img", "resize", "-q", "-f", "qcow2", str(part), str(size))
    durable.keep(part, target)


def _needed(sent: Mapping[str, SentDisk], name: str) -> SentDisk:
    if name not in sent:
        raise RetryableHostError("The guest's host did not send its root disk.", detail=name)
    return sent[name]


def _check_header(path: Path, base: str) -> None:
    """Raise ImageUnacceptableError unless the file is a valid qcow2 that refers to no file, or only to the image with
    the name ``base``.
    """
    try:
        with path.open("rb") as file:
            qcow2.check_overlay(file, path.stat().st_size)
            file.seek(0)
            backing = qcow2.backing_file(file)
    except DiskFormatError as error:
        raise ImageUnacceptableError(_STRANGE, detail=str(error)) from error
    if (Path(backing).name if backing else "") != base:
        raise ImageUnacceptableError(_STRANGE, detail=f"it is based on {backing!r}, not on {base!r}")


def _base_of(disk: Path) -> str:
    return str(_info(disk).get("full-backing-filename") or "")


def _info(disk: Path) -> dict[str, object]:
    words = ("qemu-img", "info", "-U", "-f", "qcow2", "--output=json", str(disk))
    info: dict[str, object] = json.loads(run_program(*words, rights=Rights()))
    return info
