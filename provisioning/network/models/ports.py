"""Ports and their addresses."""

from typing import ClassVar

from django.db import models

from provisioning.network.models.base import Named, json_list
from provisioning.network.models.networks import Network, Subnet
from provisioning.network.models.security_groups import SecurityGroup


class Port(Named):
    """One network interface: a MAC address on a network, owned by a device."""

    on_shared_network = False
    """Whether other projects than its owner may use the network; set by selectors."""

    network = models.ForeignKey(Network, on_delete=models.PROTECT, related_name="ports")
    mac_address = models.CharField(max_length=17)
    admin_state_up = models.BooleanField(default=True)
    status = models.CharField(max_length=8, default="DOWN")  # the device's: ACTIVE, DOWN, BUILD; see shown_status
    device_id = models.UUIDField(null=True, db_index=True)  # the instance, router or network that it belongs to
    device_text = models.CharField(max_length=255, blank=True)  # a user's device_id that is not a UUID
    device_owner = models.CharField(max_length=255, blank=True)  # "compute:<az>", "network:router_interface" …
    device_index = models.PositiveSmallIntegerField(default=0)  # order of the interfaces in the guest
    delete_with_device = models.BooleanField(default=False)  # created for the instance, and deleted with it
    leaving = models.BooleanField(default=False)  # its host was commanded to detach it from the guest
    host = models.CharField(max_length=255, blank=True)
    second_host = models.CharField(max_length=255, blank=True, default="", db_default="")  # to which the running guest
    # is being migrated: it has everything that the port needs before the guest runs there
    dns_name = models.CharField(max_length=255, blank=True)  # its guest's host name
    port_security_enabled = models.BooleanField(default=True)
    allowed_address_pairs = json_list()  # [{"ip_address": …, "mac_address": …}]
    extra_dhcp_opts = json_list()  # [{"opt_name": …, "opt_value": …, "ip_version": …}]
    binding_profile = models.JSONField(default=dict)
    vnic_type = models.CharField(max_length=64, default="normal")
    security_groups = models.ManyToManyField(SecurityGroup, related_name="ports")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["device_id", "device_index"],
                condition=models.Q(device_owner__startswith="compute:", device_id__isnull=False),
                name="one_port_per_interface",
                violation_error_message="Another port is this interface of the instance.",
            ),
            models.UniqueConstraint(fields=["network", "mac_address"], name="one_port_per_mac_address"),
        ]

    def __str__(self) -> str:
        return self.mac_address

    @property
    def shown_status(self) -> str:
        """The status that users see: DOWN if the port is administratively down, otherwise the status of its device."""
        return self.status if self.admin_state_up else "DOWN"


class InUse(models.Manager["FixedIP"]):
    """Manager of the addresses that ports have, without released ones."""

    def get_queryset(self) -> models.QuerySet["FixedIP"]:
        return super().get_queryset().filter(port__isnull=False)


class FixedIP(models.Model):
    """An address of a port, or a released address that is held for a while; the constraint keeps it unique."""

    port = models.ForeignKey(Port, null=True, on_delete=models.CASCADE, related_name="fixed_ips")
    subnet = models.ForeignKey(Subnet, on_delete=models.PROTECT, related_name="fixed_ips")
    address = models.GenericIPAddressField()
    number = models.BigIntegerField()  # orders a subnet's addresses without gaps, to find free ones
    released_at = models.DateTimeField(null=True)  # since when no port has it
    leased_at = models.DateTimeField(null=True)  # when its guest got it by DHCP, if the host has reported that

    every: ClassVar[models.Manager["FixedIP"]] = models.Manager()
    objects = InUse()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subnet", "number"], name="one_fixed_ip")]

    def __str__(self) -> str:
        return self.address
