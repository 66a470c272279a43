"""Address groups: ranges that security group rules refer to by one id."""

import uuid
from collections.abc import Mapping, Sequence

from django.db import transaction

from compute_agent.contract.network import SECURITY_GROUP
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing
from provisioning.network.errors import AddressesAlreadyExistError, AddressesNotFoundError, AddressGroupInUseError
from provisioning.network.models import AddressGroup, DefaultSecurityGroupRule
from provisioning.network.records.announcements import announce
from provisioning.network.records.marks import mark
from provisioning.network.services.base import records
from provisioning.quotas.services.ledger import hold

MOST_ADDRESSES = 1000
"""Limit of ranges in one group."""


def create_address_group(
    project_id: uuid.UUID, name: str, addresses: Sequence[str], *, description: str = ""
) -> AddressGroup:
    """Create a group of ranges or single addresses.  Raises InvalidInputError, OverQuotaError."""
    checked = sorted(set(_read(addresses)))
    _check_many(checked)
    group = AddressGroup(project_id=project_id, name=name, description=description, addresses=checked)
    with transaction.atomic():
        hold(project_id, group.id, {"address_groups": 1})
        group.save(force_insert=True)
        announce(group, "create")
    return group


@when_broken_off
def update_address_group(
    group: AddressGroup, changes: Mapping[str, object], revision: int | None = None
) -> AddressGroup:
    """Change name or description.  Raises RevisionNumberConstraintFailedError."""
    with transaction.atomic():
        group = records.lock(group, revision)
        records.write(group, changes)
        announce(group)
    return group


@when_broken_off
def delete_address_group(group: AddressGroup, revision: int | None = None) -> None:
    """Delete a group. Raises AddressGroupInUseError while rules refer to it, RevisionNumberConstraintFailedError."""
    with transaction.atomic():
        group = records.lock_to_delete(group, revision)
        if group.rules.exists() or DefaultSecurityGroupRule.objects.filter(remote_address_group=group).exists():
            msg = f"Address group {group.id} is in use on one or more security group rules"
            raise AddressGroupInUseError(msg)
        announce(group, "delete")
        records.remove(group)


@when_broken_off
def add_addresses(group: AddressGroup, addresses: Sequence[str]) -> AddressGroup:
    """Add ranges.  Raises AddressesAlreadyExistError, InvalidInputError."""
    requested = _read(addresses)
    with transaction.atomic():
        group = records.lock(group)
        there = sorted(set(requested) & set(group.addresses))
        if there:
            msg = f"Addresses {', '.join(there)} already exist in the address group {group.id}"
            raise AddressesAlreadyExistError(msg, field="addresses")
        together = sorted({*group.addresses, *requested})
        _check_many(together)
        return _set(group, together)


@when_broken_off
def remove_addresses(group: AddressGroup, addresses: Sequence[str]) -> AddressGroup:
    """Remove ranges.  Raises AddressesNotFoundError, InvalidInputError."""
    unwanted = _read(addresses)
    with transaction.atomic():
        group = records.lock(group)
        missing = sorted(set(unwanted) - set(group.addresses))
        if missing:
            msg = f"Addresses {', '.join(missing)} not found in the address group {group.id}"
            raise AddressesNotFoundError(msg, field="addresses")
        return _set(group, sorted(set(group.addresses) - set(unwanted)))


def _set(group: AddressGroup, addresses: list[str]) -> AddressGroup:
    records.write(group, {"addresses": addresses})
    announce(group)
    mark(SECURITY_GROUP, set(group.rules.values_list("group_id", flat=True)))
    return group


def _read(addresses: Sequence[str]) -> list[str]:
    result = []
    for text in addresses:
        try:
            result.append(str(addressing.read_prefix(text, loose=True).cidr))
        except ValueError:
            msg = f"Invalid input for addresses. Reason: '{str(text)[:64]}' is not a valid IP subnet."
            raise InvalidInputError(msg, field="addresses") from None
    return result


def _check_many(addresses: Sequence[str]) -> None:
    if len(addresses) > MOST_ADDRESSES:
        raise InvalidInputError(f"An address group has at most {MOST_ADDRESSES} addresses.", field="addresses")
