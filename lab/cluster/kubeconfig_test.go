package cluster_test

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

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

func TestMergeKeepsWhatIsThere(t *testing.T) {
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
		t.Errorf("the lab's own file was written: %v", err)
	}
}
