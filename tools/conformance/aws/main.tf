# Every resource of the AWS provider that people describe a small project with.
#
# Apply, plan (no changes), apply with -var change=true, plan (no changes), destroy.  Keys come from AWS_ACCESS_KEY_ID and
# AWS_SECRET_ACCESS_KEY.

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

variable "endpoint" {
  description = "The address of the EC2 API, as the catalog has it"
  type        = string
}

variable "region" {
  type    = string
  default = "RegionOne"
}

variable "image_name" {
  description = "The name of an image that boots, patterns allowed"
  type        = string
  default     = "novella-guest*"
}

variable "instance_types" {
  description = "A flavor, and one to resize to"
  type        = list(string)
  default     = ["m1.nano", "m1.tiny"]
}

variable "root_size" {
  description = "GiB of root volumes"
  type        = number
  default     = 2
}

variable "change" {
  description = "Whether what can be changed in place differs from what the first apply created"
  type        = bool
  default     = false
}

provider "aws" {
  region                 = var.region
  skip_region_validation = true

  endpoints {
    ec2 = var.endpoint
    sts = var.endpoint
  }

  default_tags {
    tags = {
      Environment = var.change ? "staging" : "conformance"
    }
  }
}

data "aws_caller_identity" "current" {}

data "aws_availability_zones" "available" {
  state = "available"
}

data "aws_ami" "image" {
  most_recent = true

  filter {
    name   = "name"
    values = [var.image_name]
  }
}

data "aws_ec2_instance_type" "first" {
  instance_type = var.instance_types[0]
}

resource "aws_vpc" "main" {
  cidr_block           = "10.81.0.0/16"
  enable_dns_support   = true
  enable_dns_hostnames = true

  tags = {
    Name = "conformance"
  }
}

resource "aws_default_security_group" "main" {
  vpc_id = aws_vpc.main.id
}

resource "aws_internet_gateway" "main" {
  vpc_id = aws_vpc.main.id

  tags = {
    Name = "conformance"
  }
}

resource "aws_subnet" "first" {
  vpc_id     = aws_vpc.main.id
  cidr_block = "10.81.1.0/24"

  tags = {
    Name = "first"
  }
}

resource "aws_subnet" "second" {
  vpc_id            = aws_vpc.main.id
  cidr_block        = "10.81.2.0/24"
  availability_zone = data.aws_availability_zones.available.names[0]
}

resource "aws_default_route_table" "main" {
  default_route_table_id = aws_vpc.main.default_route_table_id

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.main.id
  }
}

resource "aws_route_table_association" "first" {
  route_table_id = aws_vpc.main.default_route_table_id
  subnet_id      = aws_subnet.first.id
}

resource "aws_vpc" "spare" {
  cidr_block = "10.82.0.0/16"
}

resource "aws_internet_gateway" "spare" {}

resource "aws_internet_gateway_attachment" "spare" {
  vpc_id              = aws_vpc.spare.id
  internet_gateway_id = aws_internet_gateway.spare.id
}

resource "aws_route" "out" {
  route_table_id         = aws_vpc.spare.main_route_table_id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway_attachment.spare.internet_gateway_id
}

resource "aws_security_group" "web" {
  name        = "web"
  description = "Served to everybody"
  vpc_id      = aws_vpc.main.id

  ingress {
    description = "HTTP"
    from_port   = 80
    to_port     = 80
    protocol    = "tcp"
    cidr_blocks = var.change ? ["0.0.0.0/0", "10.0.0.0/8"] : ["0.0.0.0/0"]
  }

  ingress {
    from_port = 0
    to_port   = 0
    protocol  = "-1"
    self      = true
  }

  egress {
    from_port        = 0
    to_port          = 0
    protocol         = "-1"
    cidr_blocks      = ["0.0.0.0/0"]
    ipv6_cidr_blocks = ["::/0"]
  }

  tags = {
    Name = "web"
  }
}

resource "aws_security_group" "data" {
  name_prefix = "data-"
  vpc_id      = aws_vpc.main.id
}

resource "aws_security_group_rule" "ping" {
  type              = "ingress"
  security_group_id = aws_security_group.data.id
  from_port         = 8
  to_port           = 0
  protocol          = "icmp"
  cidr_blocks       = ["10.81.0.0/16"]
}

resource "aws_security_group_rule" "from_web" {
  type                     = "ingress"
  security_group_id        = aws_security_group.data.id
  source_security_group_id = aws_security_group.web.id
  from_port                = 5432
  to_port                  = 5432
  protocol                 = "tcp"
}

resource "aws_vpc_security_group_ingress_rule" "ssh" {
  security_group_id = aws_security_group.data.id
  cidr_ipv4         = "10.81.0.0/16"
  from_port         = 22
  to_port           = 22
  ip_protocol       = "tcp"
  description       = var.change ? "SSH from within" : "SSH"
}

