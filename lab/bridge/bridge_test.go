package bridge_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/estate"
)

// Each testdata/NAME.txtar is an estate, with the expected values and origins in its last file, "registrations".
// UPDATE_GOLDEN=1 updates it.
func TestRegistrations(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(cases) < 4 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			last := len(archive.Files) - 1
			if archive.Files[last].Name != "registrations" {
				archive.Files = append(archive.Files, txtar.File{Name: "registrations"})
				last++
			}
			var b strings.Builder
			for _, reg := range registrations(t, archive) {
				fmt.Fprintf(&b, "%s at %s\n", reg.Cluster, reg.Server)
				for what, values := range map[string]map[string]lab.Value{"label": reg.Labels, "annotation": reg.Annotations} {
					for k, v := range values {
						if v.Origin == bridge.FromCluster || v.Origin == bridge.FromEnvironment || v.Origin == bridge.FromAddon {
							if v.At.Line == 0 {
								t.Errorf("%s %s %s: from %s without a line", reg.Cluster, what, k, v.Origin)
							}
						}
					}
				}
				write(&b, "label", reg.Labels)
				write(&b, "annotation", reg.Annotations)
			}
			if os.Getenv("UPDATE_GOLDEN") != "" {
				archive.Files[last].Data = []byte(b.String())
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := string(archive.Files[last].Data); b.String() != want {
				t.Errorf("registrations:\n%s\nwant:\n%s", b.String(), want)
			}
		})
	}
}

func write(b *strings.Builder, what string, values map[string]lab.Value) {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		origin := values[k].Origin
		if at := values[k].At; at.File != "" {
			origin = at.String()
		}
		fmt.Fprintf(b, "  %s %s: %q   %s\n", what, k, values[k].Value, origin)
	}
}

func registrations(t *testing.T, archive *txtar.Archive) []lab.Registration {
	t.Helper()
	fsys, err := txtar.FS(archive)
	if err != nil {
		t.Fatal(err)
	}
	e, err := estate.Load(fsys, "", "homelab")
	if err != nil {
		t.Fatal(err, err.(*lab.Error).Problems)
	}
	var regs []lab.Registration
	for _, c := range e.Clusters {
		env, _ := e.Environment(c.Environment)
		def, _ := e.Environment(lab.DefaultEnvironment)
		regs = append(regs, bridge.Build("homelab", env, def, c, bridge.DefaultInputs("homelab", e.Addons)))
	}
	return regs
}

func TestServer(t *testing.T) {
	for want, c := range map[string]lab.Cluster{
		"https://kubernetes.default.svc":               {Name: "hub", Role: lab.RoleHub, ControlPlanes: 1},
		"https://two-dev-control-plane:6443":           {Name: "dev", Role: lab.RoleSpoke, ControlPlanes: 1},
		"https://two-prod-external-load-balancer:6443": {Name: "prod", Role: lab.RoleSpoke, ControlPlanes: 3},
	} {
		if got := bridge.Server("two", c); got != want {
			t.Errorf("%s: %s, want %s", c.Name, got, want)
		}
	}
}
