package entrance

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// Each file of testdata holds, as JSON, what the API of cluster dev lists, and NAME.golden what the door makes of it.
func TestBuild(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c Cluster
			if err := json.Unmarshal(data, &c); err != nil {
				t.Fatal(err)
			}
			c.Name = "dev"
			got := text(Build("demo.localhost", []Cluster{c}))
			golden := strings.TrimSuffix(file, ".json") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || got != string(want) {
				t.Errorf("got\n%swant\n%s%v", got, want, err)
			}
		})
	}
}

func text(t *Table) string {
	var b strings.Builder
	for _, r := range t.Routes {
		path := r.Path
		if !r.Exact {
			path = strings.TrimSuffix(path, "/") + "/..."
		}
		fmt.Fprintf(&b, "%s%s  %s", r.Host, path, r.Object)
		if r.Strip != "" {
			fmt.Fprintf(&b, " without %s", r.Strip)
		}
		b.WriteByte('\n')
		for _, x := range r.Backends {
			fmt.Fprintf(&b, "  %s", x.Service)
			if x.IP != "" {
				fmt.Fprintf(&b, " at %s", x.IP)
			}
			fmt.Fprintf(&b, " port %d", x.Port)
			if x.TLS {
				b.WriteString(" TLS")
			}
			if x.H2C {
				b.WriteString(" h2c")
			}
			if len(r.Backends) > 1 {
				fmt.Fprintf(&b, " weight %d", x.Weight)
			}
			b.WriteByte('\n')
		}
	}
	for _, a := range t.Addresses {
		fmt.Fprintf(&b, "address of %s %s/%s: %s\n", a.Resource, a.Namespace, a.Name, a.Host)
	}
	for _, p := range t.Problems {
		fmt.Fprintf(&b, "problem of %s: %s\n", p.Object, p.Message)
	}
	return b.String()
}

func TestFind(t *testing.T) {
	var c Cluster
	data, err := os.ReadFile("testdata/ingress-paths.json")
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Name = "dev"
	table := Build("demo.localhost", []Cluster{c})
	for _, x := range []struct{ host, path, want string }{
		{"shop.dev.demo.localhost", "/", "app/front:80"},
		{"shop.dev.demo.localhost", "/apis", "app/front:80"},
		{"shop.dev.demo.localhost", "/api", "app/api:80"},
		{"shop.dev.demo.localhost", "/api/v1", "app/api:80"},
		{"shop.dev.demo.localhost", "/api/v2/x", "app/api-v2:80"},
		{"shop.dev.demo.localhost", "/api/health", "app/health:80"},
		{"shop.dev.demo.localhost", "/api/health/", "app/api:80"},
		{"x.pages.dev.demo.localhost", "/", "app/pages:80"},
		{"x.y.pages.dev.demo.localhost", "/", ""},
		{"pages.dev.demo.localhost", "/", ""},
		{"shop.prod.demo.localhost", "/", ""},
	} {
		r, ok := table.Find(x.host, x.path)
		if ok != (x.want != "") || ok && r.Backends[0].Service != x.want {
			t.Errorf("%s%s: %v, want %s", x.host, x.path, r.Backends, x.want)
		}
		if ok && !table.Knows(x.host) {
			t.Errorf("%s is unknown", x.host)
		}
	}
}

// Clusters cannot claim one another's hosts.
func TestForeignCluster(t *testing.T) {
	ingress := func(host string) (i Ingress) {
		err := json.Unmarshal(fmt.Appendf(nil, `{"metadata":{"namespace":"a","name":"x"},"spec":{"rules":[{"host":%q,"http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"s","port":{"number":80}}}}]}}]}}`, host), &i)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	var s Service
	if err := json.Unmarshal([]byte(`{"metadata":{"namespace":"a","name":"s"},"spec":{"clusterIP":"10.96.0.9","ports":[{"port":80}]}}`), &s); err != nil {
		t.Fatal(err)
	}
	for host, served := range map[string]bool{"x.dev.demo.localhost": true, "x.prod.demo.localhost": false, "demo.localhost": false, "dev.demo.localhost": false, "xdev.demo.localhost": false} {
		table := Build("demo.localhost", []Cluster{{Name: "dev", Services: []Service{s}, Ingresses: []Ingress{ingress(host)}}, {Name: "prod"}})
		if (len(table.Routes) > 0) != served || (len(table.Problems) == 0) != served {
			t.Errorf("%s: %s", host, text(table))
		}
	}
}
