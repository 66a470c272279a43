"""Hardware properties of an image, which are changed together and validated first."""

from collections.abc import Mapping

from compute_agent.contract import hardware
from compute_agent.contract.hardware_properties import HardwareError
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.images import selectors, services
from provisioning.images.models import Image
from provisioning.images.records.changes import Change


def set_hardware(context: RequestContext, image_id: str, requested: Mapping[str, str]) -> Image:
    """Set hardware properties of an image; empty values remove a property, others stay.

    Raises InvalidInputError, with the property as its field, for an invalid value and for contradictions, which an
    image's record could contain but a launch would reject. Also raises the errors of ``services.patch``.
    """
    try:
        hardware.read(requested, {}, 1)
    except HardwareError as error:
        raise InvalidInputError(f"{error}.", field=error.name) from error
    image = selectors.image_for(context, image_id)
    changes = [Change("add", name, value) for name, value in requested.items() if value]
    changes += [Change("remove", name) for name, value in requested.items() if not value and name in image.properties]
    return services.patch(context, image.id, changes) if changes else image
