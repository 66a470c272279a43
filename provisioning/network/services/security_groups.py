"""Security groups: the default one of every project."""

import uuid

from django.db import transaction
from django.db.models import UUIDField

from provisioning.common.prepared import Prepared
from provisioning.identity import owner_locks
from provisioning.network.models import SecurityGroup, SecurityGroupRule
from provisioning.quotas.services.ledger import hold, hold_all

DEFAULT_NAME = "default"


def ensure_default_security_group(project_id: uuid.UUID) -> SecurityGroup:
    """Return the project's ``default`` group, making it with Neutron's rules if it is absent.

    The rules: out to anywhere, in from members of the same group, IPv4 and IPv6.  Safe in parallel: the project is
    locked, so one caller makes it, with its rules in the same transaction, and it cannot go with the project meanwhile.
    It counts in the quota and is never refused: no project can be without it.  Raises NotFoundError for a project that
    is gone.
    """
    found = _DEFAULT.first(project_id=project_id)
    if found is not None:
        return found
    with transaction.atomic():
        owner_locks.lock_project(project_id)
        group, made = SecurityGroup.objects.get_or_create(
            project_id=project_id, name=DEFAULT_NAME, defaults={"description": "Default security group"}
        )
        if made:
            rules = [
                SecurityGroupRule(
                    group=group,
                    direction=direction,
                    ethertype=ethertype,
                    remote_group=group if direction == "ingress" else None,
                )
                for direction in ("egress", "ingress")
                for ethertype in ("IPv4", "IPv6")
            ]
            held = {group.id: {"security_groups": 1}} | {rule.id: {"security_group_rules": 1} for rule in rules}
            hold_all(project_id, held, refuse=False)
            SecurityGroupRule.objects.bulk_create(rules)
    return group


_DEFAULT = Prepared(
    lambda project_id: SecurityGroup.objects.filter(project_id=project_id, name=DEFAULT_NAME).order_by("pk")[:1],
    project_id=UUIDField(),
)


def allow_ingress(group: SecurityGroup, protocol: str, port: int | None = None) -> SecurityGroupRule:
    """Let IPv4 traffic of ``protocol`` in from anywhere, to one port or to all; a rule that is there is kept.

    Raises OverQuotaError.
    """
    wanted = SecurityGroupRule(
        group=group,
        direction="ingress",
        ethertype="IPv4",
        protocol=protocol,
        port_range_min=port,
        port_range_max=port,
        remote_ip_prefix="0.0.0.0/0",
        remote_group=None,
    )
    names = ("group_id", "direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix")
    with transaction.atomic():
        same = {name: getattr(wanted, name) for name in names}
        there = SecurityGroupRule.objects.filter(**same, remote_group=None).first()
        if there is not None:
            return there
        hold(group.project_id, wanted.id, {"security_group_rules": 1})
        wanted.save(force_insert=True)
    return wanted
