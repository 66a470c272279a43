"""Auto-allocated topologies."""

from django.db import models

from provisioning.network.models.networks import Network
from provisioning.network.models.routers import Router


class AutoAllocatedTopology(models.Model):
    """The network and the router that were allocated automatically for a project, which owns both."""

    project_id = models.UUIDField(primary_key=True)
    network = models.ForeignKey(Network, on_delete=models.CASCADE, related_name="+")
    router = models.ForeignKey(Router, on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return str(self.project_id)
