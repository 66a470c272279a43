"""The connections of a live migration between two hosts: one for control, and one for each stream of data.

The receiving host listens at one port. Both sides authenticate with their hosts' certificates, and the receiver accepts
only the host that the portal has named. The first frame of a connection states its purpose. Streams are spliced
with local sockets of the hypervisors, so that no hypervisor listens to the network.
"""
