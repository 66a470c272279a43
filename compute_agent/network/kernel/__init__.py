"""The kernel's objects: links, addresses, namespaces, rules and tracked connections."""
