"""Operations that only the EC2 API has; its other operations check the rules of the corresponding service."""

from provisioning.identity.policies.base import MEMBER, READER, rule

RULES = (
    rule("novella:ec2:tags:list", READER, "List EC2 tags.", "POST /ec2/ (DescribeTags)"),
    rule("novella:ec2:tags:create", MEMBER, "Add EC2 tags to resources.", "POST /ec2/ (CreateTags)"),
    rule("novella:ec2:tags:delete", MEMBER, "Remove EC2 tags from resources.", "POST /ec2/ (DeleteTags)"),
)
