"""Differences between the interfaces in guests, as hosts report them, and in the records.

An interface that only the guest has is restored to the record if an operator has restored records recently. All other
differences are stored for the doctor and not changed. Addresses of guests without records are reserved.
"""

import logging
import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from django.db import transaction
from django.db.models import Max
from django.utils import timezone
from msgspec.structs import replace

from compute_agent.contract.build import AddressPair, GuestInterface, NetworkRef, PortRef, Segment
from compute_agent.contract.messages import GuestState
from provisioning.common.context import RequestContext
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, NovellaError
from provisioning.common.values.ids import read_id
from provisioning.compute.actions.interfaces import send_attach, send_detach, send_refresh
from provisioning.compute.host_link import newer_guests
from provisioning.compute.host_link.release import remove_interface, write_interfaces
from provisioning.compute.models import Instance, InstanceActionEvent, InterfaceDifference
from provisioning.compute.records import host_commands
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState
from provisioning.compute.upkeep.adoption import RULE
from provisioning.compute.upkeep.reconcile import SETTLED
from provisioning.hosts.models import Host
from provisioning.identity import policy
from provisioning.network import selectors as network_selectors
from provisioning.network import services as network
from provisioning.network.models import Port
from provisioning.network.selectors.instances import TAP_LENGTH

log = logging.getLogger(__name__)

EXTRA, MISSING, GIVEN_BACK = InterfaceDifference.Kind
MOST_INTERFACES = 32
"""Maximum number of interfaces read of a guest; hosts are not trusted."""
MOST_OF_ONE, MOST_LETTERS = 50, 50
"""Maximum number of addresses, groups and pairs read of an interface, and of their characters."""
_MAC = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}")
"""A unicast MAC address; multicast addresses have the lowest bit of the first byte set."""
MOST_STRANGERS = 200
"""Maximum number of guests without records in one report whose addresses are reserved."""
NOT_KNOWN = "The host does not know which port it is."
NOT_ATTESTED = "No operator has run after_restore within a day: a host's report alone does not add an interface."
TAKEN_OUT = "It has been attached or detached since the records were restored."
BACK = "Its port was lost with the records, and has been restored."
_COMPARED = (
    VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED, VmState.SUSPENDED, VmState.RESCUED, VmState.RESIZED,
)  # fmt: skip
_RECORDED = Prepared(
    lambda ids: Port.objects.filter(Among("device_id", ids)).values_list(
        "device_id", "mac_address", "leaving", "fixed_ips__address"
    ),
    ids=Ids(),
)

OTHERWISE = "The difference between guest and record has changed."
BUSY = "The server has a task; try again later."


def resend_interfaces() -> Iterable[str]:
    """Mark every host, so that it gets the interfaces of its guests again after its next complete report."""
    many = Host.objects.update(interfaces_outdated=True)
    yield f"Interfaces of guests: sent again to {many} hosts."


def compare(host_id: uuid.UUID, guests: Sequence[GuestState], *, complete: bool) -> None:
    """Compare the interfaces of a host's guests with the records; ``complete`` as in ``reconcile.compare``."""
    reported = {key: guest for guest in guests if guest.interfaces is not None and (key := read_id(guest.instance_id))}
    known = _known(host_id, {read_id(guest.instance_id) for guest in guests} if complete else None)
    if not reported:
        return
    outdated = complete and Host.objects.filter(id=host_id, interfaces_outdated=True).exists()
    recorded = _recorded(reported)
    odd = [key for key, guest in reported.items() if key in known or _of(guest) != recorded.get(key, {})]
    strangers = 0
    for key in sorted(reported if outdated else odd):
        settled = _settle(host_id, key, reported[key], complete=complete, notify=outdated)
        if not settled and strangers < MOST_STRANGERS:
            strangers += 1
            _hold_back(reported[key])
    if outdated:
        Host.objects.filter(id=host_id).update(interfaces_outdated=False)


