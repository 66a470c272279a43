"""The OpenAPI document of the four APIs, generated from their views."""
