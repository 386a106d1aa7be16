resource "terraform_data" "cluster" {}

output "id" {
  value = terraform_data.cluster.id
}

output "account_id" {
  value = "012345678901"
}

output "node_count" {
  value = 3
}

output "private" {
  value = true
}

output "subnets" {
  value = ["subnet-1", "subnet-2"]
}

output "clusters" {
  value = { prod = { vpc_id = "vpc-0123456789abcdef0" } }
}

output "password" {
  value     = "hunter2"
  sensitive = true
}
