"""Base of the pages of one port."""

import uuid

from django.urls import reverse

from portal.dashboard.records.views import RecordPage
from provisioning.network import selectors
from provisioning.network.models import Port
from provisioning.network.records.owners import COMPUTE


class PortPage(RecordPage[Port]):
    """Base of the pages of one of the project's ports."""

    section = "instances"
    back_to = "dashboard:instances"

    def look_up(self, identity: uuid.UUID) -> Port:
        return selectors.port_for(self.context, identity)

    def back(self) -> str:
        """Return to the port's instance, otherwise to its network."""
        port = self.record
        if port.device_id and port.device_owner.startswith(COMPUTE):
            return reverse("dashboard:instance_network", args=[port.device_id])
        return reverse("dashboard:network", args=[port.network_id])


def label_of(port: Port) -> str:
    """Return a label of a port: its addresses, otherwise its name or id."""
    return ", ".join(row.address for row in port.fixed_ips.all()) or port.name or str(port.id)
