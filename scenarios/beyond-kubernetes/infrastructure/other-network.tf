locals { network = "vpc-0b0b0b0b" }
