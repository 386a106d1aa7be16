package estate

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/golden"
	"homelab/lab/strict"
)

// Reading any manifest terminates, and positions are inside the file.
func FuzzManifests(f *testing.F) {
	golden.Seed(f, "testdata/broken/*.txtar", "testdata/base.txtar")
	golden.Hostile(f, "../appset/testdata/hostile/*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := golden.Lines(data)
		docs, problems := strict.Parse("addons/x/applicationset.yaml", data)
		for _, doc := range docs {
			problems = append(problems, escapes("addons/x/applicationset.yaml", doc)...)
			set, unread := appset.Parse("addons/x/applicationset.yaml", doc)
			if problems = append(problems, unread...); len(unread) > 0 {
				continue
			}
			reads(set)
			if _, err := set.Expand(appset.World{Clusters: []appset.Cluster{{Name: "dev", Server: "https://dev", Labels: map[string]string{argo.SecretType: "cluster"}}}}); err != nil {
				var fault *appset.Error
				if errors.As(err, &fault) {
					problems = append(problems, fault.Problems...)
				}
			}
		}
		for _, p := range problems {
			if p.Line < 1 || p.Line > lines || p.Message == "" {
				t.Errorf("%d lines, and a problem at %v", lines, p)
			}
		}
	})
}

func TestParseBounds(t *testing.T) {
	_, problems := strict.Parse("x.yaml", make([]byte, strict.MaxFile+1))
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "too large") {
		t.Errorf("a huge file: %v", problems)
	}
	if _, problems = strict.Parse("x.yaml", []byte(strings.Repeat("a: 1\n---\n", strict.MaxDocs+1))); len(problems) != 1 {
		t.Errorf("many documents: %v", problems)
	}
}

func TestManyProblems(t *testing.T) {
	var file strings.Builder
	for i := range 200 {
		fmt.Fprintf(&file, "key%d: 1\n", i)
	}
	dir, fsys := build(t, &txtar.Archive{Files: []txtar.File{
		{Name: "clusters/dev/cluster.yaml", Data: []byte(file.String())},
		{Name: "environments/dev/environment.yaml", Data: []byte("a: 1\n")},
	}})
	_, err := Load(fsys, dir, "homelab")
	var failed *lab.Error
	if !errors.As(err, &failed) || !strings.HasPrefix(failed.Message, "208 problems") {
		t.Fatalf("%v", err)
	}
	if got := failed.Problems[50].String(); len(failed.Problems) != 55 || !strings.Contains(got, "and 154 more in this file") {
		t.Errorf("%d problems, after the most: %s", len(failed.Problems), got)
	}
}

func TestMergeKeys(t *testing.T) {
	docs, problems := strict.Parse("x.yaml", []byte("base: &b {a: 1, c: 2}\nmore: {<<: [*b, {d: 4}], c: 3}\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var got struct{ More map[string]int }
	if err := docs[0].Decode(&got); err != nil || got.More["a"] != 1 || got.More["c"] != 3 || got.More["d"] != 4 || len(got.More) != 3 {
		t.Errorf("%v, %v", got.More, err)
	}
}

func TestClosest(t *testing.T) {
	known := []string{"environment", "role", "region", "podinfo", "metrics-server"}
	for word, want := range map[string]string{
		"enviroment": "environment", "rloe": "role", "regoin": "region", "metrics_server": "metrics-server",
		"Region": "region", "banana": "", "": "", "e": "", strings.Repeat("x", 1<<16): "",
	} {
		if got := strict.Closest(word, known); got != want {
			t.Errorf("closest to %.20q is %q, want %q", word, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for dir, want := range map[string]string{
		"/home/me/homelab": "homelab", "/x/My Estate_2": "my-estate-2", "/": "homelab", "/...": "homelab",
		"/" + strings.Repeat("ab-", 20): "ab-ab-ab-ab-ab-ab-ab-ab-ab-ab",
	} {
		if got := DefaultName(dir); got != want {
			t.Errorf("name of %s is %q, want %q", dir, got, want)
		}
	}
	var failed *lab.Error
	if _, err := Load(os.DirFS("../.."), "", "My Lab"); !errors.As(err, &failed) || failed.Code != "invalid_name" || failed.Exit != lab.ExitInvalid {
		t.Errorf("a name with a space: %v", err)
	}
}
