"""The rows that filters of images use: one for each tag and each additional property."""

from provisioning.images.models import Image, ImageProperty, ImageTag
from provisioning.images.records.digests import digest
from provisioning.images.records.properties import text_of


def write_tags(image: Image) -> None:
    """Write the ``ImageTag`` rows for ``image.tags``, in the transaction that writes the image."""
    there = set(ImageTag.objects.filter(image=image).values_list("tag", flat=True))
    expected = set(image.tags)
    if there - expected:
        ImageTag.objects.filter(image=image, tag__in=there - expected).delete()
    ImageTag.objects.bulk_create([ImageTag(image=image, tag=tag) for tag in sorted(expected - there)])


def write_properties(image: Image) -> None:
    """Write the ``ImageProperty`` rows for ``image.properties``, in the transaction that writes the image."""
    there = dict(ImageProperty.objects.filter(image=image).values_list("name", "digest"))
    expected = {name: digest(value) for name, value in text_of(image.properties).items()}
    stale = {name for name, mark in there.items() if expected.get(name) != mark}
    if stale:
        ImageProperty.objects.filter(image=image, name__in=stale).delete()
    new = sorted(name for name, mark in expected.items() if there.get(name) != mark)
    ImageProperty.objects.bulk_create([ImageProperty(image=image, name=name, digest=expected[name]) for name in new])


def remove(image: Image) -> None:
    ImageTag.objects.filter(image=image).delete()
    ImageProperty.objects.filter(image=image).delete()
