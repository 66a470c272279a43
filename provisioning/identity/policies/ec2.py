"""What only the EC2 API does; everything else there asks the rules of the service that does it."""

from provisioning.identity.policies.base import MEMBER, READER, rule

RULES = (
    rule("novella:ec2:tags:list", READER, "List EC2 tags.", "POST /ec2/ (DescribeTags)"),
    rule("novella:ec2:tags:create", MEMBER, "Give resources EC2 tags.", "POST /ec2/ (CreateTags)"),
    rule("novella:ec2:tags:delete", MEMBER, "Take EC2 tags away.", "POST /ec2/ (DeleteTags)"),
)
