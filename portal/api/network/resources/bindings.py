"""Hosts to which a port is bound (Networking API v2.0 reference, "Port binding", extension ``binding-extended``).

A port is bound to the host of its server, and also to a second host while the server is migrated live. The cloud itself
creates, activates and deletes these bindings.
"""

from rest_framework.request import Request

from portal.api.frame import Json, Schema, Views
from portal.api.network.dialect import query, views
from portal.api.network.resources.ports import PORT
from provisioning.network import errors
from provisioning.network.models import Port

RULE = "get_port_binding"
ACTIVE, INACTIVE = "ACTIVE", "INACTIVE"
FILTERS = ("host", "status", "vif_type", "vnic_type")
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
QUERY: Schema = {
    "type": "object",
    "properties": dict.fromkeys(("fields", *FILTERS), _TEXTS),
    "additionalProperties": False,
}


class BindingView(views.ResourceView):
    """Base class of the views: reads a port, and describes its bindings."""

    resource = PORT
    rules = {"GET": RULE}
    http_method_names = ["get", "head"]

    def check_rule(self, request: Request) -> None:
        """Allow reading without a policy check: as in Neutron, the policy hides bindings instead."""
        if request.method not in {"GET", "HEAD"}:
            super().check_rule(request)

    def bindings(self, identity: str) -> list[Json]:
        """Return the bindings of the port that the caller may see, the active one first."""
        row: Port = self.row(identity)
        if not self.allows(RULE):
            return []
        return [_shape(row, host, status) for host, status in _hosts(row)]

    def cut(self, shape: Json) -> Json:
        """Return only the requested fields, or all if none are requested."""
        fields = query.fields_of(self.request)
        return {name: value for name, value in shape.items() if not fields or name in fields}


class Bindings(BindingView):
    """``/network/v2.0/ports/{id}/bindings``."""

    queries = {"GET": QUERY}

    def get(self, request: Request, identity: str) -> Json:
        """List the bindings of a port that match the filters."""
        parameters = self.checked_query()
        filters = {name: parameters[name] for name in FILTERS if name in parameters}
        every = self.bindings(identity)
        found = [shape for shape in every if all(shape[name] in values for name, values in filters.items())]
        return {"bindings": [self.cut(shape) for shape in found]}


class Binding(BindingView):
    """``/network/v2.0/ports/{id}/bindings/{host}``."""

    queries = {"GET": query.FIELDS}

    def get(self, request: Request, identity: str, host: str) -> Json:
        """Show the binding of a port to a host."""
        return {"binding": self.cut(self.binding(identity, host))}

    def binding(self, identity: str, host: str) -> Json:
        """Return one binding. Raises PortBindingNotFoundError."""
        found = next((shape for shape in self.bindings(identity) if shape["host"] == host), None)
        if found is None:
            raise errors.PortBindingNotFoundError(
                f"Binding for port {identity[:64]} on host {host[:255]} could not be found."
            )
        return found


class Activate(Binding):
    """``/network/v2.0/ports/{id}/bindings/{host}/activate``."""

    rules = {"PUT": "activate"}
    http_method_names = ["put"]

    def put(self, request: Request, identity: str, host: str) -> Json:
        """Refuse the activation: it is not necessary for the active binding, and otherwise part of a migration."""
        if self.binding(identity, host)["status"] == ACTIVE:
            raise errors.PortBindingAlreadyActiveError(f"Binding for port {identity} on host {host} is already active.")
        raise errors.PortBindingInMigrationError(
            f"Binding for port {identity} on host {host} is activated when the server runs there."
        )


def _hosts(row: Port) -> list[tuple[str, str]]:
    """Return the hosts of a port with the status of each binding."""
    return [(host, status) for host, status in ((row.host, ACTIVE), (row.second_host, INACTIVE)) if host]


def _shape(row: Port, host: str, status: str) -> Json:
    return {
        "host": host,
        "status": status,
        "vif_type": "bridge",
        "vif_details": {"port_filter": True},
        "vnic_type": row.vnic_type,
        "profile": row.binding_profile,
    }


PARTS: Views = {
    "ports/{identity}/bindings": Bindings,
    "ports/{identity}/bindings/{host}": Binding,
    "ports/{identity}/bindings/{host}/activate": Activate,
}
