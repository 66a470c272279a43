"""What must be true when a run has settled; each check returns sentences about what is wrong."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.books import Books
from chaos.database import Row

SIZES = ("instances", "cores", "ram")
AT_A_HOST = {"active", "stopped", "paused", "suspended", "rescued", "resized", "shelved"}
"""vm_states of servers that have a domain, room on a host, and addresses."""
POWER = {"active": {1}, "stopped": {0, 4, 6}, "paused": {3}, "rescued": {1}, "suspended": {4, 7}, "shelved": {0, 4, 6}}
"""vm_state → power states of its domain."""
_PAUSING = {1, 3, "active", "paused"}
BY_HAND = "resetState"
BUILDS = {"create", "unshelve"}
_TECHNICAL = re.compile(r"Traceback|\b\w+(Error|Exception)\b|<class|\bNone\b|0x[0-9a-f]{6}|File \"")


@dataclass(frozen=True)
class Wrong:
    """One thing that is not as it must be."""

    words: str
    instance: str = ""
    """Whose events tell more."""

    def __str__(self) -> str:
        return self.words


def name_of(row: Row) -> str:
    """Return how a server is called in a sentence."""
    return f"{row['name']} ({row['id']}, {row['vm_state']}/{row['task_state'] or '-'})"


def settled(books: Books) -> list[Wrong]:
    """Say what is wrong in a cloud that has come to rest."""
    return [wrong for check in CHECKS for wrong in check(books)]


def empty(books: Books) -> list[Wrong]:
    """Say what is left after everything was deleted."""
    wrongs = [Wrong(f"{name_of(row)} is not deleted.", row["id"]) for row in alive(books)]
    wrongs += [
        Wrong(f"Room is still allocated for {row['instance_id']}.", row["instance_id"]) for row in books.allocations
    ]
    wrongs += [Wrong(f"Host {host} still has something of {uuid}.", uuid) for uuid, host in books.kept.items()]
    wrongs += [
        Wrong(f"Port {row['id']} still belongs to {row['device_id']}.") for row in books.ports if row["device_id"]
    ]
    for row in books.hosts:
        counted = {name: value for name, value in row.items() if name.endswith("_allocated") and value}
        if counted:
            wrongs.append(Wrong(f"Host {row['name']} still counts {counted}."))
    for row in books.usages:
        if row["resource"] in {*SIZES, "ports"} and (row["in_use"] or row["reserved"]):
            wrongs.append(Wrong(f"Project {row['project_id']} still uses {row['in_use']} {row['resource']}."))
    return wrongs


def alive(books: Books) -> list[Row]:
    """Return the servers that are not deleted."""
    return [row for row in books.instances if row["vm_state"] != "deleted"]


# ----- at rest --------------------------------------------------------------------------------------------------------


def _hosts_are_back(books: Books) -> Iterable[Wrong]:
    for row in books.hosts:
        if not row["connected"]:
            yield Wrong(f"Host {row['name']} is not connected.")


def _nothing_goes_on(books: Books) -> Iterable[Wrong]:
    for row in books.instances:
        if row["task_state"] is not None or row["vm_state"] == "building":
            yield Wrong(f"{name_of(row)} is still on its way; its deadline is {row['task_deadline']}.", row["id"])
        if (row["vm_state"] == "deleted") != (row["deleted_at"] is not None):
            yield Wrong(f"{name_of(row)}: deleted_at is {row['deleted_at']}.", row["id"])
    for message in books.messages:
        if not str(message["key"]).startswith("ping:"):
            yield Wrong(f"Message {message['id']} is still in the queue {message['key']}.")


def _nobody_waits_for_orders(books: Books) -> Iterable[Wrong]:
    for row in books.orders:
        if row["finished_at"] is None:
            taken = "taken" if row["acknowledged_at"] else "not taken"
            yield Wrong(
                f"The order {row['kind']} of attempt {row['generation']} about {row['subject_id']} has not ended"
                f" ({taken}); given {row['created_at']}.",
                row["subject_id"],
            )


def _actions_ended(books: Books) -> Iterable[Wrong]:
    for row in books.actions:
        if row["finished_at"] is None:
            yield Wrong(f"The action {row['action']} of {row['instance_id']} has not ended.", row["instance_id"])
        elif row["message"] and not fit(row["message"]):
            yield Wrong(
                f"The action {row['action']} of {row['instance_id']} says {row['message']!r}.", row["instance_id"]
            )
    under_way = {"queued", "preparing", "pre-migrating", "migrating", "post-migrating"}
    for row in books.migrations:
        if row["status"] in under_way:
            yield Wrong(f"A migration of {row['instance_id']} is still {row['status']}.", row["instance_id"])


def _faults_say_why(books: Books) -> Iterable[Wrong]:
    faults = defaultdict(list)
    for fault in books.faults:
        faults[fault["instance_id"]].append(fault["message"])
        if not fit(fault["message"]):
            yield Wrong(f"A fault of {fault['instance_id']} says {fault['message']!r}.", fault["instance_id"])
    by_hand = _by_hand(books)
    for row in books.instances:
        if row["vm_state"] == "error" and row["id"] not in by_hand and not faults[row["id"]]:
            yield Wrong(f"{name_of(row)} has no fault.", row["id"])


def _by_hand(books: Books) -> set[str]:
    """Return the servers whose state an operator has set."""
    return {row["instance_id"] for row in books.actions if row["action"] == BY_HAND}


def called_active_and_never_built(books: Books) -> set[str]:
    """Return the servers whose build an operator's reset cut off, and that the cloud has found without a guest: the
    doctor tells of them, as it should.
    """
    cut_off = {
        row["instance_id"]
        for row in books.actions
        if row["action"] in BUILDS and row["message"] == "An administrator has reset the server's state."
    }
    return {
        row["id"]
        for row in books.instances
        if row["id"] in cut_off & _by_hand(books)
        and row["id"] not in books.domains
        and (row["vm_state"], row["power_state"]) == ("stopped", 0)
    }


def fit(message: str) -> bool:
    """Whether a person can read it: a sentence, and nothing of a program's insides."""
    return len(message) >= 12 and " " in message and _TECHNICAL.search(message) is None


