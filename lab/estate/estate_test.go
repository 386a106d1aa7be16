package estate

import (
	"os"
	"testing"

	"homelab/lab"
)

func load(t *testing.T, dir string) *lab.Estate {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	e, err := Load(root.FS(), dir, "homelab")
	if err != nil {
		t.Fatalf("%v\n%v", err, err.(*lab.Error).Problems)
	}
	return e
}

func TestDefaultEstate(t *testing.T) {
	e := load(t, "../..")
	if got := len(e.Clusters); got != 4 || e.Hub().Name != "hub" {
		t.Errorf("%d clusters, hub %q", got, e.Hub().Name)
	}
	podinfo, _ := e.Addon("podinfo")
	for env, want := range map[string]string{"": "6.7.0", "dev": "6.9.2", "staging": "6.7.0", "prod": "6.7.0"} {
		if got, at := podinfo.Version(env); got != want || at.Line == 0 {
			t.Errorf("podinfo in %q: version %q at %s, want %q", env, got, at, want)
		}
	}
	if identity, _ := e.Addon("identity"); identity.Path != "addons/identity/chart" || identity.Chart != "" {
		t.Errorf("identity: %+v", identity)
	}
	if ms, _ := e.Addon("metrics-server"); ms.Namespace != "kube-system" || ms.Repository != "" {
		t.Errorf("metrics-server: %+v", ms)
	}
}
