"""UEFI firmware of the host, as described by the distribution (QEMU's "firmware.json"), and guests' variables.

A guest's variables are a file next to its disks, initially a copy of the firmware's template. Firmware with Secure Boot
uses a separate file, because its variables differ and a guest may switch between both kinds of firmware.
"""

import contextlib
import fnmatch
import json
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compute_agent.contract.firmware_state import TOO_LARGE, FirmwareKind
from compute_agent.contract.hardware import Hardware
from compute_agent.virt.errors import RetryableHostError, UnsupportedError

log = logging.getLogger(__name__)

FOLDERS = (Path("/usr/share/qemu/firmware"), Path("/etc/qemu/firmware"))
"""Directories of descriptions: the distribution's, and the operator's. A description of the operator overrides the
distribution's of the same name.
"""
MOST_FILE_BYTES = 4 << 20
"""Limit of a file of a guest's firmware state."""
ARCHITECTURE = "x86_64"
_EXAMPLES = {"pc": "pc-i440fx-7.2", "q35": "pc-q35-7.2"}
"""Aliases of chipsets → chipsets, where descriptions distinguish them."""


@dataclass(frozen=True)
class Firmware:
    """A UEFI firmware that is installed and described on this host."""

    code: Path
    template: Path
    """The initial variables."""
    machines: tuple[str, ...]
    """Patterns of supported chipsets."""
    secure_boot: bool = False
    """Whether it has Secure Boot, and its variables contain the keys of Microsoft, with which distributions sign."""
    smm: bool = False
    """Whether it requires System Management Mode."""

    def fits(self, machine: str) -> bool:
        name = _EXAMPLES.get(machine, machine)
        return any(fnmatch.fnmatchcase(name, each) for each in self.machines)


def known() -> list[Firmware]:
    """Return the installed firmware of this host, in order of preference.

    Firmware with Secure Boot is listed only with enrolled keys: without keys, it boots unsigned software.
    """
    described = {path.name: path for folder in FOLDERS if folder.is_dir() for path in folder.glob("*.json")}
    result = []
    for _, path in sorted(described.items()):
        try:
            text = path.read_text()
            result += list(_read(json.loads(text))) if text.strip() else []
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("The description of firmware %s cannot be read: %r", path, error)
    return [each for each in result if each.code.is_file() and each.template.is_file()]


def kind_of(*, secure_boot: bool) -> FirmwareKind:
    """Return the name of the variables of firmware with or without Secure Boot, as in ``FirmwareState``."""
    return "secure" if secure_boot else "uefi"


def choose(hardware: Hardware, variables: Callable[[bool], Path]) -> Firmware:
    """Return firmware that fits the guest's chipset and its existing variables, which belong to one size of firmware.

    ``variables`` returns the path of the variables for firmware with or without Secure Boot. Raises UnsupportedError,
    and RetryableHostError if the host has such firmware, but the variables do not fit it.
    """
    fitting = [each for each in known() if each.fits(hardware.machine)]
    secure, plain = [each for each in fitting if each.secure_boot], [each for each in fitting if not each.smm]
    offered = {"required": secure, "optional": secure + plain, "disabled": plain}[hardware.secure_boot]
    known_by_guest = [each for each in offered if variables(each.secure_boot).exists()]
    for each in known_by_guest:
        if variables(each.secure_boot).stat().st_size == each.template.stat().st_size:
            return each
    if known_by_guest:
        raise RetryableHostError("The guest's UEFI variables do not fit the firmware of the host.")
    if offered:
        return offered[0]
    lacks = "Secure Boot" if hardware.secure_boot == "required" else "UEFI firmware"
    raise UnsupportedError(f"The host has no {lacks} for the chipset {hardware.machine}.")


def install(firmware: Firmware, variables: Path, first: bytes | None = None) -> None:
    """Create a guest's variables unless they exist: a copy of ``first``, the image's variables, if they fit, otherwise
    of the template.

    Raises RetryableHostError if the host lacks space.
    """
    if variables.exists():
        return
    template = firmware.template.read_bytes()
    write(variables, first if first is not None and len(first) == len(template) else template)


def read(path: Path) -> bytes:
    """Return the content of a file of a guest's firmware state, which another account writes.

    Raises UnsupportedError if it is too large, OSError also for a symbolic link.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        content = file.read(MOST_FILE_BYTES + 1)
    if len(content) > MOST_FILE_BYTES:
        raise UnsupportedError(TOO_LARGE)
    return content


def write(variables: Path, content: bytes) -> None:
    """Create or replace a guest's variables. Raises RetryableHostError if the host lacks space."""
    part = variables.with_suffix(".part")
    try:
        part.write_bytes(content)
        part.chmod(0o600)
        part.replace(variables)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise RetryableHostError("The host has no space for the guest's variables.", detail=str(error)) from error


def _read(description: dict[str, Any]) -> Iterator[Firmware]:
    mapping, features = description["mapping"], set(description["features"])
    if "uefi" not in description["interface-types"] or mapping["device"] != "flash":
        return
    executable, template = mapping["executable"], mapping.get("nvram-template")
    targets = [each["machines"] for each in description["targets"] if each["architecture"] == ARCHITECTURE]
    machines = tuple(machine for each in targets for machine in each)
    if template is None or {executable["format"], template["format"]} != {"raw"} or not machines:
        return
    smm, secure = "requires-smm" in features, {"secure-boot", "enrolled-keys"} <= features
    if smm and not secure:
        return  # Secure Boot is not offered without keys
    yield Firmware(Path(executable["filename"]), Path(template["filename"]), machines, secure, smm)
