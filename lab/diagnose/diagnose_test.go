package diagnose

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/engine"
)

// containers is an engine with a node and a forge, whose logs say the same.
type containers struct{ log string }

func (containers) Containers(context.Context, ...string) ([]docker.Container, error) {
	return []docker.Container{{Name: "demo-hub-control-plane", Running: true}, {Name: "lab-demo-forge", Running: true, Labels: map[string]string{lab.LabelPart: "forge"}}}, nil
}

func (c containers) Logs(context.Context, string, int) ([]byte, error) { return []byte(c.log), nil }

func (c containers) Exec(context.Context, string, io.Reader, ...string) ([]byte, error) {
	return nil, errors.New("no journal")
}

func TestArchive(t *testing.T) {
	s := Subject{
		Lab: "demo", Clusters: []string{"hub", "theirs"}, Attached: []string{"theirs"}, Containers: containers{"the log says hunter2\n"}, Secrets: []string{"hunter2", ""},
		Reach: func(name string) (*rest.Config, error) {
			if name == "theirs" {
				t.Error("an attached cluster was asked")
			}
			return nil, errors.New("no such cluster")
		},
		Documents: []Document{
			{"version.json", func(context.Context) (any, error) { return map[string]string{"note": "hunter2"}, nil }},
			{"estate.txt", func(context.Context) (any, error) { return nil, errors.New("2 problems") }},
			{"clusters.txt", func(context.Context) (any, error) { return nil, nil }},
			{"status.json", func(context.Context) (any, error) { return nil, errors.New("no answer") }},
		},
	}
	files := archive(t, s)
	for file, text := range map[string]string{
		"version.json": `"note": "REDACTED"`, "estate.txt": "unavailable: 2 problems", "status.json": "unavailable: no answer",
		"logs/demo-hub-control-plane.log": "the log says REDACTED", "logs/demo-hub-control-plane.journal": "unavailable: no journal",
		"logs/lab-demo-forge.log": "REDACTED", "containers.json": "lab-demo-forge", "hub/error.txt": "unavailable: no such cluster",
		"theirs/attached.txt": "lab diagnose --attached",
	} {
		if !strings.Contains(files["lab-demo/"+file], text) {
			t.Errorf("%s: %q, want %q", file, files["lab-demo/"+file], text)
		}
	}
	if len(files) != 9 { // no journal of the forge, no file for an empty document, nothing of the attached cluster
		t.Errorf("%d files: %v", len(files), files)
	}
}

func archive(t *testing.T, s Subject) map[string]string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "demo.tar.gz")
	if err := Collect(t.Context(), s).Write(name); err != nil {
		t.Fatal(err)
	}
	return read(t, name)
}

