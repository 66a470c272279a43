"""Images: describe, create from instances and snapshots, share and deregister."""
