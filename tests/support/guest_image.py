"""The small guest image, built once per checkout for all tests that boot real guests and all clouds of bin/up."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from compute_agent.contract.build import ImageRef
from tools.guest_image.__main__ import already_built
from up import kept
from up.prepare import guest_key

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDER = CHECKOUT / ".cache" / "guest"


@dataclass(frozen=True)
class GuestImage:
    """The image's file and what its record says."""

    path: Path
    ref: ImageRef


def guest_image() -> GuestImage:
    """Return the image, building it when its recipe has changed, for new clouds of bin/up as well; test processes wait
    for one another.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if already_built(FOLDER) is None:
            key = guest_key()
            shutil.copytree(kept.find("guest", key) or kept.make("guest", key, _built), FOLDER, dirs_exist_ok=True)
    record = json.loads((FOLDER / "novella-guest.json").read_text())
    ref = ImageRef(
        id="9c000000-0000-4000-8000-000000000009",
        name="novella-guest",
        disk_format="qcow2",
        size=record["size"],
        hash_algo="sha512",
        hash_value=record["sha512"],
        min_ram=record["min_ram"],
    )
    return GuestImage(FOLDER / record["file"], ref)


def _built(folder: Path) -> Path:
    command = ["/usr/bin/python3", str(CHECKOUT / "bin/libexec"), "tools.guest_image", str(folder / "guest")]
    subprocess.run(command, check=True, timeout=300)
    return folder / "guest"