# ----- room, domains, addresses ---------------------------------------------------------------------------------------


def room_of(row: Row) -> tuple[int, int, int]:
    """Return what a server takes on its host: vCPUs, MiB, GiB; of two sizes the larger of each."""
    sizes = [size for size in (row["flavor"], row["old_flavor"]) if size]
    vcpus, memory, disk = (max(int(size[name]) for size in sizes) for name in ("vcpus", "memory_mb", "disk_gb"))
    return vcpus, memory, disk


def should_be_placed(row: Row) -> bool:
    """Whether a server has a place on a host."""
    return row["vm_state"] in AT_A_HOST or (row["vm_state"] == "error" and row["host_id"] is not None)


def _allocations_are_servers(books: Books) -> Iterable[Wrong]:
    held = {row["instance_id"]: row for row in books.allocations}
    for row in books.instances:
        allocation = held.pop(row["id"], None)
        if should_be_placed(row):
            if allocation is None:
                yield Wrong(f"{name_of(row)} holds no room on a host.", row["id"])
                continue
            if allocation["host_id"] != row["host_id"]:
                yield Wrong(f"{name_of(row)} holds room on another host than its own.", row["id"])
            taken = (allocation["vcpus"], allocation["memory_mb"], allocation["disk_gb"])
            if taken != room_of(row):
                yield Wrong(f"{name_of(row)} holds {taken} and takes {room_of(row)}.", row["id"])
        elif allocation is not None:
            yield Wrong(f"{name_of(row)} still holds room on a host.", row["id"])
    for instance_id in held:
        yield Wrong(f"Room is held for {instance_id}, which there is not.", instance_id)


