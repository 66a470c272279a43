"""Reads the disk of a guest that is not running."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = slice(446 + 16 + 8, 446 + 16 + 12)
"""Where a disk's partition table says at which sector the second partition begins, the root of our guest image."""
SECTOR = 512
REPAIRED = (0, 1)
"""Exit codes of e2fsck that leave a whole file system."""


def whole(disk: Path, raw: Path) -> None:
    """Write what a guest sees of its disk, a qcow2 image, to a file.

    It may lie on an image of the host's cache, which it names by a path that QEMU sees.
    """
    info = subprocess.run(["qemu-img", "info", "--output=json", disk], check=True, capture_output=True)
    described = json.loads(info.stdout)
    if base := described.get("backing-filename"):
        (cached,) = disk.parents[2].glob(f"images/_base/{Path(base).name}")
        disk = Path(shutil.copy(disk, raw.with_suffix(".qcow2")))
        words = ["qemu-img", "rebase", "-u", "-F", described["backing-filename-format"], "-b", cached, disk]
        subprocess.run(words, check=True)
    subprocess.run(["qemu-img", "convert", "-O", "raw", disk, raw], check=True)


def file_on(disk: Path, path: str) -> str:
    """Return the content of a file in the root file system, its journal replayed as at the next boot."""
    with tempfile.TemporaryDirectory(prefix="nvt-disk-") as folder:
        raw, root = Path(folder, "disk.raw"), Path(folder, "root")
        whole(disk, raw)
        with raw.open("rb") as file:
            begin = int.from_bytes(file.read(SECTOR)[ROOT], "little") * SECTOR
        words = ["dd", f"if={raw}", f"of={root}", "bs=1M", "iflag=skip_bytes", f"skip={begin}", "conv=sparse"]
        subprocess.run(words, check=True, capture_output=True)
        checked = subprocess.run(["e2fsck", "-fy", root], capture_output=True, text=True, check=False)
        assert checked.returncode in REPAIRED, checked.stdout + checked.stderr
        done = subprocess.run(["debugfs", "-R", f"cat {path}", root], capture_output=True, text=True, check=True)
        return done.stdout
