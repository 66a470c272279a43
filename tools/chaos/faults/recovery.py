"""The work of an operator after a loss of records, according to the guide: check, decide, and remove resources without
an owner manually.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.db import DatabaseError, connections

from provisioning.common.context import system_context
from provisioning.common.errors import ConflictError
from provisioning.compute.models import InterfaceDifference, NewerGuest
from provisioning.compute.upkeep import adoption, kept_interfaces
from provisioning.doctor.examinations.examination import findings
from provisioning.doctor.finding import Finding
from provisioning.volumes.host_link.host_commands import data_id_of
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records.holds import HELD_BY
from tools.chaos.checks import checks, losses, volume_checks
from tools.chaos.checks.journals import JOURNAL, POOL, Hypervisors, Seen
from tools.chaos.checks.losses import Loss
from tools.chaos.checks.wrongs import wrong
from tools.chaos.clients.client import Client
from tools.chaos.clouds.cloud import HANGS, Cloud

COMPUTE, VOLUME = "/compute/v2.1", "/volume/v3"
SEEN_WITHIN, REPAIRED_WITHIN = 270.0, 240.0
"""Seconds within which all differences must be resolved or reported, and within which none must remain after the
operator's work.
"""
LOOK_EVERY = 2.0


@dataclass
class Recovery:
    """The recovery after one loss of records, while the cloud is running and its clients are stopped."""

    cloud: Cloud
    hypervisors: Hypervisors
    operator: Client
    loss: Loss
    note: Callable[[str], None]

    def wrongs(self) -> list[Finding]:
        """Wait until all differences are resolved or reported, follow the guide until there are none, and return the
        remaining errors.
        """
        found = self._until_none(self._unseen, SEEN_WITHIN)
        if found:
            return found
        for finding in findings():
            if finding.severity != "note":
                self.note(f"the doctor: {finding.check}: {finding.subject}: {finding.sentence}")
        return self._until_none(self._unrepaired, REPAIRED_WITHIN)

    def _until_none(self, look: Callable[[Seen], list[Finding]], within: float) -> list[Finding]:
        deadline, found, last = time.monotonic() + within, [wrong("", "No check has run.")], ""
        while found and time.monotonic() < deadline and not self.cloud.interrupted:
            try:
                found = look(self.hypervisors.seen())
            except DatabaseError as error:
                found = [wrong("", f"The database does not answer: {error}")]
            finally:
                connections.close_all()
            if found and str(found[0]) != last:
                last = str(found[0])
                self.note(f"not yet: {found[0].subject}: {found[0].sentence} and {len(found) - 1} more")
            time.sleep(LOOK_EVERY if found else 0)
        return found

    # ----- looking --------------------------------------------------------------------------------------------------

    def _unseen(self, seen: Seen) -> list[Finding]:
        """Return destroyed resources, and running operations and differences that the doctor does not report."""
        lost = list(losses.destroyed(self.loss, seen, self.cloud.images))
        moving, unseen = list(checks.under_way()), list(findings())
        named = losses.ids_in(unseen)
        if found := [*lost, *(each for each in moving if not losses.ids_in([each]) & named)]:
            return found
        # a host does not report the disks of running builds, and on this host builds never end
        still = f"Host {HANGS}-1 still has something"
        return [each for each in losses.unnamed(self.loss, seen, unseen) if still not in each.sentence]

    # ----- working --------------------------------------------------------------------------------------------------

    def _unrepaired(self, seen: Seen) -> list[Finding]:
        """Handle each finding according to the guide; return the findings that remain."""
        unrepaired = [finding for finding in findings() if finding.severity != "note"]
        for finding in unrepaired:
            if finding.repair is not None:
                finding.repair()
            elif finding.check in _WORK:
                _WORK[finding.check](self, finding)
        self._decide()
        self._remove_by_hand(seen)
        self._delete_without_data(seen)
        return checks.settled(self.hypervisors.seen())

    def _decide(self) -> None:
        """Decide on newer guests: adopt a guest that is waiting for a decision, discard it if it cannot be adopted, and
        acknowledge the other guests. Then decide on additional interfaces.
        """
        for row in NewerGuest.objects.filter(acknowledged_at=None).select_related("instance", "host"):
            if row.outcome == NewerGuest.Outcome.OPEN:
                try:
                    adoption.adopt(system_context(), row)
                except ConflictError:
                    adoption.discard(system_context(), row)
            else:
                adoption.acknowledge(system_context(), row)
        for extra in InterfaceDifference.objects.filter(kind=InterfaceDifference.Kind.EXTRA).select_related("instance"):
            self._decide_interface(extra)

    def _decide_interface(self, row: InterfaceDifference) -> None:
        """Add an interface that only the guest has to the records, or remove it from the guest if that is
        not possible.
        """
        for decide in (kept_interfaces.add_to_record, kept_interfaces.unplug):
            try:
                decide(system_context(), row)
            except ConflictError as error:
                self.note(f"the operator: {decide.__name__} {row}: {error.message}")
            else:
                self.note(f"the operator: {decide.__name__} {row}")
                return

    def _delete_server(self, finding: Finding) -> None:
        uuid = finding.subject.removeprefix("instance ")
        self._ask("POST", f"{COMPUTE}/servers/{uuid}/action", {"unlock": None})
        self._ask("DELETE", f"{COMPUTE}/servers/{uuid}")

    def _delete_backup(self, finding: Finding) -> None:
        self._ask("DELETE", f"{VOLUME}/backups/{finding.subject.removeprefix('backup ')}")

    def _let_go(self, finding: Finding) -> None:
        """Delete the attachments that hosts have reported without a record, if their guests were removed earlier and no
        longer use them.
        """
        domains = self.hypervisors.seen().domains.values()
        used = {disk["attachment_id"] for _, domain in domains for disk in domain.get("volumes", [])}
        for row in Attachment.objects.filter(connector__has_key=HELD_BY):
            if str(row.id) not in used:
                self._ask("DELETE", f"{VOLUME}/attachments/{row.id}")

    def _delete_without_data(self, seen: Seen) -> None:
        """Delete volumes and snapshots that have lost their data."""
        for volume in Volume.objects.exclude(pool=None):
            stored = seen.pools.get(str(volume.pool_id), {}).get(data_id_of(volume))
            if stored is None and volume.status in volume_checks.HALF:
                self._ask("DELETE", f"{VOLUME}/volumes/{volume.id}?cascade=true")
            for key in volume_checks.snapshots_of(volume) - set(stored["snapshots"] if stored else ()):
                self._ask("DELETE", f"{VOLUME}/snapshots/{key}")

    def _ask(self, method: str, path: str, body: object = None) -> None:
        answer = self.operator.call(method, path, body)
        self.note(f"the operator: {method} {path} {body or ''}: {answer.status} {answer.words}")

    # ----- by hand, on hosts that are off ---------------------------------------------------------------------------

    def _remove_by_hand(self, seen: Seen) -> None:
        """Remove guests, disks and data that have no record and that no guest uses. The agents are stopped in the
        meantime.
        """
        known = with_used(losses.Records.read(), seen)
        guests = [(uuid, host) for uuid, host in seen.kept.items() if uuid not in known.servers]
        if not guests and not any(_unknown(volumes, known) for volumes in seen.pools.values()):
            return
        self.cloud.hold("agent")
        folder = self.cloud.folder / "hosts"
        for uuid, host in guests:
            self.note(f"manually: the resources of {uuid} on host {host} are removed")
            _forget_guest(folder / host, uuid)
        for path in folder.glob(f"*/{POOL}"):
            _forget_data(path, known)
        self.cloud.release(known.usable)


_WORK: Mapping[str, Callable[[Recovery, Finding], None]] = {
    "guests": Recovery._delete_server,
    "shelves": Recovery._delete_server,
    "backups": Recovery._delete_backup,
    "newer_volumes": Recovery._let_go,
}


def with_used(known: losses.Records, seen: Seen) -> losses.Records:
    """Return the records, with the data that guests have open added to the volumes. Such data belongs to the guests'
    servers and is not removed.
    """
    domains = [domain for uuid, (_, domain) in seen.domains.items() if uuid in known.servers]
    used = {str(disk["attachment_id"]) for domain in domains for disk in domain.get("volumes", [])}
    pools = [volumes.items() for volumes in seen.pools.values()]
    kept = {key: "" for volumes in pools for key, data in volumes if losses.clients_of(data) & used}
    return replace(known, volumes={**kept, **known.volumes})


def _unknown(volumes: Mapping[str, Any], known: losses.Records) -> list[tuple[str, str]]:
    """Return the volumes of a pool without a record as (volume, ""), and the snapshots without a record as (volume,
    snapshot).
    """
    data = [(key, "") for key in volumes if key not in known.volumes]
    rest = {key: volume_checks.kept_snapshots(volumes[key]["snapshots"]) for key in volumes if key in known.volumes}
    return data + [(key, name) for key, names in rest.items() for name in sorted(names - known.snapshots.keys())]


def _forget_guest(host: Path, uuid: str) -> None:
    """Remove a guest and its disk from a simulated hypervisor."""
    with (host / JOURNAL).open("a") as journal:
        journal.write(json.dumps({"uuid": uuid}) + "\n")
    (host / "wires" / f"{uuid}.json").unlink(missing_ok=True)


def _forget_data(path: Path, known: losses.Records) -> None:
    pool = json.loads(path.read_bytes())
    for key, snapshot in _unknown(pool["volumes"], known):
        if snapshot:
            del pool["volumes"][key]["snapshots"][snapshot]
        else:
            del pool["volumes"][key]
    path.write_text(json.dumps(pool))
