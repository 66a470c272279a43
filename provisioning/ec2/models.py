"""Records that only the EC2 API reads."""

from django.db import models


class Ec2Id(models.Model):
    """The EC2 id of a resource, if it is not derived from the resource's key (``ec2.ids``)."""

    ec2_id = models.CharField(max_length=32, primary_key=True)  # i-0123456789abcdef0
    kind = models.CharField(max_length=12)  # the part before the dash: i, vol, snap
    resource_id = models.UUIDField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["resource_id", "kind"], name="ec2_id_once_of_resource")]

    def __str__(self) -> str:
        return self.ec2_id


class Ec2Tag(models.Model):
    """A tag of a resource, created by CreateTags."""

    project_id = models.UUIDField()
    kind = models.CharField(max_length=12)
    resource_id = models.UUIDField()
    key = models.CharField(max_length=127)
    value = models.CharField(max_length=255, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["resource_id", "kind", "key"], name="ec2_tag_once_on_resource")]
        indexes = [models.Index(fields=["project_id", "kind", "key"], name="ec2_tags_of_project")]

    def __str__(self) -> str:
        return f"{self.key} of {self.kind} {self.resource_id}"


class CreationTags(models.Model):
    """Tags that a launch specified for resources that are created later for its instance: volumes,
    network interfaces.
    """

    project_id = models.UUIDField(db_index=True)
    instance_id = models.UUIDField()
    resource_type = models.CharField(max_length=40)  # volume, network-interface
    tags = models.JSONField()  # key → value

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["instance_id", "resource_type"], name="ec2_creation_tags_once_of_instance")
        ]

    def __str__(self) -> str:
        return f"{self.resource_type} of {self.instance_id}"


class MetadataOptions(models.Model):
    """The metadata options that a client has set for an instance; other instances have EC2's defaults."""

    instance_id = models.UUIDField(primary_key=True)
    project_id = models.UUIDField(db_index=True)
    http_tokens = models.CharField(max_length=8)  # optional, required
    hop_limit = models.PositiveSmallIntegerField()

    def __str__(self) -> str:
        return f"{self.instance_id} {self.http_tokens}"


class GivenValue(models.Model):
    """A value that an EC2 client has specified for a resource and that is returned unchanged (``ec2.given``)."""

    project_id = models.UUIDField(db_index=True)
    resource_id = models.UUIDField()
    name = models.CharField(max_length=20)
    value = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["resource_id", "name"], name="ec2_value_once_of_resource")]

    def __str__(self) -> str:
        return f"{self.name} of {self.resource_id}"


class ClientToken(models.Model):
    """A client token and the response to its request. The request is not carried out again (``ec2.client_tokens``)."""

    project_id = models.UUIDField()
    user_id = models.UUIDField()
    action = models.CharField(max_length=80)
    token = models.CharField(max_length=128)
    digest = models.CharField(max_length=64)  # SHA-256 of the arguments, hex
    answer = models.TextField(blank=True)  # XML
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project_id", "user_id", "action", "token"], name="ec2_client_token_once")
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.token}"


class SpentSignature(models.Model):
    """A used signature of a request that changed something, kept until it expires, so that it cannot be replayed."""

    digest = models.CharField(max_length=64, primary_key=True)  # SHA-256 of access key and signature, hex
    spent_at = models.DateTimeField(null=True)  # null: recorded before this column was added
    ends_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.digest
