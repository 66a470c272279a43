"""A cloud of several real hosts, a guest that is reached from outside, and its moves over HTTP."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compute_agent.network.kernel import namespace
from tools.bench.cloud import BenchError, Client, Cloud
from tools.bench.volumes.guest import console_log, until
from tools.bench.volumes.records import Records
from up.data_folder import DataFolder
from up.processes import command_line
from up.programs import CHECKOUT
from up.switch import Switch, processes_in

ECHO = 7
WITHIN = 120.0
CLEAN_WITHIN = 60.0
"""Seconds for a host to remove its preparations for a guest that has not arrived."""
LATER = "Try again later"
FILLED, BOOTED, PANIC = "+filled", "login:", "Kernel panic"
WAITS = f"""#!/bin/sh
(while :; do nc -l -p {ECHO} -e cat; done) >/dev/null 2>&1 </dev/null &
"""
"""The script of a guest that echoes received data."""
DIRTIES = """
(while :; do
  dd if=/dev/zero of=/run/dirty bs=64k count={blocks} 2>/dev/null; usleep 200000
done) >/dev/null 2>&1 </dev/null &
"""
FILLS = f"""#!/bin/sh
dd if=/dev/urandom of=/run/piece bs=1M count=8 2>/dev/null
for number in $(seq {{pieces}}); do cat /run/piece; done >/root/data
sync; echo '{FILLED}'
"""
IN_A_VOLUME = {
    "source_type": "image",
    "destination_type": "volume",
    "boot_index": 0,
    "volume_size": 1,
    "delete_on_termination": True,
}
PAUSE = 1.0
"""Seconds of rest before each move."""


@dataclass(frozen=True)
class Moved:
    """A move: its begin and end by ``time.monotonic``, and the seconds that a plan predicted."""

    began: float
    ended: float
    predicted: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class Mover:
    """An operator who moves the servers of the demo project."""

    def __init__(self, cloud: Cloud, mode: str = "local") -> None:
        self._cloud = cloud
        self.mode = mode
        self.demo, self.admin = Client(cloud), Client(cloud, "admin")
        self.admin.microversion = "compute 2.80"
        self.records = Records(cloud.port, self.demo.token)
        self.switch = Switch(DataFolder(cloud.data, CHECKOUT / "var").netns)

    @property
    def data(self) -> Path:
        """The cloud's folder."""
        return self._cloud.data

    def close(self) -> None:
        self.records.close()
        for client in (self.demo, self.admin):
            client.close()

    # ----- guests -----------------------------------------------------------------------------------------------------

    def launch(self, name: str, script: str, says: str = BOOTED) -> str:
        """Launch a server, and wait until it has written ``says`` to its console. Return its id."""
        wanted = self.demo.wanted(name) | {"user_data": base64.b64encode(script.encode()).decode()}
        if self.mode == "volume":
            wanted |= {"imageRef": "", "block_device_mapping_v2": [IN_A_VOLUME | {"uuid": wanted["imageRef"]}]}
        began = time.perf_counter()
        server = str(self.demo.call("POST", "/compute/v2.1/servers", {"server": wanted})["server"]["id"])
        self.records.reached(server, "active", began)
        log = console_log(self._cloud.data, server)
        until(lambda: says in log.read_text(errors="replace"), f"{name} writes {says}", WITHIN)
        return server

    def stop(self, server: str) -> None:
        began = time.perf_counter()
        self.admin.call("POST", f"/compute/v2.1/servers/{server}/action", {"os-stop": None})
        self.records.reached(server, "stopped", began)

    def panicked(self, server: str) -> bool:
        """Whether the newest part of the server's console is the report of a kernel's panic. A server that has lost its
        guest has no console.
        """
        try:
            log = console_log(self._cloud.data, server)
        except BenchError:
            return False
        return PANIC in log.read_text(errors="replace")[-5000:]

    def restart(self, server: str) -> None:
        """Restart the guest of a server, and wait until it has booted."""
        log, began = console_log(self._cloud.data, server), time.perf_counter()
        before = log.read_text(errors="replace")
        self.demo.call("POST", f"/compute/v2.1/servers/{server}/action", {"reboot": {"type": "HARD"}})
        self.records.reached(server, "active", began)
        until(lambda: BOOTED in log.read_text(errors="replace").removeprefix(before), "the guest boots again", WITHIN)

    def delete(self, server: str) -> None:
        began = time.perf_counter()
        self.demo.call("DELETE", f"/compute/v2.1/servers/{server}")
        self.records.reached(server, "deleted", began)

    def allow(self) -> None:
        """Allow pings and the echo service for all servers."""
        (group,) = self.demo.call("GET", "/network/v2.0/security-groups?name=default")["security_groups"]
        for rule in ({"protocol": "icmp"}, {"protocol": "tcp", "port_range_min": ECHO, "port_range_max": ECHO}):
            wanted = {"security_group_id": group["id"], "direction": "ingress", "remote_ip_prefix": "203.0.113.0/24"}
            self.demo.call("POST", "/network/v2.0/security-group-rules", {"security_group_rule": wanted | rule})

    def floating_ip(self, server: str) -> str:
        """Associate a floating IP with a server; return the address."""
        (port,) = self.demo.call("GET", f"/network/v2.0/ports?device_id={server}")["ports"]
        (public,) = self.demo.call("GET", "/network/v2.0/networks?router:external=true")["networks"]
        made = self.demo.call(
            "POST",
            "/network/v2.0/floatingips",
            {"floatingip": {"floating_network_id": public["id"], "port_id": port["id"]}},
        )
        return str(made["floatingip"]["floating_ip_address"])

    def shown(self, server: str) -> dict[str, Any]:
        found: dict[str, Any] = self.admin.call("GET", f"/compute/v2.1/servers/{server}")["server"]
        return found

    def host(self, server: str) -> str:
        return str(self.shown(server)["OS-EXT-SRV-ATTR:host"])

    def predicted(self, server: str, way: str) -> float:
        """Return the seconds in the plan of a drain of the server's host. Raises BenchError if the plan has none."""
        path = f"/compute/v2.1/novella-drains/plan?host={self.host(server)}&ways={way}"
        rows = self.admin.call("GET", path)["plan"]["servers"]
        row = next(each for each in rows if each["server_id"] == server)
        if row["way"] != way:
            raise BenchError(f"the plan does not move it: {row['reason']}")
        return float(row["seconds"])

    # ----- moves ------------------------------------------------------------------------------------------------------

    def begin_live(self, server: str) -> None:
        """Begin a live migration as soon as the hosts have reported the end of earlier ones."""
        body = {"os-migrateLive": {"host": None, "block_migration": "auto"}}

        def accepted() -> bool:
            try:
                self.admin.call("POST", f"/compute/v2.1/servers/{server}/action", body)
            except BenchError as error:
                if LATER not in str(error):
                    raise
                return False
            return True

        until(accepted, "the server can be migrated", CLEAN_WITHIN)

    def live(self, server: str) -> Moved:
        """Migrate a running server live. Raises BenchError if it does not move."""
        home, predicted = self.host(server), self.predicted(server, "live")
        time.sleep(PAUSE)
        since, began = time.perf_counter(), time.monotonic()
        self.begin_live(server)
        arrived = self.records.reached(server, "active", since)
        moved = Moved(began, began + arrived - since, predicted)
        if self.host(server) == home:
            raise BenchError(f"the live migration has failed: {self._fault(server)}")
        return moved

    def cold(self, server: str) -> Moved:
        """Migrate a server, without its confirmation. Raises BenchError if it does not move."""
        predicted = self.predicted(server, "cold")
        time.sleep(PAUSE)
        since, began = time.perf_counter(), time.monotonic()
        self.admin.call("POST", f"/compute/v2.1/servers/{server}/action", {"migrate": None})
        arrived = self.records.reached(server, "resized", since)
        return Moved(began, began + arrived - since, predicted)

    def confirm(self, server: str, state: str) -> None:
        since = time.perf_counter()
        self.admin.call("POST", f"/compute/v2.1/servers/{server}/action", {"confirmResize": None})
        self.records.reached(server, state, since)

    def aborted(self, server: str, after: float) -> bool:
        """Begin a live migration, and abort it after some seconds. Return False if it was too late for that."""
        home, since = self.host(server), time.perf_counter()
        self.begin_live(server)
        path = f"/compute/v2.1/servers/{server}/migrations"
        time.sleep(after)
        deadline = time.monotonic() + WITHIN
        while (rows := self.admin.call("GET", path)["migrations"]) and time.monotonic() < deadline:
            with contextlib.suppress(BenchError):  # 409 while it is being prepared, or while the guest is switched over
                self.admin.call("DELETE", f"{path}/{rows[0]['id']}")
                break
        self.records.reached(server, "active", since)
        return self.host(server) == home

    def _fault(self, server: str) -> str:
        rows = self.admin.call("GET", f"/compute/v2.1/servers/{server}/os-instance-actions")["instanceActions"]
        return str(rows[0]["message"])

    # ----- hosts ------------------------------------------------------------------------------------------------------

    def traces(self, server: str) -> dict[str, list[str]]:
        """Return the hosts that have parts of a server: its files, its QEMU, the interfaces of its ports."""
        ports = self.demo.call("GET", f"/network/v2.0/ports?device_id={server}")["ports"]
        marks = [port["id"][:11] for port in ports]
        found: dict[str, list[str]] = {}
        for folder in sorted((self._cloud.data / "hosts").iterdir()):
            number = int(folder.name.rpartition("-")[2])
            rows = ["files"] if (folder / "instances" / server).exists() else []
            lines = [command_line(pid) for pid in self._inside(number)]
            rows += ["guest" for line in lines if _is_guest(line, server)]
            rows += ["storage daemon" for line in lines if line.startswith("qemu-storage-daemon") and server in line]
            rows += [name for name in interfaces(self.switch.guests(number)) if any(mark in name for mark in marks)]
            if rows:
                found[folder.name] = rows
        return found

    def _inside(self, number: int) -> set[int]:
        return processes_in([self.switch.guests(number), self.switch.machine(number)])

    def leftovers(self, server: str) -> dict[str, list[str]]:
        """Return the parts of a server that other hosts still have after some time for their removal."""
        deadline = time.monotonic() + CLEAN_WITHIN
        while True:
            home, found = self.host(server), self.traces(server)
            rest = {host: rows for host, rows in found.items() if host != home}
            if not rest or time.monotonic() > deadline:
                return rest
            time.sleep(0.5)

    def guests(self, server: str) -> int:
        """Return the number of guests of a server on all hosts."""
        return sum(rows.count("guest") for rows in self.traces(server).values())


def _is_guest(line: str, server: str) -> bool:
    return line.startswith("/usr/bin/qemu-system") and server in line


def interfaces(space: str) -> list[str]:
    """Return the names of the interfaces in a namespace; none if it does not exist."""
    if not (namespace.FOLDER / space).exists():
        return []
    done = subprocess.run(["ip", "-n", space, "-br", "link"], capture_output=True, text=True, check=False)
    return re.findall(r"^([^\s@]+)", done.stdout, re.MULTILINE)


def copied(data: Path, server: str, folder: Path) -> float:
    """Copy a stopped server's disk and sync it; return the seconds. The copy is removed."""
    (source,) = data.glob(f"hosts/*/instances/{server}/disk.qcow2")
    target = folder / "copy"
    began = time.monotonic()
    subprocess.run(["cp", "--sparse=always", "--reflink=never", str(source), str(target)], check=True)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    spent = time.monotonic() - began
    target.unlink()
    return spent
