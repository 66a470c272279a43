"""Adds, changes and deletes rules of security groups."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from compute_agent.contract.network import SECURITY_GROUP
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError
from provisioning.network.errors import (
    SecurityGroupMultipleRemoteEntitiesError,
    SecurityGroupNotSingleGroupRulesError,
    SecurityGroupRuleExistsError,
    SecurityGroupRuleNotFoundError,
)
from provisioning.network.models import AddressGroup, SecurityGroup, SecurityGroupRule
from provisioning.network.records import flows
from provisioning.network.records.announcements import announce
from provisioning.network.records.flows import Flow
from provisioning.network.records.marks import mark
from provisioning.network.services.base import records
from provisioning.quotas.services import ledger
from provisioning.quotas.services.ledger import hold_all

MOST_ADDRESS_GROUPS = 50
"""Limit of the address groups in one security group's rules, whose ranges are sent to hosts in one document."""


@dataclass(frozen=True, slots=True)
class RequestedRule:
    """A requested rule; the caller has access to its groups."""

    group: SecurityGroup
    flow: Flow
    remote_group: SecurityGroup | None = None
    remote_address_group: AddressGroup | None = None
    description: str = ""

    @property
    def meaning(self) -> tuple[object, ...]:
        remotes = (each.id if each else None for each in (self.remote_group, self.remote_address_group))
        return (*self.flow.meaning, *remotes)

    def row(self) -> SecurityGroupRule:
        return SecurityGroupRule(
            group=self.group,
            direction=self.flow.direction,
            ethertype=self.flow.ethertype,
            protocol=self.flow.protocol,
            port_range_min=self.flow.port_min,
            port_range_max=self.flow.port_max,
            remote_ip_prefix=self.flow.prefix,
            remote_group=self.remote_group,
            remote_address_group=self.remote_address_group,
            description=self.description,
        )


@when_broken_off
def create_security_group_rules(requested: Sequence[RequestedRule]) -> list[SecurityGroupRule]:
    """Add rules to one group, all or none, and return them in order.

    Raises SecurityGroupNotSingleGroupRulesError, SecurityGroupMultipleRemoteEntitiesError,
    SecurityGroupRuleExistsError, OverQuotaError, InvalidInputError.
    """
    if len({each.group.id for each in requested}) > 1:
        msg = "Only allowed to update rules for one security profile at a time"
        raise SecurityGroupNotSingleGroupRulesError(msg)
    for each in requested:
        if len([one for one in (each.flow.prefix, each.remote_group, each.remote_address_group) if one]) > 1:
            raise SecurityGroupMultipleRemoteEntitiesError("Only one remote entity (IP or group) should be provided.")
    if not requested:
        return []
    rows = [each.row() for each in requested]
    with transaction.atomic():
        group = records.lock(requested[0].group)
        there = {meaning_of(rule): rule.id for rule in group.rules.all()}
        for each, row in zip(requested, rows, strict=True):
            if each.meaning in there:
                msg = f"Security group rule already exists. Rule id is {there[each.meaning]}."
                raise SecurityGroupRuleExistsError(msg)
            there[each.meaning] = row.id
        _check_address_groups(group, rows)
        hold_all(group.project_id, {row.id: {"security_group_rules": 1} for row in rows})
        SecurityGroupRule.objects.bulk_create(rows)
        _changed(group, rows)
    return rows


def _check_address_groups(group: SecurityGroup, rows: Sequence[SecurityGroupRule]) -> None:
    named = {row.remote_address_group_id for row in rows} - {None}
    if not named:
        return
    of_others = group.rules.exclude(remote_address_group=None).values_list("remote_address_group_id", flat=True)
    if len(named.union(of_others)) > MOST_ADDRESS_GROUPS:
        msg = f"The rules of a security group name at most {MOST_ADDRESS_GROUPS} address groups."
        raise InvalidInputError(msg, field="remote_address_group_id")


