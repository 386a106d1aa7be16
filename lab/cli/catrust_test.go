package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
)

func TestTrustStore(t *testing.T) {
	for goos, want := range map[string][]string{
		"linux":   {"update-ca-certificates", "update-ca-certificates --fresh"},
		"darwin":  {"security add-trusted-cert -d -r trustRoot -k /Library/Keychains/System.keychain ca.crt", "security delete-certificate -c lab demo.localhost -t /Library/Keychains/System.keychain"},
		"windows": {"certutil -addstore -f ROOT ca.crt", "certutil -delstore ROOT lab demo.localhost"},
	} {
		t.Run(goos, func(t *testing.T) {
			root := t.TempDir()
			folder := filepath.Join(root, "usr/local/share/ca-certificates")
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			var ran []string
			s := trustStore{goos: goos, root: root, run: func(_ context.Context, name string, args ...string) error {
				if i := len(args) - 1; i >= 0 && strings.HasSuffix(args[i], "ca.crt") {
					if text, err := os.ReadFile(args[i]); err != nil || string(text) != "certificate" {
						t.Errorf("%s: %s, %v", args[i], text, err)
					}
					args[i] = "ca.crt"
				}
				ran = append(ran, strings.Join(append([]string{name}, args...), " "))
				return nil
			}}
			for _, certificate := range []string{"certificate", ""} {
				res, err := s.set(t.Context(), "demo", certificate)
				if err != nil || !res.Changed || len(res.Did) == 0 || res.Trusted != (certificate != "") {
					t.Errorf("%+v, %v", res, err)
				}
				if goos != "linux" {
					continue
				}
				if s.outdated("demo", certificate) || s.outdated("demo", "another") != (certificate != "") {
					t.Errorf("another authority than %q is not seen", certificate)
				}
				text, _ := os.ReadFile(filepath.Join(folder, "lab-demo.crt"))
				if again, err := s.set(t.Context(), "demo", certificate); string(text) != certificate || err != nil || again.Changed {
					t.Errorf("%q, then %+v, %v", text, again, err)
				}
			}
			if !slices.Equal(ran, want) {
				t.Errorf("ran %q", ran)
			}
			s.user, s.again = 1000, "sudo lab ca trust"
			var e *lab.Error
			if _, err := s.set(t.Context(), "demo", "certificate"); goos != "windows" && (!errors.As(err, &e) || e.Code != "not_root" || e.Cure != s.again) {
				t.Errorf("%v", err)
			}
		})
	}
	var e *lab.Error
	if _, err := (trustStore{goos: "linux", root: t.TempDir()}).set(t.Context(), "demo", "certificate"); !errors.As(err, &e) || e.Code != "no_store" {
		t.Errorf("%v", err)
	}
}

// A failed program leaves the store unchanged, so that the next attempt runs it again.
func TestTrustStoreFails(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "usr/local/share/ca-certificates/lab-demo.crt")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	s := trustStore{goos: "linux", root: root, run: func(context.Context, string, ...string) error { return broken }}
	for _, had := range []string{"", "certificate"} {
		if had != "" {
			if err := os.WriteFile(file, []byte(had), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, certificate := range []string{"another", ""} {
			if had == certificate {
				continue
			}
			res, err := s.set(t.Context(), "demo", certificate)
			if text, _ := os.ReadFile(file); !errors.Is(err, broken) || res.Changed || string(text) != had {
				t.Errorf("%q over %q: %+v, %v, file %q", certificate, had, res, err, text)
			}
		}
	}
}
