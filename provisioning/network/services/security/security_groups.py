"""Security groups with their initial rules, and the default group of every project."""

import uuid
from collections.abc import Mapping

from django.db import transaction
from django.db.models import UUIDField

from compute_agent.contract.network import SECURITY_GROUP
from provisioning.common.database.prepared import Prepared
from provisioning.common.database.retry import when_broken_off
from provisioning.identity.records import owner_locks
from provisioning.network.errors import (
    SecurityGroupCannotRemoveDefaultError,
    SecurityGroupCannotUpdateDefaultError,
    SecurityGroupDefaultAlreadyExistsError,
    SecurityGroupInUseError,
)
from provisioning.network.models import SecurityGroup, SecurityGroupRule
from provisioning.network.records.announcements import announce
from provisioning.network.records.marks import mark
from provisioning.network.services.base import records
from provisioning.network.services.security.default_rules import remote_group_of, rules_of_new
from provisioning.quotas.services import ledger
from provisioning.quotas.services.ledger import hold_all

DEFAULT_NAME = "default"


def create_security_group(
    project_id: uuid.UUID, name: str, *, description: str = "", stateful: bool = True, as_default: bool = False
) -> SecurityGroup:
    """Create a group with the rules of new groups; ``as_default``: with the rules of new default groups.

    Raises SecurityGroupDefaultAlreadyExistsError, OverQuotaError.
    """
    if name.lower() == DEFAULT_NAME:
        raise SecurityGroupDefaultAlreadyExistsError("Default security group already exists.", field="name")
    group = SecurityGroup(project_id=project_id, name=name, description=description, stateful=stateful)
    with transaction.atomic():
        rules = _first_rules(group, default=as_default)
        hold_all(project_id, _held(group, rules))
        _save(group, rules)
        announce(group, "create")
    return group


@when_broken_off
def update_security_group(
    group: SecurityGroup, changes: Mapping[str, object], revision: int | None = None
) -> SecurityGroup:
    """Change name, description or ``stateful``.

    Raises SecurityGroupCannotUpdateDefaultError, SecurityGroupInUseError for ``stateful`` while ports use the group,
    RevisionNumberConstraintFailedError.
    """
    with transaction.atomic():
        group = records.lock(group, revision)
        if group.name == DEFAULT_NAME and changes.get("name", DEFAULT_NAME) != DEFAULT_NAME:
            raise SecurityGroupCannotUpdateDefaultError("Updating default security group not allowed.", field="name")
        if str(changes.get("name", "")).lower() == DEFAULT_NAME and group.name != DEFAULT_NAME:
            raise SecurityGroupDefaultAlreadyExistsError("Default security group already exists.", field="name")
        if changes.get("stateful", group.stateful) != group.stateful and group.ports.exists():
            raise _in_use(group)
        if "stateful" in records.write(group, changes):
            mark(SECURITY_GROUP, [group.id])
        announce(group)
    return group


@when_broken_off
def delete_security_group(group: SecurityGroup, revision: int | None = None, *, even_default: bool = False) -> None:
    """Delete a group with its rules, and rules of other groups that refer to it.

    ``even_default``: also delete the project's default group, for an operator; it is created again when it is needed.

    Raises SecurityGroupCannotRemoveDefaultError, SecurityGroupInUseError, RevisionNumberConstraintFailedError.
    """
    with transaction.atomic():
        group = records.lock_to_delete(group, revision)
        if group.name == DEFAULT_NAME and not even_default:
            raise SecurityGroupCannotRemoveDefaultError("Insufficient rights for removing default security group.")
        if group.ports.exists():
            raise _in_use(group)
        naming = SecurityGroupRule.objects.filter(remote_group=group).exclude(group=group)
        marked = {group.id, *naming.values_list("group_id", flat=True)}
        for rule in [*naming, *group.rules.all()]:
            ledger.release(rule.id)
        naming.delete()
        announce(group, "delete")
        records.remove(group)
        mark(SECURITY_GROUP, marked)


def _in_use(group: SecurityGroup) -> SecurityGroupInUseError:
    return SecurityGroupInUseError(f"Security Group {group.id} in use.")


def _first_rules(group: SecurityGroup, *, default: bool) -> list[SecurityGroupRule]:
    """Return the unsaved rules of a new group, without those that refer to a deleted group."""
    return [
        SecurityGroupRule(
            group=group,
            direction=rule.direction,
            ethertype=rule.ethertype,
            protocol=rule.protocol,
            port_range_min=rule.port_range_min,
            port_range_max=rule.port_range_max,
            remote_ip_prefix=rule.remote_ip_prefix,
            remote_group=remote,
            remote_address_group=rule.remote_address_group,
            description=rule.description,
        )
        for rule in rules_of_new(default=default)
        for remote in [remote_group_of(rule, group)]
        if remote is not None or not rule.remote_group
    ]


def _held(group: SecurityGroup, rules: list[SecurityGroupRule]) -> dict[uuid.UUID, dict[str, int]]:
    return {group.id: {"security_groups": 1}} | {rule.id: {"security_group_rules": 1} for rule in rules}


def _save(group: SecurityGroup, rules: list[SecurityGroupRule]) -> None:
    group.save(force_insert=True)
    SecurityGroupRule.objects.bulk_create(rules)


def ensure_default_security_group(project_id: uuid.UUID) -> SecurityGroup:
    """Return the project's ``default`` group, creating it with the rules of default groups if it does not exist.

    Neutron's rules: egress to anywhere, ingress from members of the same group, IPv4 and IPv6. Safe in parallel: the
    project is locked, so that only one caller creates it and the project is not deleted concurrently.  The group counts
    in the quota but is never refused, because every project needs one.  Raises NotFoundError if the project was
    deleted.
    """
    existing = _DEFAULT.first(project_id=project_id)
    if existing is not None:
        return existing
    with transaction.atomic():
        owner_locks.lock_project(project_id)
        existing = _DEFAULT.first(project_id=project_id)
        if existing is not None:
            return existing
        group = SecurityGroup(project_id=project_id, name=DEFAULT_NAME, description="Default security group")
        rules = _first_rules(group, default=True)
        hold_all(project_id, _held(group, rules), refuse=False)
        _save(group, rules)
    return group


_DEFAULT = Prepared(
    lambda project_id: SecurityGroup.objects.filter(project_id=project_id, name=DEFAULT_NAME).order_by("pk")[:1],
    project_id=UUIDField(),
)
