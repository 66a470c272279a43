"""Security groups, their rules, and address groups that rules refer to."""

import uuid

from django.db import models

from provisioning.network.models.base import Named, Shareable, json_list

DIRECTIONS = [("ingress", "ingress"), ("egress", "egress")]
ETHERTYPES = [("IPv4", "IPv4"), ("IPv6", "IPv6")]


class SecurityGroup(Shareable, Named):
    """A named set of allowed flows; every project has ``default``."""

    stateful = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project_id"],
                condition=models.Q(name="default"),
                name="one_default_security_group",
                violation_error_message="The project has a security group named default already.",
            )
        ]


class AddressGroup(Shareable, Named):
    """Ranges that rules refer to by one id."""

    addresses = json_list()  # CIDR texts


class Flow(models.Model):
    """The traffic that one rule allows."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    direction = models.CharField(max_length=8, choices=DIRECTIONS)
    ethertype = models.CharField(max_length=4, choices=ETHERTYPES, default="IPv4")
    protocol = models.CharField(max_length=16, null=True, blank=True)
    port_range_min = models.IntegerField(null=True, blank=True)
    port_range_max = models.IntegerField(null=True, blank=True)
    remote_ip_prefix = models.CharField(max_length=43, null=True, blank=True)
    description = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.direction} {self.protocol or 'any'}"


class SecurityGroupRule(Flow):
    """A rule of a group.  Without a remote it allows traffic from or to any address."""

    group = models.ForeignKey(SecurityGroup, on_delete=models.CASCADE, related_name="rules")
    remote_group = models.ForeignKey(SecurityGroup, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    remote_address_group = models.ForeignKey(
        AddressGroup, null=True, blank=True, on_delete=models.PROTECT, related_name="rules"
    )
    revision_number = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)


class DefaultSecurityGroupRule(Flow):
    """A rule of every new group."""

    PARENT = "PARENT"

    remote_group = models.CharField(max_length=36, blank=True)  # a group's id, or PARENT for the new group itself
    remote_address_group = models.ForeignKey(
        AddressGroup, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    removed = models.BooleanField(default=False)  # marks a built-in rule as deleted
    used_in_default_sg = models.BooleanField(default=False)
    used_in_non_default_sg = models.BooleanField(default=True)
