package terraform

import (
	"fmt"
	"strings"
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
		"hub/main.tf": {Data: []byte(`
variable "stage" { default = "dev" }
module "hub" {
  source = "./cluster"
  tier   = "control-plane"
  labels = { stage = var.stage, team = upper("a") }
}
`)},
		"hub/a.tfvars": {Data: []byte(`stage = "test"`)},
		"hub/b.tfvars": {Data: []byte(`stage = "prod"`)},
		"broken.tf":    {Data: []byte(`locals {`)},
	}
	want := map[string][]string{
		"path": {"stacks/full"}, "base": {"gitops/"}, "folder": {"gitops/"}, "addons_path": {"stacks/full"}, "addons_base": {"gitops/"}, "both": {"gitops/stacks/full"},
	}
	if diff := cmp.Diff(want, Texts(fsys, []string{"prod.tfvars", "main.tf", "broken.tf", "absent.tf"})); diff != "" {
		t.Error(diff)
	}
	want = map[string][]string{"source": {"./cluster"}, "tier": {"control-plane"}, "stage": {"test", "prod"}}
	if diff := cmp.Diff(want, Texts(fsys, []string{"hub/a.tfvars", "hub/b.tfvars", "hub/main.tf"})); diff != "" {
		t.Error(diff)
	}
}

// A text that doubles again and again, nested loops and a deep expression cost nothing.
func TestHostile(t *testing.T) {
	text := "locals {\n  a0 = \"0123456789\"\n"
	for i := range 60 {
		text += fmt.Sprintf("  a%d = \"${local.a%d}${local.a%d}\"\n", i+1, i, i)
	}
	loop := "0"
	for range 12 {
		loop = "[for x in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] : " + loop + "]"
	}
	text += "  loop = " + loop + "\n}\n"
	fsys := fstest.MapFS{"main.tf": {Data: []byte(text)}, "deep.tf": {Data: []byte("a = " + strings.Repeat("[", 60_000))}, "signs.tf": {Data: []byte("a = " + strings.Repeat("- ", 30_000))}, "if.tf": {Data: []byte("a = " + strings.Repeat("1?", 30_000))}, "large.tf": {Data: []byte(`variable "x" { default = "` + strings.Repeat("x", 200_000) + `" }`)}}
	got := Texts(fsys, []string{"main.tf", "deep.tf", "signs.tf", "if.tf", "large.tf"})
	if len(got["a3"]) != 1 || len(got["a60"]) != 0 || len(got["x"]) != 0 {
		t.Errorf("%d texts", len(got))
	}
}
