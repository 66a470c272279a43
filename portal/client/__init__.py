"""The command ``novella``: any TCP port of a server, from wherever its cloud can be reached.

It stands alone: no Django, and nothing else of this project.
"""