def _known(host_id: uuid.UUID, there: Collection[uuid.UUID | None] | None) -> set[uuid.UUID]:
    """Return the servers of a host with known differences, and delete entries of servers that have left the host.

    ``there`` are the ids of all the host's guests; None if the report is not complete.
    """
    known, gone = set[uuid.UUID](), list[int]()
    rows = InterfaceDifference.objects.filter(host_id=host_id)
    columns = rows.values_list("pk", "instance_id", "kind", "instance__vm_state", "instance__host_id")
    for pk, key, kind, vm_state, placed in columns:
        if vm_state == VmState.DELETED or placed != host_id or (there is not None and key not in there):
            gone.append(pk)
        elif kind != GIVEN_BACK:
            known.add(key)
    if gone:
        rows.filter(pk__in=gone).delete()
    return known


def _recorded(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, dict[str, set[str]]]:
    """Return server → MAC address → addresses, without interfaces that are being detached."""
    result: dict[uuid.UUID, dict[str, set[str]]] = {}
    for key, mac, leaving, address in _RECORDED(ids=sorted(ids)):
        if not leaving and key is not None:
            result.setdefault(key, {}).setdefault(mac.lower(), set()).update({address} if address else ())
    return result


def _of(guest: GuestState) -> dict[str, set[str]]:
    return {each.mac_address: set(each.addresses) for each in _interfaces(guest)}


def _interfaces(guest: GuestState) -> list[GuestInterface]:
    """Return the reported interfaces that have a valid MAC address. Lists and texts are cut to their limits, and
    invalid address pairs are left out.
    """
    return [
        replace(
            each,
            mac_address=each.mac_address.lower(),
            addresses=[text[:MOST_LETTERS] for text in each.addresses[:MOST_OF_ONE]],
            security_group_ids=[text[:MOST_LETTERS] for text in each.security_group_ids[:MOST_OF_ONE]],
            allowed_address_pairs=[pair for pair in each.allowed_address_pairs[:MOST_OF_ONE] if _is_sound(pair)],
            tag=each.tag[:60],
        )
        for each in (guest.interfaces or [])[:MOST_INTERFACES]
        if _MAC.fullmatch(each.mac_address.lower())
    ]


def _is_sound(pair: AddressPair) -> bool:
    return len(pair.address) <= MOST_LETTERS and (
        not pair.mac_address or bool(_MAC.fullmatch(pair.mac_address.lower()))
    )


@when_broken_off
def _settle(host_id: uuid.UUID, key: uuid.UUID, guest: GuestState, *, complete: bool, notify: bool) -> bool:
    """Compare a server with its guest. Returns False if the server is not on the host according to the database."""
    with transaction.atomic():
        state.lock([key])
        instance = Instance.objects.select_related("host").filter(id=key, host_id=host_id).first()
        if instance is None or instance.vm_state == VmState.DELETED:
            return False
        if not _is_at_rest(instance, guest.attempt) or not (complete or _is_settled(instance)):
            return True
        differ = _differences(instance, guest)
        _keep(instance, differ)
        if notify or any(each.changed for each in differ.values()):
            send_refresh(instance)
        return True


class _Difference(NamedTuple):
    """An interface that differs between a guest and the database, or that differed until it was added to the database
    again.
    """

    port_id: uuid.UUID | None
    kind: InterfaceDifference.Kind
    said: GuestInterface | None = None
    reason: str = ""

    @property
    def changed(self) -> bool:
        return self.kind == GIVEN_BACK


