"""Records of Identity: owners of resources, conflicts, the catalog and retention."""
