"""*Copy as*: a click of the dashboard as API calls, written for ``openstack``, curl, Python, Terraform and Ansible.

A page declares the ``Call``s that its form sends. ``kinds`` declares each kind of call once, with the names
of its values in each form; the texts in ``forms`` follow from these declarations.
"""
