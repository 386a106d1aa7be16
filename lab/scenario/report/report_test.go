package report

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"homelab/lab/scenario"
)

var update = flag.Bool("update", false, "write the golden files")

const ms = time.Millisecond

// failed returns a failed story whose texts need escaping.
func failed() *scenario.Result {
	app, deployment := scenario.Lane{Cluster: "prod", Name: "application podinfo"}, scenario.Lane{Cluster: "prod", Name: "deployment podinfo"}
	return &scenario.Result{
		Scenario: "drift", Title: "a human edits prod, and Git wins", Teaches: "What is changed by hand lasts as long as self-heal takes.", Lab: "homelab", Engine: "argocd",
		Began: time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC), Took: 31200 * ms, Verdict: scenario.Failed,
		Steps: []scenario.StepResult{
			{Number: 1, Title: "prod runs podinfo with 2 replicas", Verb: "expect", Verdict: scenario.Passed, Took: 100 * ms},
			{Number: 2, ID: "scale", Title: "a human scales podinfo in prod to 5", Verb: "patch", Verdict: scenario.Passed, Began: 150 * ms, Took: 50 * ms, Did: "spec.replicas: 2 -> 5 <script>alert(1)</script>"},
			{Number: 3, Title: "it is healed: 2 replicas again", Verb: "expect", Verdict: scenario.Failed, Began: 220 * ms, Took: 30 * time.Second, Unmet: &scenario.Unmet{
				Expected: "deployment podinfo in prod: spec.replicas = 2 within 30s", LastSeen: "spec.replicas = 5 \x1b[31m & more", Unchanged: 29800 * ms,
				Notes: []string{"application prod-podinfo has selfHeal: false (addons/podinfo/applicationset.yaml:44)"},
			}, Evidence: []scenario.Evidence{
				{Cluster: "prod", Namespace: "podinfo", Source: "events", Lines: []string{"14:02:01 ScalingReplicaSet deployment/podinfo: Scaled up", "warning: BackOff pod/podinfo-1: <b>"}},
			}},
			{Number: 4, Title: "never played", Verb: "wait", Verdict: scenario.NotPlayed},
			{Number: 5, Title: "the lab is as it was", Verb: "leave", Always: true, Verdict: scenario.Passed, Began: 30300 * ms, Took: 900 * ms},
		},
		Measures: []scenario.Measure{{Name: "the engine sees it: out of sync", From: "a human scales podinfo in prod to 5", Took: 312 * ms}},
		Marks: []scenario.Mark{
			{Lane: scenario.Lane{Name: "git main"}, At: 500 * ms, Text: `a "developer": <b>`, State: "event"},
			{Lane: app, Text: "synced, healthy, 6.7.0", State: "good"},
			{Lane: app, At: 462 * ms, Text: "out-of-sync, healthy, 6.7.0", State: "busy"},
			{Lane: app, At: 30900 * ms, Text: "synced, healthy, 6.7.0", State: "good"},
			{Lane: deployment, Text: "spec.replicas = 2", State: "plain"},
			{Lane: deployment, At: 160 * ms, Text: "edited by hand", State: "event"},
			{Lane: deployment, At: 170 * ms, Text: "spec.replicas = 5", State: "plain"},
			{Lane: scenario.Lane{Cluster: "prod", Name: "application quiet"}, Text: "synced, healthy, 1.0.0", State: "good"},
		},
	}
}

func skipped() *scenario.Result {
	return &scenario.Result{Scenario: "promotion", Title: "a version goes up", Lab: "homelab", Verdict: scenario.Skipped, Reason: "the estate has no cluster staging", Began: failed().Began}
}

func broken() *scenario.Result {
	r := failed()
	r.Scenario, r.Verdict, r.Measures, r.Marks = "broken", scenario.Broken, nil, nil
	r.Steps = []scenario.StepResult{{Number: 1, Title: "commit", Verb: "commit", Verdict: scenario.Broken, Error: "push to the forge: connection refused"}}
	return r
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got, go test -update writes it):\n%s", file, diff)
	}
}

func pageOf(t *testing.T, r *scenario.Result) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestHTML(t *testing.T) { golden(t, "drift.html", pageOf(t, failed())) }

// The page loads nothing, runs no script and escapes all text.
func TestHTMLSelfContained(t *testing.T) {
	for _, r := range []*scenario.Result{failed(), skipped(), broken()} {
		text := pageOf(t, r)
		doc, err := html.Parse(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		var walk func(n *html.Node)
		walk = func(n *html.Node) {
			if n.Type == html.ElementNode {
				switch n.Data {
				case "script", "link", "img", "iframe", "object", "embed", "b":
					t.Errorf("%s: unexpected <%s>", r.Scenario, n.Data)
				}
				for _, a := range n.Attr {
					if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" {
						t.Errorf("%s: <%s %s=%q>", r.Scenario, n.Data, a.Key, a.Val)
					}
				}
			}
			for c := n.FirstChild; c != nil; c = c.NextSibling {
				walk(c)
			}
		}
		walk(doc)
		if bytes.Contains(text, []byte("://")) || bytes.Contains(text, []byte("url(")) || bytes.Contains(text, []byte("@import")) || bytes.Contains(text, []byte("ZgotmplZ")) {
			t.Errorf("%s: the page refers to elsewhere, or the template refused a value", r.Scenario)
		}
	}
}

