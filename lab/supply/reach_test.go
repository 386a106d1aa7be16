package supply

import (
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

func TestHostOf(t *testing.T) {
	for repository, want := range map[string][2]string{
		"other://":                               {"https", "other://"},
		"https://charts.example.com/stable":      {"https", "charts.example.com"},
		"http://127.0.0.1:3000/lab/x.git":        {"http", "127.0.0.1:3000"},
		"oci://ghcr.io/org/chart":                {"https", "ghcr.io"},
		"ghcr.io/org/chart":                      {"https", "ghcr.io"},
		"registry.example.com:5000/x":            {"https", "registry.example.com:5000"},
		"git@example.com:org/x.git":              {"ssh", "example.com"},
		"ssh://git@git.example.com:2222/x/y.git": {"ssh", "git.example.com:2222"},
	} {
		if scheme, host := hostOf(repository); scheme != want[0] || host != want[1] {
			t.Errorf("%s: %s %s, want %v", repository, scheme, host, want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	there := httptest.NewServer(http.NotFoundHandler()) // 404 counts as reachable
	defer there.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + l.Addr().String()
	l.Close()
	overSSH := "ssh://git@" + there.Listener.Addr().String() + "/x.git" // answers, but the engine has no key
	got := Unreachable(t.Context(), []string{there.URL + "/a", there.URL + "/b", gone + "/x", gone + "/y", "oci://chart.invalid/x", overSSH})
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{gone + "/x", gone + "/y", "oci://chart.invalid/x", overSSH}) {
		t.Errorf("%v", got)
	}
	if got["oci://chart.invalid/x"].Error() != "chart.invalid does not answer" {
		t.Errorf("%v", got["oci://chart.invalid/x"])
	}
}
