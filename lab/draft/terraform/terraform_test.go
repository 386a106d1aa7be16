package terraform

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestTexts(t *testing.T) {
	fsys := fstest.MapFS{
		"main.tf": {Data: []byte(`
variable "path" { default = "stacks/small" }
variable "base" { default = "gitops/" }
variable "count" { default = 3 }
variable "secret" {}
locals {
  folder   = local.base
  base     = var.base
  unknown  = module.x.path
  metadata = merge({ "addons_path" = var.path }, { addons_base = local.folder, both = "${local.base}${var.path}", run = file("/etc/passwd"), of = module.x.y })
}
`)},
		"prod.tfvars": {Data: []byte(`path = "stacks/full"`)},
		"broken.tf":   {Data: []byte(`locals {`)},
	}
	want := map[string][]string{
		"path": {"stacks/full"}, "base": {"gitops/"}, "folder": {"gitops/"}, "addons_path": {"stacks/full"}, "addons_base": {"gitops/"}, "both": {"gitops/stacks/full"},
	}
	if diff := cmp.Diff(want, Texts(fsys, []string{"prod.tfvars", "main.tf", "broken.tf", "absent.tf"})); diff != "" {
		t.Error(diff)
	}
}
