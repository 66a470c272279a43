"""Compute resources that belong to projects and users, and kinds of resources with EC2 ids."""

from provisioning.compute.models import BlockDevice, FlavorAccess, Instance, KeyPair, ServerGroup
from provisioning.ec2.kinds import Kind
from provisioning.identity.records.project_resources import Ids, Owned


def _servers(project_ids: Ids) -> int:
    return Instance.objects.filter(project_id__in=project_ids, deleted_at=None).count()


OF_PROJECTS = (
    Owned("servers", count=_servers),
    Owned("flavor accesses", remove=lambda ids: FlavorAccess.objects.filter(project_id__in=ids).delete()),
    Owned("server groups", remove=lambda ids: ServerGroup.objects.filter(project_id__in=ids).delete()),
)
OF_USERS = (Owned("key pairs", remove=lambda ids: KeyPair.objects.filter(user_id__in=ids).delete()),)
EC2_KINDS = (
    Kind("i", "instance", Instance),
    Kind("key", "key-pair", KeyPair),
    Kind("pg", "placement-group", ServerGroup),
)
WITH_EC2_VALUES = (Instance, BlockDevice)
