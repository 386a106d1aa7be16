package proxy

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"homelab/lab/door/authority"
)

func config(t testing.TB) Config {
	t.Helper()
	a, err := authority.New(domain, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pem, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Settings{Domain: domain, Authority: string(pem)},
		Reach{HTTPS: 443, HTTP: 80, Clusters: []Cluster{{Name: "dev", Node: "demo-dev-control-plane", Server: "https://demo-dev-control-plane:6443", CA: string(a.PEM()), Token: "t"}}},
	}
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestParse(t *testing.T) {
	good := config(t)
	if c, a, err := Parse(marshal(t, good.Settings), marshal(t, good.Reach)); err != nil || a.Domain != domain || len(c.Clusters) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	for want, change := range map[string]func(*Config){
		"not a host name":               func(c *Config) { c.Domain = "*" },
		"0 is not a port":               func(c *Config) { c.HTTPS = 0 },
		"the same port":                 func(c *Config) { c.HTTP = 443 },
		"no certificate with a private": func(c *Config) { c.Authority = c.Clusters[0].CA },
		"the authority is that of demo": func(c *Config) { c.Domain = "other.localhost" },
		"listed twice":                  func(c *Config) { c.Clusters = append(c.Clusters, c.Clusters[0]) },
		"not a part of a host name":     func(c *Config) { c.Clusters[0].Name = "a/b" },
		`node "a b"`:                    func(c *Config) { c.Clusters[0].Node = "a b" },
		"address of an API server":      func(c *Config) { c.Clusters[0].Server = "http://x:6443" },
		"no certificate of the API":     func(c *Config) { c.Clusters[0].CA = "" },
		"no token":                      func(c *Config) { c.Clusters[0].Token = "" },
	} {
		c := good
		c.Clusters = append([]Cluster{}, good.Clusters...)
		change(&c)
		if _, _, err := Parse(marshal(t, c.Settings), marshal(t, c.Reach)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	bad := good
	bad.Domain, bad.HTTPS = "", 0
	if _, _, err := Parse(marshal(t, bad.Settings), marshal(t, bad.Reach)); err == nil || strings.Count(err.Error(), "\n") < 2 {
		t.Errorf("not all problems: %v", err)
	}
	if c, _, err := Parse(marshal(t, good.Settings), nil); err != nil || c.HTTPS != HTTPS || c.HTTP != HTTP || len(c.Clusters) > 0 {
		t.Errorf("without a second file: %+v, %v", c, err)
	}
	for _, text := range []string{"", "{", `{"unknown": 1}`, "{}{}"} {
		if _, _, err := Parse([]byte(text), nil); err == nil {
			t.Errorf("%.20q: no error", text)
		}
		if _, _, err := Parse(marshal(t, good.Settings), []byte(text)); err == nil {
			t.Errorf("%.20q as second file: no error", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	c := config(f)
	settings, reach := marshal(f, c.Settings), marshal(f, c.Reach)
	f.Add(settings, reach)
	f.Add(settings, bytes.Replace(reach, []byte("443"), []byte("-1"), 1))
	f.Add(settings, []byte(`{"clusters":[null]}`))
	f.Fuzz(func(t *testing.T, settings, reach []byte) {
		c, a, err := Parse(settings, reach)
		if err == nil && (a == nil || a.Domain != c.Domain || c.HTTPS == c.HTTP) {
			t.Errorf("%+v is valid", c)
		}
	})
}
