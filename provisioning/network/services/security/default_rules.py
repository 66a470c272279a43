"""Rules of new security groups: Neutron's four built-in ones, until operators change them."""

import uuid
from collections.abc import Mapping

from django.db import transaction

from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import read_id
from provisioning.network.errors import (
    DefaultSecurityGroupRuleExistsError,
    DefaultSecurityGroupRuleNotFoundError,
    SecurityGroupMultipleRemoteEntitiesError,
)
from provisioning.network.models import AddressGroup, DefaultSecurityGroupRule, SecurityGroup
from provisioning.network.records import flows

PARENT = DefaultSecurityGroupRule.PARENT
_NAMES = uuid.UUID("5b1b1f0e-5f1e-4c0e-9a55-3c1d9f0a7f10")


def _first(direction: str, ethertype: str) -> DefaultSecurityGroupRule:
    """Return one of the built-in rules; its id is derived from its direction and ethertype."""
    inwards = direction == "ingress"
    return DefaultSecurityGroupRule(
        id=uuid.uuid5(_NAMES, f"{direction} {ethertype}"),
        direction=direction,
        ethertype=ethertype,
        remote_group=PARENT if inwards else "",
        used_in_default_sg=True,
        used_in_non_default_sg=not inwards,
    )


FIRST = tuple(_first(way, kind) for way in ("egress", "ingress") for kind in ("IPv4", "IPv6"))


def default_rules() -> list[DefaultSecurityGroupRule]:
    """Return the current rules: built-in rules that were not deleted, then rules that operators have created."""
    rows = _RULES()
    gone = {row.id for row in rows if row.removed}
    return [*(rule for rule in FIRST if rule.id not in gone), *(row for row in rows if not row.removed)]


_RULES = Prepared(
    lambda: DefaultSecurityGroupRule.objects.select_related("remote_address_group").order_by("created_at", "id")
)


def default_rule(rule_id: str | uuid.UUID) -> DefaultSecurityGroupRule:
    """Return one rule.  Raises DefaultSecurityGroupRuleNotFoundError."""
    requested = read_id(rule_id)
    for rule in default_rules():
        if rule.id == requested:
            return rule
    raise DefaultSecurityGroupRuleNotFoundError(f"Default Security Group rule {rule_id} does not exist")


def rules_of_new(*, default: bool) -> list[DefaultSecurityGroupRule]:
    """Return the rules that each new group gets; with ``default``, those that each new default group gets."""
    used = "used_in_default_sg" if default else "used_in_non_default_sg"
    return [rule for rule in default_rules() if getattr(rule, used)]


def remote_group_of(rule: DefaultSecurityGroupRule, group: SecurityGroup) -> SecurityGroup | None:
    """Return the remote group of a rule in a new group: the group itself, or a named group that still exists.

    None if the named group was deleted: the caller must omit the rule, which would otherwise allow any source.
    """
    return group if rule.remote_group == PARENT else _named(rule.remote_group)


def create_default_rule(values: Mapping[str, object]) -> DefaultSecurityGroupRule:
    """Create a rule; ``values`` are Neutron's attributes, ``remote_group_id`` an id or ``PARENT``.

    Raises the errors of ``flows.checked``, DefaultSecurityGroupRuleExistsError, InvalidInputError.
    """
    traffic = {name: values.get(name) for name in ("protocol", "port_range_min", "port_range_max", "remote_ip_prefix")}
    flow = flows.checked(str(values["direction"]), str(values["ethertype"]), *traffic.values())  # type: ignore[arg-type]
    remote_group = str(values.get("remote_group_id") or "")
    address_group = values.get("remote_address_group_id")
    if len([each for each in (remote_group, address_group, flow.prefix) if each]) > 1:
        raise SecurityGroupMultipleRemoteEntitiesError("Only one remote entity (IP or group) should be provided.")
    rule = DefaultSecurityGroupRule(
        direction=flow.direction,
        ethertype=flow.ethertype,
        protocol=flow.protocol,
        port_range_min=flow.port_min,
        port_range_max=flow.port_max,
        remote_ip_prefix=flow.prefix,
        remote_group=remote_group,
        remote_address_group=_address_group(address_group),
        description=str(values.get("description") or ""),
        used_in_default_sg=bool(values.get("used_in_default_sg", False)),
        used_in_non_default_sg=bool(values.get("used_in_non_default_sg", True)),
    )
    if remote_group and remote_group != PARENT and _named(remote_group) is None:
        raise InvalidInputError(f"Security group {remote_group[:64]} does not exist", field="remote_group_id")
    with transaction.atomic():
        for other in default_rules():
            if _meaning(other) == _meaning(rule):
                msg = f"Default security group rule already exists. Rule id is {other.id}."
                raise DefaultSecurityGroupRuleExistsError(msg)
        rule.save(force_insert=True)
    return rule


def delete_default_rule(rule_id: uuid.UUID) -> None:
    """Delete a rule; existing groups keep theirs.  Raises DefaultSecurityGroupRuleNotFoundError."""
    with transaction.atomic():
        rule = default_rule(rule_id)
        DefaultSecurityGroupRule.objects.filter(id=rule_id).delete()
        if rule in FIRST:
            DefaultSecurityGroupRule.objects.create(
                id=rule.id, direction=rule.direction, ethertype=rule.ethertype, removed=True
            )


def _meaning(rule: DefaultSecurityGroupRule) -> tuple[object, ...]:
    flow = flows.Flow(
        rule.direction, rule.ethertype, rule.protocol, rule.port_range_min, rule.port_range_max, rule.remote_ip_prefix
    )
    used = rule.used_in_default_sg, rule.used_in_non_default_sg
    return (*flow.meaning, rule.remote_group, rule.remote_address_group_id, *used)


def _named(group_id: str) -> SecurityGroup | None:
    requested = read_id(group_id)
    return SecurityGroup.objects.filter(id=requested).first() if requested else None


def _address_group(group_id: object) -> AddressGroup | None:
    if group_id is None:
        return None
    address_group = AddressGroup.objects.filter(id=str(group_id)).first()
    if address_group is None:
        raise InvalidInputError(f"Address group {group_id} could not be found.", field="remote_address_group_id")
    return address_group
