"""Declarations of resources, and the views, checks and documents derived from them, in the dialect of each service.

Services import the names of this package, which include those of ``portal.api.common`` that most services need.
"""

from portal.api.common.authentication import challenge
from portal.api.common.conditional import document
from portal.api.common.links import SERVICES, endpoint, public_url
from portal.api.common.requests import NEWEST, OLDEST, Microversions, Schema, Version, body, inner, text_of, validate
from portal.api.common.views import Json, NoSuchResource, Schemas, ServiceView, schema_for
from portal.api.frame.calls import Call, Entries, Service, Shape, Views, at_version, parts, refuse, sent, urls
from portal.api.frame.lists import (
    TEXT,
    Filter,
    Filtering,
    Page,
    Pages,
    Sorting,
    identity,
    lower,
    number,
    schemas_of,
    truth,
    upper,
)
from portal.api.frame.resource import Attribute, Checked, Kind, Operation, Parameter, Reader, Resource, Values, query_of
from portal.api.frame.views import METHODS, DetailView, Dialect, ListView, ResourceView

__all__ = [
    "METHODS",
    "NEWEST",
    "OLDEST",
    "SERVICES",
    "TEXT",
    "Attribute",
    "Call",
    "Checked",
    "DetailView",
    "Dialect",
    "Entries",
    "Filter",
    "Filtering",
    "Json",
    "Kind",
    "ListView",
    "Microversions",
    "NoSuchResource",
    "Operation",
    "Page",
    "Pages",
    "Parameter",
    "Reader",
    "Resource",
    "ResourceView",
    "Schema",
    "Schemas",
    "Service",
    "ServiceView",
    "Shape",
    "Sorting",
    "Values",
    "Version",
    "Views",
    "at_version",
    "body",
    "challenge",
    "document",
    "endpoint",
    "identity",
    "inner",
    "lower",
    "number",
    "parts",
    "public_url",
    "query_of",
    "refuse",
    "schema_for",
    "schemas_of",
    "sent",
    "text_of",
    "truth",
    "upper",
    "urls",
    "validate",
]
