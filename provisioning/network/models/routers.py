"""Routers, floating IPs and port forwardings."""

import uuid

from django.db import models
from django.db.models import Q

from provisioning.network.models.base import Named, Standard, json_list
from provisioning.network.models.networks import Network
from provisioning.network.models.ports import Port


class Router(Named):
    """Connects networks to each other, and to an external network through a gateway port there.

    Its interfaces are ports with its id as ``device_id`` and the owner ``network:router_interface``.
    """

    admin_state_up = models.BooleanField(default=True)
    status = models.CharField(max_length=8, default="ACTIVE")
    error = models.CharField(max_length=255, blank=True)  # why a host could not apply it
    gateway_port = models.OneToOneField(Port, null=True, on_delete=models.PROTECT, related_name="+")
    enable_snat = models.BooleanField(default=True)
    routes = json_list()  # [{"destination": …, "nexthop": …}]
    host = models.CharField(max_length=255, blank=True)  # the host with its external address
    availability_zone_hints = json_list()  # names of zones; only shown: a router is on its guests' hosts


class FloatingIP(Standard):
    """An address on an external network that is associated with a guest's address."""

    network = models.ForeignKey(Network, on_delete=models.PROTECT, related_name="floating_ips")
    port = models.OneToOneField(Port, on_delete=models.PROTECT, related_name="+")  # its port on the external network
    address = models.GenericIPAddressField()
    fixed_port = models.ForeignKey(Port, null=True, on_delete=models.PROTECT, related_name="floating_ips")
    fixed_address = models.GenericIPAddressField(null=True)
    router = models.ForeignKey(Router, null=True, on_delete=models.PROTECT, related_name="floating_ips")
    status = models.CharField(max_length=8, default="DOWN")  # ACTIVE, DOWN, ERROR
    error = models.CharField(max_length=255, blank=True)  # why a host could not apply it
    dns_name = models.CharField(max_length=255, blank=True)
    dns_domain = models.CharField(max_length=255, blank=True)
    with_instance = models.UUIDField(null=True, db_index=True)  # created for the instance, and deleted with it

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["network", "address"], name="one_floating_ip_per_address"),
            models.UniqueConstraint(
                fields=["network", "fixed_port", "fixed_address"],
                condition=Q(fixed_port__isnull=False),
                name="one_floating_ip_per_fixed_ip",
                violation_error_message="Another floating IP of this network is associated with the address.",
            ),
        ]

    def __str__(self) -> str:
        return self.address


class PortForwarding(models.Model):
    """Ports of a floating IP that are forwarded to ports of a guest."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    floating_ip = models.ForeignKey(FloatingIP, on_delete=models.CASCADE, related_name="port_forwardings")
    protocol = models.CharField(max_length=8)
    external_port_first = models.PositiveIntegerField()
    external_port_last = models.PositiveIntegerField()
    internal_port = models.ForeignKey(Port, on_delete=models.PROTECT, related_name="port_forwardings")
    internal_ip_address = models.GenericIPAddressField()
    internal_port_first = models.PositiveIntegerField()
    internal_port_last = models.PositiveIntegerField()
    description = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.protocol} {self.external_port_first}"
