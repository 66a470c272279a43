"""What the cloud made for a project in one go."""

from django.db import models

from provisioning.network.models.networks import Network
from provisioning.network.models.routers import Router


class AutoAllocatedTopology(models.Model):
    """The network and the router that a project was given in one go; both are the project's own."""

    project_id = models.UUIDField(primary_key=True)
    network = models.ForeignKey(Network, on_delete=models.CASCADE, related_name="+")
    router = models.ForeignKey(Router, on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return str(self.project_id)
