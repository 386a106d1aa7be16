package seal_test

import (
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"homelab/lab/scenario/scenariotest"
	"homelab/lab/scenario/seal"
)

const manifest = `apiVersion: v1
kind: Secret
metadata:
    name: web
    namespace: default
    annotations:
        number: 7
        nothing: null
        list:
            - a
            - true
stringData:
    # comment
    password: first # another
    empty: ""
    lines: |
        one
        two
`

// What is encrypted is opened with the recipient's key, and with no other.
func TestFile(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	out, err := seal.File("secret.yaml", []byte(manifest), key.Recipient().String(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"first", "one", "comment", "another"} {
		if strings.Contains(string(out), secret) {
			t.Errorf("%q is readable in %s", secret, out)
		}
	}
	want, got := object(t, manifest), object(t, string(out))
	want["data"] = map[string]any{"password": "Zmlyc3Q=", "empty": "", "lines": "b25lCnR3bwo="}
	delete(want, "stringData")
	if err := scenariotest.Decrypt(got, key.String()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if err := scenariotest.Decrypt(object(t, string(out)), other.String()); err == nil {
		t.Error("another key opens it")
	}
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestFileInvalid(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"a: {":                  "",
		"data: {a: 2020-01-01}": "secret.yaml:1: a value of this type cannot be encrypted",
	} {
		if _, err := seal.File("secret.yaml", []byte(text), key.Recipient().String(), time.Now()); err == nil || want != "" && err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := seal.File("secret.yaml", []byte(manifest), key.String(), time.Now()); err == nil || strings.Contains(err.Error(), key.String()) {
		t.Errorf("a private key as recipient: %v", err)
	}
}
