"""The hosts of a run with packets: network namespaces connected to a switch, and their remaining state."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compute_agent.network.kernel import namespace
from tools.chaos.packets.keeper import READY
from tools.chaos.packets.wires import space_of
from up.places import Places
from up.programs import CHECKOUT, tool
from up.switch import processes_in

PROGRAMS = ("ip", "nft", "dnsmasq", "nsenter")
REMOVED_WITHIN = 60.0
CHANGING = re.compile(r"packets \d+ bytes \d+|expires \S+|# handle \d+|valid_lft \S+ preferred_lft \S+")
"""Values that change without a cause between two readings of the kernel's state."""
EMPTY = (b"", b"{}", b"[]")
"""Contents of state files that have no entries."""
OWN = re.compile(r"fe80::|ff00::")
"""Matches link-local addresses and multicast routes, which the kernel adds to each interface with a delay."""


class PacketsError(Exception):
    """This machine does not support hosts with networks. The message gives the reason."""


def lacks() -> str:
    """Return a sentence with the missing requirements of ``--packets``, empty if there are none."""
    if os.geteuid() != 0:
        return "--packets needs root: its hosts are network namespaces with bridges, tunnels and filters of their own."
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"--packets needs the programs {', '.join(missing)}." if missing else ""


@dataclass
class Hosts:
    """The hosts of a run; the first one in ``names`` is host 1."""

    places: Places
    names: list[str]
    folder: Path
    """The folder with the hosts' state folders."""
    _keeper: subprocess.Popen[str] | None = None
    _clean: dict[str, Mapping[str, set[str]]] = field(default_factory=dict)

    # ----- making and removing --------------------------------------------------------------------------------------

    def make(self) -> None:
        """Create the namespaces; they are removed when this process ends. Raises PacketsError."""
        command = tool("tools.chaos.packets.keeper", self.places.name, str(self.folder), *self.names)
        self._keeper = subprocess.Popen(
            command,
            env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._keeper.stdout is not None  # noqa: S101 - asked for above
        if self._keeper.stdout.readline().strip() != READY:
            _, errors = self._keeper.communicate()
            raise PacketsError(f"This machine does not allow network namespaces: {errors.strip()[-600:]}")

    def remove(self) -> None:
        """Remove the namespaces with everything in them. Raises PacketsError if some remain."""
        if self._keeper is None:
            return
        try:
            _, errors = self._keeper.communicate(timeout=REMOVED_WITHIN)
        except subprocess.TimeoutExpired:
            errors = "it takes too long"
        if left := namespace.listed(f"{self.places.name}-"):
            raise PacketsError(
                f"The network namespaces {', '.join(left)} could not be removed: {errors.strip()[-600:]}"
            )

    # ----- where things are -----------------------------------------------------------------------------------------

    def agent_options(self, name: str) -> list[str]:
        """Return the arguments that describe a host to its agent."""
        return self.places.agent_options(self._number(name))

    def space(self, host: str, port: str) -> str:
        """Return the namespace of a guest's interface; ``port`` is the id of its port."""
        return space_of(self.places.machine(self._number(host)), f"tap{port[:11]}")

    def _number(self, name: str) -> int:
        return self.names.index(name) + 1

    # ----- what is there --------------------------------------------------------------------------------------------

    def remember(self) -> None:
        """Store the state of the hosts before they have networks, for ``left``."""
        self._clean = {name: self._found(name) for name in self.names}

    def left(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of a host's name and a sentence, one for each difference from the state that ``remember`` has
        stored.
        """
        for name in self.names:
            now, before = self._found(name), self._clean[name]
            for what in sorted(now.keys() | before.keys()):
                for line in sorted(now.get(what, set()) - before.get(what, set())):
                    yield name, f"It still has {what}: {line}"
                for line in sorted(before.get(what, set()) - now.get(what, set())):
                    yield name, f"It has lost {what}: {line}"

    def _found(self, name: str) -> Mapping[str, set[str]]:
        """Return the state of a host's networks in the kernel and on disk: kind of state → lines."""
        machine = self.places.machine(self._number(name))
        spaces = [machine, *namespace.listed(f"{machine}-")]
        found = {"network namespaces": set(spaces)}
        for space in spaces:
            found |= {f"{what} in {space}": lines for what, lines in _kernel(space).items()}
        found["processes"] = {
            words for pid in processes_in(spaces) if "tools.chaos.packets.agent" not in (words := words_of(pid))
        }
        network = self.folder / name / "network"
        found["files"] = {str(path) for path in network.rglob("*") if path.is_file() and path.read_bytes() not in EMPTY}
        return found

    def describe(self, folder: Path) -> None:
        """Write the kernel's network state of each host to a text file in a folder."""
        folder.mkdir(exist_ok=True)
        for name in self.names:
            machine = self.places.machine(self._number(name))
            with (folder / f"{name}.txt").open("w") as file:
                for space in [machine, *namespace.listed(f"{machine}-")]:
                    for command in SHOWN:
                        file.write(f"### {space}: {' '.join(command)}\n{_run(space, *command)}\n")


SHOWN = (
    ("ip", "-d", "link"),
    ("ip", "addr"),
    ("ip", "route", "show", "table", "all"),
    ("ip", "rule"),
    ("ip", "neigh"),
    ("bridge", "fdb"),
    ("nft", "list", "ruleset"),
)


def _kernel(space: str) -> dict[str, set[str]]:
    """Return the kernel's network state in a namespace: kind of state → lines."""
    links = json.loads(_run(space, "ip", "-j", "link") or "[]")
    return {
        "interfaces": {link["ifname"] for link in links},
        "addresses": _lines(_run(space, "ip", "-o", "-4", "addr")),
        "routes": _lines(_run(space, "ip", "route", "show", "table", "all")),
        "rules": _lines(_run(space, "ip", "rule")),
        "filters": _lines(_run(space, "nft", "list", "ruleset")),
    }


def _lines(text: str) -> set[str]:
    lines = (re.sub(r"^\d+: ", "", CHANGING.sub("", line)) for line in text.splitlines() if not OWN.search(line))
    return {" ".join(line.split()) for line in lines} - {"", "}"}


def _run(space: str, *command: str) -> str:
    words = ["nsenter", f"--net={namespace.FOLDER / space}", *command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=30).stdout


def words_of(pid: int) -> str:
    """Return the command line of a process, empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
