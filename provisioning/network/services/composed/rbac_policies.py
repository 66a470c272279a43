"""RBAC policies: share a record with another project or with all, change the project, and end the sharing."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Model, QuerySet

from compute_agent.contract.network import NETWORK
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError
from provisioning.network.errors import DuplicateRbacPolicyError, RbacPolicyInUseError
from provisioning.network.models import (
    AddressGroup,
    AddressScope,
    FloatingIP,
    Network,
    Port,
    RbacPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
    SubnetPool,
)
from provisioning.network.records import owners
from provisioning.network.records.announcements import announce, topics_of
from provisioning.network.records.marks import mark
from provisioning.network.selectors.visibility import is_shared_with_others
from provisioning.network.services.base import network_guests, records
from provisioning.network.services.ports.ports import lock_subnets
from provisioning.quotas.services.ledger import hold, release

SHARED, EXTERNAL = RbacPolicy.SHARED, RbacPolicy.EXTERNAL
COLUMNS = {SHARED: "shared", EXTERNAL: "external"}
"""Action → the column that is set if all projects share the record."""
MODELS: dict[str, type[Model]] = {
    "network": Network,
    "security_group": SecurityGroup,
    "address_group": AddressGroup,
    "address_scope": AddressScope,
    "subnetpool": SubnetPool,
}


@when_broken_off
def create_rbac_policy(project_id: uuid.UUID, kind: str, row: Any, action: str, target: str) -> RbacPolicy:
    """Share a record with ``target``, a project's id without dashes or ``*``.

    Raises OverQuotaError, DuplicateRbacPolicyError, InvalidInputError for an action that this kind does not support.
    """
    _check(kind, action)
    policy = RbacPolicy(project_id=project_id, object_type=kind, object_id=row.pk, action=action, target_project=target)
    with transaction.atomic(), _sharing(row, policy, target) as locked:
        _save(policy, force_insert=True)
        _mirror(locked, policy, there=True)
        announce(policy, "create")
    return policy


@when_broken_off
def update_rbac_policy(policy: RbacPolicy, target: str) -> RbacPolicy:
    """Share the record with another project instead.

    Raises OverQuotaError, RbacPolicyInUseError, DuplicateRbacPolicyError, InvalidInputError.
    """
    with transaction.atomic(), _sharing(_record(policy), policy, target) as locked:
        fresh = records.lock(policy)
        if fresh.target_project == target:
            return fresh
        _count(fresh, target)  # again: a concurrent change may have set the target to all
        _check_unused(locked, fresh)
        _mirror(locked, fresh, there=False)
        seen = topics_of(fresh)
        fresh.target_project = target
        _save(fresh, update_fields=["target_project"])
        _mirror(locked, fresh, there=True)
        if target == RbacPolicy.EVERYBODY:
            release(fresh.pk)
        announce(fresh, before=seen)
        return fresh


@when_broken_off
def delete_rbac_policy(policy: RbacPolicy) -> None:
    """Delete a policy.  Raises RbacPolicyInUseError while a project uses the record by this policy."""
    with transaction.atomic(), _sharing(_record(policy), policy, RbacPolicy.EVERYBODY) as locked:
        fresh = records.lock(policy)
        _check_unused(locked, fresh)
        _mirror(locked, fresh, there=False)
        announce(fresh, "delete")
        release(fresh.pk)
        fresh.delete()


def _record(policy: RbacPolicy) -> Model:
    return MODELS[policy.object_type](pk=policy.object_id)


@contextmanager
def _sharing(row: Model, policy: RbacPolicy, target: str) -> Iterator[Any]:
    """Lock the record whose policies change, and yield it.

    The record is locked before its policy, as in changes of the record. A network's guests are locked before the
    network: if it becomes shared or is no longer shared, the guests' names get a different domain, and their hosts are
    notified. Quota counters are locked after the guests and before the network, as in every launch.
    """
    network = row if isinstance(row, Network) and policy.action == SHARED else None
    if network is not None:
        network_guests.lock(network)
    _count(policy, target)
    locked: Any = records.lock(row)
    if network is None:
        yield locked
        return
    before = is_shared_with_others(network.id)
    yield locked
    if is_shared_with_others(network.id) != before:
        mark(NETWORK, [network.id])
        network_guests.notify(locked)


def _count(policy: RbacPolicy, target: str) -> None:
    """Count a policy for a single project in its owner's quota. Operators' policies for all projects do not count."""
    if target != RbacPolicy.EVERYBODY:
        hold(policy.project_id, policy.pk, {"rbac_policies": 1})


def _check(kind: str, action: str) -> None:
    if action != SHARED and kind != "network":
        msg = f"Invalid input for operation: {action} is not a valid action for {kind}."
        raise InvalidInputError(msg, field="action")


def _save(policy: RbacPolicy, **how: Any) -> None:
    try:
        with transaction.atomic():
            policy.save(**how)
    except IntegrityError:
        raise DuplicateRbacPolicyError("An RBAC policy already exists with those values.") from None


def _mirror(row: Any, policy: RbacPolicy, *, there: bool) -> None:
    """Set the record's column that shares it with all projects or makes it external.

    ``there`` is True for a new policy, False for a policy that is about to be deleted.
    """
    column = COLUMNS[policy.action]
    if policy.action == EXTERNAL:
        others = RbacPolicy.objects.filter(object_id=row.pk, action=EXTERNAL).exclude(pk=policy.pk)
        records.write(row, {column: there or others.exists()})
    elif policy.target_project == RbacPolicy.EVERYBODY and hasattr(row, column):
        records.write(row, {column: there})


def _check_unused(row: Any, policy: RbacPolicy) -> None:
    if isinstance(row, Network):
        lock_subnets([str(row.pk)])  # a launch locks them before it checks its access to the network
    same = RbacPolicy.objects.filter(object_id=row.pk, action=policy.action).exclude(pk=policy.pk)
    others = list(same.values_list("target_project", flat=True))
    if RbacPolicy.EVERYBODY in others:
        return
    for rows, owner in _users(row, policy.action):
        queryset = rows.exclude(**{owner: row.project_id})
        if policy.target_project == RbacPolicy.EVERYBODY:
            queryset = queryset.exclude(**{f"{owner}__in": [uuid.UUID(text) for text in others]})
        else:
            queryset = queryset.filter(**{owner: uuid.UUID(policy.target_project)})
        if queryset.exists():
            reason = "cannot be removed because other objects depend on it."
            raise RbacPolicyInUseError(f"RBAC policy on object {row.pk} {reason}")


def _users(row: Any, action: str) -> list[tuple[QuerySet[Any], str]]:
    """Return queries for the records that can refer to this one, each with the lookup of its records' project."""
    owner = "project_id"
    if isinstance(row, Network) and action == EXTERNAL:
        gateways = Router.objects.filter(gateway_port__network=row)
        return [(gateways, owner), (FloatingIP.objects.filter(network=row), owner)]
    if isinstance(row, Network):
        ports = Port.objects.filter(network=row).exclude(device_owner__in=OUTSIDE)
        return [(ports, owner), (Subnet.objects.filter(network=row), owner)]
    if isinstance(row, SecurityGroup):
        return [
            (Port.objects.filter(security_groups=row), owner),
            (SecurityGroupRule.objects.filter(remote_group=row), "group__project_id"),
        ]
    if isinstance(row, AddressGroup):
        return [(SecurityGroupRule.objects.filter(remote_address_group=row), "group__project_id")]
    if isinstance(row, AddressScope):
        return [(SubnetPool.objects.filter(address_scope=row), owner)]
    return [(Subnet.objects.filter(subnet_pool=row), owner)]


OUTSIDE = (*owners.OF_THE_NETWORK, owners.ROUTER_GATEWAY, owners.FLOATING_IP)
"""Ports that an external network has for its own purpose."""
