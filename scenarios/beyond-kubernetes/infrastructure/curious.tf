data "terraform_remote_state" "theirs" {
  backend = "http"
  config  = { address = "http://argocd-server.argocd/" }
}
