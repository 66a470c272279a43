# A network with a gateway, a server with a volume, an address and a key. `word` is what the second apply changes.
terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

variable "url" {}
variable "image" {}
variable "small" {}
variable "large" {}
variable "public_key" {}
variable "word" {}

provider "aws" {
  skip_metadata_api_check = true
  skip_region_validation  = true

  endpoints {
    ec2 = var.url
    sts = var.url
  }
  default_tags {
    tags = { made_by = "conformance" }
  }
}

resource "aws_vpc" "net" {
  cidr_block = "10.78.0.0/16"
  tags       = { Name = "conformance", word = var.word }
}

resource "aws_subnet" "net" {
  vpc_id     = aws_vpc.net.id
  cidr_block = "10.78.1.0/24"
  tags       = { Name = "conformance" }
}

resource "aws_internet_gateway" "net" {
  vpc_id = aws_vpc.net.id
}

resource "aws_default_route_table" "net" {
  default_route_table_id = aws_vpc.net.default_route_table_id

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.net.id
  }
}

resource "aws_route_table_association" "net" {
  subnet_id      = aws_subnet.net.id
  route_table_id = aws_default_route_table.net.id
}

resource "aws_security_group" "web" {
  name        = "conformance"
  description = "of a suite"
  vpc_id      = aws_vpc.net.id

  ingress {
    from_port   = 22
    to_port     = 22
    protocol    = "tcp"
    cidr_blocks = var.word == "first" ? ["0.0.0.0/0"] : ["10.0.0.0/8", "192.168.0.0/16"]
  }
  ingress {
    from_port = 5432
    to_port   = 5432
    protocol  = "tcp"
    self      = true
  }
  egress {
    from_port   = 0
    to_port     = 0
    protocol    = "-1"
    cidr_blocks = ["0.0.0.0/0"]
  }
}

resource "aws_key_pair" "key" {
  key_name   = "conformance"
  public_key = var.public_key

  lifecycle {
    ignore_changes = [public_key] # an import cannot read it
  }
}

resource "aws_instance" "web" {
  ami                    = var.image
  instance_type          = var.word == "first" ? var.small : var.large
  subnet_id              = aws_subnet.net.id
  vpc_security_group_ids = [aws_security_group.web.id]
  key_name               = aws_key_pair.key.key_name
  tags                   = { Name = "conformance", word = var.word }

  lifecycle {
    ignore_changes = [user_data_replace_on_change]
  }
}

resource "aws_ebs_volume" "data" {
  availability_zone = aws_instance.web.availability_zone
  size              = var.word == "first" ? 1 : 2
  type              = "gp3"
  tags              = { Name = "conformance" }
}

resource "aws_volume_attachment" "data" {
  device_name = "/dev/sdf"
  volume_id   = aws_ebs_volume.data.id
  instance_id = aws_instance.web.id
}

resource "aws_eip" "web" {
  instance   = aws_instance.web.id
  domain     = "vpc"
  depends_on = [aws_internet_gateway.net]
}
