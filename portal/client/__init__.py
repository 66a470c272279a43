"""The command ``novella``: access to any TCP port of a server, from any place that reaches its cloud.

It is self-contained: no Django, and no other package of this project.
"""
