package via

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestDial(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nodes := map[string]string{"dev-node": "172.18.0.2", "prod-node": "172.18.0.3"}
	var log []string
	r := New()
	r.resolve = func(_ context.Context, node string) (netip.Addr, error) {
		a, err := netip.ParseAddr(nodes[node])
		return a, err
	}
	r.route = func(table uint32, gateway netip.Addr) error {
		log = append(log, fmt.Sprintf("route %d %s", table, gateway))
		return nil
	}
	r.mark = func(_ uintptr, mark uint32) error {
		log = append(log, fmt.Sprintf("mark %d", mark))
		return nil
	}
	dial := func(cluster string) {
		t.Helper()
		c, err := r.Dial(t.Context(), cluster, cluster+"-node", "127.0.0.1", l.Addr().(*net.TCPAddr).Port)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	dial("dev")
	dial("prod")
	dial("dev")
	nodes["dev-node"] = "172.18.0.9" // as after a restart
	dial("dev")
	want := "route 1000 172.18.0.2, mark 1000, route 1001 172.18.0.3, mark 1001, mark 1000, route 1000 172.18.0.9, mark 1000"
	if got := strings.Join(log, ", "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := r.Dial(t.Context(), "absent", "absent-node", "127.0.0.1", 1); err == nil {
		t.Error("no node, no error")
	}
	r.route = func(uint32, netip.Addr) error { return errors.New("not permitted") }
	if _, err := r.Dial(t.Context(), "new", "dev-node", "127.0.0.1", 1); err == nil || !strings.Contains(err.Error(), "route to cluster new: not permitted") {
		t.Errorf("got %v", err)
	}
}
