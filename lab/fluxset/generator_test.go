package fluxset

import (
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab/flux"
	"homelab/lab/strict"
)

// artifactOf returns a Kustomization of an artifact.
func artifactOf(name, more string) string {
	return "---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: " + name + ", namespace: flux-system}\n" +
		"spec: {path: ./, prune: true, interval: 1m, sourceRef: {kind: ExternalArtifact, name: " + name + "}" + more + "}\n"
}

func generatorOf(spec string) string {
	return "---\napiVersion: source.extensions.fluxcd.io/v1beta1\nkind: ArtifactGenerator\nmetadata: {name: parts, namespace: flux-system}\n" +
		"spec:\n  sources:\n  - {alias: repo, kind: GitRepository, name: flux-system}\n" + spec
}

func manifestOf(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: default}\n"
}

// Copying works like source-watcher's and cp's.
func TestGenerated(t *testing.T) {
	files := map[string]string{
		"base/web/web.yaml": manifestOf("web"), "base/notes.md": "#", "base/test/x.yaml": manifestOf("x"),
		"prod/kustomization.yaml": "resources: [../base/web]\n", "prod/deep/values.yaml": "a: {b: 1, d: [1], e: 3}\nc: x\n",
		"over.yaml": "a: {b: 2, d: [2]}\n", "one.yaml": manifestOf("one"), "two.yaml": manifestOf("two"),
	}
	for name, tc := range map[string]struct {
		copies string
		want   map[string]string // place by file
	}{
		"a folder's contents":  {`[{from: "@repo/base/**", to: "@artifact/b/"}]`, map[string]string{"b/web/web.yaml": "base/web/web.yaml", "b/notes.md": "base/notes.md", "b/test/x.yaml": "base/test/x.yaml"}},
		"a folder":             {`[{from: "@repo/prod/", to: "@artifact/all"}]`, map[string]string{"all/prod/kustomization.yaml": "prod/kustomization.yaml", "all/prod/deep/values.yaml": "prod/deep/values.yaml"}},
		"a file":               {`[{from: "@repo/one.yaml", to: "@artifact/x.yaml"}, {from: "@repo/two.yaml", to: "@artifact/y/"}]`, map[string]string{"x.yaml": "one.yaml", "y/two.yaml": "two.yaml"}},
		"a file into a folder": {`[{from: "@repo/base/web/**", to: "@artifact/y/"}, {from: "@repo/two.yaml", to: "@artifact/y"}]`, map[string]string{"y/web.yaml": "base/web/web.yaml", "y/two.yaml": "two.yaml"}},
		"a pattern":            {`[{from: "@repo/o*.yaml", to: "@artifact/y/"}, {from: "@repo/base/*.md", to: "@artifact/"}]`, map[string]string{"y/one.yaml": "one.yaml", "y/over.yaml": "over.yaml", "base/notes.md": "base/notes.md"}},
		"exclusions":           {`[{from: "@repo/base/**", to: "@artifact/", exclude: ["*.md", "test"]}]`, map[string]string{"web/web.yaml": "base/web/web.yaml"}},
		"excluded contents":    {`[{from: "@repo/base/", to: "@artifact/", exclude: ["**/test/**", "base/web/*"]}, {from: "@repo/base/notes.md", to: "@artifact/"}]`, map[string]string{"base/notes.md": "base/notes.md", "notes.md": "base/notes.md"}},
		"excluded below":       {`[{from: "@repo/base/**", to: "@artifact/", exclude: ["web/*", "test/y.yaml"]}, {from: "@repo/p*/**", to: "@artifact/", exclude: ["deep"]}]`, map[string]string{"notes.md": "base/notes.md", "test/x.yaml": "base/test/x.yaml", "prod/kustomization.yaml": "prod/kustomization.yaml"}},
		"an excluded folder":   {`[{from: "@repo/prod/", to: "@artifact/", exclude: ["deep"]}]`, map[string]string{"prod/kustomization.yaml": "prod/kustomization.yaml"}},
		"a later one wins":     {`[{from: "@repo/one.yaml", to: "@artifact/x.yaml"}, {from: "@repo/two.yaml", to: "@artifact/x.yaml"}]`, map[string]string{"x.yaml": "two.yaml"}},
		"merged":               {`[{from: "@repo/prod/deep/values.yaml", to: "@artifact/v.yaml"}, {from: "@repo/over.yaml", to: "@artifact/v.yaml", strategy: Merge}]`, map[string]string{"v.yaml": "over.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for name, text := range files {
				fsys[name] = &fstest.MapFile{Data: []byte(text)}
			}
			x := &expander{
				World:     World{Extra: []string{flux.SourceWatcher}, Repository: func(string, string) (fs.FS, string, error) { return fsys, "../fleet", nil }},
				Expansion: Expansion{Sources: map[string]string{"GitRepository flux-system/flux-system": "https://example.com/fleet"}},
				origins:   &origins{of: nil, files: map[string]fs.FS{}, made: map[string]tree{}},
			}
			docs, problems := strict.Parse("x.yaml", []byte(generatorOf("  artifacts: [{name: all, copy: "+tc.copies+"}]\n")))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			x.generators = docs
			got, err := x.treeOf("ExternalArtifact flux-system/all")
			if err != nil {
				t.Fatal(err)
			}
			places := map[string]string{}
			err = fs.WalkDir(got, ".", func(name string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					places[name] = strings.TrimPrefix(got.place(name), "../fleet/")
				}
				return err
			})
			if err != nil || !maps.Equal(places, tc.want) {
				t.Errorf("%q, %v", places, err)
			}
			if !got.mounted || got.url != "https://example.com/fleet" {
				t.Errorf("mounted: %t, of %s", got.mounted, got.url)
			}
			if name == "merged" {
				if text, _ := fs.ReadFile(got, "v.yaml"); string(text) != "a:\n  b: 2\n  d:\n  - 2\n  e: 3\nc: x\n" {
					t.Errorf("%s", text)
				}
			}
		})
	}
}

