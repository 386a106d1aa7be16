package trust_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"homelab/lab"
	"homelab/lab/estate/document"
	"homelab/lab/golden"
	"homelab/lab/trust"
)

const head = "apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec:\n  role: spoke\n  environment: dev\n"

func read(t testing.TB, kind string) lab.Cluster {
	t.Helper()
	c, problems := document.Cluster("clusters/dev/cluster.yaml", []byte(head+"  kind:\n"+indent(kind)), "/home/me/estate")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return c
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ") + "\n"
}

func lines(list []trust.Thing) string {
	var b strings.Builder
	for _, t := range list {
		fmt.Fprintf(&b, "%d: %s\n", t.At.Line, t)
	}
	return b.String()
}

// Each testdata/NAME.txtar has a kind document, and the things that it asks for with their lines in cluster.yaml. UPDATE_GOLDEN=1 updates them.
func TestKindDocuments(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := lines(trust.Of(&lab.Estate{Clusters: []lab.Cluster{read(t, string(archive.Files[0].Data))}}))
			if os.Getenv("UPDATE_GOLDEN") != "" {
				archive.Files = append(archive.Files[:1], txtar.File{Name: "things", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := string(archive.Files[1].Data); got != want {
				t.Errorf("asks for\n%swant\n%s", got, want)
			}
		})
	}
}

// Every field of kind's document is known to ask for something or not, so that a new version of kind cannot add one unseen.
func TestKindsFields(t *testing.T) {
	known := map[string]bool{}
	for _, f := range strings.Fields(`
		Nodes.Image Nodes.Labels Nodes.ExtraMounts.ContainerPath Nodes.ExtraMounts.HostPath Nodes.ExtraMounts.Readonly Nodes.ExtraMounts.Propagation
		Nodes.ExtraPortMappings.ContainerPort Nodes.ExtraPortMappings.HostPort Nodes.ExtraPortMappings.ListenAddress
		Nodes.KubeadmConfigPatches Nodes.KubeadmConfigPatchesJSON6902.Kind Nodes.KubeadmConfigPatchesJSON6902.Patch
		Networking.APIServerAddress Networking.APIServerPort Networking.DNSSearch FeatureGates RuntimeConfig
		KubeadmConfigPatches KubeadmConfigPatchesJSON6902.Kind KubeadmConfigPatchesJSON6902.Patch ContainerdConfigPatches ContainerdConfigPatchesJSON6902`) {
		known[f] = true
	}
	// kind's own words, numbers and subnets, which lab/estate/document checks
	for _, f := range strings.Fields(`
		TypeMeta.Kind TypeMeta.APIVersion Name Nodes.Role Nodes.ExtraMounts.SelinuxRelabel Nodes.ExtraPortMappings.Protocol Networking.IPFamily Networking.PodSubnet
		Networking.ServiceSubnet Networking.DisableDefaultCNI Networking.KubeProxyMode KubeadmConfigPatchesJSON6902.Group KubeadmConfigPatchesJSON6902.Version
		Nodes.KubeadmConfigPatchesJSON6902.Group Nodes.KubeadmConfigPatchesJSON6902.Version`) {
		known[f] = true
	}
	var walk func(at string, of reflect.Type)
	walk = func(at string, of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(at, of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				walk(strings.TrimPrefix(at+"."+of.Field(i).Name, "."), of.Field(i).Type)
			}
		default:
			if !known[at] {
				t.Errorf("nobody knows whether %s asks for something outside", at)
			}
			delete(known, at)
		}
	}
	walk("", reflect.TypeFor[v1alpha4.Cluster]())
	delete(known, "Name")
	for f := range known {
		t.Errorf("kind has no %s", f)
	}
}