def _hosts_count_right(books: Books) -> Iterable[Wrong]:
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for row in books.allocations:
        for name in ("vcpus", "memory_mb", "disk_gb"):
            sums[row["host_id"]][name] += row[name]
        sums[row["host_id"]]["instances"] += 1
    for host in books.hosts:
        for name in ("vcpus", "memory_mb", "disk_gb", "instances"):
            if host[f"{name}_allocated"] != sums[host["id"]][name]:
                counted = host[f"{name}_allocated"]
                yield Wrong(f"Host {host['name']} counts {counted} {name}; its servers hold {sums[host['id']][name]}.")
        limit = host["memory_mb_total"] * host["ram_allocation_ratio"]
        if host["memory_mb_allocated"] > limit:
            yield Wrong(f"Host {host['name']} holds more memory than it has.")


def _domains_are_servers(books: Books) -> Iterable[Wrong]:
    for uuid, where in books.twice.items():
        yield Wrong(f"{uuid} had a domain on {where}.", uuid)
    hosts = {row["id"]: row["name"] for row in books.hosts}
    domains, by_hand = dict(books.domains), _by_hand(books)
    for row in books.instances:
        words = _domain(row, domains.pop(row["id"], None), hosts, by_hand=row["id"] in by_hand)
        if words:
            yield Wrong(f"{name_of(row)} {words}", row["id"])
    for uuid in domains:
        yield Wrong(f"There is a domain of {uuid}, which there is not.", uuid)


def _domain(row: Row, found: tuple[str, Any] | None, hosts: Mapping[str, str], *, by_hand: bool) -> str:
    """Say what is wrong with the domain of a server, nothing when it is as it should be.

    Where an operator has set the state, it is enough that the records know the domain's power: a server that was called
    active may be paused, or may never have been built.  So it is with a pause, and the end of one, that the host did
    when nobody waited for its word any more: as in Nova the server keeps its state and shows its power.
    """
    wanted = hosts.get(row["host_id"], "no host")
    if found is None:
        known = by_hand and row["vm_state"] == "stopped" and row["power_state"] == 0
        return f"has no domain on {wanted}." if row["vm_state"] in AT_A_HOST and not known else ""
    host, domain = found
    if not should_be_placed(row):
        return f"still has a domain on {host}."
    if host != wanted:
        return f"has its domain on {host}, not on {wanted}."
    known = domain["power"] == row["power_state"] and (by_hand or {domain["power"], row["vm_state"]} <= _PAUSING)
    if not known and domain["power"] not in POWER.get(row["vm_state"], {domain["power"]}):
        return f"has a domain in power state {domain['power']}."
    if domain["attempt"] != row["attempt"]:
        return f"has a domain of attempt {domain['attempt']}, and is at attempt {row['attempt']}."
    return ""


def _nothing_is_left_behind(books: Books) -> Iterable[Wrong]:
    rows = {row["id"]: row for row in books.instances}
    for uuid, host in books.kept.items():
        row = rows.get(uuid)
        if row is None or not should_be_placed(row):
            yield Wrong(f"Host {host} still has something of {name_of(row) if row else uuid}.", uuid)


def _addresses_are_servers(books: Books) -> Iterable[Wrong]:
    interfaces = Counter(row["device_id"] for row in books.ports if row["device_id"])
    with_address = {row["port_id"] for row in books.addresses}
    for row in books.instances:
        wanted = len(row["requested_networks"] or [])
        on_shelf = row["vm_state"] == "shelved_offloaded" or (row["vm_state"] == "error" and row["snapshot_image_id"])
        count = interfaces.pop(row["id"], 0)
        if should_be_placed(row) or on_shelf:
            if count != wanted:
                yield Wrong(f"{name_of(row)} has {count} ports and should have {wanted}.", row["id"])
        elif count:
            yield Wrong(f"{name_of(row)} still has {count} ports.", row["id"])
    for device in interfaces:
        yield Wrong(f"Ports belong to {device}, which there is not.", device)
    for port in books.ports:
        if port["id"] not in with_address:
            yield Wrong(f"Port {port['id']} has no address.", port["device_id"] or "")
        if port["leaving"]:
            yield Wrong(f"Port {port['id']} is still leaving its server.", port["device_id"] or "")