resource "aws_vpc_security_group_ingress_rule" "of_web" {
  security_group_id            = aws_security_group.data.id
  referenced_security_group_id = aws_security_group.web.id
  from_port                    = 6379
  to_port                      = 6379
  ip_protocol                  = "tcp"
}

resource "aws_vpc_security_group_egress_rule" "all" {
  security_group_id = aws_security_group.data.id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"
}

resource "aws_key_pair" "main" {
  key_name   = "conformance"
  public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKFfEe3iM3Iy5uYvKzr1K5ZW1Ypq0u3x2SVPTqgkVQCq conformance@example.org\n"
}

resource "aws_network_interface" "spare" {
  subnet_id       = aws_subnet.second.id
  description     = var.change ? "spare, changed" : "spare"
  private_ips     = ["10.81.2.20"]
  security_groups = [aws_security_group.web.id]
}

resource "aws_instance" "web" {
  ami                    = data.aws_ami.image.id
  instance_type          = var.change ? var.instance_types[1] : var.instance_types[0]
  key_name               = aws_key_pair.main.key_name
  subnet_id              = aws_subnet.first.id
  private_ip             = "10.81.1.30"
  vpc_security_group_ids = var.change ? [aws_security_group.web.id, aws_security_group.data.id] : [aws_security_group.web.id]
  user_data              = "#!/bin/sh\ntrue\n"

  root_block_device {
    volume_size           = var.root_size
    volume_type           = "gp3"
    delete_on_termination = true
  }

  ebs_block_device {
    device_name           = "/dev/sdf"
    volume_size           = 1
    volume_type           = "gp2"
    delete_on_termination = true
  }

  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
  }

  volume_tags = {
    Of = "web"
  }

  tags = {
    Name = var.change ? "web, renamed" : "web"
  }
}

resource "aws_instance" "plain" {
  ami           = data.aws_ami.image.id
  instance_type = var.instance_types[0]

  network_interface {
    network_interface_id = aws_network_interface.spare.id
    device_index         = 0
  }

  tags = {
    Name = "plain"
  }
}

resource "aws_eip" "web" {
  domain   = "vpc"
  instance = aws_instance.web.id

  tags = {
    Name = "web"
  }

  depends_on = [aws_default_route_table.main]
}

resource "aws_eip" "plain" {
  domain = "vpc"
}

resource "aws_eip_association" "plain" {
  allocation_id        = aws_eip.plain.id
  network_interface_id = aws_network_interface.spare.id

  depends_on = [aws_default_route_table.main, aws_instance.plain]
}

resource "aws_ebs_volume" "data" {
  availability_zone = aws_instance.plain.availability_zone
  size              = var.change ? 2 : 1
  type              = "gp3"

  tags = {
    Name = "data"
  }
}

resource "aws_volume_attachment" "data" {
  device_name = "/dev/sdh"
  volume_id   = aws_ebs_volume.data.id
  instance_id = aws_instance.plain.id
}

resource "aws_ebs_volume" "source" {
  availability_zone = data.aws_availability_zones.available.names[0]
  size              = 1
  type              = "io1"
  iops              = 100
}

resource "aws_ebs_snapshot" "source" {
  volume_id   = aws_ebs_volume.source.id
  description = "Of the source"

  tags = {
    Name = "source"
  }
}

resource "aws_ebs_volume" "copy" {
  availability_zone = data.aws_availability_zones.available.names[0]
  snapshot_id       = aws_ebs_snapshot.source.id
}

resource "aws_ami_from_instance" "plain" {
  name                    = "conformance-plain"
  source_instance_id      = aws_instance.plain.id
  snapshot_without_reboot = true

  depends_on = [aws_volume_attachment.data]
}

data "aws_instance" "web" {
  instance_id = aws_instance.web.id
}

data "aws_vpc" "main" {
  id = aws_vpc.main.id
}

data "aws_subnets" "main" {
  filter {
    name   = "vpc-id"
    values = [aws_vpc.main.id]
  }

  depends_on = [aws_subnet.first, aws_subnet.second]
}

data "aws_security_group" "default" {
  vpc_id = aws_vpc.main.id
  name   = "default"
}

data "aws_route_table" "main" {
  vpc_id = aws_vpc.main.id

  filter {
    name   = "association.main"
    values = ["true"]
  }

  depends_on = [aws_default_route_table.main]
}

data "aws_ebs_volume" "root" {
  filter {
    name   = "volume-id"
    values = [aws_instance.web.root_block_device[0].volume_id]
  }
}

output "account" {
  value = data.aws_caller_identity.current.account_id
}

output "public_ip" {
  value = aws_eip.web.public_ip
}
