package ui

import (
	"strings"
	"testing"
	"time"

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

func outside() []Thing {
	return []Thing{{Kind: "mount", Cluster: "dev", What: "/srv at /data", Gives: "read and write access to its files", File: "clusters/dev/cluster.yaml", Line: 9}}
}

func TestStatusUntrusted(t *testing.T) {
	text := statusText(Status{Lab: "demo", Untrusted: append(outside(), Thing{Kind: "host", What: "https://\x1b[2Jx", Gives: "lab checks whether it responds", File: "a.yaml", Line: 1})}, 0, false)
	for _, want := range []string{"\nnot trusted yet; lab up asks\n", "\n  clusters/dev/cluster.yaml:9: cluster dev: mount /srv at /data: read and write access to its files\n", "\n  a.yaml:1: host https://"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
}

func TestStatusCertificates(t *testing.T) {
	text := statusText(Status{Lab: "demo", Clusters: StatusClusters([]lab.ClusterState{{Name: "dev", Exists: true, CertificatesEnd: time.Unix(0, 0)}, {Name: "prod"}, {Name: "stage", CertificatesEnd: time.Unix(0, 0), Renew: "it does"}})}, 0, false)
	if !strings.Contains(text, "\ncluster stage: its certificates expired on 1970-01-01; lab up renews them\n") {
		t.Error(text)
	}
	if !strings.Contains(text, "\ncluster dev: its certificates expired on 1970-01-01; lab up --recreate dev issues new ones") || strings.Contains(text, "cluster prod") {
		t.Error(text)
	}
}
