"""Clients of AWS against a cloud's EC2 API: Ansible's amazon.aws, and Terraform's provider aws."""
