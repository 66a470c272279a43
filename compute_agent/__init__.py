"""The host's side of Novella: connects to the portal and drives the hypervisor. It uses no Django, database
or queue.
"""
