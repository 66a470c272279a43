"""Metadata definitions as in Glance: namespaces and their contents."""

from django.db import models
from django.db.models.functions import Lower

LONGEST_NAME = 80
"""Maximum length of names, prefixes and targets; the limit of Glance."""


class MetadefNamespace(models.Model):
    """A set of related definitions, such as ``OS::Compute::CPUPinning``."""

    class Visibility(models.TextChoices):
        """Private: visible to the owner and operators only."""

        PUBLIC = "public"
        PRIVATE = "private"

    namespace = models.CharField(max_length=LONGEST_NAME, unique=True)
    display_name = models.CharField(max_length=LONGEST_NAME, null=True)
    description = models.CharField(max_length=500, null=True)
    visibility = models.CharField(max_length=8, choices=Visibility, default=Visibility.PRIVATE)
    protected = models.BooleanField(default=False)
    owner = models.CharField(max_length=255)  # a project id in hexadecimal, or a text that an operator has set
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        indexes = [models.Index(fields=["-created_at", "-id"], name="metadef_namespace_by_age")]

    def __str__(self) -> str:
        return self.namespace


class MetadefProperty(models.Model):
    """A property of a namespace: its title, type and bounds, as a JSON schema."""

    namespace = models.ForeignKey(MetadefNamespace, on_delete=models.CASCADE, related_name="property_rows")
    name = models.CharField(max_length=LONGEST_NAME)
    schema = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="metadef_property_once")]

    def __str__(self) -> str:
        return self.name


class MetadefObject(models.Model):
    """A group of properties that are set together."""

    namespace = models.ForeignKey(MetadefNamespace, on_delete=models.CASCADE, related_name="object_rows")
    name = models.CharField(max_length=LONGEST_NAME)
    description = models.TextField(null=True)
    required = models.JSONField(null=True)  # property names
    properties = models.JSONField(null=True)  # name → schema
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="metadef_object_once")]

    def __str__(self) -> str:
        return self.name


class MetadefTag(models.Model):
    """A tag that resources may have. Names are case-insensitive."""

    namespace = models.ForeignKey(MetadefNamespace, on_delete=models.CASCADE, related_name="tag_rows")
    name = models.CharField(max_length=LONGEST_NAME)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "namespace",
                Lower("name"),
                name="metadef_tag_once",
                violation_error_message="The namespace has a tag of this name already.",
            )
        ]

    def __str__(self) -> str:
        return self.name


class MetadefResourceType(models.Model):
    """A type of resources with properties, by Heat's name: ``OS::Glance::Image``."""

    name = models.CharField(max_length=LONGEST_NAME, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name


class MetadefAssociation(models.Model):
    """The association of a namespace with a resource type, and the prefix of its properties there."""

    namespace = models.ForeignKey(MetadefNamespace, on_delete=models.CASCADE, related_name="associations")
    resource_type = models.ForeignKey(MetadefResourceType, on_delete=models.PROTECT, related_name="associations")
    prefix = models.CharField(max_length=LONGEST_NAME, null=True)  # hw_: cpu_cores is named hw_cpu_cores there
    properties_target = models.CharField(max_length=LONGEST_NAME, null=True)  # such as metadata or image
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["namespace", "resource_type"], name="metadef_association_once")]

    def __str__(self) -> str:
        return f"{self.resource_type_id} of {self.namespace_id}"


class LoadedMetadef(models.Model):
    """A well-known namespace that was loaded once. It is not loaded again, even if operators have changed or deleted
    it.
    """

    namespace = models.CharField(max_length=LONGEST_NAME, unique=True)
    loaded_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.namespace