@when_broken_off
def add_missing_rules(requested: Sequence[RequestedRule]) -> list[SecurityGroupRule]:
    """Add those rules that their group does not have, and return them in order.

    Raises SecurityGroupRuleExistsError if it has all of them, and the errors of ``create_security_group_rules``.
    """
    with transaction.atomic():
        group = records.lock(requested[0].group)
        there = {meaning_of(rule) for rule in group.rules.all()}
        missing = [each for each in requested if each.meaning not in there]
        if not missing:
            raise SecurityGroupRuleExistsError(f"{group.name or group.id} already allows this.")
        return create_security_group_rules(missing)


@when_broken_off
def change_security_group_rule(rule: SecurityGroupRule, requested: RequestedRule) -> SecurityGroupRule:
    """Replace the traffic that a rule allows; the rule keeps its id.

    Raises SecurityGroupRuleNotFoundError if it was deleted, SecurityGroupRuleExistsError if another rule of the group
    is equal, InvalidInputError.
    """
    with transaction.atomic():
        group = records.lock(rule.group)
        every = {row.id: row for row in group.rules.all()}
        before = every.pop(rule.id, None)
        if before is None:
            raise SecurityGroupRuleNotFoundError(f"Security group rule {rule.id} does not exist")
        same = next((row for row in every.values() if meaning_of(row) == requested.meaning), None)
        if same is not None:
            raise SecurityGroupRuleExistsError(f"Security group rule already exists. Rule id is {same.id}.")
        row = requested.row()
        row.id, row.created_at, row.revision_number = before.id, before.created_at, before.revision_number + 1
        _check_address_groups(group, [row])
        row.save(force_update=True)
        _changed(group, [before, row])
    return row


@when_broken_off
def describe_security_group_rules(rules: Sequence[SecurityGroupRule], description: str) -> None:
    """Set the description of rules of one group."""
    with transaction.atomic():
        group = records.lock(rules[0].group)
        rows = SecurityGroupRule.objects.filter(id__in=[rule.id for rule in rules], group=group)
        rows.update(description=description, revision_number=F("revision_number") + 1, updated_at=timezone.now())
        records.touch(group)
        announce(group)


@when_broken_off
def delete_security_group_rule(rule: SecurityGroupRule) -> None:
    """Delete a rule. Raises SecurityGroupRuleNotFoundError if it does not exist."""
    with transaction.atomic():
        group = records.lock(rule.group)
        gone, _ = SecurityGroupRule.objects.filter(id=rule.id).delete()
        if not gone:
            raise SecurityGroupRuleNotFoundError(f"Security group rule {rule.id} does not exist")
        ledger.release(rule.id)
        _changed(group, [rule])


def meaning_of(rule: SecurityGroupRule) -> tuple[object, ...]:
    """Return the key by which rules of a group are compared."""
    flow = Flow(
        rule.direction, rule.ethertype, rule.protocol, rule.port_range_min, rule.port_range_max, rule.remote_ip_prefix
    )
    return (*flow.meaning, rule.remote_group_id, rule.remote_address_group_id)


@when_broken_off
def allow_ingress(group: SecurityGroup, protocol: str, port: int | None = None) -> SecurityGroupRule:
    """Allow IPv4 traffic of ``protocol`` from anywhere, to one port or to all; an equal rule is kept.

    Raises OverQuotaError.
    """
    flow = flows.checked("ingress", "IPv4", protocol, port, port, "0.0.0.0/0")
    requested = RequestedRule(group, flow)
    with transaction.atomic():
        records.lock(group)
        there = next((rule for rule in group.rules.all() if meaning_of(rule) == requested.meaning), None)
        return there or create_security_group_rules([requested])[0]


def _changed(group: SecurityGroup, rules: Sequence[SecurityGroupRule]) -> None:
    records.touch(group)
    named: set[uuid.UUID] = {rule.remote_group_id for rule in rules if rule.remote_group_id}
    mark(SECURITY_GROUP, {group.id, *named})
    announce(group)