// canaries are secrets of everyone, by where they are planted.
var canaries = map[string]string{
	"lab's credentials": "Canary01LabsOwnPassword", "lab's kubeconfig": "Canary02KubeconfigToken", "lab's client key": "Canary03ClientKeyOfTheAdmin",
	"the user's environment": "Canary04UsersApiToken", "a Secret": "canary05-of-a-secret", "a Secret with a document": "Canary06InADocument1",
	"a pod's environment": "Canary07-in-an-environment", "a container's environment": "Canary08OfDockerInspect", "a bearer token in a log": "Canary09BearerToken1234",
	"basic-auth in a URL": "Canary10InAnAddress", "a private key": "Canary11MIIEvQIBADANBgkqhkiG9w0BAQEF", "docker's auths": "Canary12OfARegistry",
	"an applied annotation": "Canary13AppliedOnce", "a token of GitHub": "ghp_Canary14Canary14Canary14Canary14Ca", "a key of AWS": "AKIACANARY15CANARY15",
	"an event": "glpat-Canary16-Canary16x", "a password of a flag": "Canary17-of-a-flag", "lab's report": "Canary18InAReport",
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// api serves a cluster's objects, each with canaries.
func api(t *testing.T) *rest.Config {
	t.Helper()
	c := func(where string) string {
		secret, ok := canaries[where]
		if !ok {
			t.Fatal(where)
		}
		return secret
	}
	applied, _ := json.Marshal(map[string]any{"kind": "Secret", "apiVersion": "v1", "stringData": map[string]string{"any": c("an applied annotation")}})
	document := "users:\n- name: x\n  thing: " + c("a Secret with a document") + "\n"
	meta := func(name string) map[string]any { return map[string]any{"name": name, "namespace": "default"} }
	answers := map[string]any{
		"/api/v1/secrets": map[string]any{"kind": "SecretList", "apiVersion": "v1", "items": []any{
			map[string]any{"metadata": meta("s"), "data": map[string]string{"any": b64(c("a Secret")), "name": b64("hub"), "doc": b64(document)}},
		}},
		"/api/v1/pods": map[string]any{"kind": "PodList", "apiVersion": "v1", "items": []any{map[string]any{
			"metadata": map[string]any{"name": "p", "namespace": "default", "annotations": map[string]string{"kubectl.kubernetes.io/last-applied-configuration": string(applied)}},
			"spec": map[string]any{"containers": []any{map[string]any{
				"name": "c", "image": "registry.example.com/app:1.2.3", "args": []string{"--db-password=" + c("a password of a flag")},
				"env": []any{map[string]string{"name": "COLOUR", "value": c("a pod's environment")}},
			}}},
			"status": map[string]any{"phase": "Failed"},
		}}},
		"/api/v1/events": map[string]any{"kind": "EventList", "apiVersion": "v1", "items": []any{
			map[string]any{"metadata": meta("e"), "message": "pulling with " + c("an event") + ", " + b64("and "+c("a Secret"))},
		}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/log") {
			// Everything once more, as it may come back in a log.
			for _, where := range slices.Sorted(maps.Keys(canaries)) {
				fmt.Fprintf(w, "seen %s, and %s, and %s\n", canaries[where], b64("in a sentence: "+canaries[where]), url.QueryEscape("a b&"+canaries[where]))
			}
			fmt.Fprintln(w, "level=info msg=\"serving app 1.2.3 for hub\"")
			return
		}
		answer, ok := answers[r.URL.Path]
		if !ok {
			answer = map[string]any{"kind": "List", "apiVersion": "v1", "items": []any{}}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// TestCanaries plants secrets of many kinds in a lab, and searches the archive for them, decoded, too.
func TestCanaries(t *testing.T) {
	config := api(t)
	inspected, _ := json.Marshal([]any{map[string]any{"Name": "/node", "Config": map[string]any{"Env": []string{"PATH=/bin", "COLOUR=" + canaries["a container's environment"]}}}})
	s := Subject{
		Lab: "demo", Clusters: []string{"hub"}, Reach: func(string) (*rest.Config, error) { return config, nil }, Engine: engine.Definition{Namespace: "argocd"},
		Containers: containers{strings.Join([]string{
			"GET / Authorization: Bearer " + canaries["a bearer token in a log"],
			"cloning https://me:" + canaries["basic-auth in a URL"] + "@git.example.com/team/app.git",
			"-----BEGIN EC PRIVATE KEY-----\n" + canaries["a private key"] + "\n-----END EC PRIVATE KEY-----",
			`config {"auths":{"registry.example.com":{"auth":"` + b64("me:"+canaries["docker's auths"]) + `"}}}`,
			"inspected: " + string(inspected), "used " + canaries["a token of GitHub"] + " and " + canaries["a key of AWS"], "node ready in 12s\n",
		}, "\n")},
		Documents: []Document{{"lab.json", func(context.Context) (any, error) {
			return map[string]string{"password": canaries["lab's report"], "path": "/home/me/lab"}, nil
		}}},
		Secrets:     []string{canaries["lab's credentials"]},
		Private:     [][]byte{[]byte("users:\n- user:\n    token: " + canaries["lab's kubeconfig"] + "\n    client-key-data: " + b64(canaries["lab's client key"]) + "\n")},
		Environment: []string{"HOME=/home/me", "MY_API_TOKEN=" + canaries["the user's environment"]},
	}
	files := archive(t, s)
	for name, text := range files {
		for where, canary := range canaries {
			for _, form := range []string{canary, b64(canary)[:len(canary)*4/3-2], b64("x" + canary)[2 : len(canary)*4/3], b64("xy" + canary)[3 : len(canary)*4/3], url.QueryEscape(canary), hex.EncodeToString([]byte(canary))} {
				if strings.Contains(text, form) {
					t.Errorf("%s: %s is in it, as %s", name, where, form)
				}
			}
		}
		for _, word := range regexp.MustCompile(`[A-Za-z0-9+/]{16,}`).FindAllString(text, -1) {
			plain, _ := base64.RawStdEncoding.DecodeString(word[:len(word)/4*4])
			if strings.Contains(strings.ToLower(string(plain)), "canary") {
				t.Errorf("%s: %s is %s", name, word, plain)
			}
		}
	}
	for file, texts := range map[string][]string{
		"hub/pods.json":                   {`"image": "registry.example.com/app:1.2.3"`, `"name": "COLOUR"`, `"value": "REDACTED"`, `--db-password=REDACTED`},
		"hub/pods/default/p/c.log":        {"serving app 1.2.3 for hub", "seen REDACTED, and"},
		"hub/events.json":                 {`"message": "pulling with REDACTED`},
		"logs/demo-hub-control-plane.log": {"node ready in 12s", "https://REDACTED@git.example.com/team/app.git", "registry.example.com", "PATH=REDACTED"},
		"lab.json":                        {"/home/me/lab"},
	} {
		for _, text := range texts {
			if !strings.Contains(files["lab-demo/"+file], text) {
				t.Errorf("%s lacks %s:\n%s", file, text, files["lab-demo/"+file])
			}
		}
	}
}

func read(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(data)
	}
}

func TestSteady(t *testing.T) {
	pod := func(phase corev1.PodPhase, ready bool, restarts int32) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Ready: ready, RestartCount: restarts}}}}
	}
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"running": {pod(corev1.PodRunning, true, 0), true}, "not ready": {pod(corev1.PodRunning, false, 0), false},
		"restarted": {pod(corev1.PodRunning, true, 1), false}, "pending": {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, false},
	} {
		if got := steady(c.pod); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
