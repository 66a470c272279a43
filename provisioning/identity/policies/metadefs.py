"""Metadata definitions of the Image API, with the names of Glance."""

from provisioning.identity.policies.base import ADMIN, READER, rule

_NAMESPACE = "/v2/metadefs/namespaces/{namespace}"
_ADMIN = "rule:metadef_admin"

RULES = (
    rule("get_metadef_namespaces", READER, "List namespaces of metadata definitions."),
    rule("get_metadef_namespace", READER, "Show a namespace of metadata definitions."),
    rule(
        "novella:get_metadef_namespaces:all_projects",
        ADMIN,
        "Show and update the namespaces of all projects.",
        "GET /v2/metadefs/namespaces",
    ),
    rule("add_metadef_namespace", _ADMIN, "Create a namespace of metadata definitions."),
    rule("modify_metadef_namespace", _ADMIN, "Change a namespace of metadata definitions."),
    rule("delete_metadef_namespace", _ADMIN, "Delete a namespace, or all its objects or properties."),
    rule("get_metadef_objects", READER, "List the objects of a namespace."),
    rule("get_metadef_object", READER, "Show an object of a namespace."),
    rule("add_metadef_object", _ADMIN, "Create an object of a namespace."),
    rule("modify_metadef_object", _ADMIN, "Change an object of a namespace."),
    rule("delete_metadef_object", _ADMIN, "Delete an object of a namespace."),
    rule("get_metadef_properties", READER, "List the properties of a namespace."),
    rule("get_metadef_property", READER, "Show a property of a namespace."),
    rule("add_metadef_property", _ADMIN, "Create a property of a namespace."),
    rule("modify_metadef_property", _ADMIN, "Change a property of a namespace."),
    rule("remove_metadef_property", _ADMIN, "Delete a property of a namespace."),
    rule("get_metadef_tags", READER, "List the tags of a namespace."),
    rule("get_metadef_tag", READER, "Show a tag of a namespace."),
    rule("add_metadef_tag", _ADMIN, "Create a tag of a namespace."),
    rule("add_metadef_tags", _ADMIN, "Create tags of a namespace."),
    rule("modify_metadef_tag", _ADMIN, "Rename a tag of a namespace."),
    rule("delete_metadef_tag", _ADMIN, "Delete a tag of a namespace."),
    rule("delete_metadef_tags", _ADMIN, "Delete all tags of a namespace.", f"DELETE {_NAMESPACE}/tags"),
    rule("list_metadef_resource_types", READER, "List resource types."),
    rule(
        "get_metadef_resource_type",
        READER,
        "List the resource types of a namespace.",
        f"GET {_NAMESPACE}/resource_types",
    ),
    rule("add_metadef_resource_type_association", _ADMIN, "Associate a namespace with a resource type."),
    rule(
        "remove_metadef_resource_type_association",
        _ADMIN,
        "Remove the association of a namespace with a resource type.",
    ),
)
