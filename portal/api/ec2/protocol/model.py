"""EC2's service model, shipped with botocore; both are loaded by the first request that needs them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botocore.model import OperationModel, ServiceModel, Shape

SERVICE = "ec2"


@functools.cache
def service() -> ServiceModel:
    """Return the model without its documentation, which is its largest part."""
    from botocore import loaders, model  # noqa: PLC0415 - see above

    path = loaders.Loader.BUILTIN_DATA_PATH
    loader = loaders.Loader(extra_search_paths=[path], include_default_search_paths=False)
    return model.ServiceModel(_undocumented(loader.load_service_model(SERVICE, "service-2")), SERVICE)


@functools.cache
def names() -> frozenset[str]:
    """Return the names of all EC2 actions."""
    return frozenset(service().operation_names)


@functools.cache
def operation(name: str) -> OperationModel:
    """Return the model of an action. Raises botocore's OperationNotFoundError for an unknown name."""
    return service().operation_model(name)


def members_of(shape: Shape) -> dict[str, Shape]:
    """Return the members of a structure by their names in boto3."""
    members: dict[str, Shape] = shape.members
    return members


def parameter_name(shape: Shape, name: str) -> str:
    """Return the name of a member in requests: its query name, or the name in responses with a capital."""
    query_name: str | None = shape.serialization.get("queryName")
    if query_name is not None:
        return query_name
    element: str = shape.serialization.get("name", name)
    return element[0].upper() + element[1:]


def element_name(shape: Shape, name: str) -> str:
    """Return the name of a member in responses."""
    element: str = shape.serialization.get("name", name)
    return element


def _undocumented(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _undocumented(each) for key, each in value.items() if key != "documentation" or _is_shape(each)}
    return [_undocumented(each) for each in value] if isinstance(value, list) else value


def _is_shape(value: object) -> bool:
    """Whether ``documentation`` is a structure member of this name; otherwise it is documentation text."""
    return isinstance(value, dict)
