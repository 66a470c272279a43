"""Copies kernel modules with their dependencies, in the order in which they must be loaded."""

from __future__ import annotations

import lzma
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

SUFFIX = re.compile(r"\.ko(\.xz|\.zst)?$")
DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def plain(name: str) -> str:
    """Return a module's name as the kernel spells it."""
    return name.replace("-", "_")


def content(path: Path) -> bytes:
    """Return the uncompressed module, which the ramdisk's insmod requires."""
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dc", str(path)], capture_output=True, check=True).stdout
    return path.read_bytes()


def copy_modules(source: Path, target: Path, names: Iterable[str]) -> list[str]:
    """Copy ``names`` and their dependencies from the modules folder ``source``; write and return ``target/order``.

    Dependencies are read from the modules themselves, because packages contain no ``modules.dep``. Modules that are
    built into the kernel are omitted. Raises LookupError for a name that is neither a module nor built in.
    """
    found = {plain(SUFFIX.sub("", path.name)): path for path in source.rglob("*.ko*") if SUFFIX.search(path.name)}
    builtin = {plain(SUFFIX.sub("", Path(line).name)) for line in (source / "modules.builtin").read_text().splitlines()}
    order: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in order or name in builtin:
            return
        if name not in found:
            raise LookupError(f"The kernel has no module {name}.")
        data = content(found[name])
        match = DEPENDS.search(data)
        for dependency in match.group(1).decode().split(",") if match else ():
            if dependency:
                add(plain(dependency))
        order[name] = data

    for name in names:
        add(plain(name))
    target.mkdir(parents=True, exist_ok=True)
    for name, data in order.items():
        (target / f"{name}.ko").write_bytes(data)
    (target / "order").write_text("".join(f"{name}.ko\n" for name in order))
    return list(order)
