package fluxset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"homelab/lab/flux"
	"homelab/lab/strict"
)

const shopBridge = "# what only the infrastructure knows\nregion: \"${region}\"\nzone: ${region}a\n"

// The bridge layer is the last, has variables substituted, and its name depends on them.
func TestBridgeLayer(t *testing.T) {
	for name, release := range map[string]string{"after others": shop, "alone": strings.Replace(shop, "  valuesFrom:\n  - {kind: ConfigMap, name: shop-values, valuesKey: default.yaml}\n", "", 1)} {
		t.Run(name, func(t *testing.T) {
			fsys, clusters := files(t, map[string]string{BridgeFile("shop"): shopBridge, "addons/shop/flux/release.yaml": release})
			written(t, fsys, clusters)
			names := map[string]bool{}
			for _, digest := range []string{"1", "2"} {
				w := world(fsys)
				vars := w.Vars
				w.Vars = func(namespace, name string) map[string]string {
					m := vars(namespace, name)
					if m != nil {
						m[flux.VarsDigest] = namespace + digest
					}
					return m
				}
				x := Expand(w, "clusters/hub/flux-system/gotk-sync.yaml")
				if len(x.Problems) > 0 {
					t.Fatal(x.Problems)
				}
				for _, a := range x.Applications {
					if a.Name != "shop" {
						continue
					}
					if len(a.Unset) > 0 {
						t.Errorf("%v", a.Unset)
					}
					last, layer := "", ""
					for _, o := range a.Objects {
						name := strict.Text(o.Node, "metadata", "name")
						switch {
						case strict.Text(o.Node, "kind") == "HelmRelease":
							from := strict.Get(o.Node, "spec", "valuesFrom").Content
							last = strict.Text(from[len(from)-1], "name")
							if key := strict.Text(from[len(from)-1], "valuesKey"); key != "bridge.yaml" {
								t.Errorf("the last layer is %s", key)
							}
						case strings.HasPrefix(name, "shop-bridge-"):
							layer = name
							if want := strings.ReplaceAll(shopBridge, "${region}", a.Namespace); strict.Text(o.Node, "data", "bridge.yaml") != want || strict.Text(o.Node, "immutable") != "true" {
								t.Errorf("%q, immutable %s", strict.Text(o.Node, "data", "bridge.yaml"), strict.Text(o.Node, "immutable"))
							}
						case strings.HasPrefix(name, "shop-values-") && strict.Text(o.Node, "metadata", "annotations", "kustomize.toolkit.fluxcd.io/substitute") != "disabled":
							t.Error("variables substituted in other layers")
						}
					}
					if last == "" || last != layer || names[layer] {
						t.Errorf("the release reads %q, the layer is %q", last, layer)
					}
					names[layer] = true
				}
			}
			if len(names) != 4 {
				t.Errorf("%v", names)
			}
		})
	}
}

func TestBridgeProblems(t *testing.T) {
	for name, c := range map[string]struct {
		addon, text string
		want        []string
	}{
		"unset variable":           {"shop", "a: 1\nb: ${zone}\nc: ${zone}\n", []string{"addons/shop/flux/values/bridge.yaml:2 variable zone is not set"}},
		"a default":                {"shop", "a: ${zone:=b}\nb: 2\n", nil},
		"no YAML":                  {"shop", "a: [\n", []string{"addons/shop/flux/values/bridge.yaml:1 not YAML"}},
		"no values":                {"shop", "- a\n", []string{"addons/shop/flux/values/bridge.yaml:1 contains no values"}},
		"invalid substituted YAML": {"shop", "a: x\nb: ${odd}\n", []string{"addons/shop/flux/values/bridge.yaml:2 "}},
		"manifests":                {"quota", "a: 1\n", []string{"addons/quota/flux/values/bridge.yaml:1 addon quota has no HelmRelease to take values"}},
	} {
		t.Run(name, func(t *testing.T) {
			fsys, clusters := files(t, map[string]string{BridgeFile(c.addon): c.text})
			clusters[0].Addons = nil
			written(t, fsys, clusters)
			problems := CheckBridge(fsys, c.addon)
			if len(problems) == 0 {
				w := world(fsys)
				w.Vars = func(string, string) map[string]string {
					return map[string]string{"region": "eu", flux.VarsDigest: "1", "odd": "y: z"}
				}
				x := Expand(w, "clusters/hub/flux-system/gotk-sync.yaml")
				problems = x.Problems
				for _, a := range x.Applications {
					for _, u := range a.Unset {
						problems = append(problems, u.Problem())
					}
				}
			}
			var got []string
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%s:%d %s", p.File, p.Line, p.Message))
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
