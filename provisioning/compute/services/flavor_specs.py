"""Extra specs of flavors; instances keep a copy from their creation."""

from collections.abc import Mapping

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute.flavors import extra_specs
from provisioning.compute.models import Flavor
from provisioning.identity import policy

LONGEST = 255
"""Maximum number of characters of a key and of a value."""


def merge_extra_specs(
    context: RequestContext, ref: str, specs: Mapping[str, str | float], *, rule: str, known_only: bool = False
) -> Flavor:
    """Add or change extra specs and keep all others; numbers are stored as text.

    ``rule`` is the policy rule; ``known_only`` validates keys in the namespaces of the Compute API. Raises
    ForbiddenError, NotFoundError, InvalidInputError.
    """
    policy.enforce(context, rule)
    texts = {key: str(value) for key, value in specs.items()}
    for key, value in texts.items():
        if len(value) > LONGEST:
            raise InvalidInputError(
                f"Invalid input for {key}: extra_specs value has {len(value)} characters, more than {LONGEST}.",
                field=key,
            )
        if known_only:
            extra_specs.check(key, value)
    with transaction.atomic():
        flavor = _locked(ref)
        flavor.extra_specs = flavor.extra_specs | texts
        flavor.save(update_fields=["extra_specs"])
    return flavor


def delete_extra_spec(context: RequestContext, ref: str, key: str) -> None:
    """Remove an extra spec. Raises ForbiddenError, NotFoundError."""
    policy.enforce(context, "os_compute_api:os-flavor-extra-specs:delete")
    with transaction.atomic():
        flavor = _locked(ref)
        if flavor.extra_specs.pop(key, None) is None:
            raise NotFoundError(f"Flavor {flavor.flavorid} has no extra specs with key {key[:LONGEST]}.")
        flavor.save(update_fields=["extra_specs"])


def _locked(ref: str) -> Flavor:
    flavor = Flavor.objects.select_for_update().filter(flavorid=ref).first()
    if flavor is None:
        raise NotFoundError(f"Flavor {ref} could not be found.")
    return flavor
