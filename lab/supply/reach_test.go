package supply

import (
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

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