func TestSet(t *testing.T) {
	one := trust.Of(&lab.Estate{Clusters: []lab.Cluster{read(t, "nodes: [{extraMounts: [{hostPath: /srv, containerPath: /srv}]}]")}})
	two := trust.Of(&lab.Estate{Clusters: []lab.Cluster{read(t, "\n\nnodes:\n- extraMounts: [{hostPath: /srv, containerPath: /srv}, {hostPath: /data, containerPath: /data}]")}})
	if len(one) != 1 || len(two) != 2 {
		t.Fatal(one, two)
	}
	agreed := trust.Set{one[0].Digest(): true}
	if l := agreed.Lacking(two); len(l) != 1 || !strings.Contains(l[0].What, "/data") {
		t.Errorf("grown: %v", l)
	}
	if l := (trust.Set{two[0].Digest(): true, two[1].Digest(): true}).Lacking(one); len(l) != 0 {
		t.Errorf("shrunk: %v", l)
	}
	writable := read(t, "nodes: [{extraMounts: [{hostPath: /srv, containerPath: /srv, readOnly: true}]}]")
	if l := (trust.Set{trust.Of(&lab.Estate{Clusters: []lab.Cluster{writable}})[0].Digest(): true}).Lacking(one); len(l) != 1 {
		t.Errorf("read-only became writable: %v", l)
	}
	patch := func(image string) lab.Cluster {
		return read(t, "kubeadmConfigPatches: ['{kind: ClusterConfiguration, imageRepository: "+image+"}']")
	}
	a, b := trust.Of(&lab.Estate{Clusters: []lab.Cluster{patch("a")}}), trust.Of(&lab.Estate{Clusters: []lab.Cluster{patch("b")}})
	if l := (trust.Set{a[0].Digest(): true}).Lacking(b); len(l) != 1 {
		t.Errorf("another patch: %v", l)
	}
}

func TestFoldersAndHosts(t *testing.T) {
	dir := t.TempDir()
	estate, other := filepath.Join(dir, "estate"), filepath.Join(dir, "other")
	for _, d := range []string{filepath.Join(estate, "inside"), other} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, filepath.Join(estate, "link")); err != nil {
		t.Fatal(err)
	}
	at := lab.Position{File: "clusters/hub/cluster.yaml", Line: 7}
	repository := func(path string) lab.Repository { return lab.Repository{Path: path, At: at} }
	got := lines(trust.Of(&lab.Estate{
		Dir: estate, Repositories: []lab.Repository{repository(filepath.Join(estate, "inside")), repository(""), repository(estate), repository(other), repository(filepath.Join(estate, "link"))},
		Applications: []lab.Generated{
			{At: at, Others: []string{"https://user:secret@charts.example.com/a", "https://charts.example.com/b", "git@example.com:x.git"}},
			{At: at, Pulls: []string{"ghcr.io/x/y"}},
		},
	}))
	want := "7: folder " + other + ": the lab's forge serves its files to the clusters\n7: folder " + filepath.Join(estate, "link") + ": the lab's forge serves its files to the clusters\n" +
		"7: host https://charts.example.com: lab checks whether it responds\n7: host https://ghcr.io: lab checks whether it responds\n"
	if w := strings.Split(strings.TrimSpace(want), "\n"); !slices.Equal(slices.Sorted(slices.Values(strings.Split(strings.TrimSpace(got), "\n"))), slices.Sorted(slices.Values(w))) {
		t.Errorf("asks for\n%swant\n%s", got, want)
	}
}

// Keys that repeat would be compared with one another: 13,000 of them make gigabytes of errors.
func TestRepeatedKeys(t *testing.T) {
	many := strings.Repeat("a: 1\n", 12_000)
	for name, kind := range map[string]string{"document": many, "patch": "kubeadmConfigPatches:\n- |\n  " + strings.ReplaceAll(many, "\n", "\n  ")} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		things := trust.Of(&lab.Estate{Clusters: []lab.Cluster{{Name: "dev", File: "x", Kind: []byte(kind)}}})
		runtime.ReadMemStats(&after)
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; len(things) != 1 || made > 100 {
			t.Errorf("%s: %+v, %d MiB allocated", name, things, made)
		}
	}
}

// FuzzKindDocument feeds documents that never passed lab/estate/document.
func FuzzKindDocument(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		if archive, err := txtar.ParseFile(file); err == nil {
			f.Add(archive.Files[0].Data)
		}
	}
	golden.Hostile(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, thing := range trust.Of(&lab.Estate{Clusters: []lab.Cluster{{Name: "dev", File: "x", Kind: data}}}) {
			if thing.What == "" || thing.Gives == "" || thing.At.File == "" || len(thing.Digest()) != 64 {
				t.Errorf("%+v", thing)
			}
		}
	})
}
