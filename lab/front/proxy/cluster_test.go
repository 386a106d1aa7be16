package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A client of a cluster address in manifests reaches the API server, whose certificate names another host.
func TestClusterAlias(t *testing.T) {
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path+" with "+r.Header.Get("Authorization"))
	}))
	t.Cleanup(api.Close)
	address, _ := start(t, Config{Clusters: []Cluster{
		{Server: "https://192.0.2.7", URL: api.URL}, {Server: "https://Prod.eks.test:6443", URL: api.URL}, {Server: "https://gone.test", URL: "https://127.0.0.1:1"},
	}}, Secrets{Webhook: "w"})
	proxyURL, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(api.Certificate())
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxyURL), TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}}}
	get := func(address string) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer x")
		res, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return string(body), err
	}
	for _, address := range []string{"https://192.0.2.7/version", "https://192.0.2.7:443/version", "https://prod.eks.test:6443/version"} {
		if body, err := get(address); err != nil || body != "/version with Bearer x" {
			t.Errorf("%s: %q, %v", address, body, err)
		}
	}
	for _, address := range []string{"https://192.0.2.7:6443/version", "https://192.0.2.8/version", "https://gone.test/version"} {
		if body, err := get(address); err == nil || !strings.Contains(err.Error(), "Bad Gateway") {
			t.Errorf("%s: %q, %v", address, body, err)
		}
	}
}

func TestClustersInvalid(t *testing.T) {
	for name, clusters := range map[string][]Cluster{
		"plain HTTP": {{Server: "http://192.0.2.7", URL: "https://a:6443"}},
		"no URL":     {{Server: "https://192.0.2.7"}},
		"no address": {{Server: "https://", URL: "https://a:6443"}},
		"duplicate":  {{Server: "https://192.0.2.7", URL: "https://a:6443"}, {Server: "https://192.0.2.7:443", URL: "https://b:6443"}},
	} {
		if _, err := New(Config{Clusters: clusters}, Secrets{Webhook: "w"}, quiet); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
