package verb_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
)

// A value is sealed with the certificate that the controller serves, and the step sets a variable.
func TestSeal(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	const steps = "    - {title: it, seal: {cluster: prod, namespace: podinfo, name: web, values: {word: secret}}}\n" +
		"    - {title: used, patch: {" + podinfo + `, set: {'metadata.annotations["word"]': "${word}"}}}` + "\n" +
		"    - {title: there, expect: {object: {" + podinfo + `}, has: {'metadata.annotations["word"]': {matches: '^[A-Za-z0-9+/=]{300,}$'}}}}` + "\n"
	for answer, verdict := range map[string]scenario.Verdict{"HTTP/1.1 200 OK\r\n\r\n" + cert: scenario.Passed, "HTTP/1.1 404 Not Found\r\n\r\nno": scenario.Broken, "": scenario.Broken} {
		r := playWith(t, steps, func(l *scenariotest.Lab) {
			create(t, l, map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "sealed-secrets-controller-1", "namespace": "kube-system"}, "spec": map[string]any{"nodeName": "prod-worker"}, "status": map[string]any{"phase": "Running"}})
			l.Inside = func(_ context.Context, _, namespace, pod string, _ []string) ([]byte, error) {
				if namespace != "kube-system" || pod != "sealed-secrets-controller-1" {
					t.Errorf("asked %s/%s", namespace, pod)
				}
				return []byte(answer), nil
			}
		})
		if text := textOf(r); r.Verdict != verdict || verdict == scenario.Broken && !strings.Contains(text, "the certificate of sealed-secrets in prod") {
			t.Errorf("%q: %s", answer, text)
		}
	}
}
