"""What projects own in networking."""

from provisioning.identity import project_resources
from provisioning.identity.project_resources import Ids
from provisioning.jobs import retention
from provisioning.network.models import Network, Port, SecurityGroup, Subnet

DEFAULT = "default"
"""The security group that every project has: it goes with the project."""


def register() -> None:
    """Keep projects with networks, subnets, ports or security groups of their own; and say what bounds those."""
    project_resources.register("networks", lambda ids: Network.objects.filter(project_id__in=ids).count())
    project_resources.register("subnets", _subnets)
    project_resources.register("ports", lambda ids: Port.objects.filter(project_id__in=ids).count())
    project_resources.register("security groups", _groups, _remove_default_groups)
    models = ("Network", "Subnet", "SecurityGroup", "SecurityGroupRule", "Port", "Port_security_groups", "FixedIP")
    retention.keep({f"network.{name}": "Bounded by its quota, and there until it is deleted." for name in models})


def _subnets(project_ids: Ids) -> int:
    """Count those in networks of other projects: the others go with their network."""
    return Subnet.objects.filter(project_id__in=project_ids).exclude(network__project_id__in=project_ids).count()


def _groups(project_ids: Ids) -> int:
    return SecurityGroup.objects.filter(project_id__in=project_ids).exclude(name=DEFAULT).count()


def _remove_default_groups(project_ids: Ids) -> None:
    SecurityGroup.objects.filter(project_id__in=project_ids, name=DEFAULT).delete()
