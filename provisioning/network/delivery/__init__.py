"""Sends documents of networks, routers, floating IPs and security groups to hosts.

``needs`` finds the hosts that need a subject, ``documents`` builds its document, ``sending`` sends it if it differs
from the last one, and ``handlers`` processes the results.  Services report changes with ``network.marks.mark``.
"""
