package forge

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/docker"
)

// scripted returns a forge with a fake docker that prints inspect, and the log of docker's arguments.
func scripted(t *testing.T, inspect string) (*Gitea, string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	dir := t.TempDir()
	asked, described := filepath.Join(dir, "asked"), filepath.Join(dir, "described")
	script := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%s\ncase \"$1 $2\" in\n'ps --all') echo id1 ;;\n'container inspect') cat %s ;;\n'volume inspect') echo someone ;;\nesac\n", asked, described)
	for file, text := range map[string]string{filepath.Join(dir, "docker"): script, described: inspect} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return NewGitea("demo", docker.New(), Credentials{User: "lab", Password: "p"}), asked
}

// Foreign containers and volumes of the same name are neither used nor removed.
func TestForeignContainer(t *testing.T) {
	for _, label := range []string{"", `"` + lab.LabelName + `":"other"`} {
		g, asked := scripted(t, `[{"Id":"id1","Name":"/`+lab.ForgeName("demo")+`","State":{"Running":true,"Status":"running"},"Config":{"Labels":{`+label+`}}}]`)
		var e *lab.Error
		if s, err := g.Observe(t.Context()); !errors.As(err, &e) || e.Code != "not_ours" || s.Exists {
			t.Errorf("labels {%s}: %+v, %v", label, s, err)
		}
		if err := g.Remove(t.Context()); err == nil {
			t.Errorf("labels {%s}: no error from Remove", label)
		}
		text, err := os.ReadFile(asked)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "rm ") || strings.HasPrefix(line, "container rm") || strings.HasPrefix(line, "volume rm") {
				t.Errorf("labels {%s}: docker %s", label, line)
			}
		}
	}
	g, _ := scripted(t, "[]")
	var e *lab.Error
	if has, err := g.volume(t.Context()); has || !errors.As(err, &e) || e.Code != "not_ours" {
		t.Errorf("a volume: %t, %v", has, err)
	}
}

// A chart version with other content is missing and gets replaced.
func TestChartContent(t *testing.T) {
	published, requests := "aa", []string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method)
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case published == "":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `[{"id":1,"name":"podinfo-6.9.2.tgz","sha256":%q}]`, published)
		}
	}))
	defer s.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	g, _ := scripted(t, `[{"Id":"id1","Name":"/`+lab.ForgeName("demo")+`","State":{"Running":true,"Status":"running"},"Config":{"Labels":{"`+lab.LabelName+`":"demo"}},
"NetworkSettings":{"Ports":{"`+httpPort+`/tcp":[{"HostIp":"127.0.0.1","HostPort":"`+port+`"}]}}}]`)
	archive := filepath.Join(t.TempDir(), "podinfo.tgz")
	if err := os.WriteFile(archive, []byte("chart"), 0o644); err != nil {
		t.Fatal(err)
	}
	charts := []lab.Chart{{Name: "podinfo", Version: "6.9.2", Digest: "sha256:aa", Archive: archive}}
	for digest, want := range map[string][]string{"aa": {"GET"}, "bb": {"GET", "DELETE", "POST"}, "": {"GET", "POST"}} {
		published = digest
		missing, err := g.MissingCharts(t.Context(), charts)
		if err != nil || (len(missing) == 0) != (digest == "aa") {
			t.Errorf("published %q: missing %q, %v", digest, missing, err)
		}
		requests = nil
		changed, err := g.PublishCharts(t.Context(), charts)
		if err != nil || !slices.Equal(changed, missing) || !slices.Equal(requests, want) {
			t.Errorf("published %q: changed %q by %q, %v", digest, changed, requests, err)
		}
	}
}
