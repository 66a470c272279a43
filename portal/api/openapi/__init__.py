"""The OpenAPI document of the four APIs, made from their views."""
