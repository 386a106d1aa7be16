package ui

import (
	"testing"

	"homelab/lab"
)

func TestPlanned(t *testing.T) {
	app := func(name, cluster, leftOut string) lab.Generated {
		return lab.Generated{Application: lab.Application{Name: name, Cluster: cluster, LeftOut: leftOut}}
	}
	got := planned([]lab.Generated{app("dev-web", "dev", ""), app("root", "in-cluster", ""), app("dev-db", "dev", "no registry"), app("dev-api", "dev", "")})
	const want = `
applications
  dev          dev-web, dev-api
  in-cluster   root
  left out     dev-db
`
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := planned(nil); got != "" {
		t.Errorf("%q without applications", got)
	}
}
