"""Services that only the EC2 API uses: VPCs, internet gateways, metadata options of servers.

They combine services of networks and servers, and are above them; ``provisioning.ec2`` has the records of EC2.
"""
