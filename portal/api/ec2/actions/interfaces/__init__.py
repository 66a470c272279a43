"""Network interfaces: ports that are attached to instances or can be."""
