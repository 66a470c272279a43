"""Records for the EC2 API: ids, tags, and used signatures."""
