terraform {
  required_providers {
    local = { source = "hashicorp/local" }
  }
}

resource "terraform_data" "network" {
  input = local.network
}

resource "local_file" "page" {
  filename        = "/world/index.html"
  file_permission = "0644"
  content         = "network ${terraform_data.network.output}\n"
}

output "aws_vpc_id" {
  value = terraform_data.network.output
}