func TestExpandGenerated(t *testing.T) {
	files := map[string]string{
		"cluster/a.yaml": generatorOf("  - {alias: far, kind: GitRepository, name: far}\n  - {alias: none, kind: Bucket, name: none}\n  artifacts:\n"+
			"  - {name: apps, originRevision: '@repo', copy: [{from: '@repo/apps/base/**', to: '@artifact/base/'}, {from: '@repo/apps/prod/**', to: '@artifact/prod/'}]}\n"+
			"  - {name: far, copy: [{from: '@far/**', to: '@artifact/'}]}\n  - {name: none, copy: [{from: '@none/**', to: '@artifact/'}]}\n"+
			"  - {name: nothing, copy: [{from: '@repo/nothing/**', to: '@artifact/'}]}\n  - {name: packed, copy: [{from: '@repo/*.tgz', to: '@artifact/', strategy: Extract}]}\n"+
			"  - {name: empty, copy: [{from: '@repo/apps/base/*', to: '@artifact/', exclude: [web]}]}\n"+
			"  - {name: typo, copy: [{from: '@rep/apps/**', to: '@artifact/'}]}\n") +
			strings.Replace(artifactOf("apps", ""), "path: ./", "path: ./prod", 1) + artifactOf("far", "") + artifactOf("none", "") + artifactOf("nothing", "") +
			artifactOf("packed", "") + artifactOf("empty", "") + artifactOf("typo", "") + artifactOf("nowhere", "") +
			"---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: far, namespace: flux-system}\nspec: {interval: 1m, url: https://example.com/far}\n" +
			"---\napiVersion: source.extensions.fluxcd.io/v1beta1\nkind: ArtifactGenerator\nmetadata: {name: teams, namespace: flux-system}\n" +
			"spec:\n  sources:\n  - {alias: repo, kind: ExternalArtifact, name: apps}\n  pathPattern: '@repo/prod/{Team}/{stage}'\n" +
			"  artifacts: [{name: 'team-{Team}-{stage}', copy: [{from: '@repo/prod/{Team}/{stage}/**', to: '@artifact/'}]}]\n" + artifactOf("team-red-live", "") +
			"---\napiVersion: source.extensions.fluxcd.io/v1beta1\nkind: ArtifactGenerator\nmetadata: {name: lost, namespace: lost}\n" +
			"spec: {sources: [], pathPattern: '@gone/{x}', artifacts: [{name: lost, copy: []}]}\n" +
			strings.Replace(artifactOf("lost", ""), "kind: ExternalArtifact, name: lost", "kind: ExternalArtifact, name: lost, namespace: lost", 1),
		"apps/base/web/web.yaml":       manifestOf("web"),
		"apps/prod/kustomization.yaml": "resources: [../base/web/web.yaml]\n",
		"apps/prod/Red/live/red.yaml":  manifestOf("red"),
	}
	got, objects := map[string]string{}, map[string]string{}
	for _, a := range expandWith(foreignRoot, files, flux.SourceWatcher).Applications {
		got[a.Name] = a.LeftOut
		if a.Elsewhere != "" {
			got[a.Name] = "elsewhere: " + a.Elsewhere
		}
		for _, o := range a.Objects {
			objects[a.Name] += strict.Text(o.Node, "metadata", "name") + " of " + o.File + " in " + a.Path
		}
	}
	want := map[string]string{
		"apps": "", "team-red-live": "", "far": "elsewhere: https://example.com/far",
		"none":    "ExternalArtifact flux-system/none: source Bucket flux-system/none does not exist",
		"nothing": "ExternalArtifact flux-system/nothing: nothing matches ../fleet/nothing/**",
		"packed":  "ExternalArtifact flux-system/packed: strategy Extract is not supported: @repo/*.tgz",
		"typo":    "ExternalArtifact flux-system/typo: no source @rep",
		"empty":   "ExternalArtifact flux-system/empty: all that matches ../fleet/apps/base/* is excluded",
		"lost":    "ExternalArtifact lost/lost: no source @gone",
		"nowhere": "source ExternalArtifact flux-system/nowhere does not exist",
	}
	if !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
	places := map[string]string{
		"apps": "web of ../fleet/apps/base/web/web.yaml in ../fleet/apps/prod", "team-red-live": "red of ../fleet/apps/prod/Red/live/red.yaml in ../fleet/apps/prod/Red/live",
	}
	if !maps.Equal(objects, places) {
		t.Errorf("%q", objects)
	}
	files["cluster/a.yaml"] = strings.Replace(files["cluster/a.yaml"], "url: https://example.com/far}", "url: https://example.com/far, secretRef: {name: key}}", 1)
	for _, a := range expandWith(foreignRoot, files, flux.SourceWatcher).Applications {
		if a.Name == "far" && a.LeftOut != "GitRepository flux-system/far needs Secret key, which is missing" {
			t.Errorf("%q", a.LeftOut)
		}
	}
	including := strings.Replace(foreignRoot, "ref: {branch: main}", "ref: {branch: main}, include: [{repository: {name: far}}]", 1)
	for _, a := range expandWith(including, files, flux.SourceWatcher).Applications {
		if a.Name == "team-red-live" && a.LeftOut != "GitRepository flux-system/flux-system includes other repositories, which is not supported: spec.include" {
			t.Errorf("%q", a.LeftOut)
		}
	}
	for _, a := range expandWith(foreignRoot, files).Applications { // without source-watcher
		const missing = "ArtifactGenerator parts needs source-watcher, which is not installed: spec.engine.componentsExtra of the hub"
		if a.Name == "apps" && a.LeftOut != "ExternalArtifact flux-system/apps: "+missing {
			t.Errorf("%s", a.LeftOut)
		}
	}
}
