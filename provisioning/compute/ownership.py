"""What projects and users own in compute."""

from provisioning.compute.models import BlockDevice, FlavorAccess, Instance, KeyPair, ServerGroup
from provisioning.ec2 import given, kinds
from provisioning.identity import project_resources
from provisioning.identity.project_resources import Ids


def register() -> None:
    """Keep projects with servers; server groups go with their project, and key pairs with their user.

    Servers and key pairs have ids of EC2.
    """
    kinds.register("i", "instance", Instance)
    kinds.register("key", "key-pair", KeyPair)
    given.register(Instance, BlockDevice)
    project_resources.register("servers", _servers)
    project_resources.register(
        "flavor accesses", None, lambda ids: FlavorAccess.objects.filter(project_id__in=ids).delete()
    )
    project_resources.register(
        "server groups", None, lambda ids: ServerGroup.objects.filter(project_id__in=ids).delete()
    )
    project_resources.register_of_users("key pairs", lambda ids: KeyPair.objects.filter(user_id__in=ids).delete())


def _servers(project_ids: Ids) -> int:
    return Instance.objects.filter(project_id__in=project_ids, deleted_at=None).count()
