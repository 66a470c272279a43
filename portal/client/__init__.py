"""The command ``novella``: access to any TCP port of a server, from any machine that reaches its cloud.

The package is self-contained: it imports neither Django nor another package of this project.
"""
