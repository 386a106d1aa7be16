package cluster_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"homelab/lab"
	"homelab/lab/cluster"
)

func kubeconfig(t *testing.T, file, name string) {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "t"}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
}

func TestMergeKubeconfigs(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", mine)
	kubeconfig(t, mine, "work")
	theirs := filepath.Join(dir, "dev.yaml")
	kubeconfig(t, theirs, "kind-demo-dev")
	before, err := os.ReadFile(theirs)
	if err != nil {
		t.Fatal(err)
	}

	list, err := cluster.Kubeconfigs("demo", dir)
	if err != nil || len(list) != 1 || list[0] != (cluster.Kubeconfig{Cluster: "dev", Path: theirs, Context: "kind-demo-dev", Made: true}) {
		t.Fatalf("%v, %v", list, err)
	}
	if err := cluster.MergeKubeconfigs(list); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.LoadFromFile(mine)
	if err != nil {
		t.Fatal(err)
	}
	if got.CurrentContext != "work" || got.Contexts["work"] == nil || got.Contexts["kind-demo-dev"] == nil || got.AuthInfos["kind-demo-dev"] == nil {
		t.Errorf("%+v", got)
	}
	if after, err := os.ReadFile(theirs); err != nil || string(after) != string(before) {
		t.Errorf("lab's own file was written: %v", err)
	}
}

// A context that is not lab's own belongs to an existing cluster, which is already in its owner's kubeconfig.
func TestMergeKubeconfigsExisting(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", mine)
	kubeconfig(t, filepath.Join(dir, "dev.yaml"), "kind-demo-dev")
	kubeconfig(t, filepath.Join(dir, "edge.yaml"), "theirs")
	if err := os.WriteFile(filepath.Join(dir, "torn.yaml"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := cluster.Kubeconfigs("demo", dir)
	if err != nil || len(list) != 3 || list[1].Made || list[1].Context != "theirs" || !list[2].Made || list[2].Context != "kind-demo-torn" {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := cluster.MergeKubeconfigs(list[2:]); err == nil || !strings.Contains(err.Error(), "cluster torn") {
		t.Errorf("unreadable file: %v", err)
	}
	if err := cluster.MergeKubeconfigs(list[:2]); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.LoadFromFile(mine)
	if err != nil {
		t.Fatal(err)
	}
	if got.Contexts["theirs"] != nil || got.Clusters["theirs"] != nil || got.Clusters["kind-demo-dev"] == nil || got.CurrentContext != "" {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(mine, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cluster.MergeKubeconfigs(list[:1]); err == nil {
		t.Error("overwrote an unreadable kubeconfig")
	}
	if text, err := os.ReadFile(mine); err != nil || string(text) != "{" {
		t.Errorf("%s, %v", text, err)
	}
}

func TestChooseKubeconfigs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"dev", "prod"} {
		kubeconfig(t, filepath.Join(dir, name+".yaml"), "kind-demo-"+name)
	}
	for _, c := range []struct {
		dir   string
		names []string
		want  []string
		cure  string
	}{
		{dir, nil, []string{"dev", "prod"}, ""},
		{dir, []string{"prod"}, []string{"prod"}, ""},
		{dir, []string{"prod", "stage"}, nil, "there are: dev, prod"},
		{t.TempDir(), nil, nil, "lab up makes them"},
	} {
		list, err := cluster.ChooseKubeconfigs("demo", c.dir, c.names, "lab up")
		var names []string
		for _, k := range list {
			names = append(names, k.Cluster)
		}
		var e *lab.Error
		if errors.As(err, &e); !slices.Equal(names, c.want) || (err == nil) != (c.cure == "") || err != nil && e.Cure != c.cure {
			t.Errorf("%q: %q, %v", c.names, names, err)
		}
	}
}
