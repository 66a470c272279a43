"""Resource types of all namespaces (``/image/v2/metadefs/resource_types``), and the resource types of one namespace."""

from portal.api.frame.resource import Operation, Values
from portal.api.image.dialect import ListView, Resource, ResourceView
from portal.api.image.metadefs import attributes
from portal.api.image.metadefs.attributes import DEFINITIONS
from portal.api.image.metadefs.namespaces import NAMESPACE
from provisioning.metadefs import selectors, services
from provisioning.metadefs.models import MetadefAssociation


def _list(view: ListView) -> list[MetadefAssociation]:
    found = selectors.namespace_for(view.context, view.above["namespace"])
    return list(selectors.with_associations(found).associations.all())


def _create(view: ResourceView, values: Values) -> MetadefAssociation:
    return services.associate(view.context, view.above["namespace"], values)


def _delete(view: ResourceView, name: str) -> None:
    services.dissociate(view.context, view.above["namespace"], name)


RESOURCE_TYPE = Resource(
    name="resource_type",
    path="metadefs/resource_types",
    list=Operation(
        lambda view: selectors.resource_types(view.context),
        "list_metadef_resource_types",
        "List the resource types that namespaces are associated with. Operators also see types without a remaining"
        " association.",
    ),
    attributes=attributes.RESOURCE_TYPE,
)
ASSOCIATION = Resource(
    name="resource_type_association",
    path="resource_types",
    below=NAMESPACE,
    parameter="name",
    list=Operation(
        _list, "list_metadef_resource_types", "List the resource types that a namespace is associated with."
    ),
    create=Operation(_create, "add_metadef_resource_type_association", "Associate a namespace with a resource type."),
    delete=Operation(
        _delete, "remove_metadef_resource_type_association", "Remove the association with a resource type."
    ),
    attributes=attributes.ASSOCIATION,
    seen="get_metadef_resource_type",
    definitions=DEFINITIONS,
)