def _differences(instance: Instance, guest: GuestState) -> dict[str, _Difference]:
    """Add missing interfaces to a server without a task; return all differences, including the interfaces just added,
    by MAC address.
    """
    since, result = newer_guests.attested_since(), dict[str, _Difference]()
    ports = {port.mac_address.lower(): port for port in network_selectors.interfaces_of(instance.id)}
    has = {each.mac_address: each for each in _interfaces(guest)}
    for mac, each in has.items():
        port = ports.get(mac)
        if port is None:
            reason = _refusal(instance, each, since) or add_reported(instance, each)
            result[mac] = _Difference(read_id(each.port_id), EXTRA if reason else GIVEN_BACK, each, reason or BACK)
        elif since is None or port.leaving or port.updated_at >= since:
            continue
        elif sentence := _restore_addresses(port, each.addresses):
            result[mac] = _Difference(port.id, GIVEN_BACK, each, sentence)
    for mac in ports.keys() - has.keys():
        if not ports[mac].leaving:
            result[mac] = _Difference(ports[mac].id, MISSING)
    return result


def _restore_addresses(port: Port, addresses: Sequence[str]) -> str:
    """Add the available ones of the guest's addresses to the port. Returns a sentence about the added and rejected
    addresses.
    """
    restored, refused = network.restore_addresses(port, addresses)
    sentences = [f"Restored addresses: {', '.join(restored)}."] if restored else []
    if refused:
        sentences.append(f"Removed addresses, which are in use elsewhere or not available: {', '.join(refused)}.")
    return " ".join(sentences)[:255]


def _is_at_rest(instance: Instance, attempt: int) -> bool:
    if instance.task_state is not None or instance.vm_state not in _COMPARED:
        return False
    return newer_guests.is_current(instance, attempt) and not host_commands.is_busy_with(instance.id)


def _is_settled(instance: Instance) -> bool:
    """Whether the last change of the server is older than every audit that is still processed."""
    newest = Port.objects.filter(device_id=instance.id).aggregate(newest=Max("updated_at"))["newest"]
    changed = max(moment for moment in (newest, instance.updated_at) if moment is not None)
    return changed < timezone.now() - SETTLED


def _refusal(instance: Instance, interface: GuestInterface, since: datetime | None) -> str:
    """Return the reason why an interface cannot be added again; empty if it can."""
    port_id = read_id(interface.port_id)
    if port_id is None:
        return NOT_KNOWN
    if since is None:
        return NOT_ATTESTED
    steps = InstanceActionEvent.objects.filter(action__instance_id=instance.id, detail__port_id=str(port_id))
    return TAKEN_OUT if steps.filter(action__started_at__gte=since).exists() else ""


def add_reported(instance: Instance, interface: GuestInterface) -> str:
    """Add the guest's interface to a locked server, in the caller's transaction; return the reason of a failure, empty
    on success.

    A port that the records assign to another server, whose guest does not have it, is removed from that server.
    """
    port_id, host = read_id(interface.port_id), instance.host
    if port_id is None or host is None:
        return NOT_KNOWN
    kept = network.ReportedPort(
        id=port_id,
        mac_address=interface.mac_address.lower(),
        network_id=str(read_id(interface.network_id) or ""),
        addresses=interface.addresses,
        port_security=interface.port_security,
        group_ids=[key for each in interface.security_group_ids if (key := read_id(each)) is not None],
        pairs=_pairs(interface),
    )
    try:
        with transaction.atomic():
            _remove_from_other(instance, port_id)
            network.restore_port(
                instance.id, instance.project_id, kept, host.name, host.availability_zone, instance.hostname.lower()
            )
    except NovellaError as error:
        return error.message[:255]
    entry: dict[str, object] = {"network_id": kept.network_id, "port_id": None, "fixed_ip": None}
    tag = {"tag": interface.tag} if interface.tag else {}
    write_interfaces(instance, [*instance.requested_networks, {**entry, **tag}])
    log.warning("Instance %s got the interface %s back, which its guest has.", instance.id, port_id)
    return ""


def _pairs(interface: GuestInterface) -> list[Mapping[str, str]]:
    return [
        {"ip_address": each.address} | ({"mac_address": each.mac_address} if each.mac_address else {})
        for each in interface.allowed_address_pairs
    ]


