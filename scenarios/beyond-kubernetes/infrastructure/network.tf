locals { network = "vpc-0a0a0a0a" }