def _addresses_are_given_once(books: Books) -> Iterable[Wrong]:
    taken = Counter((row["subnet_id"], row["address"]) for row in books.addresses)
    for (_, address), count in taken.items():
        if count > 1:
            yield Wrong(f"The address {address} is given {count} times.")


def _interfaces_are_ports(books: Books) -> Iterable[Wrong]:
    macs = defaultdict(set)
    for port in books.ports:
        macs[port["device_id"]].add(port["mac_address"])
    for row in alive(books):
        if row["vm_state"] in AT_A_HOST and row["id"] in books.domains:
            interfaces = set(books.domains[row["id"]][1].get("interfaces", []))
            if interfaces != macs[row["id"]]:
                yield Wrong(
                    f"{name_of(row)} has the interfaces {sorted(interfaces)} and the ports {sorted(macs[row['id']])}.",
                    row["id"],
                )


# ----- quota and images -----------------------------------------------------------------------------------------------


def _quota_is_servers(books: Books) -> Iterable[Wrong]:
    held: dict[str, dict[str, Row]] = defaultdict(dict)
    for reservation in books.reservations:
        held[reservation["owner_id"]][reservation["resource"]] = reservation
    servers = {row["id"] for row in books.instances}
    for row in books.instances:
        mine = {name: found["amount"] for name, found in held[row["id"]].items() if name in SIZES}
        vcpus, memory, _ = room_of(row)
        due = {} if row["vm_state"] == "deleted" else {"instances": 1, "cores": vcpus, "ram": memory}
        if mine != due:
            yield Wrong(f"{name_of(row)} holds {mine} of its project's quota and should hold {due}.", row["id"])
        for name, found in held[row["id"]].items():
            if not found["committed"]:
                yield Wrong(f"The {name} of {name_of(row)} are still reserved only.", row["id"])
    for owner, found in held.items():
        if owner not in servers and any(name in found for name in SIZES):
            yield Wrong(f"Quota is held for {owner}, which there is not.", owner)
    yield from _counters(books)


def _counters(books: Books) -> Iterable[Wrong]:
    sums: Counter[tuple[str, str]] = Counter()
    for row in books.reservations:
        sums[row["project_id"], row["resource"]] += row["amount"]
    for row in books.usages:
        due = sums.pop((row["project_id"], row["resource"]), 0)
        if row["in_use"] + row["reserved"] != due:
            counted = row["in_use"] + row["reserved"]
            yield Wrong(f"Project {row['project_id']} counts {counted} {row['resource']}; {due} are held.")
    for (project, resource), due in sums.items():
        if due:
            yield Wrong(f"Project {project} does not count its {due} {resource}.")


def _images_are_whole(books: Books) -> Iterable[Wrong]:
    for image in books.images:
        if image["status"] in {"queued", "saving"}:
            yield Wrong(f"The image {image['name']} ({image['id']}) is still {image['status']}.")
    status = {image["id"]: image["status"] for image in books.images}
    for row in books.instances:
        kept = row["snapshot_image_id"]
        if row["vm_state"] == "shelved_offloaded" and status.get(kept) != "active":
            yield Wrong(f"{name_of(row)} comes back from an image that is {status.get(kept)}.", row["id"])
        if row["vm_state"] == "deleted" and kept and status.get(kept) not in {"deleted", None}:
            yield Wrong(f"{name_of(row)} is deleted, and what it came back from is not.", row["id"])


CHECKS: Sequence[Callable[[Books], Iterable[Wrong]]] = (
    _hosts_are_back,
    _nothing_goes_on,
    _nobody_waits_for_orders,
    _actions_ended,
    _faults_say_why,
    _allocations_are_servers,
    _hosts_count_right,
    _domains_are_servers,
    _nothing_is_left_behind,
    _addresses_are_servers,
    _addresses_are_given_once,
    _interfaces_are_ports,
    _quota_is_servers,
    _images_are_whole,
)
