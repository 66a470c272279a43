"""Guests that run without having booted: the memory and the disk of the first one of a kind wake in each later one.

A boot costs eight processor-seconds under emulation, a guest that wakes less than one.  Tests whose subject is a boot,
or what a guest prints while it boots, call ``launch``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from msgspec import to_builtins
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.power import PowerState
from compute_agent.virt.libvirt.paths import HostPaths
from tests.host.host_process import HostProcess
from tests.host.lab import PATIENCE, until
from tests.support.guest_image import FOLDER

HEADER = 4096
"""Bytes of a disk's file in which its header names the image below it."""
MAGIC = b"LibvirtQemudSave"
XML_LENGTH = slice(20, 24)
XML_AT = 92
"""Where libvirt's file of a guest's memory has the guest's definition (struct _virQEMUSaveHeader)."""


def prepare(host: HostProcess, spec: InstanceSpec) -> None:
    """Do all that comes before a guest's start, step by step as the manager does."""
    host.tell(spec)
    host.network.plug(spec)
    image = host.images.get(spec.image, spec.uuid)
    host.driver.create_disk(spec, image.path)
    host.driver.create_seed(spec)
    host.driver.define(spec, 1)
    host.network.apply_firewall(spec)


def wake(host: HostProcess, spec: InstanceSpec) -> None:
    """Let a guest with this specification run, as it was when it had booted: networks, address, key of SSH."""
    prepare(host, spec)
    asleep = FOLDER / f"asleep-{spec.image.hash_value[:8]}-{_kind(spec)}"
    with _locked("asleep"):
        for old in set(FOLDER.glob("asleep-*")) - set(FOLDER.glob(f"asleep-{spec.image.hash_value[:8]}-*")):
            shutil.rmtree(old)  # of an older image
        asleep.mkdir(exist_ok=True)
        if not (asleep / "names").exists():
            _boot(host, spec)
            _put_to_sleep(host, spec, asleep)
        else:
            _put_in_place(host, spec, asleep)
    host.driver.start(spec.uuid)
    assert host.driver.wait_for_boot(spec.uuid, PATIENCE) == PowerState.RUNNING


def key() -> Path:
    """Return the private key that opens guests which wake; its public half has the suffix .pub."""
    path = FOLDER / "id"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with _locked("id"):
        if not path.exists():
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice", "-f"]
            subprocess.run([*command, str(path.with_suffix(".new"))], check=True)
            path.with_suffix(".new.pub").rename(path.with_suffix(".pub"))
            path.with_suffix(".new").rename(path)
    return path


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    with (FOLDER / f"lock-{name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _kind(spec: InstanceSpec) -> str:
    """Return what guests with the same memory have in common: all but ids and rules, and the programs that run them."""
    versions = [subprocess.run([name, "--version"], capture_output=True, check=True).stdout
                for name in ("qemu-system-x86_64", "libvirtd")]  # fmt: skip
    same = replace(spec, uuid="", ports=[replace(port, security_group_ids=[]) for port in spec.ports])
    accelerated = os.access("/dev/kvm", os.R_OK | os.W_OK)
    text = json.dumps([to_builtins(same), accelerated], sort_keys=True)
    return hashlib.sha256(b"\0".join([text.encode(), *versions])).hexdigest()[:16]


def _boot(host: HostProcess, spec: InstanceSpec) -> None:
    host.driver.start(spec.uuid)
    assert host.driver.wait_for_boot(spec.uuid, PATIENCE) == PowerState.RUNNING
    until(lambda: b"login:" in host.driver.console_output(spec.uuid, 0, 1_000_000).data, "the guest's login prompt")


def _put_to_sleep(host: HostProcess, spec: InstanceSpec, asleep: Path) -> None:
    host.driver.suspend(spec.uuid)
    paths = HostPaths(host.settings.state_dir)
    shutil.copyfile(_memory_of(host, spec), asleep / "memory")
    shutil.copyfile(paths.instance(spec.uuid).real / "disk.qcow2", asleep / "disk")
    (asleep / "names").write_text(json.dumps([spec.uuid, str(paths.short)]))


def _put_in_place(host: HostProcess, spec: InstanceSpec, asleep: Path) -> None:
    """Give the guest the disk and the memory, in which only the ids of the sleeper are replaced."""
    paths = HostPaths(host.settings.state_dir)
    uuid, short = json.loads((asleep / "names").read_text())
    names = ((uuid, spec.uuid), (short, str(paths.short)))
    _copy(asleep / "disk", paths.instance(spec.uuid).real / "disk.qcow2", 0, HEADER, names)
    memory = _memory_of(host, spec)
    memory.parent.mkdir(parents=True, exist_ok=True)
    with (asleep / "memory").open("rb") as file:
        head = file.read(XML_AT)
    assert head.startswith(MAGIC)
    _copy(asleep / "memory", memory, XML_AT, XML_AT + int.from_bytes(head[XML_LENGTH], "little"), names)


def _memory_of(host: HostProcess, spec: InstanceSpec) -> Path:
    """Where libvirt keeps the memory of a guest that sleeps."""
    return host.settings.state_dir / f"libvirt/lib/qemu/save/novella-{spec.uuid}.save"


def _copy(source: Path, target: Path, begin: int, end: int, names: tuple[tuple[str, str], ...]) -> None:
    """Copy a file and replace names of the same lengths in a part of it."""
    with source.open("rb") as file, target.open("wb") as copy:
        copy.write(file.read(begin))
        part = file.read(end - begin)
        for old, new in names:
            assert len(old) == len(new)
            part = part.replace(old.encode(), new.encode())
        copy.write(part)
        shutil.copyfileobj(file, copy, 1 << 20)
