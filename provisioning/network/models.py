"""Networks, subnets, ports, addresses and security groups with Neutron's fields."""

import uuid

from django.db import models


class Network(models.Model):
    """An L2 network: one bridge of the same name on every host that needs it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)
    name = models.CharField(max_length=255, blank=True)
    description = models.CharField(max_length=255, blank=True)
    shared = models.BooleanField(default=False)
    admin_state_up = models.BooleanField(default=True)
    mtu = models.PositiveIntegerField(default=1500)
    bridge = models.CharField(max_length=15, unique=True)
    dns_domain = models.CharField(max_length=255, default="novalocal")
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name or str(self.id)


class Subnet(models.Model):
    """An IPv4 range of a network, with the part that addresses are taken from."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    network = models.ForeignKey(Network, on_delete=models.PROTECT, related_name="subnets")
    project_id = models.UUIDField(db_index=True)
    name = models.CharField(max_length=255, blank=True)
    description = models.CharField(max_length=255, blank=True)
    ip_version = models.PositiveSmallIntegerField(default=4)
    cidr = models.CharField(max_length=43)
    gateway_ip = models.GenericIPAddressField(null=True)
    enable_dhcp = models.BooleanField(default=True)
    dhcp_address = models.GenericIPAddressField(
        null=True
    )  # where DHCP answers when there is no gateway; never given out
    dns_nameservers = models.JSONField(default=list)
    allocation_pools = models.JSONField(default=list)  # [{"start": …, "end": …}]
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name or self.cidr


class SecurityGroup(models.Model):
    """A named set of allowed flows; every project has ``default``."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project_id = models.UUIDField(db_index=True)
    name = models.CharField(max_length=255)
    description = models.CharField(max_length=255, blank=True)
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project_id"], condition=models.Q(name="default"), name="one_default_security_group"
            )
        ]

    def __str__(self) -> str:
        return self.name


class SecurityGroupRule(models.Model):
    """One allowed flow.  No remote: from and to anywhere."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    group = models.ForeignKey(SecurityGroup, on_delete=models.CASCADE, related_name="rules")
    direction = models.CharField(max_length=8, choices=[("ingress", "ingress"), ("egress", "egress")])
    ethertype = models.CharField(max_length=4, choices=[("IPv4", "IPv4"), ("IPv6", "IPv6")], default="IPv4")
    protocol = models.CharField(max_length=16, null=True, blank=True)
    port_range_min = models.IntegerField(null=True, blank=True)
    port_range_max = models.IntegerField(null=True, blank=True)
    remote_ip_prefix = models.CharField(max_length=43, null=True, blank=True)
    remote_group = models.ForeignKey(SecurityGroup, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    description = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.direction} {self.protocol or 'any'}"


class Port(models.Model):
    """One network interface: a MAC address on a network, owned by a device."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    network = models.ForeignKey(Network, on_delete=models.PROTECT, related_name="ports")
    project_id = models.UUIDField(db_index=True)
    name = models.CharField(max_length=255, blank=True)
    description = models.CharField(max_length=255, blank=True)
    mac_address = models.CharField(max_length=17, unique=True)
    admin_state_up = models.BooleanField(default=True)
    status = models.CharField(max_length=8, default="DOWN")  # ACTIVE, DOWN, BUILD
    device_id = models.UUIDField(null=True, db_index=True)  # the instance
    device_owner = models.CharField(max_length=255, blank=True)  # "compute:<az>"
    device_index = models.PositiveSmallIntegerField(default=0)  # order of the interfaces in the guest
    delete_with_device = models.BooleanField(default=False)  # made for the instance, and goes with it
    leaving = models.BooleanField(default=False)  # its host was told to take it out of the guest
    host = models.CharField(max_length=255, blank=True)
    security_groups = models.ManyToManyField(SecurityGroup, related_name="ports")
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["device_id", "device_index"],
                condition=models.Q(device_id__isnull=False),
                name="one_port_per_interface",
            )
        ]

    def __str__(self) -> str:
        return self.mac_address


class FixedIP(models.Model):
    """One address of one port; the constraint is what makes it the only one."""

    port = models.ForeignKey(Port, on_delete=models.CASCADE, related_name="fixed_ips")
    subnet = models.ForeignKey(Subnet, on_delete=models.PROTECT, related_name="fixed_ips")
    address = models.GenericIPAddressField()
    number = models.BigIntegerField()  # the address as a number: free ones are found by order

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subnet", "number"], name="one_fixed_ip")]

    def __str__(self) -> str:
        return self.address
