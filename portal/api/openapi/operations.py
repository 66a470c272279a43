"""One operation of the document, from the declarations of its view."""

import inspect
import re
from typing import Any

from drf_spectacular.openapi import AutoSchema

from portal.api.common.microversions import Version, text_of
from portal.api.common.views import ServiceView, schema_for
from portal.api.openapi.components import DATA, FREE_OBJECT, HEADERS, ref
from portal.api.openapi.statuses import statuses_of
from provisioning.identity import policy

_OTHERS = {r"\Z": "$", r"\A": "^"}


def portable(schema: Any) -> Any:
    """Return a copy with portable patterns, and lists instead of tuples."""
    if isinstance(schema, dict):
        return {name: _keyword(name, value) for name, value in schema.items()}
    return [portable(item) for item in schema] if isinstance(schema, list | tuple) else schema


def _keyword(name: str, value: Any) -> Any:
    if name == "pattern" and isinstance(value, str):
        return _pattern(value)
    if name == "patternProperties" and isinstance(value, dict):
        return {_pattern(pattern): portable(schema) for pattern, schema in value.items()}
    return portable(value)


def _pattern(text: str) -> str:
    for ours, theirs in _OTHERS.items():
        text = text.replace(ours, theirs)
    return text


Schema = dict[str, Any]

WITHOUT_BODY = ("/tags/{tag}", "/actions/deactivate", "/actions/reactivate")
"""Suffixes of paths whose operations have no body, although the method allows one."""


class OperationSchema(AutoSchema):
    """Reads a ``ServiceView``; the generator sets the view's ``microversion`` first."""

    view: ServiceView  # type: ignore[override]  # no other view has an address of an API
    path: str
    method: str

    @property
    def version(self) -> Version:
        """The microversion of the document."""
        return self.view.microversion

    @property
    def statuses(self) -> tuple[int, ...]:
        return statuses_of(
            self.method, self.path, self.view.rules.get(self.method, ""), self.view.successes.get(self.method, 0)
        )

    @property
    def refused(self) -> bool:
        return self.statuses[0] > 400

    def get_operation_id(self) -> str:
        """Return method and path as one word, ``post_compute_v2.1_servers``."""
        return self.method.lower() + re.sub(r"[^A-Za-z0-9.]+", "_", self.path).rstrip("_")

    def get_summary(self) -> str | None:
        """Return the first sentence of the description."""
        sentence = self._sentence()
        return re.split(r"(?<=[.;:])\s", sentence, maxsplit=1)[0].rstrip(".;:") or None

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular's signature, not DRF's
        """Return the description with the policy rule and the microversions."""
        parts = [self._sentence()]
        rule = self.view.rules.get(self.method)
        if rule and not self.view.public and self.method not in self.view.public_methods:
            parts.append(f"Policy rule: `{rule}`.")
        if self.view.microversions is not None:
            first, last = span(self.view, self.method)
            first, last = max(first, self.view.microversions.minimum), min(last, self.view.microversions.maximum)
            parts.append(f"Microversions {text_of(first)} to {text_of(last)}.")
        return "\n\n".join(parts)

    def _sentence(self) -> str:
        """Return the sentence of the view, the handler's docstring or, without them, the description of the rule."""
        rule = policy.RULES.get(self.view.rules.get(self.method, ""))
        docstring = inspect.getdoc(getattr(self.view, self.method.lower()))
        text = self.view.sentences.get(self.method) or docstring or (rule.description if rule else "")
        return re.sub(r"\s+", " ", text.replace("``", "`"))

    def get_tags(self) -> list[str]:
        """Return the service and the path segment of the resource."""
        words = [word for word in self.path.split("/")[3:] if word]
        return [f"{self.view.service}: {words[0] if words else 'versions'}"]

    def get_auth(self) -> list[dict[str, list[str]]]:
        """Return the token requirement, or nothing for public operations."""
        public = self.view.public or self.method in self.view.public_methods
        return [] if public else [{"token": []}]

    def _get_parameters(self) -> list[Schema]:
        found = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"\{(\w+)\}", self.path)
        ]
        if self.method in self.view.queries:
            query = schema_for(self.view.queries, self.method, self.version)
            found += [_query_parameter(name, schema) for name, schema in query.get("properties", {}).items()]
        if self.view.microversions is not None:
            own = "" if self.view.service == "compute" else f"-{self.view.service}"
            found.append(ref("parameters", f"OpenStack-API-Version{own}"))
        found += [ref("parameters", name) for name in HEADERS.get((self.method, self.path), ())]
        return found

    def _get_request_body(self, direction: str = "request") -> Schema | None:
        if self.method not in {"POST", "PUT", "PATCH"} or self.refused:
            return None
        if (self.method, self.path) in DATA:
            return {"required": True, "content": {"application/octet-stream": {"schema": {}}}}
        if self.method not in self.view.schemas:
            free = not self.path.endswith(WITHOUT_BODY) and self.method != "PUT"
            return {"content": {"application/json": {"schema": FREE_OBJECT}}} if free else None
        schema = portable(schema_for(self.view.schemas, self.method, self.version))
        kinds = [parser.media_type for parser in self.view.parser_classes]
        return {"required": True, "content": {kind: {"schema": schema} for kind in kinds[:1]}}

    def _get_response_bodies(self, direction: str = "response") -> Schema:
        service = self.view.service
        found: Schema = {} if self.refused else {str(code): _answer(self.path, code) for code in self.statuses}
        refusals = {*self.statuses} if self.refused else {400, 404, 503}
        refusals |= set() if self.view.public else {401, 403}
        refusals |= {409} if self.method != "GET" else set()
        refusals |= {413, 415} if self.method in {"POST", "PUT", "PATCH"} else set()
        refusals |= {429} if self.view.may_be_too_many(self.method) else set()
        refusals |= {406} if self.view.microversions is not None else set()
        found |= {str(code): ref("responses", f"{service}-{code}") for code in sorted(refusals)}
        return found | {"default": ref("responses", f"{service}-default")}


def span(view: ServiceView, method: str) -> tuple[Version, Version]:
    """Return the first and last microversion of the method."""
    last: Version | None = getattr(view, "last_version", None)
    if last is not None and method not in getattr(view, "answered_later", ()):
        return (0, 0), last
    return view.versions.get(method, ((0, 0), (999, 999)))


def _query_parameter(name: str, schema: Schema) -> Schema:
    """Return a parameter; for a repeatable one, the schema of one value."""
    one = schema.get("items", {}) if schema.get("type") == "array" else schema
    return {"name": name, "in": "query", "schema": portable(one) or {"type": "string"}}


def _answer(path: str, status: int) -> Schema:
    """Return the response of a success: its status; the fields of response objects are described in the reference."""
    answer: Schema = {"description": "Accepted." if status == 202 else "Done."}
    if status == 204:
        return answer
    kind = "application/octet-stream" if path.endswith("/file") else "application/json"
    return answer | {"content": {kind: {"schema": {} if path.endswith("/file") else FREE_OBJECT}}}
