"""EC2's service model as botocore ships it; botocore and the model are loaded by the first request that needs them."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botocore.model import OperationModel, ServiceModel, Shape

SERVICE = "ec2"


@functools.cache
def service() -> ServiceModel:
    """Return the model, without its documentation, which is most of it."""
    loader_class = import_module("botocore.loaders").Loader
    loader = loader_class(extra_search_paths=[loader_class.BUILTIN_DATA_PATH], include_default_search_paths=False)
    found: ServiceModel = import_module("botocore.model").ServiceModel(
        _undocumented(loader.load_service_model(SERVICE, "service-2")), SERVICE
    )
    return found


@functools.cache
def names() -> frozenset[str]:
    """Return the names of every action that EC2 knows."""
    return frozenset(service().operation_names)


@functools.cache
def operation(name: str) -> OperationModel:
    """Return what the model says of an action; botocore's OperationNotFoundError when it knows none of this name."""
    return service().operation_model(name)


def members_of(shape: Shape) -> dict[str, Shape]:
    """Return the members of a structure by their names in boto3."""
    members: dict[str, Shape] = shape.members
    return members


def parameter_name(shape: Shape, name: str) -> str:
    """Return what a member is called in a request: its name there, or the one of answers with a capital."""
    asked: str | None = shape.serialization.get("queryName")
    if asked is not None:
        return asked
    told: str = shape.serialization.get("name", name)
    return told[0].upper() + told[1:]


def element_name(shape: Shape, name: str) -> str:
    """Return what a member is called in an answer."""
    told: str = shape.serialization.get("name", name)
    return told


def _undocumented(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _undocumented(each) for key, each in value.items() if key != "documentation" or _is_shape(each)}
    return [_undocumented(each) for each in value] if isinstance(value, list) else value


def _is_shape(value: object) -> bool:
    """Whether ``documentation`` is a member of this name and no text about one."""
    return isinstance(value, dict)
