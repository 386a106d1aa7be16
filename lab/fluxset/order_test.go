package fluxset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
)

// manifestsOf returns a HelmRelease for each addon with the given lines, or manifests if these have a kind.
func manifestsOf(addons map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, rest := range addons {
		text := rest
		if !strings.Contains(rest, "kind:") {
			text = "kind: HelmRelease\nmetadata:\n  name: " + name + "\n" + rest
		}
		fsys["addons/"+name+"/flux/release.yaml"] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestReadOrder(t *testing.T) {
	for name, c := range map[string]struct {
		addons   map[string]string
		order    string // "addon: needs", "?" after optional ones
		problems []string
	}{
		"none": {map[string]string{"a": ""}, "", nil},
		"a release": {
			map[string]string{"a": "", "b": "spec:\n  dependsOn: [{name: a}]\n"},
			"b: a at addons/b/flux/release.yaml:5:15", nil,
		},
		"renamed release": {
			map[string]string{"a": "kind: HelmRelease\nmetadata: {name: controller}\n", "b": "spec:\n  dependsOn: [{name: controller}]\n"},
			"b: a at addons/b/flux/release.yaml:5:15", nil,
		},
		"manifests": {
			map[string]string{"crds": "kind: CustomResourceDefinition\n", "b": "  annotations: {lab.homelab/needs: crds}\n"},
			"b: crds at addons/b/flux/release.yaml:4:36", nil,
		},
		"several, optional, duplicate": {
			map[string]string{"a": "", "b": "", "c": "  annotations: {lab.homelab/after: 'a, b'}\nspec:\n  dependsOn: [{name: a}]\n"},
			"c: a at addons/c/flux/release.yaml:6:15, b? at addons/c/flux/release.yaml:4:36", nil,
		},
		"same addon, other namespace": {
			map[string]string{"a": "spec: {dependsOn: [{name: a2}, {name: x, namespace: y}]}\n---\nkind: HelmRelease\nmetadata: {name: a2}\n"},
			"", nil,
		},
		"unknown": {
			map[string]string{"karpenter": "", "b": "  annotations: {lab.homelab/needs: zzz, lab.homelab/after: karpentr}\nspec:\n  dependsOn: [{name: karpentr}, {name: b}]\n"},
			"",
			[]string{
				`addons/b/flux/release.yaml:6:15: HelmRelease b depends on karpentr, which is not a HelmRelease of any addon: did you mean "karpenter"?`,
				"addons/b/flux/release.yaml:6:33: HelmRelease b depends on itself",
				`addons/b/flux/release.yaml:4:36: lab.homelab/needs: "zzz" is not an addon with manifests for Flux: there are b, karpenter`,
				`addons/b/flux/release.yaml:4:60: lab.homelab/after: "karpentr" is not an addon with manifests for Flux: did you mean "karpenter"?`,
			},
		},
		"release depends on manifests": {
			map[string]string{"crds": "kind: CustomResourceDefinition\n", "b": "spec:\n  dependsOn: [{name: crds}]\n"},
			"",
			[]string{"addons/b/flux/release.yaml:5:15: HelmRelease b depends on addon crds, which is not a HelmRelease: use the annotation lab.homelab/needs: crds"},
		},
		"rings": {
			map[string]string{
				"a": "spec: {dependsOn: [{name: c}]}\n", "b": "spec: {dependsOn: [{name: a}]}\n", "c": "  annotations: {lab.homelab/after: b}\n",
				"d": "  annotations: {lab.homelab/needs: 'd, a'}\n",
				"e": "spec: {dependsOn: [{name: f}]}\n", "f": "spec: {dependsOn: [{name: e}]}\n",
			},
			"a: c at addons/a/flux/release.yaml:4:20; b: a at addons/b/flux/release.yaml:4:20; c: b? at addons/c/flux/release.yaml:4:36; " +
				"d: a at addons/d/flux/release.yaml:4:36; e: f at addons/e/flux/release.yaml:4:20; f: e at addons/f/flux/release.yaml:4:20",
			[]string{
				"addons/d/flux/release.yaml:4:36: addon d needs itself",
				"addons/b/flux/release.yaml:4:20: dependency cycle: a needs c needs b needs a: remove one of these dependencies",
				"addons/f/flux/release.yaml:4:20: dependency cycle: e needs f needs e: remove one of these dependencies",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			order, problems := ReadOrder(manifestsOf(c.addons))
			var got []string
			for addon, needs := range order {
				var list []string
				for _, n := range needs {
					mark := ""
					if n.Optional {
						mark = "?"
					}
					list = append(list, fmt.Sprintf("%s%s at %s", n.Addon, mark, n.At))
				}
				got = append(got, addon+": "+strings.Join(list, ", "))
			}
			slices.Sort(got)
			if order := strings.Join(got, "; "); order != c.order {
				t.Errorf("order %s\nwant %s", order, c.order)
			}
			var messages []string
			for _, p := range problems {
				messages = append(messages, lab.Problems{p}.Error())
			}
			if !slices.Equal(messages, c.problems) {
				t.Errorf("problems\n%s\nwant\n%s", strings.Join(messages, "\n"), strings.Join(c.problems, "\n"))
			}
		})
	}
}

// Kustomizations only depend on those of the same cluster.
func TestFilesDependOn(t *testing.T) {
	fsys := manifestsOf(map[string]string{"crds": "kind: CustomResourceDefinition\n", "karpenter": "", "shop": "  annotations: {lab.homelab/needs: crds, lab.homelab/after: karpenter}\n"})
	files, err := Files(fsys, []lab.Cluster{
		{Name: "hub", Role: lab.RoleHub, Addons: map[string]bool{"shop": true, "crds": true, "karpenter": true}},
		{Name: "dev", Role: lab.RoleSpoke, Addons: map[string]bool{"shop": true, "crds": true, "karpenter": false}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"clusters/hub/flux.yaml": "  dependsOn:\n  - name: crds\n  - name: karpenter\n",
		"clusters/dev/flux.yaml": "  dependsOn:\n  - name: crds\n  interval:",
	} {
		if !strings.Contains(files[file], want) || strings.Count(files[file], "dependsOn:") != 1 {
			t.Errorf("%s: want only %q:\n%s", file, want, files[file])
		}
	}
}
