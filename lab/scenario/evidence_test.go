package scenario_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab/scenario"
)

// A failed step comes with the events and logs of its namespaces, bounded and without secrets.
func TestEvidence(t *testing.T) {
	const secret = "correct horse battery staple"
	stage(t, `
  steps:
    - title: never
      expect: {application: {cluster: prod, addon: podinfo}, version: 9.9.9}
`, nil, func(b *bench) {
		b.Clusters.Logs = map[string]string{
			"ready/app":    "a healthy line\n",
			"crashing/app": "connect with " + secret + "\n" + strings.Repeat("x", 5000) + "\n" + strings.Repeat("again\n", 500) + "panic: no database\n",
		}
		for _, o := range []string{"ready true 0", "crashing false 3"} {
			var name, ready string
			var restarts int64
			if _, err := fmt.Sscan(o, &name, &ready, &restarts); err != nil {
				t.Fatal(err)
			}
			status := map[string]any{"name": "app", "ready": ready == "true", "restartCount": restarts, "state": map[string]any{}}
			if ready == "false" {
				status["state"] = map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff"}}
			}
			b.put("Pod", name, map[string]any{"status": map[string]any{"containerStatuses": []any{status}}})
		}
		b.put("Secret", "db", map[string]any{"data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(secret))}})
		for i := range 30 {
			b.event("Warning", fmt.Sprintf("e%02d", i), fmt.Sprintf("BackOff%02d", i))
		}
		r := b.play()
		step := r.Steps[0]
		if r.Verdict != scenario.Failed || len(step.Evidence) != 3 {
			t.Fatalf("%s\n%+v", story(r), step.Evidence)
		}
		events, crashing, ready := step.Evidence[0], step.Evidence[1], step.Evidence[2]
		if events.Source != "events" || len(events.Lines) != 20 || events.Lines[19] != "warning: BackOff29 pod/podinfo-1: no image" {
			t.Errorf("%+v", events)
		}
		if crashing.Source != "log of crashing/app" || crashing.Cluster != "prod" || crashing.Namespace != "podinfo" || len(crashing.Lines) != 30 || crashing.Lines[29] != "panic: no database" {
			t.Errorf("%+v", crashing)
		}
		if ready.Source != "log of ready/app" {
			t.Errorf("%+v", ready)
		}
		if text := fmt.Sprint(step.Evidence); strings.Contains(text, secret) {
			t.Errorf("a secret in %s", text)
		}
	})
}

// The log's first lines are kept if they are few, with what is secret in them masked.
func TestEvidenceMasked(t *testing.T) {
	stage(t, `
  steps:
    - title: never
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 99}}
`, nil, func(b *bench) {
		b.Clusters.Logs = map[string]string{"p/app": "password: correct-horse\n" + strings.Repeat("é", 1000) + "\nby value: s3cr3t-value\n"}
		b.put("Pod", "p", map[string]any{"status": map[string]any{"containerStatuses": []any{map[string]any{"name": "app", "ready": true, "restartCount": int64(0), "state": map[string]any{}}}}})
		b.put("Secret", "db", map[string]any{"data": map[string]any{"key": base64.StdEncoding.EncodeToString([]byte("s3cr3t-value"))}})
		r := b.play()
		if len(r.Steps[0].Evidence) != 1 {
			t.Fatal(story(r))
		}
		lines := r.Steps[0].Evidence[0].Lines
		if len(lines) != 3 || strings.Contains(lines[0], "correct") || len([]rune(lines[1])) != 300 || lines[2] != "by value: REDACTED" {
			t.Errorf("%q", lines)
		}
	})
}

// Without the Secrets, nothing can be masked: neither events nor logs are shown.
func TestEvidenceWithoutSecrets(t *testing.T) {
	stage(t, `
  steps:
    - title: never
      expect: {object: {`+podinfo+`}, has: {spec.replicas: 99}}
`, nil, func(b *bench) {
		b.Clusters.Logs = map[string]string{"p/app": "by value: s3cr3t-value\n"}
		b.put("Pod", "p", map[string]any{"status": map[string]any{"containerStatuses": []any{map[string]any{"name": "app", "ready": true, "restartCount": int64(0), "state": map[string]any{}}}}})
		b.Clusters.Forbidden = map[string]bool{"secrets": true}
		e := b.play().Steps[0].Evidence
		if len(e) != 1 || len(e[0].Lines) != 1 || !strings.Contains(e[0].Lines[0], "forbidden") {
			t.Errorf("%+v", e)
		}
	})
}

// put creates an object in prod's namespace podinfo.
func (b *bench) put(kind, name string, content map[string]any) {
	b.t.Helper()
	content["apiVersion"], content["kind"], content["metadata"] = "v1", kind, map[string]any{"name": name, "namespace": "podinfo"}
	c, err := b.Clusters.Client("prod")
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := c.Resource(scenario.Subject{APIVersion: "v1", Kind: kind, Namespace: "podinfo", Name: name})
	if err == nil {
		_, err = r.Create(context.Background(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
