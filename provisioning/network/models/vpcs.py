"""Attributes of networks, routers and security groups that only EC2 has."""

import uuid

from django.db import models

from provisioning.network.models.networks import Network
from provisioning.network.models.routers import Router
from provisioning.network.models.security_groups import SecurityGroup


class Vpc(models.Model):
    """A network that was created by EC2, with its own router and the range that contains its subnets."""

    network = models.OneToOneField(Network, primary_key=True, on_delete=models.CASCADE, related_name="+")
    router = models.ForeignKey(Router, null=True, on_delete=models.SET_NULL, related_name="+")
    cidr = models.CharField(max_length=43)

    def __str__(self) -> str:
        return self.cidr


class InternetGateway(models.Model):
    """An internet gateway of EC2: detached, or attached to a router, which it connects to the external network."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)
    router = models.OneToOneField(Router, null=True, on_delete=models.CASCADE, related_name="+")
    made = models.BooleanField(default=True)  # False: stands for a gateway of the Networking API, deleted with it
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return str(self.id)


class GroupVpc(models.Model):
    """The VPC that EC2 shows for a security group; the group can be used on every network."""

    group = models.OneToOneField(SecurityGroup, primary_key=True, on_delete=models.CASCADE, related_name="+")
    network = models.ForeignKey(Network, on_delete=models.CASCADE, related_name="+")
    is_default = models.BooleanField(default=False, db_default=False)  # used for guests without a group, as in EC2

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["network"],
                condition=models.Q(is_default=True),
                name="one_default_group_of_vpc",
                violation_error_message="The VPC has a default security group already.",
            )
        ]

    def __str__(self) -> str:
        return str(self.network_id)
