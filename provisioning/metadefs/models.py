"""Metadata definitions with Glance's words: namespaces, and what stands in each."""

from django.db import models
from django.db.models.functions import Lower

LONGEST_NAME = 80
"""Characters of every name, prefix and target; Glance's own."""


class MetadefNamespace(models.Model):
    """A set of definitions that belong together: ``OS::Compute::CPUPinning``."""

    class Visibility(models.TextChoices):
        """Who sees it besides its owner and operators."""

        PUBLIC = "public"
        PRIVATE = "private"

    namespace = models.CharField(max_length=LONGEST_NAME, unique=True)
    display_name = models.CharField(max_length=LONGEST_NAME, null=True)
    description = models.CharField(max_length=500, null=True)
    visibility = models.CharField(max_length=8, choices=Visibility, default=Visibility.PRIVATE)
    protected = models.BooleanField(default=False)
    owner = models.CharField(max_length=255)  # a project's id in hexadecimal, or what an operator said
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        indexes = [models.Index(fields=["-created_at", "-id"], name="metadef_namespace_by_age")]

    def __str__(self) -> str:
        return self.namespace


class MetadefProperty(models.Model):
    """One property of a namespace: its title, type and bounds, as a JSON schema."""

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
    required = models.JSONField(null=True)  # names of properties
    properties = models.JSONField(null=True)  # name to schema
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="metadef_object_once")]

    def __str__(self) -> str:
        return self.name


class MetadefTag(models.Model):
    """A word that things may be tagged with; capital letters make no difference."""

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
    """A kind of thing that has properties, by Heat's name: ``OS::Glance::Image``."""

    name = models.CharField(max_length=LONGEST_NAME, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name


class MetadefAssociation(models.Model):
    """That a namespace is meant for a kind of thing, and what its properties are called there."""

    namespace = models.ForeignKey(MetadefNamespace, on_delete=models.CASCADE, related_name="associations")
    resource_type = models.ForeignKey(MetadefResourceType, on_delete=models.PROTECT, related_name="associations")
    prefix = models.CharField(max_length=LONGEST_NAME, null=True)  # hw_: the property cpu_cores is hw_cpu_cores there
    properties_target = models.CharField(max_length=LONGEST_NAME, null=True)  # which of the thing's sets of properties
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["namespace", "resource_type"], name="metadef_association_once")]

    def __str__(self) -> str:
        return f"{self.resource_type_id} of {self.namespace_id}"


class LoadedMetadef(models.Model):
    """A well-known namespace that was loaded once: what an operator makes of it, or its end, stays."""

    namespace = models.CharField(max_length=LONGEST_NAME, unique=True)
    loaded_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.namespace
