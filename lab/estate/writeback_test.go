package estate

import (
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"
)

// Argo CD's credentials of a repository may push only where the estate has Image Updater commit with them.
func TestWritesBack(t *testing.T) {
	base, err := txtar.ParseFile("testdata/base.txtar")
	if err != nil {
		t.Fatal(err)
	}
	const application = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata:\n  name: web\n  namespace: argocd\n  annotations: {argocd-image-updater.argoproj.io/write-back-method: \"METHOD\"}\n" +
		"spec:\n  project: default\n  destination: {name: dev, namespace: web}\n  source: {repoURL: \"https://git.example.com/estate.git\", path: web, targetRevision: main}\n"
	const updater = "apiVersion: argocd-image-updater.argoproj.io/v1alpha1\nkind: ImageUpdater\nmetadata: {name: web, namespace: argocd}\nspec: {applicationRefs: [{namePattern: web, writeBackConfig: {method: METHOD}}]}\n"
	for name, c := range map[string]struct {
		text, method string
		want         bool
	}{
		"annotation":           {application, "git", true},
		"repository's account": {application, "git:repocreds", true},
		"account of its own":   {application, "git:secret:argocd/creds", false},
		"nothing is committed": {application, "argocd", false},
		"resource":             {updater, "git", true},
		"resource of its own":  {updater, "git:secret:argocd/creds", false},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{}
			for _, f := range base.Files {
				files[f.Name] = &fstest.MapFile{Data: f.Data}
			}
			files["addons/updated/applicationset.yaml"] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(c.text, "METHOD", c.method))}
			files["web/object.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")}
			e, err := Load(files, "", "homelab")
			if err != nil {
				t.Fatal(err)
			}
			if e.WritesBack != c.want {
				t.Errorf("writes back: %t, want %t", e.WritesBack, c.want)
			}
		})
	}
}
