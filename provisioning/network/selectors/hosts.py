"""Networks on hosts, by the documents that were sent to them; for operators."""

from compute_agent.contract.network import NETWORK
from provisioning.hosts.models import Host
from provisioning.network.models import Delivery, Network


def networks_on(host: Host) -> list[tuple[Network, str]]:
    """Return the networks that a host has, by name, each with the error of its last delivery."""
    sent = Delivery.objects.filter(host_id=host.id, kind=NETWORK).exclude(digest="", error="")
    errors = dict(sent.values_list("subject_id", "error"))
    rows = Network.objects.filter(id__in=list(errors)).order_by("name", "id")
    return [(network, errors[network.id]) for network in rows]