def _remove_from_other(instance: Instance, port_id: uuid.UUID) -> None:
    """Remove a port from another server of the project whose guest does not have it."""
    missing = InterfaceDifference.objects.filter(port_id=port_id, kind=MISSING).exclude(instance=instance)
    for row in missing.select_related("instance").filter(instance__project_id=instance.project_id):
        remove_interface(row.instance, port_id)
        row.delete()


def _keep(instance: Instance, differ: Mapping[str, _Difference]) -> None:
    rows = InterfaceDifference.objects.filter(instance=instance)
    rows.exclude(kind=GIVEN_BACK).exclude(mac_address__in=differ).delete()
    for mac, each in differ.items():
        interface = msgspec.to_builtins(each.said) if each.said is not None else {}
        values = {"port_id": each.port_id, "kind": each.kind, "reason": each.reason, "said": interface}
        values["host_id"] = instance.host_id
        InterfaceDifference.objects.update_or_create(instance=instance, mac_address=mac, defaults=values)


def _hold_back(guest: GuestState) -> None:
    """Reserve the addresses of a guest without a record, so that no other port gets them."""
    for each in _interfaces(guest):
        network_id = read_id(each.network_id)
        if network_id is not None:
            network.hold_addresses_back(network_id, each.addresses)


@when_broken_off
def add_to_record(context: RequestContext, row: InterfaceDifference) -> None:
    """Add the guest's interface to the server's record. Raises ForbiddenError, and ConflictError with the reason."""
    policy.enforce(context, RULE)
    with transaction.atomic():
        instance = _locked(row, EXTRA)
        if reason := add_reported(instance, _interface(row)):
            raise ConflictError(reason)
        row.delete()
        send_refresh(instance)


@when_broken_off
def unplug(context: RequestContext, row: InterfaceDifference) -> None:
    """Unplug the interface from the guest. Raises ForbiddenError, ConflictError."""
    policy.enforce(context, RULE)
    with transaction.atomic():
        instance, interface = _locked(row, EXTRA), _interface(row)
        if row.port_id is None:
            raise ConflictError("The host does not know which port it is: rebuild the server.")
        network = NetworkRef(
            id=interface.network_id, name="", bridge="", cidr="0.0.0.0/32", gateway=None, segment=Segment(type="local")
        )
        key = str(row.port_id)
        port = PortRef(id=key, mac_address=row.mac_address, tap=f"tap{key[:TAP_LENGTH]}", network=network, fixed_ips=[])
        send_detach(instance, port)
        row.delete()


@when_broken_off
def plug_in(context: RequestContext, row: InterfaceDifference) -> None:
    """Plug the interface into the guest again. Raises ForbiddenError, ConflictError."""
    policy.enforce(context, RULE)
    with transaction.atomic():
        send_attach(_locked(row, MISSING), str(row.port_id))
        row.delete()


def acknowledge(context: RequestContext, row: InterfaceDifference) -> None:
    """Delete the row of a restored interface. Raises ForbiddenError, and ConflictError while the guest still differs
    from the record.
    """
    policy.enforce(context, RULE)
    if not InterfaceDifference.objects.filter(pk=row.pk, kind=GIVEN_BACK).delete()[0]:
        raise ConflictError("Decide first.")


def _locked(row: InterfaceDifference, kind: InterfaceDifference.Kind) -> Instance:
    """Lock the server and return it. Raises ConflictError when the difference has changed or the server has a task."""
    state.lock([row.instance_id])
    instance = Instance.objects.select_related("host").filter(id=row.instance_id, host_id=row.host_id).first()
    if instance is None or not InterfaceDifference.objects.filter(pk=row.pk, kind=kind).exists():
        raise ConflictError(OTHERWISE)
    if instance.task_state is not None:
        raise ConflictError(BUSY)
    return instance


def _interface(row: InterfaceDifference) -> GuestInterface:
    return msgspec.convert(row.said, GuestInterface)