// Contrast of text: WCAG 2.2 AA, 4.5 to 1.
func TestHTMLContrast(t *testing.T) {
	light, dark, ok := strings.Cut(pageText, "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("no dark theme")
	}
	variable := regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6})`)
	for name, css := range map[string]string{"light": light, "dark": strings.SplitN(dark, "* {", 2)[0]} {
		colors := map[string]string{}
		for _, m := range variable.FindAllStringSubmatch(css, -1) {
			colors[m[1]] = m[2]
		}
		for _, pair := range [][2]string{
			{"ink", "page"},
			{"soft", "page"},
			{"ink", "card"},
			{"soft", "card"},
			{"good", "page"},
			{"bad", "page"},
			{"busy", "page"},
			{"link", "page"},
			{"ink", "good-fill"},
			{"ink", "bad-fill"},
			{"ink", "busy-fill"},
			{"ink", "plain-fill"},
			{"ink", "tint"},
		} {
			if c := contrast(t, colors[pair[0]], colors[pair[1]]); c < 4.5 {
				t.Errorf("%s: %s on %s has a contrast of %.2f", name, pair[0], pair[1], c)
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}

func luminance(t *testing.T, color string) float64 {
	t.Helper()
	if len(color) != 7 {
		t.Fatalf("no color %q", color)
	}
	sum := 0.0
	for i, weight := range []float64{.2126, .7152, .0722} {
		n, err := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= .04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	if err := JUnit(&b, []*scenario.Result{failed(), skipped(), broken()}); err != nil {
		t.Fatal(err)
	}
	golden(t, "junit.xml", b.Bytes())
}

// Elements and required attributes are in place, and counts add up.
func TestJUnitStructure(t *testing.T) {
	var b bytes.Buffer
	if err := JUnit(&b, []*scenario.Result{failed(), skipped(), broken()}); err != nil {
		t.Fatal(err)
	}
	parents := map[string]string{
		"testsuites": "", "testsuite": "testsuites", "properties": "testsuite", "property": "properties", "testcase": "testsuite",
		"failure": "testcase", "error": "testcase", "skipped": "testcase", "system-out": "testcase",
	}
	required := map[string][]string{
		"testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"}, "testcase": {"name", "classname", "time"},
		"failure": {"message"}, "error": {"message"}, "property": {"name", "value"},
	}
	counts := map[string]map[string]int{}
	var path []string
	suite := ""
	d := xml.NewDecoder(&b)
	d.Strict = true
	for {
		token, err := d.Token()
		if token == nil {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			name := e.Name.Local
			parent := strings.Join(path[max(0, len(path)-1):], "")
			if want, known := parents[name]; !known || want != parent {
				t.Errorf("<%s> within <%s>", name, parent)
			}
			attrs := map[string]string{}
			for _, a := range e.Attr {
				attrs[a.Name.Local] = a.Value
			}
			for _, key := range required[name] {
				if _, there := attrs[key]; !there {
					t.Errorf("<%s> without %s: %v", name, key, attrs)
				}
			}
			if name == "testsuite" {
				suite = attrs["name"]
				counts[suite] = map[string]int{}
				for _, key := range []string{"tests", "failures", "errors", "skipped"} {
					n, err := strconv.Atoi(attrs[key])
					if err != nil {
						t.Error(err)
					}
					counts[suite][key] = n
				}
			}
			if key := map[string]string{"testcase": "tests", "failure": "failures", "error": "errors", "skipped": "skipped"}[name]; key != "" {
				counts[suite][key]--
			}
			path = append(path, name)
		case xml.EndElement:
			path = path[:len(path)-1]
		}
	}
	for suite, left := range counts {
		for key, n := range left {
			if n != 0 {
				t.Errorf("%s: %s is off by %d", suite, key, n)
			}
		}
	}
}

func TestTicks(t *testing.T) {
	for _, total := range []time.Duration{ms, 900 * ms, 3 * time.Second, 31 * time.Second, 5 * time.Minute, time.Hour} {
		list := ticks(total)
		if len(list) < 1 || len(list) > 10 {
			t.Errorf("%s has %d ticks", total, len(list))
		}
	}
	if got := fmt.Sprint(ticks(3 * time.Minute)); got != "[{0.00 0s} {16.67 30s} {33.33 1m} {50.00 1m 30s} {66.67 2m} {83.33 2m 30s} {100.00 3m}]" {
		t.Error(got)
	}
}
