"""The dialect of the Networking API: Neutron's bodies, lists, tags and revisions."""
