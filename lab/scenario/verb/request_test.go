package verb_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/verb"
)

// outside answers requests from outside.
type outside func(*http.Request) (int, string)

func (o outside) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := o(r)
	if status == 0 {
		return nil, errors.New(body)
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}, "Date": {"now"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// playWith plays the steps of a story on a lab that change prepares.
func playWith(t *testing.T, steps string, change func(*scenariotest.Lab)) *scenario.Result {
	t.Helper()
	fsys := scenariotest.Files(t, os.DirFS(filepath.Join("..", "..", "..")), map[string]string{
		"scenarios/test/scenario.yaml": "apiVersion: lab/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n  title: t\n  teaches: t\n  steps:\n" + steps,
	})
	story, err := scenario.Load(fsys, "test", verb.All())
	if err != nil {
		t.Fatal(problemsOf(err))
	}
	var r *scenario.Result
	synctest.Test(t, func(t *testing.T) {
		l := scenariotest.New(t, fsys)
		change(l)
		r = scenario.Player{World: l.World}.Play(t.Context(), story)
	})
	if len(r.Left) > 0 {
		t.Errorf("left is %q", r.Left)
	}
	return r
}

func textOf(r *scenario.Result) string {
	text := string(r.Verdict) + " " + r.Reason
	for _, s := range r.Steps {
		if text += "; " + s.Did + s.Error; s.Unmet != nil {
			text += s.Unmet.Error()
		}
	}
	return text
}

// A request is repeated until its answer is as expected, and the answer can be captured.
func TestRequest(t *testing.T) {
	began := time.Time{}
	slow := func(r *http.Request) (int, string) {
		if began.IsZero() {
			began = time.Now()
		}
		switch took := time.Since(began); {
		case took < 5*time.Second:
			return 0, "connection refused"
		case took < 10*time.Second:
			return 503, "not yet"
		}
		return 200, `{"host": "` + r.Host + `", "token": "` + r.Header.Get("X-Token") + `", "n": 3}`
	}
	for name, c := range map[string]struct {
		step    string
		answer  outside
		verdict scenario.Verdict
		text    string
	}{
		"until it is so": {"{url: 'http://podinfo.localhost:8080/', headers: {X-Token: abc}, has: {status: 200, json.n: {atLeast: 3}, json.token: abc}, capture: {host: json.host}}", slow, scenario.Passed, "GET http://podinfo.localhost:8080/: 200; 1s passed"},
		"any answer":     {"{url: 'http://localhost:8080/', capture: {host: body}}", slow, scenario.Passed, ": 503"},
		"too slow":       {"{url: 'http://localhost:8080/', has: {status: 200}, within: 3s, capture: {host: body}}", slow, scenario.Failed, "status = 200, last seen connection refused"},
		"another answer": {"{url: 'http://localhost:8080/', has: {status: 201}, capture: {host: body}}", slow, scenario.Failed, "last seen status = 200"},
		"sent once": {"{url: 'http://localhost:8080/', method: POST, body: x, has: {status: 202}, capture: {host: body}}", func(r *http.Request) (int, string) {
			body, _ := io.ReadAll(r.Body)
			return 202, r.Method + string(body)
		}, scenario.Passed, "POST http://localhost:8080/: 202"},
	} {
		t.Run(name, func(t *testing.T) {
			began = time.Time{}
			r := playWith(t, "    - {title: it, request: "+c.step+"}\n    - {title: 'a moment, ${host}', wait: {for: 1s}}\n", func(l *scenariotest.Lab) { l.HTTP = c.answer })
			if text := textOf(r); r.Verdict != c.verdict || !strings.Contains(text, c.text) {
				t.Errorf("%s, want %s: %q", text, c.verdict, c.text)
			}
		})
	}
}

// Requests from outside trust the authorities of the lab, and the lab's door is a variable.
func TestRequestTrusts(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	for trusted, text := range map[bool]string{true: "/: 404", false: "certificate signed by unknown authority"} {
		r := playWith(t, "    - {title: it, request: {url: 'https://${door}/', has: {status: 404}, patience: 1s}}\n", func(l *scenariotest.Lab) {
			l.Door, l.Roots = server.Listener.Addr().String(), x509.NewCertPool()
			if trusted {
				l.Roots.AddCert(server.Certificate())
			}
		})
		if got := textOf(r); (r.Verdict == scenario.Passed) != trusted || !strings.Contains(got, text) {
			t.Errorf("trusted %t: %s", trusted, got)
		}
	}
}

// create creates an object in cluster prod.
func create(t *testing.T, l *scenariotest.Lab, content map[string]any) {
	t.Helper()
	o := &unstructured.Unstructured{Object: content}
	o.SetAPIVersion("v1")
	client, err := l.Clusters.Client("prod")
	if err != nil {
		t.Fatal(problemsOf(err))
	}
	resource, err := client.Resource(scenario.Subject{APIVersion: "v1", Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: "x"})
	if err == nil {
		_, err = resource.Create(context.Background(), o, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(problemsOf(err))
	}
}

// A request is sent in the network of a pod, to the address of a Service.
func TestRequestFromPod(t *testing.T) {
	for name, c := range map[string]struct {
		pod, log string
		err      error
		verdict  scenario.Verdict
		text     string
	}{
		"answer":    {"pod: podinfo", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", nil, scenario.Passed, "GET http://web.podinfo:9898/: 200"},
		"no answer": {"pod: podinfo", "", errors.New("curl: (7) Failed to connect"), scenario.Failed, "last seen"},
		"no HTTP":   {"pod: podinfo", "what?", nil, scenario.Failed, "last seen"},
		"no pod":    {"pod: other", "", nil, scenario.Failed, "last seen"},
	} {
		t.Run(name, func(t *testing.T) {
			var ran []string
			step := "    - {title: it, request: {url: 'http://web.podinfo:9898/', from: {cluster: prod, namespace: podinfo, " + c.pod + "}, has: {status: 200, body: {matches: hello}}}}\n"
			r := playWith(t, step, func(l *scenariotest.Lab) {
				create(t, l, map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "podinfo-1", "namespace": "podinfo"}, "spec": map[string]any{"nodeName": "prod-worker"}, "status": map[string]any{"phase": "Running"}})
				create(t, l, map[string]any{"kind": "Service", "metadata": map[string]any{"name": "web", "namespace": "podinfo"}, "spec": map[string]any{"clusterIP": "10.96.0.7"}})
				l.Inside = func(_ context.Context, node, namespace, pod string, program []string) ([]byte, error) {
					ran = append([]string{node, namespace, pod}, program...)
					return []byte(c.log), c.err
				}
			})
			if text := textOf(r); r.Verdict != c.verdict || !strings.Contains(text, c.text) {
				t.Errorf("%s, want %s: %q", text, c.verdict, c.text)
			}
			line := strings.Join(ran, " ")
			if name == "no pod" != (line == "") || line != "" && (!strings.HasPrefix(line, "prod-worker podinfo podinfo-1 curl ") || !strings.HasSuffix(line, " --resolve web.podinfo:9898:10.96.0.7 --request GET -- http://web.podinfo:9898/")) {
				t.Errorf("ran %q", line)
			}
		})
	}
}

// Only this machine is asked from outside.
func TestRequestElsewhere(t *testing.T) {
	r := playWith(t, "    - {title: a host, expect: {object: {"+podinfo+"}, capture: {host: metadata.name}}}\n    - {title: it, request: {url: 'http://${host}/'}}\n", func(l *scenariotest.Lab) {
		l.HTTP = outside(func(*http.Request) (int, string) {
			t.Error("it was asked")
			return 200, ""
		})
	})
	if r.Verdict != scenario.Failed || !strings.Contains(textOf(r), "not this machine") {
		t.Errorf("%s", textOf(r))
	}
}

// A reboot and a partition end by themselves at the end of a story, or by resume.
func TestMachines(t *testing.T) {
	for name, c := range map[string]struct {
		steps   string
		verdict scenario.Verdict
		text    string
	}{
		"reboot":               {"    - {title: it, reboot: {cluster: prod}}\n    - {title: back, expect: {application: {cluster: prod, addon: podinfo}, sync: synced, health: healthy}}\n", scenario.Passed, "all nodes of prod rebooted"},
		"reboot of a node":     {"    - {title: it, reboot: {cluster: prod, node: prod-control-plane}}\n", scenario.Passed, "prod-control-plane rebooted"},
		"reboot of no node":    {"    - {title: it, reboot: {cluster: prod, node: other}}\n", scenario.Broken, "cluster prod has no node other"},
		"partition":            {"    - {title: it, partition: {cluster: prod}}\n    - {title: a while, wait: {for: 20s}}\n", scenario.Passed, "prod disconnected"},
		"partition and resume": {"    - {title: it, partition: {cluster: prod}}\n    - {title: on, resume: {cluster: prod}}\n    - {title: back, expect: {object: {" + podinfo + "}, has: {spec.replicas: 2}}}\n", scenario.Passed, "prod resumed"},
	} {
		t.Run(name, func(t *testing.T) {
			var l *scenariotest.Lab
			r := playWith(t, c.steps, func(of *scenariotest.Lab) { l = of })
			if text := textOf(r); r.Verdict != c.verdict || !strings.Contains(text, c.text) {
				t.Errorf("%s, want %s: %q", text, c.verdict, c.text)
			}
			if l.Clusters.IsPaused("prod") {
				t.Error("it is still cut off")
			}
		})
	}
}
