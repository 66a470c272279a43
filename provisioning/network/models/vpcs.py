"""What EC2 says of networks, routers and groups beside what they are."""

import uuid

from django.db import models

from provisioning.network.models.networks import Network
from provisioning.network.models.routers import Router
from provisioning.network.models.security_groups import SecurityGroup


class Vpc(models.Model):
    """A network that EC2 made, with a router of its own and the range that its subnets have parts of."""

    network = models.OneToOneField(Network, primary_key=True, on_delete=models.CASCADE, related_name="+")
    router = models.ForeignKey(Router, null=True, on_delete=models.SET_NULL, related_name="+")
    cidr = models.CharField(max_length=43)

    def __str__(self) -> str:
        return self.cidr


class InternetGateway(models.Model):
    """A way out as EC2 counts them: on a shelf, or at a router, which it leads to the external network."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)
    router = models.OneToOneField(Router, null=True, on_delete=models.CASCADE, related_name="+")
    made = models.BooleanField(default=True)  # False: stands for a gateway of the Network API, and is there as that is
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return str(self.id)


class GroupVpc(models.Model):
    """The VPC that a security group was made for: EC2 shows it, and the group can be used on every network."""

    group = models.OneToOneField(SecurityGroup, primary_key=True, on_delete=models.CASCADE, related_name="+")
    network = models.ForeignKey(Network, on_delete=models.CASCADE, related_name="+")
    is_default = models.BooleanField(default=False, db_default=False)  # the group of guests that name none, as in EC2

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
