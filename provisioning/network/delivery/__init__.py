"""Tells hosts what they need to know of networks, routers, floating IPs and security groups.

``needs`` says which hosts need what, ``documents`` writes it down for one of them, ``sending`` commands it when it is
not what the host was told last, ``handlers`` takes the ends.  Whoever changes something calls ``network.marks.mark``.
"""
