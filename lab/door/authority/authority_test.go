package authority

import (
	"bytes"
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func create(t *testing.T, domain string) *Authority {
	t.Helper()
	a, err := New(domain, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestIssue(t *testing.T) {
	a := create(t, "demo.localhost")
	roots := x509.NewCertPool()
	roots.AddCert(a.Certificate)
	const name = "podinfo.dev.demo.localhost"
	c, err := a.Issue(name, now)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(name string, at time.Time) error {
		_, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: at})
		return err
	}
	if err := verify(name, now); err != nil {
		t.Error(err)
	}
	if verify("grafana.dev.demo.localhost", now) == nil {
		t.Error("valid for another name")
	}
	if verify(name, now.Add(LeafLifetime+time.Minute)) == nil {
		t.Error("valid for too long")
	}
	for _, foreign := range []string{"", "localhost", "example.com", "evildemo.localhost", "demo.localhost.example.com", "podinfo.dev.other.localhost"} {
		if _, err := a.Issue(foreign, now); err == nil {
			t.Errorf("issued for %q", foreign)
		}
	}
	if _, err := a.Issue(name, now.Add(Lifetime+time.Hour)); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("after its end: %v", err)
	}
	last, err := a.Issue(name, now.Add(Lifetime-time.Hour))
	if err != nil || last.Leaf.NotAfter.After(a.Certificate.NotAfter) {
		t.Errorf("outlives its authority: %v", err)
	}
}

// A client rejects a foreign name, even if the key is stolen.
func TestConstrained(t *testing.T) {
	a := create(t, "demo.localhost")
	stolen := *a
	stolen.Domain = "example.com"
	c, err := stolen.Issue("www.example.com", now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.Certificate)
	if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: "www.example.com", Roots: roots, CurrentTime: now}); err == nil || !strings.Contains(err.Error(), "not permitted") {
		t.Errorf("got %v", err)
	}
}

func TestParse(t *testing.T) {
	a, other := create(t, "demo.localhost"), create(t, "other.localhost")
	data, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Parse(data)
	if err != nil || b.Domain != a.Domain || !b.Certificate.Equal(a.Certificate) {
		t.Fatalf("%+v, %v", b, err)
	}
	if _, err := b.Issue("x.demo.localhost", now); err != nil {
		t.Error(err)
	}
	theirs, err := other.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	key := theirs[bytes.Index(theirs, []byte("-----BEGIN PRIVATE")):]
	leaf, err := a.Issue("x.demo.localhost", now)
	if err != nil {
		t.Fatal(err)
	}
	notCA := (&Authority{Certificate: leaf.Leaf}).PEM()
	for name, bad := range map[string][]byte{
		"empty": nil, "no key": a.PEM(), "only the key": key, "another's key": append(a.PEM(), key...), "a leaf": append(notCA, key...),
		"damaged": bytes.Replace(data, []byte("MII"), []byte("AAA"), 1),
	} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
