"""Settings of the frameworks that the APIs use."""

from typing import Any

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["portal.api.common.bodies.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "portal.api.openapi.operations.OperationSchema",
    "DEFAULT_PARSER_CLASSES": ["portal.api.common.bodies.JSONParser"],
    "UNAUTHENTICATED_USER": None,
}

SPECTACULAR_SETTINGS: dict[str, Any] = {
    "OAS_VERSION": "3.1.0",
    "TITLE": "Novella",
    "SCHEMA_PATH_PREFIX": "/",
    "SORT_OPERATIONS": False,
    "POSTPROCESSING_HOOKS": [],
}
"""Settings of the generated OpenAPI document."""
