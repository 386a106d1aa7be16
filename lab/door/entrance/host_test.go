package entrance

import (
	"net/url"
	"strings"
	"testing"
)

func TestParseHost(t *testing.T) {
	for header, want := range map[string]string{
		"podinfo.dev.demo.localhost": "podinfo.dev.demo.localhost", "PodInfo.Dev.Demo.LOCALHOST:8443": "podinfo.dev.demo.localhost", "demo.localhost.": "demo.localhost",
		"demo.localhost.:443": "demo.localhost", "a_b.demo.localhost": "a_b.demo.localhost",
		"": "", ":443": "", "127.0.0.1": "", "127.0.0.1:443": "", "[::1]:443": "", "[::1]": "", "::1": "", "demo.localhost:": "", "demo.localhost:0": "", "demo.localhost:65536": "",
		"demo.localhost:+1": "", "demo.localhost:443:443": "", "user@demo.localhost": "", "demo.localhost/x": "", "demo..localhost": "", ".demo.localhost": "", "demo.localhost..": "",
		"-a.demo.localhost": "", "a-.demo.localhost": "", "*.demo.localhost": "", "a b.demo.localhost": "", "a\x00.demo.localhost": "", "ä.demo.localhost": "", "demo.localhost\r\n": "",
		strings.Repeat("a", 63) + ".demo.localhost": strings.Repeat("a", 63) + ".demo.localhost", strings.Repeat("a", 64) + ".demo.localhost": "", strings.Repeat("a.", 130) + "localhost": "",
	} {
		got, err := ParseHost(header)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", header, got, err)
		}
	}
}

func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"podinfo.dev.demo.localhost:8443", "[::1]:443", "127.0.0.1", "a..b", "x@y", "x:1:2", "İ.localhost"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		name, err := ParseHost(header)
		if err != nil {
			if name != "" {
				t.Errorf("%q and an error", name)
			}
			return
		}
		if !IsName(name) {
			t.Errorf("%q is not a name", name)
		}
		if again, err := ParseHost(name); err != nil || again != name {
			t.Errorf("%q becomes %q, %v", name, again, err)
		}
		if u, err := url.Parse("https://" + header + "/"); err != nil || strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) != name {
			t.Errorf("%q: net/url reads %v, %v", header, u, err)
		}
	})
}
