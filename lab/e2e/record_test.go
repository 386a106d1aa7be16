//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// notice writes a story that applies a ConfigMap to a cluster, for a while.
func (l *testLab) notice(cluster string) string {
	name := "notice-" + cluster
	l.write("scenarios/"+name+"/notice.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: beside, namespace: podinfo}\ndata: {text: "+cluster+"}\n")
	l.write("scenarios/"+name+"/scenario.yaml", "apiVersion: lab/v1alpha1\nkind: Scenario\nmetadata: {name: "+name+"}\nspec:\n  title: a notice in "+cluster+"\n  teaches: nothing\n  requires: {clusters: ["+cluster+"]}\n"+
		"  steps:\n    - {title: a notice, apply: {cluster: "+cluster+", file: notice.yaml}}\n    - {title: it is read, wait: {for: 10s}}\n"+
		"    - {title: it is there, expect: {object: {cluster: "+cluster+", kind: ConfigMap, namespace: podinfo, name: beside}, has: {data.text: "+cluster+"}}}\n")
	return name
}

// beside plays stories side by side, and one that commits alone.
func (l *testLab) beside(t *testing.T) {
	t.Helper()
	dev, prod := l.notice("dev"), l.notice("prod")
	defer l.remove("scenarios/" + dev)
	defer l.remove("scenarios/" + prod)
	began := time.Now()
	if out := l.run("scenario", "run", "--jobs", "2", dev, prod); out.code != 0 || strings.Count(out.stderr, "✓ the lab is as it was") != 2 {
		t.Errorf("side by side: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	t.Logf("side by side: %s", time.Since(began).Round(time.Second))
	if out := l.run("scenario", "run", "--jobs", "2", dev, "drift"); out.code != 0 || !strings.Contains(out.stderr, "played alone, commits to Git: drift") {
		t.Errorf("one that commits: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
}

// recorded records what is done by hand, and replays it.
func (l *testLab) recorded(t *testing.T) {
	t.Helper()
	const name = "by-hand"
	ctx := t.Context()
	recording := l.background("end it with ctrl-c", "scenario", "record", name)
	defer l.remove("scenarios/" + name)
	deployments := l.kube("prod").AppsV1().Deployments("podinfo")
	if _, err := deployments.Patch(ctx, "podinfo", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{FieldManager: "kubectl-patch"}); err != nil {
		t.Error(err)
	}
	seen := func(line string, mended func() error) {
		t.Helper()
		eventually(t, time.Minute, func() error {
			if !recording.printed(line) {
				return fmt.Errorf("the recording has not printed %q", line)
			}
			return mended()
		})
		l.settled("prod-podinfo")
	}
	seen("deployment podinfo in prod is edited by hand", func() error {
		d, err := deployments.Get(ctx, "podinfo", metav1.GetOptions{})
		if err == nil && *d.Spec.Replicas != 2 {
			err = fmt.Errorf("%d replicas", *d.Spec.Replicas)
		}
		return err
	})
	if err := l.kube("prod").CoreV1().Services("podinfo").Delete(ctx, "podinfo", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	seen("service podinfo in prod is deleted", func() error {
		_, err := l.kube("prod").CoreV1().Services("podinfo").Get(ctx, "podinfo", metav1.GetOptions{})
		return err
	})
	if err := recording.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	out := recording.end()
	if out.code != 0 {
		t.Fatalf("exit %d\n%s", out.code, out.stderr)
	}
	text, err := os.ReadFile(filepath.Join(l.estate, "scenarios", name, "scenario.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\n%s", out.stderr, text)
	for _, want := range []string{"spec.replicas: 5", "spec.replicas: 2", "delete:", "kind: Service"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the recording has no %q", want)
		}
	}
	if out = l.run("scenario", "run", name); out.code != 0 {
		t.Errorf("the recording: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
}
